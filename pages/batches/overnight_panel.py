"""Overnight at about half the price: offered for research files where it is allowed; and how far such a batch is."""

import streamlit as st

from jobs.agents import overnight_obstacle
from pages.ui import context
from pages.ui.labels import NOT_PRIVATE
from screening.pipeline.config import PipelineConfig
from screening.settings import Settings
from screening.words import count_of
from storage.batches.batch_state import BatchState
from storage.batches.overnight import OvernightProgress, is_overnight, overnight_progress


def choose_overnight(pipeline: PipelineConfig, accepted: int, referenced: int) -> bool:
    """Whether it is chosen; said instead where it may not be. Nothing is shown where no administrator allows it."""
    if not context.site().overnight_allowed:
        return False
    if why := obstacle(context.settings(), pipeline, accepted, referenced):
        st.caption(f"Overnight is not possible: {why}")
        return False
    return st.checkbox("Overnight, about half the price", key="overnight", help=NOT_PRIVATE) and _warn()


def obstacle(settings: Settings, pipeline: PipelineConfig, accepted: int, referenced: int) -> str:
    """Why this file cannot be screened so; empty where it can."""
    if referenced < accepted:
        return f"{accepted - referenced:,} of {count_of(accepted, 'row has', 'rows have')} no reference label."
    return overnight_obstacle(settings, pipeline)


def _warn() -> bool:
    st.warning(NOT_PRIVATE, icon=":material/cloud_upload:")
    return True


def overnight_state(batch_id: str, state: BatchState) -> None:
    """Show how far an overnight batch is; nothing for any other."""
    db = context.database()
    if is_overnight(db, batch_id):
        st.caption(overnight_words(overnight_progress(db, batch_id), state))


def overnight_words(found: OvernightProgress, state: BatchState) -> str:
    """How far it is, in words.

    >>> from screening.pipeline.draws import Usage
    >>> overnight_words(OvernightProgress(round=2, requests=90, processed=40, under_way=True, answers=200, unneeded=10,
    ...     waiting=50, failed=1, usage=Usage()), BatchState.RUNNING)
    'Round 2 is under way: 40 of 90 requests are processed. 200 answers so far, 10 of them (5%) beyond what was \
needed. 1 request failed and was or will be asked again.'
    """
    if found.under_way:
        done = f"{found.processed:,} of {found.requests:,} requests are processed"
        parts = [f"Round {found.round} is under way: {done}."]
    elif state is BatchState.FINISHED:
        parts = [f"Done after {count_of(found.round, 'round')}."]
    else:
        parts = ["No round is under way." if found.round else "The first round has not begun."]
    if found.answers:
        share = 100 * found.unneeded / found.answers
        answers = count_of(found.answers, "answer")
        parts.append(f"{answers} so far, {found.unneeded:,} of them ({share:.0f}%) beyond what was needed.")
    if found.failed:
        requests = count_of(found.failed, "request failed and was", "requests failed and were")
        parts.append(f"{requests} or will be asked again.")
    return " ".join(parts)
