"""What every page works with: settings, the database, who asks and when, each made once in a process; and figures over
many cases, computed in a process beside the server, and cached.

Not `st.cache_resource`: clearing the caches drops its entries, and two threads that come first may each make one. There
must be one database, and one record of the files being taken in, for as long as the process lives.
"""

import threading
from collections.abc import Callable, Hashable
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any, Generic, TypeVar, TypeVarTuple

import streamlit as st

from jobs import intake
from jobs.computing import Cache, Computation, NotComputed, SideProcess, without_database
from pages.ui import http
from screening.pipeline.config import PipelineConfig
from screening.review.policy import LOCAL_USER, Acting, Actor, Forbidden
from screening.settings import Settings
from storage import audit_log, settings_store
from storage.batches.configurations import Configuration
from storage.database import Database
from storage.settings_store import SiteSettings, current

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
AT_ONCE = 10_000
"""The most cases for which the server's own process computes: a few tenths of a second at most."""
REVIEW = 5
"""How many cases take as long to count as one review."""
MOST_KEPT = 128
LOOK_S, TELL_EVERY_S = 0.25, 1.0
"""How long `compute_meanwhile` waits for the result, and after how many seconds, again and again, a waiting page says
what is being done. Shorter computations say nothing: the page below would jump down and up again.
"""

SIDE_PROCESS = SideProcess()
_all: "list[singleton[Any]]" = []


class singleton(Generic[T]):
    """The value of a function without arguments, made once for all threads, in a module that is imported once (a page's
    script is not). A function that raises is asked again at the next call.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make, self._made = make, Cache[T](1)
        self.__doc__ = make.__doc__
        _all.append(self)

    def __call__(self) -> T:
        return self._made.of("made", self._make)

    def forget(self) -> None:
        self._made.forget("made")


def forget_all() -> None:
    """As if the process had just started: for a test with another database."""
    for one in _all:
        one.forget()


class SharedLook(Generic[T]):
    """The last result of ``look``, which is called again once that is older than ``every``, or for another database."""

    def __init__(self, look: Callable[[Database, datetime], T], every: timedelta) -> None:
        self._look, self._every, self._lock = look, every, threading.Lock()
        self._seen: tuple[Database, datetime, T] | None = None

    def at(self, db: Database, now: datetime) -> T:
        """What the look returned now, or up to ``every`` ago."""
        with self._lock:
            seen = self._seen
            if seen is None or seen[0] is not db or not timedelta() <= now - seen[1] < self._every:
                seen = self._seen = (db, now, self._look(db, now))
            return seen[2]


@singleton
def settings() -> Settings:
    """The site's options, read once."""
    return Settings()


@singleton
def database() -> Database:
    """The one engine of this process, its tables up to date."""
    opened = Database(Settings().database_url)
    opened.prepare()
    return opened


def now() -> datetime:
    return datetime.now(UTC)


@singleton
def sign_in_configured() -> bool:
    """Whether people must sign in. Looked up once: a secrets file that is removed later opens nothing."""
    return http.sign_in_configured()


def actor() -> Actor:
    """Who is asking, as the shell found on this very run. Call it on every page: the services want to know."""
    signed_in: Actor | None = st.session_state.get("actor") if sign_in_configured() else LOCAL_USER
    if signed_in is None:
        st.stop()
    return signed_in


def actor_now() -> Acting:
    """Who is asking, at this moment: the value that services take as ``by``."""
    return actor().at(now())


def configuration(pipeline: PipelineConfig) -> Configuration:
    """What a text is screened with when it is handed in now with this pipeline."""
    return intake.configuration(settings_now(), pipeline)


def settings_now() -> Settings:
    """The options with what an administrator has added to them on the settings page."""
    return settings_store.settings_now(database(), settings())


def usual_pipeline() -> PipelineConfig:
    """What a text is screened with unless somebody chooses otherwise: the site's own pipeline, else the preset."""
    return intake.usual_pipeline(database(), settings())


