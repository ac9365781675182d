"""The one way a message text reaches a page: as inert literal text, its invisible characters marked."""

from collections.abc import Sequence
from html import escape

import streamlit as st

from pages.components.flagged_phrases import FlaggedPhrase, marked_html


def text_html(text: str, *, label: str = "", max_height_px: int = 320, phrases: Sequence[FlaggedPhrase] = ()) -> str:
    """The text as escaped HTML in a box of bounded height that keyboards can scroll; nothing in it is markup, and what
    was flagged in it is marked.
    """
    caption = f'<p class="sl-text-label">{escape(label)}</p>' if label else ""
    return (
        f'{caption}<div class="sl-text" dir="auto" tabindex="0" role="region" '
        f'aria-label="{escape(label or "Text", quote=True)}" style="max-height:{max_height_px}px">'
        f"{marked_html(text, phrases)}</div>"
    )


def show_text(text: str, *, label: str = "", max_height_px: int = 320) -> None:
    """Show the text on the page, escaped."""
    st.html(text_html(text, label=label, max_height_px=max_height_px))
