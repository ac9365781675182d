"""A batch whose file is not taken in any further: why, and the way on."""

from html import escape

import streamlit as st

from pages.batches.batch_progress import ENDED
from pages.batches.intake_runs import Stopped, intake_runs
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from screening.text.display import visible
from storage.batches.batch_state import BatchState
from storage.batches.batches import BatchSummary


def find_stopped(batch_id: str, state: BatchState) -> Stopped | None:
    """Whether rows of its file are missing that nobody takes in."""
    return None if state in ENDED else intake_runs().stopped(batch_id)


def missing_rows(person: Actor, one: BatchSummary, found: Stopped) -> None:
    """Why rows of the file are not in, and the way on."""
    st.html(
        '<div role="alert" style="border-left:4px solid light-dark(#b42318,#f0796f);padding:.5rem 1rem;'
        f'background:light-dark(#fdf1f0,#2c1614)"><b>Taking rows in stopped after {one.progress.rows_in:,}:</b> '
        f"{escape(visible(found.why))} The rows that are in are screened; the file is kept.</div>"
    )
    if is_allowed(person, Action.CONTROL_BATCH, one.created_by) and st.button(
        "Go on taking rows in", icon=":material/play_arrow:"
    ):
        intake_runs().start(found.upload)
        st.rerun()
