"""Figures over many cases: computed here for few cases, in a process beside the server for many, and cached."""

from collections.abc import Callable, Hashable
from time import monotonic
from typing import Any, TypeVar, TypeVarTuple

import streamlit as st

from jobs.computing import Cache, Computation, NotComputed, SideProcess, without_database
from pages.ui import context
from pages.ui.context import singleton
from storage.database import Database

AT_ONCE = 10_000
"""The most cases for which the server's own process computes: a few tenths of a second at most."""
REVIEW = 5
"""How many cases take as long to count as one review."""
MOST_KEPT = 128
LOOK_S, TELL_EVERY_S = 0.25, 1.0
"""How long `compute_meanwhile` waits for the result, and after how many seconds, again and again, a waiting page says
what is being done. Shorter computations say nothing: the page below would jump down and up again.
"""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

SIDE_PROCESS = SideProcess()


@singleton
def _cache() -> Cache[Any]:
    return Cache(MOST_KEPT)


@singleton
def _begun() -> Cache[Computation]:
    """Computations beside the server that no page waited for."""
    return Cache(MOST_KEPT)


def compute(
    function: Callable[[Database, *Ts], T], *args: *Ts, standing: Hashable = None, cases: int = AT_ONCE + 1
) -> T:
    """``function(database, *args)``, from the cache while ``args`` and ``standing`` are the same: the two must name
    everything that the value depends on. For few ``cases`` it is computed here; else the page waits and says what is
    being done, or why it failed.
    """
    key: Hashable = (function, args, standing)
    found: T | None = _cache().get(key)
    if found is not None:
        return found
    if cases <= AT_ONCE:
        with st.spinner("Computing…"):
            found = function(context.database(), *args)
    else:
        made: T = _wait_for(_begin(function, *args, standing=standing))
        found = made
    _cache().put(key, found)
    return found


def compute_numbers(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """``function(*args)``, which needs no data, beside the server."""
    found: T = compute(without_database, function, *args)
    return found


def compute_meanwhile(
    function: Callable[[Database, *Ts], T], *args: *Ts, standing: Hashable = None, cases: int = AT_ONCE + 1
) -> T | None:
    """`compute` for a page that does not wait: None while it is computed beside the server. Raises NotComputed."""
    key: Hashable = (function, args, standing)
    found: T | None = _cache().get(key)
    if found is not None or cases <= AT_ONCE:
        return compute(function, *args, standing=standing, cases=cases) if found is None else found
    begun = _begun().of(key, lambda: _begin(function, *args, standing=standing))
    if not begun.wait(LOOK_S):
        return None
    _begun().forget(key)
    _cache().put(key, begun.result())
    return _cache().get(key)


def compute_again(
    function: Callable[[Database, *Ts], T], *args: *Ts, standing: Hashable, cases: int = AT_ONCE + 1
) -> T:
    """`compute` for data that changes all the time: the last value, while the new one is computed; only the first time
    does the page wait.
    """
    last: Hashable = (compute_again, function, args)
    known: T | None = _cache().get(last)
    if known is None:
        found = compute(function, *args, standing=standing, cases=cases)
    else:
        try:
            meanwhile = compute_meanwhile(function, *args, standing=standing, cases=cases)
        except NotComputed as error:
            _tell(error)
        if meanwhile is None:
            return known
        found = meanwhile
    _cache().forget(last)
    _cache().put(last, found)
    return found


def _begin(function: Callable[[Database, *Ts], T], *args: *Ts, standing: Hashable) -> Computation:
    return SIDE_PROCESS.begin(function, context.settings().database_url, *args, standing=standing)


def _wait_for(computation: Computation) -> Any:
    place, began = st.empty(), monotonic()
    while not computation.wait(TELL_EVERY_S):
        place.info(f"{computation.words}… {monotonic() - began:.0f} s", icon=":material/hourglass:")
    place.empty()
    try:
        return computation.result()
    except NotComputed as error:
        _tell(error)


def _tell(error: NotComputed) -> None:
    st.error(f"This could not be computed: {error}. Reload the page to try again.", icon=":material/error:")
    st.stop()
