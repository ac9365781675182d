"""The plan of the audit as an administrator fixes it: what is to be claimed, and how many readings that takes."""

from datetime import date

import streamlit as st

from pages.research.claims import plan_sentences
from pages.site.site_settings import Filled, settings_form
from pages.ui import context
from screening.evaluation.guarantee import readings_required
from screening.review.actors import Actor
from storage.database import Database
from storage.settings_store import audit_plan

CONSEQUENCE = (
    "Lock it before anything is reviewed. Cases screened before a change do not count for the guarantee under the new "
    "plan: a plan that is changed after misses were seen is no guarantee."
)


def plan_panel(db: Database, person: Actor) -> None:
    """The plan in force with its last change, and for administrators the way to change it."""
    plan = audit_plan(db)
    for sentence in plan_sentences(plan):
        st.write(sentence)

    def check(filled: Filled) -> str | None:
        rate, misses, sure = (filled[f"audit_{name}"] for name in ("at_most", "allowed_misses", "confidence"))
        st.metric("Reviewed unsafe texts needed", f"{readings_required(rate, misses, sure):,}")
        st.caption(CONSEQUENCE)
        late = is_too_late(filled["audit_report_on"], plan.report_on, context.now().date())
        return "The planned analysis date has come: choose one after today." if late else None

    settings_form(db, person, "plan", "Lock plan", check=check)


def is_too_late(day: date | None, kept: date | None, today: date) -> bool:
    """Whether a day that is newly chosen for one look is not after today: what it would tell can be seen already.

    >>> today = date(2026, 2, 1)
    >>> is_too_late(today, None, today), is_too_late(date(2026, 2, 2), None, today), is_too_late(today, today, today)
    (True, False, False)
    """
    return day is not None and day != kept and day <= today
