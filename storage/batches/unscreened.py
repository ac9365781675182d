"""What cannot be screened reaches a person: which batches stand still, why, since when; and their cases to the inbox.

Standing still is derived, never stored. A queue that moves is no fault, however long it is, nor is what a person paused
themselves. Cases whose text states a risk need none of this: they are in the inbox since they came in.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, exists, func, select, true

from storage.batches.batch_state import BatchState, Standing, is_cancelled, standings
from storage.batches.entries import enter_unscreened
from storage.batches.pending import batches_with_ready_cases
from storage.database import Database
from storage.schema import Moment, batches, case_errors, cases, inbox_entries, node_runs, pending_cases
from storage.settings_store import current_in
from storage.site.health import processes
from storage.visibility import are_reviewed

CHUNK = 200
"""Cases that enter in one transaction: nobody waits long for it."""
NO_WORKER, NO_PROGRESS = "no_worker", "no_progress"
"""Causes that are no error of a case: nobody works, nothing comes of it."""
NOTICED_AFTER = timedelta(minutes=1)
"""So long nothing may come of a batch before the pages say that it stands still."""

_waits = pending_cases.c
_first = case_errors.alias()


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """Cases that no outcome comes for, since when, and why: a kind of error, a cap, or one of the causes above.

    ``batch_id`` and ``state`` None: cases of several batches that failed by themselves.
    """

    batch_id: str | None
    cause: str
    since: datetime
    waiting: int
    state: BatchState | None = None


def standstills(db: Database, now: datetime, after: timedelta = NOTICED_AFTER) -> tuple[Standstill, ...]:
    """What stands still at this moment and has for ``after``, the longest first, whatever reaches its batch has."""
    with db.read() as conn:
        failed = [
            Standstill(batch_id=None, cause=row.kind, since=row.since, waiting=row.waiting)
            for row in conn.execute(_failures_by_kind())
        ]
        found = [*_still_batches(conn, now, after), *failed]
    return tuple(sorted(found, key=lambda one: one.since))


def files_halted_since(db: Database) -> tuple[datetime, ...]:
    """When each file that is not taken in any further was last tried, the longest ago first."""
    halted = batches.c.rows_missing_since
    return tuple(db.values(select(halted).where(batches.c.rows_missing.is_not(None)).order_by(halted)))


def bring_in(db: Database, now: datetime) -> int:
    """Let what a fault has kept from being screened for the site's time enter the inbox, where it is
    one to be reviewed; returns how many entered now. Done twice, or by several processes at once, it is done once.
    """
    with db.read() as conn:
        if conn.execute(select(_waits.case_id).limit(1)).first() is None:
            return 0
        after = timedelta(minutes=current_in(conn).settings.unscreened_minutes)
        still = [one for one in _still_batches(conn, now, after) if now - one.since >= after]
    count = sum(_enter_all(db, _of_batch(one), one.cause, now) for one in still)
    return count + _enter_failed(db, now - after, now)


def _still_batches(conn: Connection, now: datetime, after: timedelta) -> Sequence[Standstill]:
    """The batches with cases that are ready, none of which is coming to an end."""
    ids = batches_with_ready_cases(conn)
    found = standings(conn, ids, count_failed=False)
    stopped = [_standstill(conn, batch_id, found[batch_id], now, after) for batch_id in ids]
    return [one for one in stopped if one is not None]


def _standstill(conn: Connection, batch_id: str, found: Standing, now: datetime, after: timedelta) -> Standstill | None:
    since, cause = _last_change(conn, batch_id, found), found.why
    if found.state is BatchState.CANCELLED or (found.state is BatchState.PAUSED and cause is None):
        return None
    if found.state not in (BatchState.PAUSED, BatchState.CAPPED):
        cause = _stuck(conn, batch_id, since, now, after)
        if cause is None or (cause != NO_WORKER and _is_overnight(conn, batch_id)):
            return None  # an overnight batch waits for hours by its nature, and says so itself
    ready = (_waits.batch_id == batch_id, _waits.ready_at.is_not(None))
    waiting = conn.execute(select(func.count()).select_from(pending_cases).where(*ready)).scalar_one()
    return Standstill(batch_id=batch_id, cause=cause or NO_PROGRESS, since=since, waiting=waiting, state=found.state)


def _is_overnight(conn: Connection, batch_id: str) -> bool:
    return bool(conn.execute(select(batches.c.overnight).where(batches.c.id == batch_id)).scalar())


def _last_change(conn: Connection, batch_id: str, found: Standing) -> datetime:
    """The last outcome, the last thing done to the batch, or when the oldest case that is ready became so."""
    oldest = select(func.min(_waits.ready_at, type_=Moment)).where(
        _waits.batch_id == batch_id, _waits.ready_at.is_not(None)
    )
    moments = [found.totals.last_completed_at, found.changed_at, conn.execute(oldest).scalar()]
    return max(moment for moment in moments if moment is not None)


def _stuck(conn: Connection, batch_id: str, since: datetime, now: datetime, after: timedelta) -> str | None:
    """Why nothing has come for ``after`` of a batch that may be worked at; None where the queue moves, or may yet."""
    living, begun = _worker_start(conn, since, now, after)
    if now - begun < after:
        return None
    if _has_end_since(conn, now - after, cases.c.batch_id == batch_id):
        return None
    if not living:
        return NO_WORKER
    failed = (cases.c.batch_id == batch_id, case_errors.c.at >= since)
    errors = select(case_errors.c.kind).join(cases, cases.c.id == case_errors.c.case_id).where(*failed)
    kind: str | None = conn.execute(errors.order_by(case_errors.c.id.desc()).limit(1)).scalar()
    return kind or (None if _has_end_since(conn, now - after, true()) else NO_PROGRESS)


def _worker_start(conn: Connection, since: datetime, now: datetime, after: timedelta) -> tuple[bool, datetime]:
    """Whether a worker lives, and since when at the earliest something should have come: a site that was off is given
    its time anew when it starts, a worker that dies again and again is not; one that just began, a minute.
    """
    known = [one for one in processes(conn, now) if one.alive or now - one.seen_at < after]
    living = [one.started_at for one in known if one.alive and one.kind == "worker"]
    begun = max([since, min((one.started_at for one in known), default=since)])
    if living:
        begun = max(begun, min(living) - max(after - NOTICED_AFTER, timedelta()))
    return bool(living), begun


def _has_end_since(conn: Connection, since: datetime, which: ColumnElement[bool]) -> bool:
    """Whether a node has ended since then on one of these cases."""
    ended = select(node_runs.c.case_id).join(cases, cases.c.id == node_runs.c.case_id)
    return conn.execute(ended.where(node_runs.c.ended_at > since, which).limit(1)).first() is not None


def _of_batch(one: Standstill) -> Select[Any]:
    return _outside().where(_waits.batch_id == one.batch_id, _waits.ready_at.is_not(None))


def _outside() -> Select[Any]:
    """Cases that would be reviewed if they were labeled unsafe, are pending and have no entry; locked until the
    transaction ends, so that no outcome is committed between look and entry.
    """
    entered = exists().where(inbox_entries.c.case_id == _waits.case_id)
    return (
        select(cases.c.id, cases.c.batch_id, cases.c.flags)
        .select_from(pending_cases)
        .join(cases, cases.c.id == _waits.case_id)
        .join(batches, batches.c.id == _waits.batch_id)
        .where(are_reviewed(), batches.c.overnight.is_(False), ~entered)
        .order_by(_waits.row)
        .limit(CHUNK)
        .with_for_update(skip_locked=True, of=pending_cases)
    )


def _enter_all(db: Database, query: Select[Any], cause: str, now: datetime) -> int:
    count = 0
    while True:
        with db.write() as conn:
            rows = conn.execute(query).all()
            _enter(conn, rows, [cause] * len(rows), now)
        count += len(rows)
        if len(rows) < CHUNK:
            return count


def _enter_failed(db: Database, before: datetime, now: datetime) -> int:
    """What failed by itself and waits for a retry request, since ``before`` or longer: since its first failure, as it
    may have been tried for a long while before it was given up.
    """
    query = _outside().add_columns(case_errors.c.kind).join(case_errors, case_errors.c.id == _error(func.max))
    early = exists().where(_first.c.id == _error(func.min), _first.c.at <= before)
    query = query.where(_waits.ready_at.is_(None), early, ~is_cancelled(_waits.batch_id))
    count = 0
    while True:
        with db.write() as conn:
            rows = conn.execute(query).all()
            _enter(conn, rows, [row.kind for row in rows], now)
        count += len(rows)
        if len(rows) < CHUNK:
            return count


def _enter(conn: Connection, rows: Sequence[Any], causes: Sequence[str], now: datetime) -> None:
    found: dict[tuple[str, str], dict[str, list[str]]] = {}
    for row, cause in zip(rows, causes, strict=True):
        found.setdefault((row.batch_id, cause), {})[row.id] = row.flags["text"] + row.flags["reply"]
    for (batch_id, cause), flags in sorted(found.items()):
        enter_unscreened(conn, batch_id, flags, cause, now)


def _error(which: Callable[[ColumnElement[int]], ColumnElement[int]]) -> ColumnElement[int]:
    """The id of a waiting case's first (`func.min`) or last error."""
    error = case_errors.alias()
    of_case = select(which(error.c.id)).where(error.c.case_id == _waits.case_id)
    return of_case.correlate(pending_cases).scalar_subquery()


def _failures_by_kind() -> Select[Any]:
    """What failed by itself, by the kind of its last error."""
    columns = (
        case_errors.c.kind,
        func.count().label("waiting"),
        func.min(case_errors.c.at, type_=Moment).label("since"),
    )
    joined = select(*columns).select_from(pending_cases).join(case_errors, case_errors.c.id == _error(func.max))
    return joined.where(
        _waits.ready_at.is_(None), case_errors.c.kind != "unwatched", ~is_cancelled(_waits.batch_id)
    ).group_by(case_errors.c.kind)
