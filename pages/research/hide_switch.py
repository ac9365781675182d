"""The one switch above every list of cases: whether it hides the outcomes of cases in review, remembered per person."""

import streamlit as st

from pages.components import resources
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from storage.database import Database
from storage.visibility import choose_hiding, hides_in_review

KEY = "hide_in_review"
COUNTS_AS_SEEN = (
    "Cases in review whose outcome you see here count as seen: your later review of them is stored as not blinded and "
    "leaves the accuracy estimates."
)


def hide_switch(db: Database, person: Actor) -> None:
    """The switch as it stands now, in whatever tab it was changed; in words for who may not see outcomes."""
    if not is_allowed(person, Action.VIEW_RESULTS):
        st.caption("Outcomes are shown to seniors and researchers.")
        return
    with db.read() as conn:
        hides = hides_in_review(conn, person)
    st.session_state[KEY] = hides
    st.toggle("Hide outcomes of cases in review", key=KEY, on_change=_choose, args=(db, person), help=COUNTS_AS_SEEN)
    if not hides and is_allowed(person, Action.CLAIM_NEXT):
        st.caption(COUNTS_AS_SEEN)


def _choose(db: Database, person: Actor) -> None:
    choose_hiding(db, person.at(resources.now()), hide=bool(st.session_state[KEY]))
