"""Label errors: original labels that the AI contradicts, sent to review; the corrected data set; the label history."""

from collections.abc import Mapping, Sequence
from functools import partial

import pandas as pd
import streamlit as st

from jobs.evaluating import ask_of
from jobs.label_noise import MOST_SHOWN, Ranked, choose_labels, count_corrected_labels, rank_labels
from pages.research import case_list, evaluation_view
from pages.ui import context, downloads, widgets
from pages.ui.words import WORDS, time_column
from screening.evaluation.label_errors import Ranking
from screening.review.policy import Action, is_allowed, require
from screening.text.display import visible
from screening.words import count_of
from storage.research.cells import Cell
from storage.research.corrected_labels import Entry, count_labels, ledger
from storage.review.follow_ups import request_second_looks

ORDERS = {Ranking.EVIDENCE: "AI disagreement", Ranking.CONFIDENT_LEARNING: "Confident learning (cleanlab)"}
HOW = WORDS["how"]

db, person = context.database(), context.actor()
require(person, Action.VIEW_RESULTS)


def ranking() -> None:
    """The original labels, the most contradicted first, and the way to their review."""
    order = st.selectbox("Order by", list(ORDERS), format_func=ORDERS.__getitem__)
    found = context.compute(rank_labels, ask, order)
    widgets.how_to_read(
        "Ranked by how strongly the AI disagrees with the original label. The AI may be wrong; review before changing "
        f"labels. n = {count_of(found.labels, 'label')} with AI responses.",
        "ranking",
        entered=found.entered,
        left_out=count_of(found.left_out, "case"),
    )
    if not found.free:
        st.info("There is no label to rank that was not reviewed or sent to review already.")
        return
    columns = {"Open": st.column_config.LinkColumn(display_text="open")}
    rows = [
        {
            "Case": visible(case.external_id),
            "Original label": look.reference.value,
            "AI suggests": look.suggested.value if look.evidence > 0 else "–",
            "Log evidence ratio": f"{look.evidence:.1f}",
            "Label quality": "not ranked" if look.quality is None else f"{look.quality:.2f}",
            "Likely label error": {True: "▲ yes", False: "no", None: "not ranked"}[look.issue],
            "Why": look.reason,
            "Open": f"/case?case={case.case_id}",
        }
        for case, look in found.first
    ]
    st.dataframe(pd.DataFrame(rows), hide_index=True, column_config=columns)
    if is_allowed(person, Action.REQUEST_REVIEW):
        send(found, order)


def send(found: Ranked, order: Ranking) -> None:
    """The first places and as many others at random, which stand for all that are not sent."""
    case_list.show_sent(ask.batch_id)
    one, two, three = st.columns([1, 2, 1], vertical_alignment="bottom")
    top = one.number_input("From the top of the list", 1, min(MOST_SHOWN, found.free), min(10, found.free))
    mixed = two.toggle("Add an equal number of control cases (random others)", value=True)
    pressed = three.button("Send to review", type="primary", icon=":material/inbox:", key="send_labels")
    st.caption(
        "Cases enter the queue unmarked, mixed with controls, so reviewers stay blinded. Reviews by people who may see "
        "results are stored as not blinded."
    )
    if pressed:
        seed = f"{ask.batch_id} {context.now().isoformat()}" if mixed else None
        picked, chances = context.compute(choose_labels, ask, order, int(top), seed)
        shown = [case.case_id for case, _ in found.first]
        sent = request_second_looks(db, context.actor_now(), (*picked, *chances), shown=shown, chances=chances)
        case_list.say_sent(sent)


