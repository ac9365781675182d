"""Which processes live, and what only one of them at a time may do: a lease in the database says who does it now."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from sqlalchemy import Connection, delete, func, or_, select

from storage.clock import shared_now
from storage.database import Database, insert_into, record
from storage.schema import Moment, duties, process_heartbeats


def take(db: Database, name: str, holder: str, now: datetime, lasts: timedelta) -> bool:
    """Whether ``holder`` does this duty from now on, for ``lasts``: it did before, or nobody does.

    Take it again before it runs out; whoever dies leaves it free when it has run out. One that would last far longer
    than any does was taken by a clock that ran ahead, and does not count.
    """
    with db.write() as conn:
        moment = shared_now(conn, now)
        row = {"name": name, "holder": holder, "until": moment + lasts}
        taken = (
            insert_into(conn, duties)
            .values(row)
            .on_conflict_do_update(
                index_elements=["name"],
                set_={"holder": holder, "until": moment + lasts},
                where=or_(duties.c.holder == holder, duties.c.until <= moment, duties.c.until > moment + 3 * lasts),
            )
            .returning(duties.c.name)
        )
        return conn.execute(taken).first() is not None


def leave(db: Database, name: str, holder: str, now: datetime) -> None:
    """Free it for the next process, as an orderly end does."""
    with db.write() as conn:
        mine = duties.c.name == name, duties.c.holder == holder
        conn.execute(duties.update().where(*mine).values(until=shared_now(conn, now)))


BEAT_EVERY_S = 5.0
SILENT_AFTER = timedelta(seconds=12)
"""Two signs of life were due and none came: whoever waits for a process is told so."""
DEAD_AFTER = timedelta(seconds=30)
"""Without a sign of life for so long a process counts as dead. A sign from so far ahead was given by a clock that was
set back since: no living process would have left it at that."""
_FORGET_AFTER = timedelta(days=7)
_beat = process_heartbeats.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """One process, and when it last said that it lives."""

    name: str
    kind: str
    started_at: datetime
    seen_at: datetime
    alive: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """No worker gives a sign of life; ``since`` is the last one there was, None where there was none within a week."""

    since: datetime | None


def beat(db: Database, name: str, kind: Literal["worker", "app"], now: datetime) -> None:
    """This process lives. At its first sign long dead ones are forgotten."""
    with db.write() as conn:
        moment = shared_now(conn, now)
        row = {"name": name, "kind": kind, "started_at": moment, "seen_at": moment}
        said = insert_into(conn, process_heartbeats).values(row)
        said = said.on_conflict_do_update(index_elements=["name"], set_={"seen_at": moment})
        if conn.execute(said.returning(_beat.started_at)).scalar_one() == moment:
            conn.execute(delete(process_heartbeats).where(_beat.seen_at < moment - _FORGET_AFTER))


def end(db: Database, name: str) -> None:
    """This process ends in an orderly way."""
    with db.write() as conn:
        conn.execute(delete(process_heartbeats).where(_beat.name == name))


def processes(conn: Connection, now: datetime) -> Sequence[Process]:
    """Those seen within the last week, the freshest first."""
    moment = shared_now(conn, now)
    rows = conn.execute(select(process_heartbeats).order_by(_beat.seen_at.desc(), _beat.name)).all()
    return tuple(record(Process, row, alive=abs(moment - row.seen_at) < DEAD_AFTER) for row in rows)


def live_workers(conn: Connection, now: datetime) -> int:
    """How many workers live."""
    moment = shared_now(conn, now)
    living = _beat.seen_at > moment - DEAD_AFTER, _beat.seen_at < moment + DEAD_AFTER
    return int(conn.execute(select(func.count()).where(_beat.kind == "worker", *living)).scalar_one())


def worker_lives(db: Database, now: datetime) -> bool:
    """Whether any worker lives."""
    with db.read() as conn:
        return live_workers(conn, now) > 0


def newest_worker_beat(conn: Connection, before: datetime | None = None) -> datetime | None:
    """When any worker last said that it lives; None where none did within a week."""
    query = select(func.max(_beat.seen_at, type_=Moment)).where(_beat.kind == "worker")
    seen: datetime | None = conn.execute(query if before is None else query.where(_beat.seen_at < before)).scalar()
    return seen


def workers_silence(db: Database, now: datetime) -> Silence | None:
    """That no worker answers at the moment; None where one does."""
    with db.read() as conn:
        return workers_silence_in(conn, now)


def workers_silence_in(conn: Connection, now: datetime) -> Silence | None:
    """The same, inside the caller's transaction."""
    moment = shared_now(conn, now)
    seen = newest_worker_beat(conn, moment + DEAD_AFTER)
    answers = seen is not None and moment - seen < SILENT_AFTER
    return None if answers else Silence(since=seen)
