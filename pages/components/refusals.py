"""What the policy refuses somebody on a page is written to the audit log, with what it was asked of."""

import streamlit as st

from pages.components import resources
from screening.review.policy import Forbidden
from storage.audit_log import record_refusal


def remember_refusal(refused: Forbidden, subject: str | None = None) -> None:
    """Write it down, once a visit for each thing: a page runs again at every click. ``subject`` is a case's id."""
    told: set[tuple[str, str | None]] = st.session_state.setdefault("refusals", set())
    if (what := (refused.action.value, subject)) not in told:
        record_refusal(resources.database(), resources.actor_now(), refused.action, subject)
        told.add(what)
