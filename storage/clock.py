"""The one clock of a site, how long to wait before a next try, and identifiers that sort by time."""

import secrets
from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Connection, DateTime, func, select


def shared_now(conn: Connection, now: datetime) -> datetime:
    """PostgreSQL's own time, so that machines need not agree on theirs; with SQLite, on one machine, the caller's
    ``now``.
    """
    if conn.dialect.name != "postgresql":
        return now
    return conn.execute(_NOW).scalar_one().astimezone(UTC)


_NOW = select(func.clock_timestamp(type_=DateTime(timezone=True)))


def pause_after(tries: int, first: float, longest: float) -> float:
    """Seconds to wait before the next try: each pause is twice the one before.

    >>> [pause_after(tries, 1.0, 30.0) for tries in (0, 1, 4, 5, 10**6)]
    [1.0, 2.0, 16.0, 30.0, 30.0]
    """
    return min(longest, first * 2.0 ** min(tries, 60))


_TIME_BYTES, _RANDOM_BYTES = 6, 10
_SEQUENCE_DIGITS = 5


def new_id(now: datetime, entropy: Callable[[int], bytes] = secrets.token_bytes, sequence: int | None = None) -> str:
    """32 hexadecimal characters: 48 bits of milliseconds since 1970, then 80 random bits.

    With a ``sequence`` (its lowest 20 bits count) 20 of those say which of many made at one moment it is, so that a
    million rows enter an index at its end and not all over it; 60 random bits remain.

    >>> from datetime import UTC
    >>> new_id(datetime(2026, 1, 1, tzinfo=UTC), entropy=bytes)
    '019b76daa80000000000000000000000'
    >>> new_id(datetime(2026, 1, 1, tzinfo=UTC), entropy=bytes, sequence=0x123)
    '019b76daa80000123000000000000000'
    """
    milliseconds = round(now.timestamp() * 1_000)
    digits = (milliseconds.to_bytes(_TIME_BYTES, "big") + entropy(_RANDOM_BYTES)).hex()
    if sequence is None:
        return digits
    start = 2 * _TIME_BYTES
    return f"{digits[:start]}{sequence % 16**_SEQUENCE_DIGITS:05x}{digits[start + _SEQUENCE_DIGITS :]}"
