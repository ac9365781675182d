"""Every page says in our words when its server can't be reached; what it shows may then be out of date."""

from functools import lru_cache
from typing import TYPE_CHECKING

import streamlit as st

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer


def watch_connection() -> None:
    """Once a page; the inbox has words of its own, which say what becomes of what is chosen there."""
    _component()(key="line")


@lru_cache(maxsize=1)
def _component() -> "ComponentRenderer":
    return st.components.v2.component("second-look-browser.line", js="line.js", css="line.css")
