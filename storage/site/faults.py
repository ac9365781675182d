"""What keeps the site from screening, since when: derived from what processes and cases say, kept while it lasts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import Connection, exists, func, insert, select, update

from screening.pipeline.errors import NOT_THE_MODEL
from storage.database import Database
from storage.schema import Moment, batches, case_errors, node_runs, pending_cases, site_faults
from storage.site import processes
from storage.site.processes import Silence, live_workers, workers_silence_in

ERRORS_THAT_TELL = 3
LOOK_BACK = timedelta(minutes=5)
_fault = site_faults.c


class Fault(StrEnum):
    """What can be down."""

    WORKERS = "workers"  # no worker lives, and something waits for one or did until it died
    MODEL = "model"  # it was asked at a worker's start or calls of cases failed, and nothing has come of it since
    ANCHOR = "anchor"  # the audit log's end could not be written to its second place
    FILES = "files"  # rows of a file are missing and nobody takes them in


_FOUND_ELSEWHERE = frozenset({Fault.ANCHOR, Fault.FILES})
"""Whoever finds these says when they are over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lasting:
    """A fault that lasts. ``cause``: the kind of error that told of it last, where one did."""

    fault: Fault
    began_at: datetime
    cause: str | None = None


def open_faults(db: Database) -> tuple[Lasting, ...]:
    """The faults of this moment, the oldest first."""
    with db.read() as conn:
        return open_faults_in(conn)


def open_faults_in(conn: Connection) -> tuple[Lasting, ...]:
    """The same, inside the caller's transaction."""
    rows = conn.execute(select(site_faults).where(_fault.ended_at.is_(None)).order_by(_fault.began_at, _fault.id))
    return tuple(Lasting(fault=Fault(row.name), began_at=row.began_at, cause=row.cause) for row in rows)


def find_lasting(db: Database, fault: Fault) -> Lasting | None:
    """This one, where it is among them."""
    return next((one for one in open_faults(db) if one.fault is fault), None)


def changes(conn: Connection, now: datetime) -> tuple[Mapping[Fault, str | None], frozenset[Fault]]:
    """Which faults are here and not kept yet, or for another cause, and which are kept and over. Looks only: see
    `begin`, `finish`.
    """
    known = {one.fault: one for one in open_faults_in(conn)}
    here: dict[Fault, str | None] = {}
    if _no_worker(conn, now, lasts=Fault.WORKERS in known):
        here[Fault.WORKERS] = None
    down, cause = _no_model(conn, known.get(Fault.MODEL), now)
    if down:
        here[Fault.MODEL] = cause
    new = {fault: why for fault, why in here.items() if fault not in known or known[fault].cause != why}
    return new, frozenset(known.keys() - here.keys() - _FOUND_ELSEWHERE)


def begin(conn: Connection, fault: Fault, now: datetime, cause: str | None = None) -> bool:
    """Keep that a fault is here, and what told of it where that is known; whether it was not known before."""
    lasts = _fault.name == fault.value, _fault.ended_at.is_(None)
    kept = _fault.cause if cause is None else cause
    if conn.execute(update(site_faults).where(*lasts).values(cause=kept)).rowcount:
        return False
    conn.execute(insert(site_faults).values(name=fault.value, began_at=now, cause=cause))
    return True


def finish(conn: Connection, fault: Fault, now: datetime) -> bool:
    """Keep that a fault is over; whether it had lasted."""
    lasted = _fault.name == fault.value, _fault.ended_at.is_(None)
    return bool(conn.execute(update(site_faults).where(*lasted).values(ended_at=now)).rowcount)


def _no_worker(conn: Connection, now: datetime, *, lasts: bool) -> bool:
    """Once it began a worker alone ends it: signs of life are forgotten after a week, and batches are cancelled."""
    if processes.live_workers(conn, now):
        return False
    if lasts:
        return True
    long_ago = now - processes.DEAD_AFTER
    waits = exists(select(pending_cases.c.case_id).where(pending_cases.c.ready_at < long_ago))
    return processes.newest_worker_beat(conn) is not None or bool(conn.execute(select(waits)).scalar())


def _no_model(conn: Connection, known: Lasting | None, now: datetime) -> tuple[bool, str | None]:
    """Whether calls fail: several errors, or a batch that the program paused for one, and no node ended since, nor did
    a worker that started find that the model answers. And the kind of the last error.
    """
    ended: datetime | None = conn.execute(select(func.max(node_runs.c.ended_at, type_=Moment))).scalar()
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


_LAST = select(func.max(node_runs.c.ended_at, type_=Moment))


@dataclass(frozen=True, slots=True, kw_only=True)
class AtWork:
    """Workers that count as alive, whether none of them answers any more, the faults that last, and when an agent last
    ended its work on a text; None where that never was.
    """

    workers: int
    silence: Silence | None
    faults: tuple[Lasting, ...]
    finished: datetime | None


def at_work(db: Database, now: datetime) -> AtWork:
    """As it is now."""
    with db.read() as conn:
        return AtWork(
            workers=live_workers(conn, now),
            silence=workers_silence_in(conn, now),
            faults=open_faults_in(conn),
            finished=conn.execute(_LAST).scalar(),
        )
