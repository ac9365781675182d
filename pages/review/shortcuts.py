"""Keyboard shortcuts of the inbox: shown on the buttons, and off for whoever switches them off."""

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


_KEYS = (
    ("N", "next case"),
    ("1 2 3", "label: only selects"),
    ("4 to 8", "certainty: only selects"),
    ("Ctrl+Enter", "save"),
    ("S", "skip"),
    ("X", "not me, without a reason"),
    ("A", "ask for a second opinion"),
    ("V", "change a saved reading"),
    ("F", "finish: give back what is loaded"),
)


def keys_help() -> None:
    """Which key does what, for whoever has no case on the desk."""
    rows = "".join(f"<dt><kbd>{key}</kbd></dt><dd>{words}</dd>" for key, words in _KEYS)
    off = "" if on() else '<p class="sl-small">They are switched off at the moment.</p>'
    st.html(f'<section class="sl-keys" aria-label="Keys"><h2 class="sl-h2">Keys</h2><dl>{rows}</dl>{off}</section>')
