"""What a report of accuracy must say and no table here holds: an administrator is asked once, the settings keep it."""

from collections.abc import Mapping

import streamlit as st

from pages.ui.widgets import save_when_pressed, settings_shown
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from storage.database import Database
from storage.settings_store import SiteSettings

LONGEST = 1_000
QUESTIONS: Mapping[str, tuple[str, str, str]] = {
    "study_texts": ("8, 20", "Participants", "where and when they were written, by whom: age, sex, setting"),
    "study_events": (
        "25",
        "Adverse events",
        'number and nature of adverse events, or "none", and how monitored',
    ),
    "study_registration": ("28", "Registration", "register and number; or not registered"),
    "study_protocol": ("29", "Protocol", "where the whole protocol can be read; or that there is none"),
    "study_funding": ("30", "Funding", "who paid, and what part they had"),
}
"""By the name of the setting: the items of STARD 2015, what is asked, and what an answer says."""


def study_panel(db: Database, person: Actor) -> None:
    """The answers so far and, for administrators, the way to change them."""
    shown, may = settings_shown(db, "study_keep"), is_allowed(person, Action.CHANGE_SETTINGS)
    st.caption("They stand in the reliability report. No names and no texts: the report is made to leave the site.")
    filled: dict[str, object] = {}
    for name, (items, label, hint) in QUESTIONS.items():
        filled[name] = st.text_area(
            f"{label} (STARD {items})", getattr(shown.settings, name), max_chars=LONGEST, height=68,
            placeholder=hint, disabled=not may, key=f"{name}_v{shown.version}",
        ).strip()  # fmt: skip
    unchanged = all(getattr(shown.settings, name) == value for name, value in filled.items())
    pressed = st.button("Keep for the report", disabled=unchanged or not may, key="study_keep")
    save_when_pressed(db, person, "study_keep", shown, filled, pressed=pressed)


def answers(site: SiteSettings) -> tuple[tuple[str, str], ...]:
    """Each question with its answer, for the report; what nobody has answered is said to be open."""
    open_words = "not stated by this site"
    return tuple(
        (f"{label} (STARD {items})", getattr(site, name) or open_words) for name, (items, label, _) in QUESTIONS.items()
    )
