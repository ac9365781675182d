"""Keyboard shortcuts of the inbox, which each person can switch off."""

import streamlit as st


def on() -> bool:
    """Whether single keys and Ctrl+Enter act; kept in the address, so that it survives a reload."""
    return st.query_params.get("keys") != "off"


def key_of(key: str) -> str | None:
    """The shortcut for a button, None while they are switched off."""
    return key if on() else None


def switch() -> None:
    """The button that turns them off and on."""
    words = "Shortcuts: on" if on() else "Shortcuts: off"
    if st.button(
        words, key="shortcuts", type="tertiary", icon=":material/keyboard:", help="Turn single keys off or on"
    ):
        if on():
            st.query_params["keys"] = "off"
        else:
            st.query_params.pop("keys", None)
        st.rerun()
