"""How many calls at once a server of one's own can take, found out while it is asked.

It begins with one call alone, which may load the model and so is waited for longer. Then one call more with every
answer until the first time-out; each time-out halves the limit, and from then on it grows by one a round (additive
increase, multiplicative decrease: Chiu and Jain 1989, doi:10.1016/0169-7552(89)90019-6).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from screening.samplers.priority_lock import PriorityLock
from screening.samplers.rate import current_rank, take


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A call's place: how long its answer may take, and after how many halvings it began."""

    timeout_s: float
    halvings: int


class AdaptiveLimit:
    """The limit of one server in one process; ``most`` calls at once at best, ``warming_s`` for the first answer."""

    def __init__(self, most: int, warming_s: float) -> None:
        self._most = most
        self._warming_s = warming_s
        self._warm = False
        self._limit = 1.0
        self._halvings = 0
        self._slots = anyio.CapacityLimiter(1)
        self._turns = PriorityLock()

    @property
    def limit(self) -> int:
        """Calls allowed at once now."""
        return int(self._limit)

    @asynccontextmanager
    async def slot(self, timeout_s: float) -> AsyncIterator[Place]:
        """Held while one call is under way; urgent calls and those of older waves pass first."""
        async with self._turns.turn(current_rank()):
            place = object()
            await take(self._slots, place)
        try:
            wait_s = timeout_s if self._warm else max(timeout_s, self._warming_s)
            yield Place(timeout_s=wait_s, halvings=self._halvings)
        finally:
            self._slots.release_on_behalf_of(place)

    def record_answer(self, place: Place) -> None:
        """An answer came in time."""
        grown = 1.0 if self._halvings == 0 else 1.0 / self._limit
        self._set(self._limit + (grown if self._warm and place.halvings == self._halvings else 0.0))
        self._warm = True

    def record_failure(self, place: Place, *, timeout: bool) -> None:
        """No answer came. Time-outs of calls that began before the last halving say nothing new."""
        if timeout and place.halvings == self._halvings:
            self._halvings += 1
            self._set(self._limit / 2)

    def _set(self, limit: float) -> None:
        self._limit = min(max(limit, 1.0), float(self._most))
        self._slots.total_tokens = int(self._limit)
