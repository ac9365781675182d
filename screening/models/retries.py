"""What happens around every call: limits, time, bill, retries, judgment. What sends one request only says what arrived.

The gate every attempt passes holds calls at a time, calls per minute, and a pause that all share. Nothing here quotes a
body: it could repeat the text.
"""

import asyncio
import email.utils
import heapq
import itertools
import random
import time
import tomllib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from aiolimiter import AsyncLimiter

from screening.models.wire import AttemptFailed, UnreadableBody, json_object
from screening.pipeline.draws import Bill, SamplerError

Rank = tuple[bool, int]
"""``(can wait, number of the draw batch)``: the lowest goes first."""


def pause_after(tries: int, first: float, longest: float) -> float:
    """Seconds to wait before the next try: each pause is twice the one before.

    >>> [pause_after(tries, 1.0, 30.0) for tries in (0, 1, 4, 5, 10**6)]
    [1.0, 2.0, 16.0, 30.0, 30.0]
    """
    return min(longest, first * 2.0 ** min(tries, 60))


class PriorityLock:
    """One holder at a time: the waiter of the lowest rank, among equals who came first. Belongs to one event loop."""

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
        """Takes a place once one is free and nothing holds attempts back; only for whoever has the turn."""
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


SILENT_AFTER = 20
"""Refused requests in a row, of whatever calls, after which a service is asked one thing at a time."""


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
_HOPELESS_WAIT_S = 3600.0
_RETRIED = frozenset({408, 409, 425, 429})
_MAYBE_CHARGED = frozenset({"malformed", "timeout"})
"""Failures of attempts that the service may have worked on, and so charge."""
_SPEND_CAP = "The account's spend limit is reached: nothing can be asked until it is raised."
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 8.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What arrived: header names in lower case, the body whole, bounded and decompressed."""

    status: int
    headers: Mapping[str, str]
    body: bytes


Send = Callable[[int], Awaitable[Response]]
"""One request; the argument is how many were sent before it for the same draw. Raises AttemptFailed for what never
arrived or was cut, UnreadableBody for a body out of bounds.
"""


@dataclass(slots=True, kw_only=True)
class Attempts:
    """The frame around every attempt of one model. ``adaptive``, where given, holds calls back beside the gate."""

    gate: RateGate
    timeout_s: float
    retries: int
    adaptive: AdaptiveLimit | None = None
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    _refused: int = 0

    @property
    def _silent(self) -> bool:
        """Whether the service has answered nobody for so long that asking again and again helps nobody."""
        return self._refused >= SILENT_AFTER

    async def reply(self, send: Send, bill: Bill | None) -> Mapping[str, Any]:
        """The JSON object of the first reply that can be read. SamplerError for what no retry cures, or when the
        retries are spent. While the service answers nobody one call asks, once; the others wait for what it hears.
        """
        while self._silent:
            async with self._alone:
                if self._silent:
                    return await self._retried(send, bill, retries=0)
        return await self._retried(send, bill, retries=self.retries)

    async def _retried(self, send: Send, bill: Bill | None, *, retries: int) -> Mapping[str, Any]:
        for attempt in range(retries + 1):
            try:
                return await self._attempt(send, attempt, bill)
            except AttemptFailed as failure:
                if attempt == retries or self._silent:
                    raise SamplerError(failure.kind, _TABLE["retried"][failure.kind]) from None
            pause = pause_after(attempt, _FIRST_PAUSE_S, _LONGEST_PAUSE_S)
            await asyncio.sleep(pause * random.uniform(0.75, 1.0))  # noqa: S311 - spreads retries, decides nothing
        raise AssertionError("unreachable")

    async def _attempt(self, send: Send, attempt: int, bill: Bill | None) -> Mapping[str, Any]:
        """One request under all limits, what it may cost on the bill, and the reply judged."""
        adaptive = nullcontext(self.timeout_s) if self.adaptive is None else self.adaptive.slot(self.timeout_s)
        try:
            async with adaptive as timeout_s, self.gate.slot(retry=attempt > 0):
                response = await self._send(send, attempt, bill, timeout_s)
            reply = self._judge(response)
        except (AttemptFailed, SamplerError) as failure:
            self._refused += failure.kind != "timeout"  # what was never refused is held back by its own waiting
            if bill is not None and failure.kind not in _MAYBE_CHARGED:
                bill.requests -= 1
            raise
        self._refused = 0
        return reply

    async def _send(self, send: Send, attempt: int, bill: Bill | None, timeout_s: float) -> Response:
        if bill is not None:
            bill.requests += 1
        try:  # a limit for each read would never be reached by a response that drips
            async with asyncio.timeout(timeout_s):
                return await send(attempt)
        except TimeoutError:
            raise AttemptFailed("timeout") from None
        except UnreadableBody:
            raise AttemptFailed("malformed") from None

    def _judge(self, response: Response) -> Mapping[str, Any]:
        status, headers = response.status, response.headers
        if status == 200:
            return _object(response)
        wait_s = retry_after_s(headers, time.time())
        hopeless = headers.get("x-should-retry") == "false" or (wait_s or 0) > _HOPELESS_WAIT_S
        if _error_code(response.body) in _TABLE["spent"] or (status == 429 and hopeless):
            raise SamplerError("spend_cap", _SPEND_CAP, stops_batch=True)
        if status == 429:
            self.gate.pause(1.0 if wait_s is None else wait_s)
        raise judge_status(status, response.body)


def _object(response: Response) -> Mapping[str, Any]:
    """The reply itself: not one that was kept from an earlier request, nor an error with the status of an answer."""
    headers = response.headers
    kept = any("hit" in headers.get(name, "").lower() for name in ("x-cache", "cf-cache-status", "x-cache-status"))
    try:
        reply = json_object(response.body)
    except UnreadableBody:
        raise AttemptFailed("malformed") from None
    if kept or headers.get("age", "0").strip().lstrip("0") or "error" in reply or not reply:
        raise AttemptFailed("malformed")
    return reply


def judge_status(status: int, body: bytes = b"") -> AttemptFailed | SamplerError:
    """What a status other than 200 means: SamplerError where no retry cures it. A 400 that speaks of length is a text
    too long for the model.

    >>> judge_status(400, b'{"error": "request exceeds the available context size"}').kind, judge_status(529).kind
    ('too_long', 'overloaded')
    """
    if status == 429:
        return AttemptFailed("rate_limited")
    final = _TABLE["final"]
    if status in _RETRIED or not 300 <= status < 500:
        return AttemptFailed("overloaded" if status in {503, 529} else "server_error")
    found = final.get(str(status), final["300" if status < 400 else "400"])
    if status in (400, 422) and any(words in body.lower() for words in map(str.encode, _TABLE["length"])):
        found = final["413"]
    return SamplerError(found["kind"], found["words"], stops_batch=found["stops_batch"])


def retry_after_s(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds the service asks to wait, in any of the three forms it may use; None if it does not say.

    >>> retry_after_s({"retry-after": "3"}, 0.0), retry_after_s({"retry-after-ms": "250"}, 0.0)
    (3.0, 0.25)
    >>> retry_after_s({"retry-after": "Thu, 01 Jan 1970 00:00:09 GMT"}, 2.0)
    7.0
    """
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers.get(name, "")) * scale)
        except ValueError:
            continue
    date = email.utils.parsedate_tz(headers.get("retry-after", ""))
    return None if date is None else max(0.0, email.utils.mktime_tz(date) - now)


def _error_code(body: bytes) -> str | None:
    try:
        error = json_object(body)["error"]
        code = (error.get("details") or {}).get("error_code") or error.get("code") or error.get("type")
    except (UnreadableBody, TypeError, KeyError, AttributeError):
        return None
    return code if isinstance(code, str) else None
