"""What stands before every request: who asks, by token and scope, how often, and a body that has an end.

Who asks is known before a byte of a body is read. A body is as long as it says, no longer than it may be, and here
within its time; who asks in vain, or sends too slowly, is answered and hung up on.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Asked
from uvicorn.protocols.http.h11_impl import H11Protocol

from screening.settings import FILE_LIMITS
from storage.audit_log import record_refusal
from storage.database import Database, passing_fault
from storage.site.accounts import Program, Scope, UnknownToken, program_of


class Refused(HTTPException):
    """A refused request: HTTP status, a sentence, and seconds to wait before asking again where that helps."""

    def __init__(self, status: int, sentence: str, retry_after_s: int | None = None) -> None:
        super().__init__(status, sentence, {"Retry-After": str(retry_after_s)} if retry_after_s else None)


@dataclass(slots=True, kw_only=True)
class Limits:
    """Requests a minute by program, at an even pace after a first burst of a minute's worth; in this process."""

    clock: Callable[[], float] = time.monotonic
    _left: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By program how many requests it may make, and as of when."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def spend(self, program: Program) -> None:
        """Count one request. Refused (429) where it is one too many."""
        now, most, pace = self.clock(), program.per_minute, program.per_minute / 60
        with self._lock:
            left, at = self._left.get(program.id, (float(most), now))
            left = min(most, left + (now - at) * pace)
            self._left[program.id] = left - (left >= 1), now
        if left < 1:
            raise Refused(429, f"more than {most:,} requests a minute", retry_after_s=int((1 - left) / pace) + 1)


def identify(db: Database, limits: Limits, authorization: str | None) -> Program:
    """The program of this header. Refused: 401 without a token in force, 429 too often."""
    kind, _, token = (authorization or "").partition(" ")
    try:
        if kind.casefold() != "bearer" or not token.strip():
            raise UnknownToken
        program = program_of(db, token.strip())
    except UnknownToken:
        raise Refused(401, "no such token, or it was revoked") from None
    limits.spend(program)
    return program


def require_scope(db: Database, program: Program, scope: Scope, now: datetime) -> Program:
    """The program, where its token may be used for this. Refused (403) otherwise, which the audit log keeps."""
    if scope not in program.scopes:
        record_refusal(db, program.actor.at(now), scope)
        raise Refused(403, f"this token may not be used for {scope.value}")
    return program


ROOT = "/api/v1"
LARGEST_TEXT = 2_000_000
LARGEST_FILE = FILE_LIMITS.bytes_sent
TEXT_WITHIN, FILE_WITHIN = timedelta(seconds=20), timedelta(minutes=10)
"""How long a body may take to arrive."""
AWAY = "the database can't be used at the moment: try again, a text under the same Idempotency-Key"
AWAY_S = "5"
"""Seconds after which it is worth trying again."""
_OPEN = ("/healthz", f"{ROOT}/openapi.json")
HANG_UP = {"Connection": "close"}
"""Where a body is left unread."""
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}


def problem(status: int, sentence: str, more: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": sentence}, status_code=status, headers=HEADERS | dict(more or {}))


@dataclass(frozen=True, slots=True)
class Door:
    """Middleware around all routes: ``identify`` finds the program, or raises Refused; it is in the request's state."""

    app: ASGIApp
    identify: Callable[[str | None], Program]
    within: tuple[timedelta, timedelta] = (TEXT_WITHIN, FILE_WITHIN)

    async def __call__(self, scope: Asked, receive: Receive, send: Send) -> None:
        """Refuse, or pass it on with a body that ends."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun = False

        async def with_headers(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        try:
            limited = await self._admit(scope, receive)
            await self.app(scope, limited, with_headers)
        except Refused as refusal:
            await problem(refusal.status_code, refusal.detail, HANG_UP | dict(refusal.headers or {}))(
                scope, receive, send
            )
        except Exception as error:
            if begun or passing_fault(error) is None:
                raise
            await problem(503, AWAY, HANG_UP | {"Retry-After": AWAY_S})(scope, receive, send)

    async def _admit(self, scope: Asked, receive: Receive) -> Receive:
        headers, path = Headers(scope=scope), scope["path"]
        if path.startswith(ROOT) and path not in _OPEN:
            program = await run_in_threadpool(self.identify, headers.get("authorization"))
            scope.setdefault("state", {})["program"] = program
        is_file = path == f"{ROOT}/batches"
        limit, within = (LARGEST_FILE if is_file else LARGEST_TEXT), self.within[is_file]
        length = headers.get("content-length", "0")
        if not length.isdigit() or int(length) > limit or "transfer-encoding" in headers:
            raise Refused(413, f"send at most {limit:,} bytes, with their length")
        until = asyncio.get_running_loop().time() + within.total_seconds()
        whole = length == "0"

        async def in_time() -> Message:
            nonlocal whole
            if whole:  # from here on it is asked whether the line is still there
                return await receive()
            try:
                async with asyncio.timeout_at(until):
                    message = await receive()
            except TimeoutError:
                said = f"the body did not arrive within {within.total_seconds():,.0f} seconds"
                raise HTTPException(408, said, HANG_UP) from None
            whole = not message.get("more_body", False)
            return message

        return in_time


MOST_OPEN = 256
"""Connections at once; one more is closed as it opens."""
HEAD_WITHIN_S = 10.0
LARGEST_HEAD = 16_384
"""Bytes of a request before its body."""


class ImpatientProtocol(H11Protocol):
    """HTTP as the server speaks it, hung up on where the head of a request does not arrive in time."""

    most_open: ClassVar[int] = MOST_OPEN
    head_within_s: ClassVar[float] = HEAD_WITHIN_S
    open_now: ClassVar[int] = 0
    _head_due: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        type(self).open_now += 1
        super().connection_made(transport)
        if self.open_now > self.most_open:
            transport.abort()
        else:
            self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        type(self).open_now -= 1
        if self._head_due is not None:
            self._head_due.cancel()
        super().connection_lost(exc)

    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _watch(self) -> None:
        """Wait no longer once a head is whole, and anew where the next one begins."""
        if self._head_due is None and not self._answering():
            self._head_due = self.loop.call_later(self.head_within_s, self._hang_up)
        elif self._head_due is not None and self._answering():
            self._head_due.cancel()
            self._head_due = None

    def _hang_up(self) -> None:
        self._head_due = None
        if not self._answering():
            self.transport.abort()
