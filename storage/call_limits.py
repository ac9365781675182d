"""Limits that all workers share: calls a minute at an even pace (GCRA), and places for calls in flight.

One row a limit; the clock is the database's, so that machines need not agree on theirs.
"""

from dataclasses import dataclass
from math import floor
from typing import Any

from sqlalchemy import ColumnElement, Connection, Float, func, select, update

from storage.database import Database, insert_into
from storage.schema import call_limits

_EPOCH_IN_DAYS = 2_440_587.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Calls a second, and how many may pass at once after a pause."""

    per_second: float
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """``count`` calls may be made now; when it is 0, ask again in ``wait_s`` seconds."""

    count: int
    wait_s: float = 0.0


def take(db: Database, name: str, pace: Pace, wanted: int) -> Grant:
    """Leave to make up to ``wanted`` calls: over any time t all workers together get at most burst + t * per_second.

    A clock that was set back delays the next call by no more than one step of the pace.
    """
    with db.write() as conn:
        row, now = _locked(conn, name)
        step = 1 / pace.per_second
        due = max(now, min(row.next_at, now + pace.burst * step))
        count = min(wanted, floor((now - due) / step + 1e-9) + pace.burst)
        if count < 1:
            return Grant(count=0, wait_s=due - now - (pace.burst - 1) * step)
        _change(conn, name, next_at=due + count * step)
    return Grant(count=count)


def hold(db: Database, name: str, holder: str, in_use: int, total: int, lease_s: float) -> int:
    """How many of ``total`` places ``holder`` has for the next ``lease_s`` seconds: an even share, as far as free.

    Places come free when others say that they use fewer, or fall silent for their lease. Never are more than
    ``total`` held, as long as whoever cannot renew in time stops using its places. ``in_use`` are kept.
    """
    with db.write() as conn:
        row, now = _locked(conn, name)
        others = {who: kept for who, kept in row.holders.items() if who != holder and kept[1] > now}
        share, more = divmod(total, len(others) + 1)
        share += sorted([*others, holder]).index(holder) < more
        free = total - sum(kept[0] for kept in others.values())
        held = int(max(in_use, min(share, free), 0))
        _change(conn, name, holders=others | {holder: [held, now + lease_s]})
    return held


def give_up(db: Database, name: str, holder: str) -> None:
    """Give the places back at once: an orderly end."""
    with db.write() as conn:
        row, _now = _locked(conn, name)
        _change(conn, name, holders={who: kept for who, kept in row.holders.items() if who != holder})


def _locked(conn: Connection, name: str) -> tuple[Any, float]:
    """The limit's row, ours until the transaction ends, and the time then."""
    new = insert_into(conn, call_limits).values(name=name, next_at=0.0, holders={}).on_conflict_do_nothing()
    query = select(call_limits.c.next_at, call_limits.c.holders).where(call_limits.c.name == name).with_for_update()
    if (row := conn.execute(query).first()) is None:
        conn.execute(new)
        row = conn.execute(query).one()
    return row, float(conn.execute(select(_clock(conn))).scalar_one())


def _clock(conn: Connection) -> ColumnElement[float]:
    if conn.dialect.name == "postgresql":
        return func.date_part("epoch", func.clock_timestamp(), type_=Float)
    return (func.julianday("now", type_=Float) - _EPOCH_IN_DAYS) * 86_400.0


def _change(conn: Connection, name: str, **values: object) -> None:
    conn.execute(update(call_limits).where(call_limits.c.name == name).values(**values))
