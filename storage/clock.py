"""The one clock of a site, for moments that several processes write and compare."""

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