def corrected_data_set() -> None:
    versions = count_labels(db, person, ask.batch_id)
    st.text(f"Original labels: {widgets.provenance(intake)}.")  # words from outside: as text
    if not versions:
        st.info("No text of this upload has been reviewed and closed yet: version 0 is the file as it came.")
    version = st.slider("Version", 0, versions, versions) if versions else 0
    labelled, alone, cases = context.compute(count_corrected_labels, ask, version, cases=ask.standing.accepted)
    if labelled:
        evaluation_view.show_corrected(db, ask)
    kinds = {
        f"Final label {cases['reviewed'][0]:,}": cases["reviewed"][1],
        f"Label changed {cases['changed'][0]:,}, by one reviewer alone {alone:,}": cases["changed"][1],
        f"Label removed (insufficient information) {cases['removed'][0]:,}": cases["removed"][1],
    }
    chosen = st.pills("Cases of this version", list(kinds), key="corrected_kind")
    if chosen is not None and kinds[chosen]:
        case_list.case_list(db, person, Cell(batch_id=ask.batch_id, ids=kinds[chosen]))
    if is_allowed(person, Action.EXPORT):
        as_of = version if version < versions else None
        downloads.show_export(
            partial(downloads.corrected_label_files, ask.batch_id, as_of=as_of),
            "corrected",
            "Of the version chosen above. Each row: the original label, every review under a pseudonym, the final "
            "label and where it is from, and the model, prompts, pipeline and rule it was screened with.",
        )


def label_history() -> None:
    """All entries as of a version, or those of one kind; choosing a row opens its case below."""
    last = count_labels(db, person, ask.batch_id)
    if not last:
        st.info("No label of this upload has been reviewed yet: each final label will be an entry here.")
        return
    version = st.slider("Version", 1, last, last, key="ledger_version") if last > 1 else 1
    case_list.hide_switch(db, person)
    key = context.settings().pseudonym_secret
    every, hidden, earlier = ledger(db, person.at(context.now()), ask.batch_id, key, version)
    entries = entries_chosen(every, all_fetched=not earlier)
    if earlier:
        st.caption(f"The {earlier:,} entries before these are listed where an earlier version is chosen above.")
    if hidden:
        st.caption(f"{hidden:,} of cases in review are hidden by the switch above.")
    rows = [
        {
            "Version": entry.number,
            "When": entry.at,
            "Who": entry.by,
            "Case": visible(entry.external_id),
            "From": (entry.before or "no label").replace("_", " "),
            "To": entry.label.replace("_", " "),
            "How": HOW.get(entry.method, entry.method),
            "Reason": visible(entry.reason or ""),
        }
        for entry in entries
    ]
    ids, columns = [entry.case_id for entry in entries], {"When": time_column("When")}
    alt = "Label history: who gave which label when, from what to what"
    case_list.choose_and_open(rows, ids, "label_history", "single-row", alt, column_config=columns)
    st.caption(
        "Each entry makes a new version. Reviewer IDs are pseudonyms, the same as in the exports; “system” is where "
        "reviewers agreed. Reasons are not exported."
    )
    case_list.viewer(db, person, list(dict.fromkeys(ids)))


def entries_chosen(every: Sequence[Entry], *, all_fetched: bool) -> list[Entry]:
    """The entries of the kind chosen; the counts are the choices, so that each opens its cases."""
    kinds: Mapping[str, list[Entry]] = {
        "All" if all_fetched else "Last": list(every),
        "Changed a label": [entry for entry in every if entry.changes],
        "Confirmed it": [entry for entry in every if entry.before == entry.label],
        "The first label": [entry for entry in every if entry.before is None],
    }
    names = [f"{words} {len(some):,}" for words, some in kinds.items()]
    words, places = names.__getitem__, range(len(names))
    place = st.segmented_control("Entries", places, format_func=words, default=0, key="ledger_kind", required=True)
    return list(kinds.values())[place or 0]


st.title("Label errors")
upload = widgets.choose_batch(db, person, "label_noise")
if upload is None:
    st.info("No file uploaded yet. Upload a labeled file under Screen > File uploads; the sample data is one.")
    st.stop()
intake = upload.intake
ask = ask_of(db, person, upload.id)
widgets.show_open(
    "labels_tab",
    {"Possible label errors": ranking, "Corrected data set": corrected_data_set, "Label history": label_history},
)
