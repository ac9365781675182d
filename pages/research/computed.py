"""Values computed from many cases: cached while they hold; few cases in this process, more beside the server."""

from collections.abc import Callable, Hashable
from time import monotonic
from typing import Any, TypeVar, TypeVarTuple

import streamlit as st

from jobs.computing import Beside, Computation, Kept, NotComputed
from pages.components import resources
from pages.components.singletons import singleton
from storage.database import Database

AT_ONCE = 10_000
"""Cases of which anything is computed in the server's process: a few tenths of a second at most."""
READING = 5
"""A reading takes as long to count as so many cases."""
MOST_KEPT = 64
LOOK_EVERY_S = 0.25

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BESIDE = Beside()


@singleton
def _cache() -> Kept[Any]:
    return Kept(MOST_KEPT)


def compute(function: Callable[[Database, *Ts], T], *args: *Ts, cases: int = AT_ONCE + 1) -> T:
    """``function(database, *args)``, whose arguments say all that the value follows from: where something stands is
    one of them. Of few ``cases`` it is computed here and now; else whoever waits sees what is done, and a computation
    that fails is told in words.
    """
    key: Hashable = (function, args)
    found: T | None = _cache().get(key)
    if found is not None:
        return found
    if cases <= AT_ONCE:
        with st.spinner("Computing…"):
            found = function(resources.database(), *args)
    else:
        found = _wait_for(BESIDE.begin(function, resources.settings().database_url, *args))
    _cache().put(key, found)
    return found


def _wait_for(computation: Computation) -> Any:
    place, began = st.empty(), monotonic()
    while not computation.wait(LOOK_EVERY_S):
        place.info(f"{computation.words}… {monotonic() - began:.0f} s", icon=":material/hourglass:")
    place.empty()
    try:
        return computation.result()
    except NotComputed as error:
        st.error(f"This could not be computed: {error}. Reload the page to try again.", icon=":material/error:")
        st.stop()
