"""Reference labels worth a second look, sent to the inbox blind and mixed; and the relabelled data set."""

import pandas as pd
import streamlit as st

from jobs.evaluating import ask_of
from jobs.label_noise import MOST_SHOWN, Line, Ranked, choose_labels, rank_labels
from pages.research.batch_choice import choose_batch
from pages.research.ledger_view import show_ledger
from pages.research.open_tab import show_open
from pages.research.relabelled_view import show_relabelled
from pages.ui import context
from pages.ui.compute import compute
from screening.review.policy import Action, is_allowed, require
from screening.statistics.label_noise import NOTE, Ranking
from screening.text.display import visible
from screening.words import count_of
from storage.review.worklist import request_second_looks

WORDS = {Ranking.EVIDENCE: "Contradiction by the draws", Ranking.CONFIDENT_LEARNING: "Confident learning (cleanlab)"}

db, person = context.database(), context.actor()
require(person, Action.VIEW_RESULTS)


def _line(line: Line) -> dict[str, object]:
    look = line.look
    return {
        "Case": visible(line.external_id),
        "Reference": look.reference.value,
        "Draws suggest": look.suggested.value,
        "ln evidence": round(look.evidence, 1),
        "Label quality": "not ranked" if look.quality is None else f"{look.quality:.2f}",
        "Label issue": {True: "▲ yes", False: "no", None: "not ranked"}[look.issue],
        "Why": look.reason,
        "Open": f"/case?case={line.case_id}",
    }


def _ranking() -> None:
    chosen_order = st.selectbox("Order by", list(WORDS), format_func=WORDS.__getitem__)
    found = compute(rank_labels, ask, chosen_order)
    st.caption(
        f"{NOTE.capitalize()}: a model that is wrong the same way every time contradicts good labels too. n = "
        f"{count_of(found.labels, 'label')} with draws; not listed: {found.in_review:,} in review already, "
        f"and {count_of(found.left_out, 'case')} without a safe or unsafe label or without draws. ln evidence above "
        "6.9 is 1,000 to 1."
    )
    if not found.free:
        st.info("There is no label to rank.")
        return
    columns = {"Open": st.column_config.LinkColumn(display_text="open")}
    st.dataframe(pd.DataFrame([_line(line) for line in found.first]), hide_index=True, column_config=columns)
    _send(found, chosen_order)


def _send(found: Ranked, ranking: Ranking) -> None:
    if not is_allowed(person, Action.REQUEST_REVIEW):
        return
    one, two, three = st.columns([1, 2, 1], vertical_alignment="bottom")
    top = one.number_input("From the top of the list", 1, min(MOST_SHOWN, found.free), min(10, found.free))
    mixed = two.toggle("Mix in as many others at random", value=True)
    pressed = three.button("Send for a second look", type="primary", icon=":material/inbox:")
    st.caption(
        "They enter the inbox like any audited text: no reader can tell who sent them or why. Reading only what the "
        "model contradicts flatters the model, so others are mixed in, which stand for all not sent. A reviewer "
        "reads them blind; a reading by you, or whoever else may have seen results in a list, is stored as not blind."
    )
    if pressed:
        seed = f"{ask.batch_id} {context.now().isoformat()}" if mixed else None
        sent_ids = compute(choose_labels, ask, ranking, int(top), seed)
        listed = [line.case_id for line in found.first]
        sent = request_second_looks(
            db,
            person.at(context.now()),
            (*sent_ids.picked, *sent_ids.drawn),
            shown=listed,
            chances=dict.fromkeys(sent_ids.drawn, sent_ids.chance),
        )
        rest = f" Not sent, as not screened to the end: {sent.undecided}." if sent.undecided else ""
        rest += f" Not sent, as erased: {sent.erased}." if sent.erased else ""
        waiting = count_of(sent.opened, "text waits", "texts wait")
        st.success(f"{waiting} in the inbox now; already there: {sent.there_before}.{rest}")


st.title("Labels")
chosen = choose_batch(db, person, "label_noise")
if chosen is None:
    st.info("No batch yet. Upload a file with reference labels under Screen > File uploads; the sample data is one.")
    st.stop()
intake = chosen.intake
ask = ask_of(db, person, chosen.id)
show_open(
    "labels_tab",
    {
        "Worth a second look": _ranking,
        "Relabelled data set": lambda: show_relabelled(db, ask, intake),
        "Ledger": lambda: show_ledger(db, person, ask.batch_id, ask.state.adjudications),
    },
)
