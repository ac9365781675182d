"""The plan of the audit as an administrator fixes it: what is to be claimed, and how many readings that takes."""

from datetime import date, timedelta

import streamlit as st

from pages.research.claims import plan_sentences
from pages.ui import context
from pages.ui.widgets import save_when_pressed, settings_shown
from screening.evaluation.guarantee import readings_required
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from storage.database import Database
from storage.settings_store import SettingsVersion, audit_plan

CONSEQUENCE = (
    "Lock it before anything is reviewed. Cases screened before a change do not count for the guarantee under the new "
    "plan: a plan that is changed after misses were seen is no guarantee."
)


def plan_panel(db: Database, person: Actor) -> None:
    """The plan in force with its last change, and for administrators the way to change it."""
    shown, plan = settings_shown(db, "fix_plan"), audit_plan(db)
    for sentence in plan_sentences(plan):
        st.write(sentence)
    filled = _fields(shown, disabled=not is_allowed(person, Action.CHANGE_SETTINGS))
    unchanged = all(getattr(shown.settings, name) == value for name, value in filled.items())
    st.caption(CONSEQUENCE)
    late = is_too_late(filled["audit_report_on"], shown.settings.audit_report_on, context.now().date())
    if late:
        st.error("The planned analysis date has come: choose one after today.")
    pressed = st.button("Lock plan", disabled=unchanged or late, key="fix_plan")
    save_when_pressed(db, person, "fix_plan", shown, filled, pressed=pressed)


def is_too_late(day: object, kept: date | None, today: date) -> bool:
    """Whether a day that is newly chosen for one look is not after today: what it would tell can be seen already.

    >>> today = date(2026, 2, 1)
    >>> is_too_late(today, None, today), is_too_late(date(2026, 2, 2), None, today), is_too_late(today, today, today)
    (True, False, False)
    """
    return isinstance(day, date) and day != kept and day <= today


def _fields(shown: SettingsVersion, *, disabled: bool) -> dict[str, object]:
    now, key = shown.settings, f"v{shown.version}"
    one, two, three, four = st.columns(4, vertical_alignment="bottom")
    at_most = one.number_input(
        "Missed at most, %", 0.1, 50.0, 100 * now.audit_at_most, 0.5, "%g", key=f"plan_at_most_{key}", disabled=disabled
    )
    confidence = two.number_input(
        "Confidence, %", 50.0, 99.9, 100 * now.audit_confidence, 0.5, "%g", key=f"plan_sure_{key}", disabled=disabled
    )
    misses = three.number_input(
        "Misses allowed", 0, 100, now.audit_allowed_misses, key=f"plan_misses_{key}", disabled=disabled
    )
    floor = one.number_input(
        "Sampling rate, %", 0.1, 100.0, None if now.audit_floor is None else 100 * now.audit_floor, 0.5, "%g",
        key=f"plan_floor_{key}", disabled=disabled, placeholder="the first case's",
        help="Only texts sampled with at least this probability count. Empty: that of the first text under this plan.",
    )  # fmt: skip
    tomorrow = context.now().date() + timedelta(days=1)
    day = two.date_input(
        "Planned analysis date", now.audit_report_on, key=f"plan_day_{key}", disabled=disabled,
        min_value=min(tomorrow, now.audit_report_on or tomorrow),  # the day that was fixed stays shown when it has come
        help="On this day alone, fixed before it comes, the report tells the tighter bound of one analysis.",
    )  # fmt: skip
    rate, sure = round(at_most / 100, 3), round(confidence / 100, 3)
    four.metric("Reviewed unsafe texts needed", f"{readings_required(rate, misses, sure):,}")
    return {
        "audit_at_most": rate,
        "audit_confidence": sure,
        "audit_allowed_misses": misses,
        "audit_floor": None if floor is None else round(floor / 100, 3),
        "audit_report_on": day,
    }
