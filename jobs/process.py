"""What a process of a site begins with: its settings, its log, its name, the time, and a patient garbage collector; and
its work on the database, tried again while that has a fault that passes by itself.
"""

import asyncio
import gc
import ipaddress
import json
import logging
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import copy_context
from datetime import UTC, datetime, timedelta
from typing import Literal, ParamSpec, TypeVar

from pydantic import ValidationError

from screening.models.retries import pause_after
from screening.settings import Settings
from storage.database import Database, Fault, passing_fault
from storage.site import health

Clock = Callable[[], datetime]
SCAN_EVERY = 10_000
"""New objects between two scans of the youngest; Python's own 700 is for small programs."""
PLAIN = "%(asctime)s %(name)s %(levelname)s %(message)s"
CHATTY = ("procrastinate", "httpx", "httpx2", "httpcore", "anthropic", "apprise")
"""Libraries that would write a line for every job, call or message."""

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)


def begin() -> Settings:
    """The settings, once the log is set up as they say. Where they cannot be read the process ends with 1, and says
    which: never what they are set to, for keys are among them.
    """
    spare_loaded_objects()
    try:
        settings = Settings()
    except ValidationError as wrong:
        set_up_log("plain")
        logging.getLogger("settings").error("%s", wrong)
        raise SystemExit(1) from None
    set_up_log(settings.log_format)
    return settings


@contextmanager
def exit_without_database(log: logging.Logger) -> Iterator[None]:
    """Ends the process with 1 and a sentence, no traceback, where the database has a fault that may pass by itself."""
    try:
        yield
    except Exception as error:
        if (fault := passing_fault(error)) is None:
            raise
        log.error("the database is %s", fault.value)
        raise SystemExit(1) from None


def system_clock() -> datetime:
    return datetime.now(UTC)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def worker_name(prefix: str = "") -> str:
    """A name of this process. Two containers on one host may have its name and the same number: the end is random."""
    return f"{prefix}{socket.gethostname()}"[:40] + f"-{os.getpid()}-{secrets.token_hex(6)}"


def spare_loaded_objects() -> None:
    """Exclude what exists now, garbage too, from garbage collection, which would scan it many times a second while
    there is work.
    """
    gc.freeze()
    gc.set_threshold(SCAN_EVERY)


class JsonLines(logging.Formatter):
    """One JSON object a line. An exception is told by its kind and place, never by its words."""

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, object] = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "name": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info and record.exc_info[0] is not None:
            told["exception"] = record.exc_info[0].__name__
            told["where"] = f"{record.pathname}:{record.lineno}"
        return json.dumps(told, ensure_ascii=True)


def set_up_log(kind: Literal["plain", "json"]) -> None:
    """Log to standard error; of what libraries say, warnings and errors. The plain handler that a library may have
    given the root logger goes; any other is somebody's choice: nothing is added beside it.
    """
    for chatty in CHATTY:
        logging.getLogger(chatty).setLevel(logging.WARNING)
    root = logging.getLogger()
    if any(type(handler) is not logging.StreamHandler for handler in root.handlers):
        return
    handler = logging.StreamHandler()
    handler.addFilter(_is_told)
    handler.setFormatter(JsonLines() if kind == "json" else logging.Formatter(PLAIN))
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)


def _is_told(record: logging.LogRecord) -> bool:
    """Not a chatty library's line below a warning: the model library sets the levels of its loggers by itself."""
    return record.levelno >= logging.WARNING or record.name.partition(".")[0] not in CHATTY


# Work that is tried again was rolled back, or inserts only what is not there yet: nothing is done twice.

DATABASE_THREADS = 4
"""Commits of different cases wait for the disk side by side; more would only wait for each other, and for the
interpreter: with eight, what a case takes of the database costs a fifth more.
"""
FIRST_WAIT_S, LONGEST_WAIT_S = 0.1, 5.0
LASTS_S = 600.0
"""How long a statement may be cancelled, deadlocked or kept from a lock, over and over."""
LOST = 3
"""Connections lost in the middle of the same work, after which the work is to blame."""
TELL_EVERY_S = 60.0

_told: dict[Fault, float] = {}


def tell(fault: Fault, now: float) -> None:
    """Log it, once a minute however many pieces of work meet it."""
    if abs(now - _told.get(fault, float("-inf"))) >= TELL_EVERY_S:
        log.warning("the database is %s; trying again", fault.value)
        _told[fault] = now


class Patience:
    """How long a piece of work waits between its attempts, and when it gives up, for a person to see."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, most_lost: int = LOST) -> None:
        self._clock, self._most_lost = clock, most_lost
        self._tries, self._lost = 0, 0
        self._began: float | None = None

    def wait_after(self, error: Exception) -> float | None:
        """Seconds until the next attempt; None where the error does not pass, or has not for too long. A database that
        is away, busy, full or damaged is waited for however long it takes.
        """
        if (fault := passing_fault(error)) is None:
            return None
        now = self._clock()
        self._began = now if self._began is None else self._began
        self._lost += fault is Fault.LOST
        if self._lost >= self._most_lost or (fault is Fault.STATEMENT and now - self._began > LASTS_S):
            return None
        tell(fault, now)
        self._tries += 1
        return pause_after(self._tries - 1, FIRST_WAIT_S, LONGEST_WAIT_S)


async def retry_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do blocking work in a thread, again after a fault that passes. A cancellation waits for the running attempt, so
    that nothing is written after it.
    """
    patience = Patience()
    while True:
        try:
            return await _once(lambda: work(*args, **kwargs))
        except Exception as error:
            if (wait_s := patience.wait_after(error)) is None:
                raise
            await asyncio.sleep(wait_s)


async def _once(work: Callable[[], T]) -> T:
    done = asyncio.get_running_loop().run_in_executor(None, copy_context().run, work)
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait([done])
        raise


def retry(work: Callable[[], T], *, most_lost: int) -> T:
    """The same in the caller's own thread, for work that continues where it stopped."""
    patience = Patience(most_lost=most_lost)
    while True:
        try:
            return work()
        except Exception as error:
            if (wait_s := patience.wait_after(error)) is None:
                raise
            time.sleep(wait_s)


LASTS = timedelta(seconds=20)
"""After a process that died over it, another takes it up so much later."""


@asynccontextmanager
async def held(db: Database, duty: str, worker: str, clock: Clock) -> AsyncIterator[bool]:
    """Whether this worker does it; then nobody else does until the end or, where it dies, for `LASTS` after that."""

    async def take() -> bool:
        return await retry_in_thread(health.take, db, duty, worker, clock(), LASTS)

    async def hold() -> None:
        while True:
            await asyncio.sleep(LASTS.total_seconds() / 4)
            await take()

    if not await take():
        yield False
        return
    holding = asyncio.create_task(hold())
    try:
        yield True
    finally:
        holding.cancel()
        with suppress(asyncio.CancelledError):
            await holding
        await retry_in_thread(health.leave, db, duty, worker, clock())
