"""The way from a list to one case."""

import streamlit as st

from pages.components.navigation import FOLDER


def case_link(case_id: str) -> None:
    """A link to the case's page. The case's name is not in it: a link's label is markup, and names come from files."""
    st.page_link(FOLDER / "case.py", label="Open this case", icon=":material/article:", query_params={"case": case_id})
