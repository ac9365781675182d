"""The paper's conditions and ours on a batch's recorded draws: results, sweep, calls, what-if, cases."""

from collections.abc import Callable, Mapping
from functools import partial

import streamlit as st

from jobs.evaluating import Ask, Evaluated, ask_of, draw_file, evaluate_batch
from pages.research import evaluation_view as view
from pages.ui import auth, context, widgets
from screening.evaluation.metrics import Metrics
from screening.review.policy import Action, require
from screening.words import count_of
from storage.batches.batch_state import BatchState
from storage.batches.batches import BatchSummary
from storage.research.cells import Labels

LABELS: dict[Labels, str] = {"original": "Original labels", "adjudicated": "Final labels, estimated from reviews"}

db, person = context.database(), context.actor()
require(person, Action.VIEW_RESULTS)


def _notes(found: Evaluated, batch: BatchSummary) -> None:
    source = widgets.provenance(batch.intake)  # words from outside: as text, never as markup
    st.text(
        f"{found.labelled:,} of {count_of(found.cases, 'text has', 'texts have')} an original label. From: {source}."
    )
    if found.made:
        st.caption(
            f"Extra simulated responses ({found.made:,}) were generated so that every rule had enough responses; not "
            "saved."
        )
    if pending := batch.progress.pending:
        cancelled = batch.progress.state is BatchState.CANCELLED
        when = "Not screened before the upload was cancelled" if cancelled else "Still pending"
        st.info(f"{when}: {count_of(pending, 'text')} of this upload.")


def _show_unsettled(ask: Ask, results: tuple[Metrics, ...]) -> None:
    """Which conditions lack draws, and the way to record them: the batch's own draws, and the command that goes on."""
    short = [f"{each.name}: {each.unsettled:,}" for each in results if each.unsettled]
    if not short:
        return
    st.warning(
        f"Too few responses were recorded to decide some texts under every condition ({', '.join(short)}). These "
        "conditions show limits instead of rates. To record what is missing, download the recorded responses and run "
        "the command on the uploaded file: it asks for the missing ones only, and says how many calls and dollars that "
        "takes before it begins (`--max-usd` sets a limit)."
    )
    st.code("python -m screening evaluate FILE --format csv --draws draws.jsonl --record all.jsonl", language="sh")
    data = auth.check_before(Action.VIEW_RESULTS, lambda: draw_file(db, ask))
    st.download_button("Recorded responses", data=data, file_name="draws.jsonl", on_click="ignore")


st.title("Evaluation")
left, right = st.columns([3, 1])
with left:
    chosen = widgets.choose_batch(db, person, "evaluation")
if chosen is None:
    st.info(
        "No file uploaded yet. Upload a file with reference labels under Screen > File uploads; the sample data is one."
    )
    st.stop()
labels = right.selectbox("Measured against", list(LABELS), format_func=LABELS.__getitem__, key="evaluation_labels")
ask = ask_of(db, person, chosen.id)
found = context.compute(evaluate_batch, ask, cases=ask.standing.accepted)
if not found.labelled:
    st.info("This upload has no original labels, so there is nothing to compare with.")
    st.stop()
_notes(found, chosen)
if labels == "adjudicated":
    view.show_corrected(db, ask)
    st.stop()
_show_unsettled(ask, found.results[:-1])
parts: Mapping[str, Callable[[], None]] = {
    "Results": partial(view.show_results, found, chosen),
    "Compare": lambda: view.show_comparison(ask, found),
    "Budget sweep": lambda: view.show_sweep(ask),
    "Calls and tokens": lambda: view.show_calls(ask, found),
    "What if": lambda: view.show_what_if(ask, found),
    "Cases": lambda: view.show_cases(db, ask, found),
}
widgets.show_open("evaluation_tab", parts)
