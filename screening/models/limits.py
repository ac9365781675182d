"""The gate every attempt passes: calls at a time, calls per minute, and a pause that all share; and a lock that goes to
the waiter of the lowest rank, and among equals to the one who came first.
"""

import asyncio
import heapq
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Protocol

from aiolimiter import AsyncLimiter

from screening.models.wire import AttemptFailed

Rank = tuple[bool, int]
"""``(can wait, number of the draw batch)``: the lowest goes first."""


class PriorityLock:
    """One holder at a time. Belongs to one event loop."""

    def __init__(self) -> None:
        self._held = False
        self._waiting: list[tuple[Rank, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()

    @asynccontextmanager
    async def turn(self, rank: Rank) -> AsyncIterator[None]:
        """Held inside; passed on at the end, also to whoever came later with a lower rank."""
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (rank, next(self._arrivals), called))
        if not self._held:
            self._call_next()
        try:
            await called
            yield
        finally:
            if called.done() and not called.cancelled():  # also where it was called and cancelled in the same moment
                self._call_next()

    def _call_next(self) -> None:
        self._held = False
        while self._waiting and not self._held:
            *_, called = heapq.heappop(self._waiting)
            if not called.done():
                called.set_result(None)
                self._held = True


_BURST_SHARE = 50


class Limiter(Protocol):
    async def acquire(self) -> None:
        """Returns when one more request may be sent."""
        ...


def at_most(limit: int, period_s: float = 60.0) -> AsyncLimiter:
    """A bucket that lets at most ``limit`` requests pass in *any* window of ``period_s`` seconds: one of capacity C
    that drains r a second passes up to C + r·period, so it drains (limit − C) / period. C is 2 % of the limit.
    """
    if limit < 1:
        raise ValueError("at least one request must be allowed")
    burst = max(1, limit // _BURST_SHARE)
    drained = max(1, limit - burst)
    return AsyncLimiter(burst, burst * period_s / drained)


_DRAW_BATCH: ContextVar[tuple[Rank, Callable[[], None]]] = ContextVar("draw_batch", default=((False, 0), lambda: None))
"""Of the calls asked for together: their rank, and what is called when one of them is first let through."""


class RateGate:
    """Concurrency, rate and shared pause of one process; bound to the event loop it is first used in.

    Attempts of urgent draw batches pass first, then those of the draw batch that began first, so that under a tight
    limit some end instead of all waiting half done. A pause asked for (by a 429) is cut to ``pause_cap_s``.
    """

    def __init__(
        self,
        *,
        concurrency: int,
        limiter: Limiter | None,
        pause_cap_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._allowed = concurrency
        self.in_use = 0
        """Attempts under way, or waiting for permission."""
        self._freed = asyncio.Event()
        self._limiter = limiter
        self._pause_cap_s = pause_cap_s
        self._clock = clock
        self._resume_at = 0.0
        self._turns = PriorityLock()
        self._numbers = itertools.count(1)

    @asynccontextmanager
    async def draw_batch(self, *, urgent: bool, deadline_s: float) -> AsyncIterator[None]:
        """The tasks begun inside are one draw batch. TimeoutError when it has not ended ``deadline_s`` seconds after
        the last of its calls was first let through: how long our own limits hold it back is no fault of the service.
        """
        async with asyncio.timeout(None) as limit:

            def let_through() -> None:
                if not limit.expired():
                    limit.reschedule(asyncio.get_running_loop().time() + deadline_s)

            token = _DRAW_BATCH.set(((not urgent, next(self._numbers)), let_through))
            try:
                yield
            finally:
                _DRAW_BATCH.reset(token)

    @asynccontextmanager
    async def slot(self, *, retry: bool = False) -> AsyncIterator[None]:
        """Held while one attempt is under way. A pause that begins while waiting is waited for as well."""
        rank, let_through = _DRAW_BATCH.get()
        async with self._turns.turn(rank):
            await self._take()
        try:
            if not retry:
                let_through()
            yield
        finally:
            self._release()

    async def _take(self) -> None:
        """Returns when it is this attempt's turn and nothing holds it back any more; to be released."""
        while not self.free:
            self._freed.clear()
            await self._freed.wait()
        self.in_use += 1
        try:
            await self._pause_over()
            if self._limiter is not None:
                await self._limiter.acquire()
                await self._pause_over()
        except BaseException:
            self._release()
            raise

    def _release(self) -> None:
        self.in_use -= 1
        self._freed.set()

    @property
    def free(self) -> int:
        """Attempts that could begin now, if the rate allows."""
        return max(0, self._allowed - self.in_use)

    def resize(self, concurrency: int) -> None:
        """Allow so many attempts at a time from now on; those under way end. 0 holds all back."""
        self._allowed = concurrency
        self._freed.set()

    def pause(self, seconds: float) -> float:
        """Hold all attempts back for ``seconds``, at most the cap, from now on; returns the seconds taken."""
        taken = min(max(seconds, 0.0), self._pause_cap_s)
        self._resume_at = max(self._resume_at, self._clock() + taken)
        return taken

    def remaining_pause(self) -> float:
        """Seconds until attempts go on; 0 when nothing holds them."""
        return max(0.0, self._resume_at - self._clock())

    async def _pause_over(self) -> None:
        while (remaining := self.remaining_pause()) > 0:  # noqa: ASYNC110 - another 429 may have moved the end
            await asyncio.sleep(remaining)


class AdaptiveLimit:
    """How many calls at once a server of one's own takes, found out while it is asked: ``most`` at best.

    It begins with one call alone, which may load the model and has ``warming_s``. Then one call more with every answer
    until the first time-out; each time-out halves the limit, and from then on it grows by one a round (additive
    increase, multiplicative decrease: Chiu and Jain 1989, doi:10.1016/0169-7552(89)90019-6).
    """

    def __init__(self, most: int, warming_s: float) -> None:
        self._most = most
        self._warming_s = warming_s
        self._warm = False
        self._limit = 1.0
        self._halvings = 0
        self._gate = RateGate(concurrency=1, limiter=None, pause_cap_s=0.0)

    @asynccontextmanager
    async def slot(self, timeout_s: float) -> AsyncIterator[float]:
        """Held while one call is under way, which may take so many seconds. What becomes of it moves the limit; of
        calls that began before the last halving nothing new is learned.
        """
        async with self._gate.slot(retry=True):
            halvings = self._halvings
            try:
                yield timeout_s if self._warm else max(timeout_s, self._warming_s)
            except AttemptFailed as failure:
                if failure.kind == "timeout" and halvings == self._halvings:
                    self._halvings += 1
                    self._set(self._limit / 2)
                raise
            if self._warm and halvings == self._halvings:
                self._set(self._limit + (1.0 if halvings == 0 else 1.0 / self._limit))
            self._warm = True

    def _set(self, limit: float) -> None:
        self._limit = min(max(limit, 1.0), float(self._most))
        self._gate.resize(int(self._limit))
