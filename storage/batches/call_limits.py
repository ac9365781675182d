"""Limits that all workers share: calls a minute at an even pace (GCRA), and places for calls in flight.

One row a limit; the clock is the database's, so that machines need not agree on theirs.
"""

import time
from dataclasses import dataclass
from math import floor
from typing import Any

from sqlalchemy import ColumnElement, Connection, Float, func, select, update

from storage.database import Database, insert_into
from storage.schema import call_limits

_EPOCH_IN_DAYS = 2_440_587.5
_TURN_S = 10.0
"""Where there are fewer places than holders, how long they are with one before they are with the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Calls a second, and how many may pass at once after a pause."""

    per_second: float
    burst: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """``count`` calls may be made; when it is 0, ask again in ``wait_s`` seconds.

    ``since`` is when the leave began, by `time.monotonic` of this process: never later than it did for the database.
    """

    count: int
    since: float
    wait_s: float = 0.0


def take(db: Database, name: str, pace: Pace, wanted: int) -> Grant:
    """Leave to make up to ``wanted`` calls: over any time t all workers together get at most burst + t * per_second.

    A clock that was set back delays the next call by no more than one step of the pace.
    """
    with db.write() as conn:
        row = _lock(conn, name)
        since, now = time.monotonic(), _now(conn)
        step = 1 / pace.per_second
        due = max(now, min(row.next_at, now + pace.burst * step))
        count = min(wanted, floor((now - due) / step + 1e-9) + pace.burst)
        if count < 1:
            return Grant(count=0, since=since, wait_s=due - now - (pace.burst - 1) * step)
        _change(conn, name, next_at=due + count * step)
    return Grant(count=count, since=since)


def hold(db: Database, name: str, holder: str, in_flight: int, total: int, lease_s: float) -> int:
    """How many of ``total`` places ``holder`` may use from now on: an even share, as far as free.

    ``in_flight`` are the most calls it can have under way until it knows the answer. They stay booked beside the
    answer until it renews, so that never more than ``total`` are under way although a share shrinks at once: the
    others get the places that calls leave. A booking ends after ``lease_s`` seconds unless it is renewed, by when
    whoever could not renew must have stopped.
    """
    with db.write() as conn:
        row = _lock(conn, name)
        now = _now(conn)
        others = {who: kept for who, kept in row.holders.items() if who != holder and kept[1] > now}
        free = total - sum(kept[0] for kept in others.values())
        allowed = int(max(min(_share([*others, holder], holder, total, now), free), 0))
        _change(conn, name, holders=others | {holder: [max(in_flight, allowed), now + lease_s]})
    return allowed


def _share(holders: list[str], holder: str, total: int, now: float) -> int:
    """An even share; where there are fewer places than holders, the holders take turns."""
    share, more = divmod(total, len(holders))
    turn = int(now // _TURN_S) if share == 0 else 0
    return share + ((sorted(holders).index(holder) + turn) % len(holders) < more)


def give_up(db: Database, name: str, holder: str) -> None:
    """Give the places back at once, when a worker ends in an orderly way."""
    with db.write() as conn:
        row = _lock(conn, name)
        _change(conn, name, holders={who: kept for who, kept in row.holders.items() if who != holder})


def _lock(conn: Connection, name: str) -> Any:
    """The limit's row, locked until the transaction ends."""
    new = insert_into(conn, call_limits).values(name=name, next_at=0.0, holders={}).on_conflict_do_nothing()
    query = select(call_limits.c.next_at, call_limits.c.holders).where(call_limits.c.name == name).with_for_update()
    if (row := conn.execute(query).first()) is None:
        conn.execute(new)
        row = conn.execute(query).one()
    return row


def _now(conn: Connection) -> float:
    return float(conn.execute(select(_clock(conn))).scalar_one())


def _clock(conn: Connection) -> ColumnElement[float]:
    if conn.dialect.name == "postgresql":
        return func.date_part("epoch", func.clock_timestamp(), type_=Float)
    return (func.julianday("now", type_=Float) - _EPOCH_IN_DAYS) * 86_400.0


def _change(conn: Connection, name: str, **values: object) -> None:
    conn.execute(update(call_limits).where(call_limits.c.name == name).values(**values))
