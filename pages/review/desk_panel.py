"""The reading desk: our component in a fragment of its own, so that a key never waits for the rest of the page."""

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import streamlit as st

from pages.review import inbox_desk
from pages.review.desk_requests import BESIDE, QUIET, Request, handle, may_take, parse
from pages.review.desk_view import away, view
from pages.review.inbox_desk import Here, memory
from pages.ui import context
from pages.ui.auth import check_session
from pages.ui.shell import passing_words
from screening.review.triage import Tier

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

COMPONENT = "second-look-browser.desk"
KEY = "desk"
_SENT = "desk_sent"
"""Session key of what the browser sent and the desk has not handled yet."""
STAYS = QUIET | {"alive", "draft", "second", "at_once", "uncover", "revise"}
"""Requests after which the rest of the page is as it was."""


def do_what_is_asked(here: Callable[[], Here], tiers: Collection[Tier] | None) -> None:
    """What the browser asked for since the last run, before a run of the whole page draws anything."""
    _do(here, _open_requests(), tiers)
    memory().behind = False


def desk_panel(
    here: Callable[[], Here], tiers: Collection[Tier] | None, *, empty: Callable[[Here], str], key: str
) -> None:
    """Draw the desk and do what its reader asks for. ``here`` is asked anew on each run, and ``empty`` for what is
    said on an empty desk.
    """
    st.fragment(_desk)(here, tiers, empty, key)


def _desk(here: Callable[[], Here], tiers: Collection[Tier] | None, empty: Callable[[Here], str], key: str) -> None:
    """Done first and drawn once, so that the answer leaves before anything else; the rest of the page is left behind
    until the browser asks for it.
    """
    with context.database().one_snapshot():
        try:
            _do_and_see(here, tiers, empty, key)
        except Exception as error:
            words = passing_words(error)
            if words is None or not memory().shown:
                raise
            _mount(away(memory().shown, words, context.now()))
            return
        unheard = parse(_mount(memory().shown))  # after a start of the server the first press is not told to `_hear`
        if _new(unheard):
            check_session(active=_by_a_person(unheard))
            _do(here, unheard, tiers)
            st.rerun()


def _do_and_see(
    here: Callable[[], Here], tiers: Collection[Tier] | None, empty: Callable[[Here], str], key: str
) -> None:
    """Do what the browser asked for; what is to be shown then is in the session's memory."""
    requests = _open_requests()
    check_session(active=_by_a_person(requests))
    done = _do(here, requests, tiers)
    if "rest" in done and memory().behind:
        st.rerun()
    memory().behind |= bool(done - STAYS)
    now = here()
    desk = inbox_desk.current(now)
    words = empty(now) if desk is None else ""
    seen = view(now, desk, memory(), empty=words, may_take=may_take(now), key=key)
    memory().shown = seen | {"only": _only(tiers)}


def _only(tiers: Collection[Tier] | None) -> str:
    """The tiers that the next case is of; empty where it may be of any.

    >>> _only([Tier.P2, Tier.P0]), _only(None)
    ('P0, P2', '')
    """
    return "" if tiers is None or set(tiers) == set(Tier) else ", ".join(tier.name for tier in sorted(tiers))


def _do(here: Callable[[], Here], requests: list[Request], tiers: Collection[Tier] | None) -> frozenset[str]:
    """Each of them that has not been done; the kinds of those."""
    st.session_state.pop(_SENT, None)
    kinds = _new(requests)
    if kinds - BESIDE:
        memory().said = ""
    if requests:
        handle(here(), requests, tiers)
        memory().asked = tuple(request.id for request in requests)
    return kinds


def _new(requests: list[Request]) -> frozenset[str]:
    return frozenset(request.kind for request in requests if request.id not in memory().answers)


def _by_a_person(requests: list[Request]) -> bool:
    """Whether any of them is a sign that somebody is there."""
    return bool(_new(requests) - QUIET)


def _open_requests() -> list[Request]:
    return parse(st.session_state.get(_SENT))


def _hear() -> None:
    """Keep what was sent: the run that it began may be cut short by the next one before it comes to the desk."""
    found = st.session_state.get(KEY) or {}  # nothing is there where the last run failed before it drew the desk
    if isinstance(sent := found.get("requests"), list):
        st.session_state[_SENT] = [*st.session_state.get(_SENT, ()), *sent]


def _mount(shown: dict[str, Any]) -> object:
    """What the component asks for in this run; None mostly."""
    return _component()(key=KEY, data=[shown], on_requests_change=_hear).requests


@lru_cache(maxsize=1)
def _component() -> "ComponentRenderer":
    """Register the component, once a process: Streamlit reads its files to do so."""
    return st.components.v2.component(COMPONENT, js="desk.js", css="desk.css", isolate_styles=False)
