"""Reference labels worth a second look, sent to the inbox blind and mixed; and the relabelled data set."""

import pandas as pd
import streamlit as st

from pages.components import resources
from pages.research.batch_choice import choose_batch
from pages.research.label_noise import agreements, rank
from pages.research.ledger_view import show_ledger
from pages.research.open_tab import show_open
from pages.research.relabelled_view import show_relabelled
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed, require
from screening.statistics.label_noise import NOTE, Ranking, ReadingOrder, SecondLook
from storage.research.recorded_draws import (
    RecordedBatch,
    RecordingState,
    recorded_batch,
    recording_state,
    waiting_for_a_reading,
)
from storage.review.second_looks import request_second_looks

WORDS = {Ranking.EVIDENCE: "Contradiction by the draws", Ranking.CONFIDENT_LEARNING: "Confident learning (cleanlab)"}

db, person = resources.database(), resources.actor()
require(person, Action.VIEW_RESULTS)


def _line(batch: RecordedBatch, look: SecondLook) -> dict[str, object]:
    return {
        "Case": batch.items[look.case].id,
        "Reference": look.reference.value,
        "Draws suggest": look.suggested.value,
        "ln evidence": round(look.evidence, 1),
        "Label quality": "not ranked" if look.quality is None else f"{look.quality:.2f}",
        "Label issue": {True: "▲ yes", False: "no", None: "not ranked"}[look.issue],
        "Why": look.reason,
        "Open": f"/case?case={batch.case_ids[look.case]}",
    }


@st.cache_resource(max_entries=4, show_spinner="Reading the draws…")
def _recorded_batch(_person: Actor, batch_id: str, state: RecordingState) -> RecordedBatch:
    return recorded_batch(db, _person, batch_id)


@st.cache_resource(max_entries=8, show_spinner="Ranking the labels…")
def _reading_order(_batch: RecordedBatch, batch_id: str, state: RecordingState, ranking: Ranking) -> ReadingOrder:
    return rank(_batch, ranking)


def _ranking(batch: RecordedBatch) -> None:
    chosen_order = st.selectbox("Order by", list(WORDS), format_func=WORDS.__getitem__)
    order = _reading_order(batch, batch.batch_id, state, chosen_order)
    waiting = waiting_for_a_reading(db, person, batch.batch_id)
    free = [look for look in order.looks if batch.case_ids[look.case] not in waiting]
    st.caption(
        f"{NOTE.capitalize()}: a model that is wrong the same way every time contradicts good labels too. n = "
        f"{len(order.looks)} labels with draws; {len(order.looks) - len(free)} wait for a blind reading and are not "
        f"listed; {order.left_out} cases have no safe or unsafe label or no draws. ln evidence above 6.9 is 1,000 to 1."
    )
    if not free:
        st.info("There is no label to rank.")
        return
    columns = {"Open": st.column_config.LinkColumn(display_text="open")}
    st.dataframe(pd.DataFrame([_line(batch, look) for look in free[:200]]), hide_index=True, column_config=columns)
    _send(batch, free)


def _send(batch: RecordedBatch, free: list[SecondLook]) -> None:
    if not is_allowed(person, Action.REQUEST_REVIEW):
        return
    one, two, three = st.columns([1, 2, 1], vertical_alignment="bottom")
    top = one.number_input("From the top of the list", 1, min(200, len(free)), min(10, len(free)))
    mixed = two.toggle("Mix in as many labels that the draws support", value=True)
    pressed = three.button("Send for a second look", type="primary", icon=":material/inbox:")
    st.caption(
        "They enter the inbox like any audited text: no reader can tell who sent them or why. Reading only what the "
        "model contradicts flatters the model, so supported labels are mixed in. A reviewer "
        "reads them blind; a reading by you, or whoever else may have seen results in a list, is stored as not blind."
    )
    if pressed:
        chosen = [look.case for look in free[: int(top)]]
        others = agreements(free, chosen, f"{batch.batch_id} {resources.now().isoformat()}") if mixed else ()
        case_ids = [batch.case_ids[case] for case in (*chosen, *others)]
        listed = [batch.case_ids[look.case] for look in free[:200]]
        sent = request_second_looks(db, person, case_ids, resources.now(), shown=listed)
        rest = f" {sent.undecided} were not sent: they are not screened to their end." if sent.undecided else ""
        st.success(f"{sent.opened} texts wait in the inbox now; {sent.there_before} were there before.{rest}")


st.title("Labels")
chosen = choose_batch(db, person, "label_noise")
if chosen is None:
    st.info("No batch yet. Upload a file with reference labels on the Batches page; the sample data is one.")
    st.stop()
state = recording_state(db, person, chosen.id)
batch = _recorded_batch(person, chosen.id, state)
show_open(
    "labels_tab",
    {
        "Worth a second look": lambda: _ranking(batch),
        "Relabelled data set": lambda: show_relabelled(db, person, batch, state),
        "Ledger": lambda: show_ledger(db, person, batch.batch_id, state.adjudications),
    },
)
