"""The gate: with sign-in configured nobody gets past it unknown; without, there is one local user."""

import streamlit as st

from pages.components import resources
from storage.actors import LOCAL_USER, Actor


def current_actor() -> Actor | None:
    """Who is here, None when they have yet to sign in. Kept for the pages in the session."""
    if not resources.sign_in_configured():
        return LOCAL_USER
    return None


def gate() -> None:
    """What somebody sees who is not signed in."""
    st.title("Second Look")
    st.write("Please sign in with your institution's account.")
    if st.button("Sign in", type="primary"):
        st.login()
