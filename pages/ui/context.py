"""What every page works with: settings, the database, who asks and when; each made once in a process.

Not `st.cache_resource`: clearing the caches drops its entries, and two threads that come first may each make one. There
must be one database, and one record of the files being taken in, for as long as the process lives.
"""

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

import streamlit as st

from jobs.agents import Agents
from jobs.intake import configuration_of
from pages.ui import http
from screening.pipeline.config import PipelineConfig, preset
from screening.review.actors import LOCAL_USER, Acting, Actor
from screening.review.policy import Forbidden
from screening.settings import Settings
from storage import settings_store
from storage.audit_log import record_refusal
from storage.batches.configurations import Configuration, active_version
from storage.database import Database
from storage.settings_store import SiteSettings, current

T = TypeVar("T")
_all: "list[singleton[Any]]" = []


class singleton(Generic[T]):
    """The value of a function without arguments, made once for all threads, in a module that is imported once (a page's
    script is not). A function that raises is asked again at the next call.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: list[T] = []
        self._lock = threading.RLock()
        self.__doc__ = make.__doc__
        _all.append(self)

    def __call__(self) -> T:
        if not self._made:
            with self._lock:
                if not self._made:
                    self._made.append(self._make())
        return self._made[0]

    def forget(self) -> None:
        with self._lock:
            self._made.clear()


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


@singleton
def agents_description() -> dict[str, Any]:
    """What the usual agents of the present settings say of themselves, as every configuration records it."""
    return dict(Agents(settings()).describe(settings().seed))


def configuration(pipeline: PipelineConfig) -> Configuration:
    """What a text is screened with when it is handed in now with this pipeline."""
    chosen = settings_now()
    names = {"answers_as": sorted({chosen.model, *chosen.accepted_model_names})}
    described = agents_description() | (names if chosen.accepted_model_names and not chosen.simulated else {})
    return configuration_of(chosen, described, pipeline)


def settings_now() -> Settings:
    """The options with what an administrator has added to them on the settings page."""
    return settings_store.settings_now(database(), settings())


def usual_pipeline() -> PipelineConfig:
    """What a text is screened with unless somebody chooses otherwise: the site's own pipeline, else the preset."""
    return own_pipeline() or preset(settings().preset, budget=settings().budget)


def own_pipeline() -> PipelineConfig | None:
    """The pipeline that the site has put into service; None while it screens with the preset."""
    own = active_version(database())
    return own.pipeline if own else None


def site() -> SiteSettings:
    """What the site has set while it runs: wording, targets, and whether the stop button is pressed."""
    return current(database()).settings


def remember_refusal(refused: Forbidden, subject: str | None = None) -> None:
    """Write it down, once a visit for each thing: a page runs again at every click. ``subject`` is a case's id."""
    told: set[tuple[str, str | None]] = st.session_state.setdefault("refusals", set())
    if (what := (refused.action.value, subject)) not in told:
        record_refusal(database(), actor_now(), refused.action, subject)
        told.add(what)
