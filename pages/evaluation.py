"""The paper's conditions and ours on a batch's recorded draws: results, sweep, calls, what-if, cases."""

import streamlit as st

from pages.components import resources
from pages.components.contrast import legible_controls
from pages.research import evaluation_view as view
from pages.research.batch_choice import choose_batch
from pages.research.experiment import Experiment, labelled_items, load
from pages.research.provenance import provenance
from screening.research.evaluation import SUICIDE_WATCH
from screening.research.experiments import ConditionResult
from screening.review.policy import Action, require
from storage.batches.batches import BatchSummary
from storage.research.confusion import Labels
from storage.research.recorded_draws import waiting_for_a_reading

LABELS: dict[Labels, str] = {"original": "File's labels", "adjudicated": "Adjudicated labels"}

db, person = resources.database(), resources.actor()
require(person, Action.VIEW_RESULTS)


@st.cache_data(max_entries=4, show_spinner="Replaying every condition…")
def _results(_experiment: Experiment, _items: tuple, key: tuple) -> tuple[ConditionResult, ...]:  # type: ignore[type-arg]
    return _experiment.run(_items, _experiment.conditions)


def _notes(experiment: Experiment, batch: BatchSummary, labelled: int, labels: Labels) -> None:
    source = provenance(experiment.batch.intake, labels)  # words from outside: as text, never as markup
    st.text(f"{labelled:,} of {len(experiment.batch.items):,} texts have a reference label. From: {source}.")
    if experiment.made:
        st.caption(
            f"{experiment.made:,} further draws were made with the same simulated agents and seed, so that every "
            "condition could be settled; they are not stored."
        )
    if batch.progress.pending:
        st.info(f"{batch.progress.pending:,} texts of this batch are still pending.")


def _unsettled(results: tuple[ConditionResult, ...]) -> None:
    short = [f"{each.name}: {each.unsettled:,}" for each in results if each.unsettled]
    if short:
        st.warning(
            f"Too few draws were recorded for some texts ({', '.join(short)}). Those are left out of the "
            "condition's figures, which then describe the easier texts. `python -m screening evaluate` on the file "
            "records enough."
        )


legible_controls()
st.title("Evaluation")
left, right = st.columns([3, 1])
with left:
    chosen = choose_batch(db, person, "evaluation")
if chosen is None:
    st.info("No batch yet. Upload a file with reference labels on the Batches page; the sample data is one.")
    st.stop()
experiment = load(db, person, chosen.id)
labels = right.selectbox("Measured against", list(LABELS), format_func=LABELS.__getitem__, key="evaluation_labels")
items = labelled_items(db, person, experiment, labels)
labelled = sum(item.reference is not None for item in items)
_notes(experiment, chosen, labelled, labels)
if not labelled:
    st.info("This batch has no reference labels, so there is nothing to compare with. Every rate is undefined.")
    st.stop()
results = _results(experiment, items, (chosen.id, experiment.batch.book.draws, tuple(i.reference for i in items)))
_unsettled(results)
subset = SUICIDE_WATCH if any(item.group == SUICIDE_WATCH for item in items) else None
tabs = st.tabs(["Results", "Budget sweep", "Calls and tokens", "What if", "Cases"])
with tabs[0]:
    view.show_results(view.table_of(experiment, results, subset, labels))
with tabs[1]:
    view.show_sweep(experiment, items)
with tabs[2]:
    view.show_calls(experiment, results)
with tabs[3]:
    view.show_what_if(experiment, items, resources.settings().audit_rate)
with tabs[4]:
    view.show_cases(experiment, items, results, waiting_for_a_reading(db, person, chosen.id))
