"""What stands before every request: who asks, by token and scope, how often, and a body that has an end.

Who asks is known before a byte of a body is read. A body is as long as it says, no longer than it may be, and here
within its time; who asks in vain, or sends too slowly, is answered and hung up on.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as Asked

from screening.settings import FILE_LIMITS
from storage.audit_log import record_refusal
from storage.database import Database, passing_fault
from storage.site.programs import Program, Scope, UnknownToken, program_of


class Refused(Exception):
    """A refused request: HTTP status, a sentence, and seconds to wait before asking again where that helps."""

    def __init__(self, status: int, sentence: str, retry_after_s: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.retry_after_s = retry_after_s


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float


@dataclass(slots=True, kw_only=True)
class Limits:
    """Requests a minute by program, at an even pace after a first burst of a minute's worth; in this process."""

    clock: Callable[[], float] = time.monotonic
    _buckets: dict[str, _Bucket] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def spend(self, program: Program) -> None:
        """Count one request. Refused (429) where it is one too many."""
        with self._lock:
            now = self.clock()
            bucket = self._buckets.setdefault(program.id, _Bucket(float(program.per_minute), now))
            pace = program.per_minute / 60
            bucket.left, bucket.at = min(program.per_minute, bucket.left + (now - bucket.at) * pace), now
            if bucket.left < 1:
                wait = int((1 - bucket.left) / pace) + 1
                raise Refused(429, f"more than {program.per_minute:,} requests a minute", retry_after_s=wait)
            bucket.left -= 1


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
AWAY_S = 5
"""Seconds after which it is worth trying again."""
_OPEN = ("/healthz", f"{ROOT}/openapi.json")
HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
log = logging.getLogger(__name__)


def problem(status: int, sentence: str, retry_after_s: int | None = None, *, hang_up: bool = False) -> JSONResponse:
    """An error as every answer says it; ``hang_up`` where a body is left unread."""
    more = ({} if retry_after_s is None else {"Retry-After": str(retry_after_s)}) | (
        {"Connection": "close"} if hang_up else {}
    )
    return JSONResponse({"error": sentence}, status_code=status, headers=HEADERS | more)


@dataclass(frozen=True, slots=True)
class Door:
    """Middleware around all routes. ``identify`` finds the program of an Authorization header, or raises Refused; the
    routes find it in the request's state.
    """

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
            answer = problem(refusal.status, str(refusal), refusal.retry_after_s, hang_up=True)
            await answer(scope, receive, send)
        except Exception as error:
            if begun or passing_fault(error) is None:
                raise
            await problem(503, AWAY, AWAY_S, hang_up=True)(scope, receive, send)

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
                raise HTTPException(408, said, {"Connection": "close"}) from None
            whole = not message.get("more_body", False)
            return message

        return in_time
