"""The one clock of a site, for moments that several processes compare, and how long to wait before a next try."""

from datetime import UTC, datetime

from sqlalchemy import Connection, DateTime, func, select


def shared_now(conn: Connection, now: datetime) -> datetime:
    """The time now, the same for whoever asks: PostgreSQL's own, so that machines need not agree on theirs; with
    SQLite, where all is on one machine, the caller's ``now``.
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
