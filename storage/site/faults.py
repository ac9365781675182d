"""What keeps the site from screening, since when: derived from what processes and cases say, kept while it lasts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from sqlalchemy import Connection, and_, exists, func, insert, select, update

from storage.database import Database
from storage.schema import Moment, batches, case_errors, node_runs, pending_cases, site_faults
from storage.site import processes
from storage.site.processes import Silence, live_workers, workers_silence_in

NOT_THE_MODEL = frozenset(
    {
        "internal_error", "run_lost", "interrupted", "withdrawn", "configuration_changed", "unwatched",
        "connection_lost", "max_calls", "max_cost", "cost_unknown", "no_reference", "no_message_batches",
    }
)  # fmt: skip
"""Kinds of errors of a case, and reasons of a pause, that say nothing of the model."""
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
    """A fault that lasts."""

    fault: Fault
    began_at: datetime


def open_faults(db: Database) -> tuple[Lasting, ...]:
    """The faults of this moment, the oldest first."""
    with db.read() as conn:
        return open_faults_in(conn)


def open_faults_in(conn: Connection) -> tuple[Lasting, ...]:
    """The same, inside the caller's transaction."""
    rows = conn.execute(select(site_faults).where(_fault.ended_at.is_(None)).order_by(_fault.began_at, _fault.id))
    return tuple(Lasting(fault=Fault(row.name), began_at=row.began_at) for row in rows)


def lasts(db: Database, fault: Fault) -> bool:
    """Whether this one is among them."""
    return any(one.fault is fault for one in open_faults(db))


def changes(conn: Connection, now: datetime) -> tuple[frozenset[Fault], frozenset[Fault]]:
    """Which faults are here and not kept yet, and which are kept and over. Looks only: see `begin`, `finish`."""
    known = {one.fault: one.began_at for one in open_faults_in(conn)}
    here = {fault for fault, down in _find(conn, known, now).items() if down}
    return frozenset(here - known.keys()), frozenset(known.keys() - here - _FOUND_ELSEWHERE)


def begin(conn: Connection, fault: Fault, now: datetime) -> bool:
    """Keep that a fault began; whether it was not known before."""
    if conn.execute(select(_fault.id).where(_fault.name == fault.value, _fault.ended_at.is_(None))).first():
        return False
    conn.execute(insert(site_faults).values(name=fault.value, began_at=now))
    return True


def finish(conn: Connection, fault: Fault, now: datetime) -> bool:
    """Keep that a fault is over; whether it had lasted."""
    lasted = _fault.name == fault.value, _fault.ended_at.is_(None)
    return bool(conn.execute(update(site_faults).where(*lasted).values(ended_at=now)).rowcount)


def _find(conn: Connection, known: Mapping[Fault, datetime], now: datetime) -> dict[Fault, bool]:
    no_worker = _no_worker(conn, now, lasts=Fault.WORKERS in known)
    return {Fault.WORKERS: no_worker, Fault.MODEL: _no_model(conn, known.get(Fault.MODEL), now)}


def _no_worker(conn: Connection, now: datetime, *, lasts: bool) -> bool:
    """Once it began a worker alone ends it: signs of life are forgotten after a week, and batches are cancelled."""
    if processes.live_workers(conn, now):
        return False
    if lasts:
        return True
    long_ago = now - processes.DEAD_AFTER
    waits = exists(select(pending_cases.c.case_id).where(pending_cases.c.ready_at < long_ago))
    return processes.newest_worker_beat(conn) is not None or bool(conn.execute(select(waits)).scalar())


def _no_model(conn: Connection, since: datetime | None, now: datetime) -> bool:
    """Whether calls fail: several errors, or a batch that the program paused for one, and no node ended since, nor did
    a worker that started find that the model answers.
    """
    ended: datetime | None = conn.execute(select(func.max(node_runs.c.ended_at, type_=Moment))).scalar()
    if since is not None:
        return ended is None or ended <= since
    over = conn.execute(select(func.max(_fault.ended_at, type_=Moment)).where(_fault.name == Fault.MODEL)).scalar()
    from_then = max(moment for moment in (now - LOOK_BACK, ended, over) if moment is not None)
    failed = and_(case_errors.c.at > from_then, case_errors.c.kind.not_in(sorted(NOT_THE_MODEL)))
    paused = batches.c.paused_why.is_not(None), batches.c.changed_at > from_then
    errors = conn.execute(select(func.count()).select_from(case_errors).where(failed)).scalar_one()
    causes = conn.execute(select(batches.c.paused_why).where(*paused)).scalars()
    return errors >= ERRORS_THAT_TELL or any(cause not in NOT_THE_MODEL for cause in causes)


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
