"""The paper's conditions and ours on a batch's recorded draws: results, sweep, calls, what-if, cases."""

from collections.abc import Callable, Mapping

import streamlit as st

from pages.components import resources
from pages.research import evaluation_view as view
from pages.research.batch_choice import choose_batch
from pages.research.comparison_view import show_comparison
from pages.research.experiment import Experiment, labelled_items, load
from pages.research.open_tab import show_open
from pages.research.provenance import provenance
from screening.research.evaluation import SUICIDE_WATCH
from screening.research.experiments import ConditionResult
from screening.research.recording import Item
from screening.review.actors import Actor
from screening.review.policy import Action, require
from storage.batches.batches import BatchSummary
from storage.research.confusion import Labels
from storage.research.recorded_draws import outcomes_now, waiting_for_a_reading
from storage.research.standing import batch_now

Key = tuple[object, ...]
"""What all of this page follows from: the batch, who looks, the labels it is measured against, and where it stands."""
LABELS: dict[Labels, str] = {"original": "File's labels", "adjudicated": "Adjudicated labels"}

db, person = resources.database(), resources.actor()
require(person, Action.VIEW_RESULTS)


# Kept as they are, not as copies: nothing here is ever changed, and copying 100,000 outcomes takes seconds.
@st.cache_resource(max_entries=4, show_spinner="Reading the labels…")
def _items(_person: Actor, _experiment: Experiment, labels: Labels, key: Key) -> tuple[tuple[Item, ...], int, bool]:
    """The items as they are measured, how many have a reference, and whether some are of the subset."""
    found = labelled_items(db, _person, _experiment, labels)
    labelled = sum(item.reference is not None for item in found)
    return found, labelled, any(item.group == SUICIDE_WATCH for item in found)


@st.cache_resource(max_entries=4, show_spinner="Replaying every condition…")
def _results(_experiment: Experiment, _items: tuple[Item, ...], key: Key) -> tuple[ConditionResult, ...]:
    return _experiment.run(_items, _experiment.conditions)


@st.cache_resource(max_entries=4, show_spinner="Counting what the batch did…")
def _own(_person: Actor, _experiment: Experiment, _items: tuple[Item, ...], batch_id: str, key: Key) -> ConditionResult:
    return _experiment.as_it_ran(_items, outcomes_now(db, _person, batch_id))


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


def _show_unsettled(results: tuple[ConditionResult, ...]) -> None:
    short = [f"{each.name}: {each.unsettled:,}" for each in results if each.unsettled]
    if short:
        st.warning(
            f"Too few draws were recorded for some texts ({', '.join(short)}). Those are left out of the "
            "condition's figures, which then describe the easier texts. `python -m screening evaluate` on the file "
            "records enough."
        )


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
key: Key = (batch_id, person.id, tuple(sorted(person.roles)), labels, batch_now(db, person, batch_id))
items, labelled, of_subset = _items(person, experiment, labels, key)
_notes(experiment, chosen, labelled, labels)
if not labelled:
    st.info("This batch has no reference labels, so there is nothing to compare with.")
    st.stop()
replayed = _results(experiment, items, key)
own = _own(person, experiment, items, batch_id, key)
results = (*replayed, own)
_show_unsettled(replayed)
subset = SUICIDE_WATCH if of_subset else None
parts: Mapping[str, Callable[[], None]] = {
    "Results": lambda: view.show_results(view.table_of(experiment, results, subset, labels)),
    "Compare": lambda: show_comparison(items, results),
    "Budget sweep": lambda: view.show_sweep(experiment, items, key),
    "Calls and tokens": lambda: view.show_calls(experiment, results),
    "What if": lambda: view.show_what_if(experiment, items, own, resources.settings().audit_rate),
    "Cases": lambda: view.show_cases(
        db, person, experiment, items, results, waiting_for_a_reading(db, person, batch_id)
    ),
}
show_open("evaluation_tab", parts)
