"""What happens around every single attempt: the gate, the time limit, and the judgement of what came back.

Runs as the library's middleware, so inside its retry loop: raising `AttemptFailed` asks for another attempt,
raising `SamplerError` ends the call. Nothing here quotes a response body: it could repeat the text.
"""

import asyncio
import email.utils
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import anthropic
from anthropic import APIConnectionError, APITimeoutError, Middleware, RetryableError
from anthropic.types import Message

from screening.engine.draws import Bill, SamplerError
from screening.samplers.ledger import Ledger
from screening.samplers.rate import RateGate

_SPENT = frozenset(
    {
        "contract_spend_limit_reached",
        "enforced_spend_limit_reached",
        "linked_organization_spend_limit_reached",
        "linked_organization_billing_unavailable",
        "organization_on_hold",
    }
)
_HOPELESS_WAIT_S = 3600.0
_FINAL: Mapping[int, tuple[str, str, bool]] = {
    400: ("bad_request", "The service refused the request as malformed (400).", False),
    401: ("authentication", "The service did not accept the API key (401).", True),
    402: ("billing", "The account cannot be charged (402).", True),
    403: ("permission", "The API key may not use this model (403).", True),
    404: ("unknown_model", "The service does not know this model or address (404).", True),
    413: ("too_long", "The text is too long for the service (413).", False),
    422: ("bad_request", "The service refused the request as malformed (422).", False),
}
_REDIRECTED = ("redirected", "The service points to another address: the text is not sent there.", True)
_MAYBE_CHARGED = frozenset({"malformed", "timeout"})
"""Failures of attempts that the service may have worked on, and so charge."""
_SPEND_CAP = "The account's spend limit is reached: nothing can be asked until it is raised."


# The client library stands between a wave and its attempts: only the context goes all the way through.
_BILL: ContextVar[Bill | None] = ContextVar("bill", default=None)


@contextmanager
def written_on(bill: Bill | None) -> Iterator[None]:
    """The attempts of tasks begun inside are written on this bill."""
    token = _BILL.set(bill)
    try:
        yield
    finally:
        _BILL.reset(token)


class AttemptFailed(RetryableError):
    """One attempt brought no usable answer; the library tries again while attempts are left."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


class Attempts(Middleware):
    """The middleware: one instance per client."""

    def __init__(self, *, gate: RateGate, ledger: Ledger, timeout_s: float) -> None:
        self._gate = gate
        self._ledger = ledger
        self._timeout_s = timeout_s

    async def handle_async(self, request: Any, call_next: Any) -> Any:
        """One attempt through the gate; the response if it is a whole message, an exception otherwise."""
        try:
            retry = request.retries_taken > 0
            async with self._gate.slot(retry=retry):
                self._ledger.attempted(retry=retry)
                _charge(1)
                response = await self._send(request, call_next)
            return await self._judge(response)
        except (AttemptFailed, SamplerError) as failure:
            self._ledger.failed(failure.kind)
            if failure.kind not in _MAYBE_CHARGED:
                _charge(-1)
            raise

    async def _send(self, request: Any, call_next: Any) -> Any:
        # The library's own limit is per read: a response that drips would never reach it.
        try:
            async with asyncio.timeout(self._timeout_s):
                return await call_next(request)
        except (TimeoutError, APITimeoutError):
            raise AttemptFailed("timeout") from None
        except APIConnectionError:
            raise AttemptFailed("connection") from None

    async def _judge(self, response: Any) -> Any:
        status: int = response.status_code
        if status == 200:
            await _require_message(response)
            return response
        body = await response.read()
        if status == 429 or _error_code(body) in _SPENT:
            raise self._limited(status, response.headers, body)
        if status in _FINAL or 300 <= status < 400:
            raise final_error(status)
        raise AttemptFailed("overloaded" if status in {503, 529} else "server_error")

    def _limited(self, status: int, headers: Mapping[str, str], body: bytes) -> Exception:
        wait_s = retry_after_s(headers, time.time())
        told_to_stop = headers.get("x-should-retry") == "false"
        if _error_code(body) in _SPENT or (status == 429 and (told_to_stop or (wait_s or 0) > _HOPELESS_WAIT_S)):
            return SamplerError("spend_cap", _SPEND_CAP, stops_batch=True)
        self._gate.pause(1.0 if wait_s is None else wait_s)
        return AttemptFailed("rate_limited")


def _charge(requests: int) -> None:
    if (bill := _BILL.get()) is not None:
        bill.requests += requests


def final_error(status: int) -> SamplerError:
    """The error for a status that no retry cures."""
    kind, message, stops_batch = _FINAL.get(status, _REDIRECTED)
    return SamplerError(kind, message, stops_batch=stops_batch)


async def _require_message(response: Any) -> None:
    try:
        message = await response.parse()
    except (ValueError, TypeError, anthropic.APIResponseValidationError):
        raise AttemptFailed("malformed") from None
    if not isinstance(message, Message) or not _is_whole(message):
        raise AttemptFailed("malformed")


def _is_whole(message: Message) -> bool:
    """Responses are not validated by the library: any field may be missing or of another type."""
    content: Any = getattr(message, "content", None)
    stop_reason: Any = getattr(message, "stop_reason", None)
    return isinstance(stop_reason, str) and (content is None or isinstance(content, list))


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
        error = json.loads(body)["error"]
        code = (error.get("details") or {}).get("error_code") or error.get("type")
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    return code if isinstance(code, str) else None
