"""A form for some of the site's settings, on any page. It saves what was changed in it and nothing else: so forms, tabs
and people do not undo each other's changes.
"""

from collections.abc import Mapping

import streamlit as st
from pydantic import ValidationError

from pages.components import resources
from screening.review.actors import Actor
from storage.database import Database
from storage.settings_store import SettingsVersion, SiteSettings, StaleSettings, change, current


def settings_shown(db: Database, button: str) -> SettingsVersion:
    """What the form of this button is drawn with, also in the names of its fields: the settings in force or, while it
    is saved and as long as nobody changed what it holds, those that it was filled in from. So nothing that somebody
    typed goes because something else was changed.
    """
    now, kept = current(db), st.session_state.get(f"{button}_shown")
    if kept is None:
        return now
    shown, names = kept
    return shown if st.session_state.get(button) or not _changes_in(names, shown.settings, now.settings) else now


def save_when_pressed(
    db: Database, person: Actor, button: str, shown: SettingsVersion, filled: Mapping[str, object], *, pressed: bool
) -> None:
    """Keep what the form was drawn with; once its button is pressed save what was changed in it, and say so."""
    st.session_state[f"{button}_shown"] = shown, tuple(filled)
    if pressed:
        _save(db, person, button, shown.settings, filled)
    if said := st.session_state.pop(f"{button}_said", None):
        st.success(said)


def _save(db: Database, person: Actor, button: str, shown: SiteSettings, filled: Mapping[str, object]) -> None:
    now = current(db)
    mine = {name: value for name, value in filled.items() if value != getattr(shown, name)}
    if theirs := _changes_in(mine, shown, now.settings):
        words = ", ".join(name.replace("_", " ") for name in theirs)
        st.error(f"Not saved: meanwhile somebody else has changed this too ({words}). Reload the page to see theirs.")
        return
    try:
        settings = SiteSettings.model_validate(now.settings.model_dump() | mine)
        version = change(db, person.at(resources.now()), settings, now.version) if mine else now
    except StaleSettings:
        st.error("Not saved: somebody else saved at the same moment. Press again.")
    except ValidationError as wrong:
        name = str(wrong.errors()[0]["loc"][0]).replace("_", " ")
        st.error(f"Not saved: {name} is empty, too long or out of range.")
    else:
        del st.session_state[f"{button}_shown"]
        st.session_state[f"{button}_said"] = f"Version {version.version} is in force."
        st.rerun()


def _changes_in(names: "Mapping[str, object] | tuple[str, ...]", old: SiteSettings, new: SiteSettings) -> list[str]:
    return [name for name in names if getattr(old, name) != getattr(new, name)]
