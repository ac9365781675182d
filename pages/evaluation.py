"""The paper's conditions and ours on a batch's recorded draws: results, sweep, calls, what-if, cases."""

from collections.abc import Callable, Mapping

import streamlit as st

from pages.components import resources
from pages.components.contrast import legible_controls
from pages.research import evaluation_view as view
from pages.research.batch_choice import choose_batch
from pages.research.comparison_view import show_comparison
from pages.research.experiment import Experiment, labelled_items, load
from pages.research.open_tab import show_open
from pages.research.provenance import provenance
from screening.research.evaluation import SUICIDE_WATCH
from screening.research.experiments import ConditionResult
from screening.research.recording import Item
from screening.review.policy import Action, require
from storage.batches.batches import BatchSummary
from storage.research.confusion import Labels
from storage.research.recorded_draws import outcomes_now, waiting_for_a_reading

LABELS: dict[Labels, str] = {"original": "File's labels", "adjudicated": "Adjudicated labels"}

db, person = resources.database(), resources.actor()
require(person, Action.VIEW_RESULTS)


@st.cache_data(max_entries=4, show_spinner="Replaying every condition…")
def _results(_experiment: Experiment, _items: tuple, key: tuple) -> tuple[ConditionResult, ...]:  # type: ignore[type-arg]
    return _experiment.run(_items, _experiment.conditions)


@st.cache_data(max_entries=4, show_spinner="Counting what the batch did…")
def _own(_experiment: Experiment, _items: tuple, outcomes: tuple, key: tuple) -> ConditionResult:  # type: ignore[type-arg]
    return _experiment.as_it_ran(_items, outcomes)


def _key(items: tuple[Item, ...]) -> tuple[object, ...]:
    """What a replay follows from: the batch, its draws, and the labels it is measured against."""
    return (batch_id, experiment.batch.book.draws, hash(tuple(item.reference for item in items)))


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
batch_id = chosen.id
experiment = load(db, person, batch_id)
labels = right.selectbox("Measured against", list(LABELS), format_func=LABELS.__getitem__, key="evaluation_labels")
items = labelled_items(db, person, experiment, labels)
labelled = sum(item.reference is not None for item in items)
_notes(experiment, chosen, labelled, labels)
if not labelled:
    st.info("This batch has no reference labels, so there is nothing to compare with. Every rate is undefined.")
    st.stop()
replayed = _results(experiment, items, _key(items))
own = _own(experiment, items, outcomes_now(db, person, batch_id), _key(items))
results = (*replayed, own)
_unsettled(replayed)
subset = SUICIDE_WATCH if any(item.group == SUICIDE_WATCH for item in items) else None
parts: Mapping[str, Callable[[], None]] = {
    "Results": lambda: view.show_results(view.table_of(experiment, results, subset, labels)),
    "Compare": lambda: show_comparison(items, results),
    "Budget sweep": lambda: view.show_sweep(experiment, items, _key(items)),
    "Calls and tokens": lambda: view.show_calls(experiment, results),
    "What if": lambda: view.show_what_if(experiment, items, own, resources.settings().audit_rate),
    "Cases": lambda: view.show_cases(
        db, person, experiment, items, results, waiting_for_a_reading(db, person, batch_id)
    ),
}
show_open("evaluation_tab", parts)