def site() -> SiteSettings:
    """What the site has set while it runs: wording, targets, and whether the stop button is pressed."""
    return current(database()).settings


def remember_refusal(refused: Forbidden, subject: str | None = None) -> None:
    """Write it down, once a visit for each thing: a page runs again at every click. ``subject`` is a case's id."""
    told: set[tuple[str, str | None]] = st.session_state.setdefault("refusals", set())
    if (what := (refused.action.value, subject)) not in told:
        audit_log.record_refusal(database(), actor_now(), refused.action, subject)
        told.add(what)


@singleton
def _computed() -> Cache[Computation]:
    """What was computed last, or still is; nothing that failed and was told."""
    return Cache(MOST_KEPT)


def compute(
    function: Callable[[Database, *Ts], T], *args: *Ts, standing: Hashable = None, cases: int = AT_ONCE + 1
) -> T:
    """``function(database, *args)``, from the cache while ``args`` and ``standing`` are the same: the two must name
    everything that the value depends on. For few ``cases`` it is computed here; else the page waits and says what is
    being done, or why it failed.
    """
    old = _computed().get((function, args, standing))
    if old is not None and old.done() and old.exception() is not None:  # for somebody who did not wait for it
        _computed().forget((function, args, standing), old)
    found: T = _await((function, args, standing), _begin(function, *args, standing=standing, cases=cases))
    return found


def _await(key: Hashable, begun: Computation) -> Any:
    """The value, once it is there; the page says meanwhile what is being done, and ends where it failed."""
    began = monotonic()
    if not begun.done():
        place = st.empty()
        while not begun.wait(TELL_EVERY_S):
            place.info(f"{begun.words}… {monotonic() - began:.0f} s", icon=":material/hourglass:")
        place.empty()
    try:
        return _result(key, begun)
    except NotComputed as error:
        st.error(f"This could not be computed: {error}. Reload the page to try again.", icon=":material/error:")
        st.stop()


def compute_numbers(function: Callable[[*Ts], T], *args: *Ts) -> T:
    """``function(*args)``, which needs no data, beside the server."""
    found: T = compute(without_database, function, *args)
    return found


def compute_meanwhile(
    function: Callable[[Database, *Ts], T], *args: *Ts, standing: Hashable = None, cases: int = AT_ONCE + 1
) -> T | None:
    """`compute` for a page that does not wait: None while it is computed beside the server. Raises NotComputed."""
    begun = _begin(function, *args, standing=standing, cases=cases)
    return _result((function, args, standing), begun) if begun.wait(LOOK_S) else None


def compute_again(
    function: Callable[[Database, *Ts], T], *args: *Ts, standing: Hashable, cases: int = AT_ONCE + 1
) -> T:
    """`compute` for data that changes all the time: the last value, while the new one is computed."""
    last: Hashable = (compute_again, function, args)
    known = _computed().get(last)
    begun = _begin(function, *args, standing=standing, cases=cases)
    if known is not None and not begun.wait(LOOK_S):
        before: T = known.result()
        return before
    found: T = _await((function, args, standing), begun)
    _computed().forget(last, known)
    _computed().put(last, begun)
    return found


def _begin(function: Callable[..., T], *args: Any, standing: Hashable, cases: int) -> Computation:
    """What was begun, once for all who ask alike."""
    key: Hashable = (function, args, standing)
    if cases > AT_ONCE:
        return _computed().of(key, lambda: SIDE_PROCESS.begin(function, settings().database_url, *args))
    if (begun := _computed().get(key)) is None:
        begun = Computation()
        with st.spinner("Computing…"):
            begun.set_result(function(database(), *args))
        _computed().put(key, begun)
    return begun


def _result(key: Hashable, begun: Computation) -> Any:
    """What failed is told once to each who waits, and is begun anew by whoever asks then."""
    try:
        return begun.result()
    except NotComputed:
        _computed().forget(key, begun)
        raise
