"""The way from a list to one case."""

from collections.abc import Iterable
from hashlib import sha256

import streamlit as st

from pages.components.navigation import FOLDER


def case_link(case_id: str) -> None:
    """A link to the case's page. The case's name is not in it: a link's label is markup, and names come from files."""
    st.page_link(FOLDER / "case.py", label="Open this case", icon=":material/article:", query_params={"case": case_id})


def list_key(name: str, case_ids: Iterable[str]) -> str:
    """The key of a table of these cases. A tick is of a place: it is not taken over into another list."""
    return f"{name}_{sha256(' '.join(case_ids).encode()).hexdigest()[:16]}"
