"""Who is next: a lock that goes to the waiter of the lowest rank, and among equals to the one who came first."""

import asyncio
import heapq
import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

Rank = tuple[bool, int]
"""``(can wait, number of the wave)``: the lowest goes first."""


class PriorityLock:
    """One holder at a time. Belongs to one event loop."""

    def __init__(self) -> None:
        self._held = False
        self._waiting: list[tuple[Rank, int, asyncio.Future[None]]] = []
        self._arrivals = itertools.count()

    @asynccontextmanager
    async def turn(self, rank: Rank) -> AsyncIterator[None]:
        """Held inside; passed on at the end, also to whoever came later with a lower rank."""
        await self._wait(rank)
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, rank: Rank) -> None:
        if not self._held:
            self._held = True
            return
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (rank, next(self._arrivals), called))
        try:
            await called
        except asyncio.CancelledError:
            if called.done() and not called.cancelled():
                self._pass_on()  # called and cancelled in the same moment: the turn must not be lost
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            *_, called = heapq.heappop(self._waiting)
            if not called.done():
                called.set_result(None)
                return
        self._held = False
