"""The reading desk: our component in a fragment of its own, so that a key never waits for the rest of the page."""

from collections.abc import Callable, Collection
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import streamlit as st
from streamlit.errors import StreamlitAPIException

from pages.components.sign_in import check_session
from pages.review import inbox_desk
from pages.review.desk_requests import BESIDE, QUIET, handle, may_take, parse
from pages.review.desk_view import view
from pages.review.group_panel import group_panel
from pages.review.inbox_desk import Here, memory
from screening.review.triage import Tier

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

COMPONENT = "second-look-browser.desk"
STAYS = frozenset({"look", "alive", "draft", "second", "at_once", "uncover", "reveal", "revise"})
"""Requests after which the rest of the page is as it was."""


def desk_panel(
    here: Callable[[], Here], tiers: Collection[Tier] | None, *, empty: Callable[[Here], str], key: str
) -> None:
    """Draw the desk and do what its reader asks for. ``here`` is asked anew on each run, and ``empty`` for what is
    said on an empty desk.
    """
    st.fragment(_desk)(here, tiers, empty, key)


def _desk(here: Callable[[], Here], tiers: Collection[Tier] | None, empty: Callable[[Here], str], key: str) -> None:
    check_session(active=False)
    now = here()
    desk = inbox_desk.current(now)
    shown = view(now, desk, memory(), empty=empty(now) if desk is None else "", may_take=may_take(now), key=key)
    requests = parse(_mount(shown))
    if not requests:
        group_panel(now, desk)
        return
    kinds = {request.kind for request in requests if request.id not in memory().answers}
    if kinds - QUIET:
        check_session(active=True)
    if kinds - BESIDE:
        memory().said = ""
    handle(here(), requests, tiers)
    _draw_again(whole=bool(kinds - STAYS))


def _draw_again(*, whole: bool) -> None:
    """The desk alone, where it runs alone: a request may also arrive with a run of the whole page."""
    if not whole:
        with suppress(StreamlitAPIException):
            st.rerun(scope="fragment")
    st.rerun()


def _mount(shown: dict[str, Any]) -> object:
    """What the component asks for in this run; None mostly."""
    return _component()(key="desk", data=shown, on_requests_change=lambda: None).requests


@lru_cache(maxsize=1)
def _component() -> "ComponentRenderer":
    """Made known once a process: Streamlit reads its files to do so."""
    return st.components.v2.component(COMPONENT, js="desk.js", css="desk.css", isolate_styles=False)
