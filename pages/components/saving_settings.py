"""Saving a change to the site's settings from a form of any page."""

from collections.abc import Mapping

import streamlit as st
from pydantic import ValidationError

from pages.components import resources
from screening.review.actors import Actor
from storage.database import Database
from storage.settings_store import SettingsVersion, SiteSettings, StaleSettings, change


def save(db: Database, person: Actor, shown: SettingsVersion, filled: Mapping[str, object], said: str) -> None:
    """Save a new version: the one shown, with the changes filled in. The result is kept for the page under ``said``."""
    settings = shown.settings.model_dump() | dict(filled)
    try:
        made = change(db, person.at(resources.now()), SiteSettings.model_validate(settings), shown.version)
    except StaleSettings:
        st.error("Somebody else changed the settings meanwhile. Theirs are in force; nothing of yours was saved.")
    except ValidationError as wrong:
        name = str(wrong.errors()[0]["loc"][0]).replace("_", " ")
        st.error(f"Not saved: {name} is empty, too long or out of range.")
    else:
        st.session_state[said] = f"Version {made.version} is in force."
        st.rerun()
