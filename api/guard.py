"""Who asks: tokens, scopes, and how often each program may ask."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime

from storage.audit_log import record_refusal
from storage.database import Database
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
