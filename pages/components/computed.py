"""What pages show of many cases: kept while it stands; at once where that is little, else beside the server."""

from collections.abc import Callable, Hashable
from time import monotonic
from typing import Any, TypeVar, TypeVarTuple

import streamlit as st

from jobs.computing import Cache, Computation, NotComputed, SideProcess, without_database
from pages.components import resources
from pages.components.singletons import singleton
from storage.database import Database

AT_ONCE = 10_000
"""Cases of which anything is computed in the server's process: a few tenths of a second at most."""
READING = 5
"""A reading costs as much to count as so many cases."""
MOST_KEPT = 64
LOOK_S, TELL_EVERY_S = 0.25, 1.0
"""How long a page that goes on waits, and how often whoever waits is told what is done: what takes less than that is
not told of, since all below would move down and up again.
"""

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

SIDE_PROCESS = SideProcess()


@singleton
def _cache() -> Cache[Any]:
    return Cache(MOST_KEPT)


@singleton
def _numbers() -> Cache[Any]:
    return Cache(MOST_KEPT)


@singleton
def _begun() -> Cache[Computation]:
    """What is computed beside the server and was not waited for."""
    return Cache(MOST_KEPT)


def compute(
    function: Callable[[Database, *Ts], T], *args: *Ts, standing: Hashable = None, cases: int = AT_ONCE + 1
) -> T:
    """``function(database, *args)``, computed anew where the arguments are others or things have moved on from
    ``standing``: together they say all that the value follows from. Of few ``cases`` it is computed here and now; else
    whoever waits sees what is done, and a computation that fails is told in words.
    """
    found: T = _compute(_cache(), function, args, standing, cases)
    return found


def compute_numbers(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """``function(*args)`` that needs no data, beside the server. A slider asks for many: they are kept apart, so as not
    to drive out what took long to compute of data.
    """
    found: T = _compute(_numbers(), without_database, (function, *args), None, AT_ONCE + 1)
    return found


def _compute(
    kept: Cache[Any], function: Callable[..., Any], args: tuple[Any, ...], standing: Hashable, cases: int
) -> Any:
    key: Hashable = (function, args, standing)
    found = kept.get(key)
    if found is not None:
        return found
    if cases <= AT_ONCE:
        with st.spinner("Computing…"):
            found = function(resources.database(), *args)
    else:
        found = _wait_for(_begin(function, *args, standing=standing))
    kept.put(key, found)
    return found


def compute_meanwhile(
    function: Callable[[Database, *Ts], T], *args: *Ts, standing: Hashable = None, cases: int = AT_ONCE + 1
) -> T | None:
    """`compute` for a page that goes on: None while it is computed beside the server. Raises NotComputed."""
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
    """`compute` of what moves all the time: while it is computed anew for where things stand now, what was found last
    is shown; only the first time is waited for.
    """
    last: Hashable = (compute_again, function, args)
    known: T | None = _cache().get(last)
    found: T | None = None
    if known is not None:
        try:
            found = compute_meanwhile(function, *args, standing=standing, cases=cases)
        except NotComputed as error:
            _tell(error)
        if found is None:
            return known
    if found is None:
        found = compute(function, *args, standing=standing, cases=cases)
    _cache().forget(last)
    _cache().put(last, found)
    return found


def _begin(function: Callable[[Database, *Ts], T], *args: *Ts, standing: Hashable) -> Computation:
    return SIDE_PROCESS.begin(function, resources.settings().database_url, *args, standing=standing)


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
