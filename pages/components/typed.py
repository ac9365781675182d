"""Notes and reasons typed into Streamlit's own fields: kept in the browser from the first key on until recorded."""

from functools import lru_cache
from typing import TYPE_CHECKING

import streamlit as st

from screening.review.actors import Actor

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

FIELDS = ("decide_why_", "follow_up_note_")
"""The prefix of these fields' keys."""
_RECORDED = "typed_recorded"


def keep_typed(person: Actor, *, fields: bool = True) -> None:
    """Have the browser keep what is typed; call it once on a page that may have such ``fields``. Nothing where it has
    none now and nothing was recorded.
    """
    recorded = st.session_state.pop(_RECORDED, [])
    if not fields and not recorded:
        return
    with st.container(key="typed"):
        _component()(data=[{"me": person.id, "fields": FIELDS, "recorded": recorded}], key="typed_fields")


def forget_typed(key: str) -> None:
    """What stood in this field is recorded: the browser need not keep it."""
    st.session_state[_RECORDED] = [*st.session_state.get(_RECORDED, ()), key]


@lru_cache(maxsize=1)
def _component() -> "ComponentRenderer":
    return st.components.v2.component("second-look-browser.typed", js="typed.js")
