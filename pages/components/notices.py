"""The words every page carries: what this program is, what it is not, where help is, and that its server is gone."""

from functools import lru_cache
from html import escape
from typing import TYPE_CHECKING

import streamlit as st

from screening.review.reach import WHO_SEES_WHAT
from screening.settings import SIMULATED_NOTICE
from storage.settings_store import SiteSettings

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

NOT_A_CRISIS_SERVICE = "Screens text. Does not assess a person's risk. Not a crisis service."
STOPPED = "AI decisions paused: every new text is escalated to a clinician."


def notice_html(site: SiteSettings, *, simulated: bool) -> str:
    """One line for the top of every page, as HTML for `st.html`."""
    marks = f'<b role="note">⚠ {escape(SIMULATED_NOTICE)}</b>' if simulated else ""
    marks += f'<b role="alert" class="stop">■ {escape(STOPPED)}</b>' if site.stopped else ""
    way = f"<span>In crisis? {escape(site.help_text)}</span>" if site.help_text.strip() else ""
    return f'<div class="sl-notice">{marks}<span>{NOT_A_CRISIS_SERVICE}</span>{way}</div>'


def footer_html(site: SiteSettings) -> str:
    """The intended use in the site's own words, and what reaches a person as its settings are, for every page's end."""
    return f'<div class="sl-footer">{escape(f"{site.intended_use} {WHO_SEES_WHAT}")}</div>'


def watch_connection() -> None:
    """Has a page say in our words that its server can't be reached. The inbox has words of its own, which say what
    becomes of what is chosen there.
    """
    _connection()(key="line")


@lru_cache(maxsize=1)
def _connection() -> "ComponentRenderer":
    return st.components.v2.component("second-look-browser.line", js="line.js", css="line.css")
