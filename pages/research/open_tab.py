"""Tabs of which only the open one is computed: nobody waits for what is not shown."""

from collections.abc import Callable, Mapping

import streamlit as st


def show_open(key: str, parts: Mapping[str, Callable[[], None]]) -> None:
    """A tab for each part, in their order; the part of the open tab runs."""
    for tab, show in zip(st.tabs(list(parts), on_change="rerun", key=key), parts.values(), strict=True):
        if tab.open:
            with tab:
                show()
