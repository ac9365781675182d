"""What stands at the top right of every page: the stop button, and with sign-in who is here and the way out."""

import streamlit as st

from pages.components import resources, sign_out
from pages.components.notices import STOPPED
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed
from screening.text.display import visible
from storage import settings_store
from storage.database import Database
from storage.settings_store import SiteSettings


def controls(db: Database, person: Actor, site: SiteSettings) -> None:
    """Draw them. Call it after the page's own elements have their place, so that they come last in reading order."""
    with st.container(key="controls", horizontal=True, horizontal_alignment="right"):
        if is_allowed(person, Action.STOP):
            stop_button(db, person, site)
        if resources.sign_in_configured():
            _account(person)


def stop_button(db: Database, person: Actor, site: SiteSettings) -> None:
    """Everybody may stop; fewer may start again. Both ask for confirmation."""
    name, key = ("AI decisions paused", "stopped_switch") if site.stopped else ("Pause AI decisions", "stop_switch")
    with st.popover(name, icon=":material/pause_circle:", key=key):
        stop_panel(db, person, site, key="popover")


def stop_panel(db: Database, person: Actor, site: SiteSettings, *, key: str = "panel") -> None:
    """The stop button, with a sentence on what it does."""
    if not site.stopped:
        st.write(
            "The AI stops deciding: every new text is escalated to a clinician until you resume. Reviews continue."
        )
        if st.button("Pause now", key=f"stop_{key}", type="primary", icon=":material/pause_circle:"):
            settings_store.stop(db, person.at(resources.now()))
            st.rerun()
        return
    st.write(STOPPED)
    if not is_allowed(person, Action.START):
        st.write("A senior reviewer or an administrator can resume them.")
    elif st.button("Resume AI decisions", key=f"start_{key}", icon=":material/play_arrow:"):
        settings_store.start(db, person.at(resources.now()))
        st.rerun()


def _account(person: Actor) -> None:
    with st.popover("Account", icon=":material/person:"):
        st.text(visible(person.name))
        st.caption(", ".join(sorted(person.roles)) or "no role")
        st.html(sign_out.FORM)
