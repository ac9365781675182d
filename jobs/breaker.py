"""Circuit breaker: stops asking a service that gives no answers, then tries it with one case at a time."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

PASSING = frozenset({"connection", "deadline", "overloaded", "rate_limited", "server_error", "timeout"})
"""Kinds of a sampler's error that pass by themselves: 429, 5xx, 529, time-outs and lost connections."""
OPENS_AFTER = 3
"""Failures in a row, of any cases, without an answer in between, after which calls are held back."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
MOST_FAILURES, LASTS_S = 8, 900.0
"""A case that fails this often and for this many seconds while others are answered goes to a person."""
WATCHED_FAILURES = 4
"""The same for a text that somebody waits for: they learn after a few seconds that it failed, and may try again."""


@dataclass(slots=True)
class _Failing:
    """A case that keeps failing: how often, since when, and the number of answers there had been by then."""

    since: float
    answers: int
    count: int = 0


class Breaker:
    """One for all cases of a process. ``patience_s`` ends the waiting for a service that answers nobody (None: never),
    where somebody sits at the terminal.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, patience_s: float | None = None) -> None:
        self._clock, self._patience_s = clock, patience_s
        self._failures, self._answers = 0, 0
        self._silent_since: float | None = None
        self._pause_s, self._until = FIRST_PAUSE_S, 0.0
        self._trying = False
        self._changed = asyncio.Event()
        self._cases: dict[str, _Failing] = {}

    @property
    def open(self) -> bool:
        """Whether calls to the service are held back now."""
        return self._failures >= OPENS_AFTER

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait while calls are held back; then one case tries the service, and the others go on once it is answered."""
        trying = await self._let_through()
        try:
            yield
        finally:
            if trying:
                self._trying = False
                self._wake()

    async def _let_through(self) -> bool:
        """Whether the case whose turn it is tries a service that was left alone."""
        while self.open:
            if (wait_s := self._until - self._clock()) > 0:
                await self._wait_for_change(wait_s)
            elif self._trying:
                await self._wait_for_change(LONGEST_PAUSE_S)
            else:
                self._trying = True
                return True
        return False

    async def _wait_for_change(self, seconds: float) -> None:
        changed = self._changed
        try:
            async with asyncio.timeout(seconds):
                await changed.wait()
        except TimeoutError:
            return

    def record_answer(self, case_id: str) -> None:
        """Record that a wave of this case was answered completely."""
        self._failures, self._silent_since, self._pause_s = 0, None, FIRST_PAUSE_S
        self._answers += 1
        self._cases.pop(case_id, None)
        self._wake()

    def record_failure(self, case_id: str, *, watched: bool = False) -> float | None:
        """A wave of this case failed in a way that passes: seconds after which the case is taken up again; None where
        it is a person's turn.
        """
        now = self._clock()
        self._silent_since = now if self._silent_since is None else self._silent_since
        self._failures += 1
        if self._failures == OPENS_AFTER or self._trying:
            self._until = now + self._pause_s
            self._pause_s = min(LONGEST_PAUSE_S, 2 * self._pause_s)
        case = self._cases.setdefault(case_id, _Failing(since=now, answers=self._answers))
        case.count += 1
        if self._gives_up(case, now, watched=watched):
            del self._cases[case_id]
            return None
        return float(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (case.count - 1)))

    def _gives_up(self, case: _Failing, now: float, *, watched: bool) -> bool:
        silent_s = now - (now if self._silent_since is None else self._silent_since)
        if self._patience_s is not None and silent_s > self._patience_s:
            return True
        if watched:
            return case.count >= WATCHED_FAILURES
        alone = self._answers > case.answers
        return alone and case.count >= MOST_FAILURES and now - case.since > LASTS_S

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
