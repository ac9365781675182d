"""What happens around every call: limits, time, bill, retries, judgment. What sends one request only says what arrived.

Nothing here quotes a body: it could repeat the text.
"""

import asyncio
import email.utils
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

from screening.models.limits import AdaptiveLimit, RateGate
from screening.models.wire import AttemptFailed, UnreadableBody, json_object
from screening.pipeline.draws import TOO_LONG, Bill, SamplerError

SILENT_AFTER = 20
"""Refused requests in a row, of whatever calls, after which a service is asked one thing at a time."""


_SPENT = frozenset(
    {
        "contract_spend_limit_reached",
        "enforced_spend_limit_reached",
        "linked_organization_spend_limit_reached",
        "linked_organization_billing_unavailable",
        "organization_on_hold",
        "insufficient_quota",
    }
)
_HOPELESS_WAIT_S = 3600.0
_TOO_LONG = (TOO_LONG, "The text is too long for the model.", False)
_FINAL: Mapping[int, tuple[str, str, bool]] = {
    400: ("bad_request", "The service refused the request as malformed (400).", False),
    401: ("authentication", "The service did not accept the API key (401).", True),
    402: ("billing", "The account cannot be charged (402).", True),
    403: ("permission", "The API key may not use this model (403).", True),
    404: ("unknown_model", "The service does not know this model or address (404).", True),
    413: _TOO_LONG,
    422: ("bad_request", "The service refused the request as malformed (422).", False),
}
_LENGTH_WORDS = (
    b"context length", b"context_length", b"context size", b"context_size", b"context window", b"prompt is too long",
    b"too many tokens", b"maximum context", b"input is too long", b"exceeds the available context", b"max_model_len",
)  # fmt: skip
_REDIRECTED = ("redirected", "The service points to another address: the text is not sent there.", True)
_RETRIED = frozenset({408, 409, 425, 429})
_MAYBE_CHARGED = frozenset({"malformed", "timeout"})
"""Failures of attempts that the service may have worked on, and so charge."""
_SPEND_CAP = "The account's spend limit is reached: nothing can be asked until it is raised."
_SPENT_RETRIES: Mapping[str, str] = {
    "rate_limited": "The service limits our rate, and waiting did not help.",
    "overloaded": "The service is overloaded, also after retries.",
    "server_error": "The service failed, also after retries.",
    "timeout": "The service did not answer in time, also after retries.",
    "connection": "The service cannot be reached.",
    "malformed": "The service's answer could not be read, also after retries.",
}
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
                    raise SamplerError(failure.kind, _SPENT_RETRIES[failure.kind]) from None
            pause = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2**attempt)
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
        if _error_code(response.body) in _SPENT or (status == 429 and hopeless):
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
    if status in _RETRIED or not (status in _FINAL or 300 <= status < 500):
        return AttemptFailed("overloaded" if status in {503, 529} else "server_error")
    found = _FINAL.get(status, _REDIRECTED if status < 400 else _FINAL[400])
    if status in (400, 422) and any(words in body.lower() for words in _LENGTH_WORDS):
        found = _TOO_LONG
    kind, message, stops_batch = found
    return SamplerError(kind, message, stops_batch=stops_batch)


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
