"""Which processes live, what only one of them at a time may do, and what keeps the site from screening, since when.

A lease in the database says who does what only one may do; a fault is derived from what processes and cases say, and
kept while it lasts.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Row, and_, delete, exists, func, insert, or_, select, update

from screening.pipeline.files import NOT_THE_MODEL
from storage.database import Database, Source, insert_into, reading
from storage.schema.columns import Moment, shared_now
from storage.schema.engine import case_errors, node_runs
from storage.schema.intake import batches, pending_cases
from storage.schema.site import duties, process_heartbeats, site_faults

BEAT_EVERY_S = 5.0
SILENT_AFTER = timedelta(seconds=12)
"""Two signs of life were due and none came: whoever waits for a process is told so."""
DEAD_AFTER = timedelta(seconds=30)
"""Without a sign of life for so long a process counts as dead. A sign from so far ahead was given by a clock that was
set back since: no living process would have left it at that."""
_FORGET_AFTER = timedelta(days=7)
ERRORS_THAT_TELL = 3
LOOK_BACK = timedelta(minutes=5)
_beat, _fault = process_heartbeats.c, site_faults.c


def take(db: Database, name: str, holder: str, now: datetime, lasts: timedelta) -> bool:
    """Whether ``holder`` does this duty from now on, for ``lasts``: it did before, or nobody does. Who dies leaves it
    free when it has run out; one that lasts far longer was taken by a clock that ran ahead, and does not count.
    """
    with db.write() as conn:
        moment = shared_now(conn, now)
        row = {"holder": holder, "until": moment + lasts}
        free = or_(duties.c.holder == holder, duties.c.until <= moment, duties.c.until > moment + 3 * lasts)
        taken = insert_into(duties).values(name=name, **row)
        taken = taken.on_conflict_do_update(index_elements=["name"], set_=row, where=free)
        return conn.execute(taken.returning(duties.c.name)).first() is not None


def leave(db: Database, name: str, holder: str, now: datetime) -> None:
    """Free it for the next process, as an orderly end does."""
    with db.write() as conn:
        mine = duties.c.name == name, duties.c.holder == holder
        conn.execute(update(duties).where(*mine).values(until=shared_now(conn, now)))


def beat(db: Database, name: str, kind: Literal["worker", "app"], now: datetime) -> None:
    """This process lives. At its first sign long dead ones are forgotten."""
    with db.write() as conn:
        moment = shared_now(conn, now)
        row = {"name": name, "kind": kind, "started_at": moment, "seen_at": moment}
        said = insert_into(process_heartbeats).values(row)
        said = said.on_conflict_do_update(index_elements=["name"], set_={"seen_at": moment})
        if conn.execute(said.returning(_beat.started_at)).scalar_one() == moment:
            conn.execute(delete(process_heartbeats).where(_beat.seen_at < moment - _FORGET_AFTER))


def end(db: Database, name: str) -> None:
    with db.write() as conn:
        conn.execute(delete(process_heartbeats).where(_beat.name == name))


def _is_alive(moment: datetime) -> ColumnElement[bool]:
    return and_(_beat.seen_at > moment - DEAD_AFTER, _beat.seen_at < moment + DEAD_AFTER)


def processes(conn: Connection, now: datetime) -> Sequence[Row[Any]]:
    """The rows of those seen within the last week, the freshest first, and whether each is ``alive``."""
    query = select(process_heartbeats, _is_alive(shared_now(conn, now)).label("alive"))
    return conn.execute(query.order_by(_beat.seen_at.desc(), _beat.name)).all()


def live_workers(db: Source, now: datetime) -> int:
    with reading(db) as conn:
        alive = _beat.kind == "worker", _is_alive(shared_now(conn, now))
        return conn.execute(select(func.count()).select_from(process_heartbeats).where(*alive)).scalar_one()


def workers_answer(db: Database, now: datetime) -> tuple[bool, datetime | None]:
    """Whether a worker answers at the moment, and when one last gave a sign of life; None within a week."""
    with db.read() as conn:
        moment = shared_now(conn, now)
        of_workers = _beat.kind == "worker", _beat.seen_at < moment + DEAD_AFTER
        seen = conn.execute(select(func.max(_beat.seen_at, type_=Moment)).where(*of_workers)).scalar_one_or_none()
    return seen is not None and moment - seen < SILENT_AFTER, seen


class Fault(StrEnum):
    """What can be down."""

    WORKERS = "workers"  # no worker lives, and something waits for one or did until it died
    MODEL = "model"  # it was asked at a worker's start or calls of cases failed, and nothing has come of it since
    ANCHOR = "anchor"  # the audit log's end could not be written to its second place
    FILES = "files"  # rows of a file are missing and nobody takes them in


def open_faults(db: Source) -> Sequence[Row[Any, Any, Any]]:
    """The faults of this moment, the oldest first: which ``fault``, since when (``began_at``), and the kind of error
    that told of it last as its ``cause``, where one did.
    """
    lasting = select(_fault.name.label("fault"), _fault.began_at, _fault.cause).where(_fault.ended_at.is_(None))
    with reading(db) as conn:
        return conn.execute(lasting.order_by(_fault.began_at, _fault.id)).all()


def find_lasting(db: Database, fault: Fault) -> Row[Any, Any, Any] | None:
    """This one, where it is among them."""
    return next((one for one in open_faults(db) if one.fault == fault), None)


def last_ended(db: Source) -> datetime | None:
    """When an agent last ended its work on a text; None where that never was."""
    with reading(db) as conn:
        return conn.execute(select(func.max(node_runs.c.ended_at, type_=Moment))).scalar_one_or_none()


def changes(conn: Connection, now: datetime) -> Mapping[Fault, tuple[bool, str | None]]:
    """Of workers and model, which faults are here (True) and not kept yet or for another cause, and which are kept and
    over; whoever finds another one says when it is over. Looks only.
    """
    known = {Fault(one.fault): one for one in open_faults(conn)}
    model, cause = _no_model(conn, known.get(Fault.MODEL), now)
    found = {Fault.WORKERS: (_no_worker(conn, now, lasts=Fault.WORKERS in known), None), Fault.MODEL: (model, cause)}
    return {
        fault: (down, why if down else None)
        for fault, (down, why) in found.items()
        if down is not (fault in known) or (down and known[fault].cause != why)
    }


def keep(conn: Connection, fault: Fault, now: datetime, *, down: bool, cause: str | None = None) -> bool:
    """Keep that a fault is here, and what told of it where that is known, or that it is over; whether that is new."""
    lasting = update(site_faults).where(_fault.name == fault.value, _fault.ended_at.is_(None))
    if not down:
        return bool(conn.execute(lasting.values(ended_at=now)).rowcount)
    if conn.execute(lasting.values(cause=_fault.cause if cause is None else cause)).rowcount:
        return False
    conn.execute(insert(site_faults).values(name=fault.value, began_at=now, cause=cause))
    return True


def _no_worker(conn: Connection, now: datetime, *, lasts: bool) -> bool:
    """Once it began a worker alone ends it: signs of life are forgotten after a week, and batches are cancelled."""
    if live_workers(conn, now):
        return False
    waits = exists(select(pending_cases.c.case_id).where(pending_cases.c.ready_at < now - DEAD_AFTER))
    began = exists(select(_beat.name).where(_beat.kind == "worker"))
    return lasts or bool(conn.execute(select(or_(waits, began))).scalar())


def _no_model(conn: Connection, known: Row[Any, Any, Any] | None, now: datetime) -> tuple[bool, str | None]:
    """Whether calls fail: several errors, or a batch that the program paused for one, and no node ended since, nor did
    a worker that started find that the model answers. And the kind of the last error.
    """
    ended = last_ended(conn)
    if known is not None:
        errors = _errors_after(conn, known.began_at)[:1]
        return ended is None or ended <= known.began_at, errors[0] if errors else known.cause
    over = conn.execute(select(func.max(_fault.ended_at, type_=Moment)).where(_fault.name == Fault.MODEL)).scalar()
    from_then = max(moment for moment in (now - LOOK_BACK, ended, over) if moment is not None)
    errors = _errors_after(conn, from_then)
    why = batches.c.paused_why
    stopped = select(why).where(why.not_in(NOT_THE_MODEL), batches.c.changed_at > from_then)
    paused = conn.execute(stopped.order_by(batches.c.changed_at.desc()).limit(1)).scalar()
    return paused is not None or len(errors) >= ERRORS_THAT_TELL, paused or next(iter(errors), None)


def _errors_after(conn: Connection, moment: datetime) -> Sequence[str]:
    """The kinds of the last errors of the model since, the newest first."""
    failed = case_errors.c.at > moment, case_errors.c.kind.not_in(NOT_THE_MODEL)
    newest = select(case_errors.c.kind).where(*failed).order_by(case_errors.c.at.desc()).limit(ERRORS_THAT_TELL)
    return conn.execute(newest).scalars().all()
