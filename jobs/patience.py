"""Database work that is tried again while the database has a fault that passes by itself.

Work that is tried again was rolled back, or inserts only what is not there yet: nothing is done twice. A fault that
does not pass is raised, for a person to see.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from datetime import timedelta
from typing import ParamSpec, TypeVar

from jobs.process import Clock
from storage.clock import pause_after
from storage.database import Database, Fault, passing_fault
from storage.site import health

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

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger(__name__)
_told: dict[Fault, float] = {}
"""When this process last said so, of each fault: however many pieces of work meet it."""


def tell(fault: Fault, now: float) -> None:
    """Log what is wrong with the database, once a minute however many pieces of work meet it."""
    if abs(now - _told.get(fault, float("-inf"))) >= TELL_EVERY_S:
        log.warning("the database is %s; trying again", fault.value)
        _told[fault] = now


class Patience:
    """How long one piece of work waits between its attempts, and when it gives up."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, most_lost: int = LOST) -> None:
        self._clock, self._most_lost = clock, most_lost
        self._tries = 0
        self._began: float | None = None
        self._lost = 0

    def wait_after(self, error: Exception) -> float | None:
        """Seconds until the next attempt; None where the error does not pass, or has not for too long.

        A database that is away, busy, full or damaged is waited for however long it takes: nothing else could be done.
        """
        fault = passing_fault(error)
        if fault is None:
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
    """Do blocking work in a thread, and try again after a fault that passes. A cancellation waits for the running
    attempt to end, so that nothing is written after it.
    """
    patience = Patience()
    while True:
        try:
            return await _once(lambda: work(*args, **kwargs))
        except Exception as error:
            wait_s = patience.wait_after(error)
            if wait_s is None:
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
            wait_s = patience.wait_after(error)
            if wait_s is None:
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
