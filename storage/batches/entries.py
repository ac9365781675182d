"""The one place where a case enters the inbox, and where its outcome meets the entry that it may have by then.

A case whose text states a risk enters when it comes in, and one that could not be screened after a while: before they
have an outcome, with the cause. When it is screened after all, the same entry takes the place that the outcome gives
it, or leaves where nobody has opened it and nobody needs to read it.

Standing still is derived, never stored. A queue that moves is no fault, however long it is, nor is what a person paused
themselves.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, bindparam, delete, exists, func, literal, select, true, update

from screening.labels import Label
from screening.review.policy import SYSTEM
from screening.review.triage import Placement, Priority, due_at, ordinary_why, research_coin, unscreened_placement
from storage.audit_log import Detail, append
from storage.batches.batch_state import BatchState, Standing, batch_row, is_cancelled, standings
from storage.batches.pending import batches_with_ready_cases
from storage.database import Database, insert_into, record
from storage.schema.columns import Moment
from storage.schema.engine import case_errors, node_runs
from storage.schema.intake import batches, cases, pending_cases
from storage.schema.review import adjudications, inbox_entries, second_review_requests
from storage.schema.site import audit_events
from storage.settings_store import SiteSettings, current
from storage.site.health import processes
from storage.visibility import are_reviewed, unblind

_entry = inbox_entries.c
_ENTRY = select(inbox_entries).where(_entry.case_id == bindparam("one")).with_for_update()


def enter(
    conn: Connection,
    case_id: str,
    placement: Placement,
    now: datetime,
    cause: str | None = None,
    *,
    settings: SiteSettings,
    research_order: bool,
) -> bool:
    """Open the case's entry, in the caller's transaction; False, and nothing is changed, where it has one.

    ``cause`` is why it could not be screened, where that is what brings it here; ``settings`` are those in force and
    ``research_order`` is its batch's.
    """
    place = _place(case_id, placement, now, settings, research_order=research_order)
    row = {"case_id": case_id, "cause": cause, "entered_at": now, **place}
    return conn.execute(_ENTER, {"of": case_id, **row}).first() is not None


def enter_unscreened(
    conn: Connection, batch_id: str, found: Mapping[str, Collection[str]], cause: str, now: datetime
) -> None:
    """Open entries for cases of a batch that have no outcome and no entry, by the flags of each; ``cause`` is why."""
    if not found:
        return
    settings, research_order = current(conn).settings, batch_row(conn, batch_id).research_order
    for case_id, flags in found.items():
        place = unscreened_placement(flags)
        enter(conn, case_id, place, now, cause, settings=settings, research_order=research_order)
    told: dict[str, Detail] = {"cases": len(found), "cause": cause}
    append(conn, SYSTEM.at(now), "entered_unscreened", batch_id, told, rows={inbox_entries: list(found)})


_BATCH_ID = select(cases.c.batch_id).where(cases.c.id == bindparam("of")).scalar_subquery()
_ENTER = insert_into(inbox_entries).values(batch_id=_BATCH_ID).on_conflict_do_nothing().returning(_entry.case_id)
"""Written once. An entry has its case's batch."""


def settle(
    conn: Connection,
    case_id: str,
    placement: Placement | None,
    label: Label | None,
    now: datetime,
    settings: SiteSettings,
    *,
    research_order: bool,
) -> bool:
    """What an outcome does to its case's place in the inbox, in the transaction that stores it; whether it did any.

    ``placement`` is where the outcome puts the case, None where nobody need read it; ``label`` is the label that
    the agents gave it. The entry of a case that could not be screened before is changed in place, opened or not.
    """
    if placement is not None and enter(conn, case_id, placement, now, settings=settings, research_order=research_order):
        return True
    if (entry := conn.execute(_ENTRY, {"one": case_id}).first()) is None:
        return False
    changed: dict[str, Any] = {}
    if entry.closed_at is not None:
        _doubt(conn, entry, label, now, settings)
    elif _was_opened(conn, entry):
        changed = _go_on(conn, entry, None if research_order else placement, now, settings)
    elif placement is not None:
        changed = _place(case_id, placement, now, settings, research_order=research_order)
    else:
        conn.execute(delete(inbox_entries).where(_entry.case_id == case_id))
        append(conn, SYSTEM.at(now), "left_inbox", case_id, {"screened": True})
        return True
    conn.execute(update(inbox_entries).where(_entry.case_id == case_id).values(cause=None, **changed))
    return True


def open_again(
    conn: Connection, case_id: str, review_round: str, now: datetime, settings: SiteSettings, **changed: str
) -> None:
    """Another review of the case is due, by a target of its own that begins now."""
    priority = Priority(conn.execute(select(_entry.priority).where(_entry.case_id == case_id)).scalar_one())
    again = {"review_round": review_round, "due_at": due_at(priority, now, settings.targets), **changed}
    first = func.coalesce(_entry.first_due_at, _entry.due_at)
    opened = update(inbox_entries).where(_entry.case_id == case_id)
    conn.execute(opened.values(first_due_at=first, closed_at=None, **again))


def _urgency(priority: Priority, now: datetime, settings: SiteSettings) -> dict[str, Any]:
    return {"priority": int(priority), "due_at": due_at(priority, now, settings.targets)}


def _place(
    case_id: str, placement: Placement, now: datetime, settings: SiteSettings, *, research_order: bool
) -> dict[str, Any]:
    """Where the case stands: as placed, or, in a set without living authors, with all others of it at random."""
    if not research_order:
        return {"why": placement.why.value, **_urgency(placement.priority, now, settings)}
    target = settings.targets[Priority.P3] * (1 + research_coin(case_id)) / 2
    return {"why": ordinary_why(Priority.P3).value, "priority": int(Priority.P3), "due_at": now + target}


def _was_opened(conn: Connection, entry: Any) -> bool:
    if entry.lease_token is not None or entry.review_round != "first":
        return True
    seen = (audit_events.c.subject == entry.case_id, audit_events.c.action.in_(("claimed", "opened", "text_viewed")))
    return conn.execute(select(exists().where(*seen))).scalar_one()


def _go_on(
    conn: Connection, entry: Any, placement: Placement | None, now: datetime, settings: SiteSettings
) -> dict[str, Any]:
    """An opened case stays, in words that tell nothing of the outcome; it only ever becomes more urgent.

    Whoever holds it at that moment sees it become so: their review is then not blind.
    """
    if placement is None or placement.priority >= entry.priority:
        return {"why": ordinary_why(Priority(entry.priority)).value}
    if entry.lease_token is not None and entry.assigned_until > now:
        unblind(conn, entry.assignee, [entry.case_id], now)
    return {"why": ordinary_why(placement.priority).value, **_urgency(placement.priority, now, settings)}


def _doubt(conn: Connection, entry: Any, label: Label | None, now: datetime, settings: SiteSettings) -> None:
    """A case that one person closed as safe, and that the agents then label unsafe, is reviewed by somebody else."""
    last = select(adjudications.c.label, adjudications.c.method).where(adjudications.c.case_id == entry.case_id)
    accepted = conn.execute(last.order_by(adjudications.c.version.desc()).limit(1)).first()
    if label is not Label.UNSAFE or accepted is None or tuple(accepted) != ("safe", "single"):
        return
    asked = {"case_id": entry.case_id, "why": "rule", "asked_by": SYSTEM.id, "at": now}
    conn.execute(second_review_requests.insert().values(asked))
    open_again(conn, entry.case_id, "second", now, settings, why=ordinary_why(Priority(entry.priority)).value)


CHUNK = 200
"""Cases that enter in one transaction: nobody waits long for it."""
NO_WORKER, NO_PROGRESS = "no_worker", "no_progress"
"""Causes that are no error of a case: nobody works, nothing comes of it."""
NOTICED_AFTER = timedelta(minutes=1)
"""So long nothing may come of a batch before the pages say that it has stalled."""

_waits = pending_cases.c
_first = case_errors.alias()


@dataclass(frozen=True, slots=True, kw_only=True)
class StalledBatch:
    """Cases that no outcome comes for, since when and why; ``batch_id`` None: of several, failed by themselves."""

    batch_id: str | None
    cause: str
    since: datetime
    waiting: int
    state: BatchState | None = None


def stalled_batches(db: Database, now: datetime, after: timedelta = NOTICED_AFTER) -> tuple[StalledBatch, ...]:
    """What has stalled for ``after`` or longer, the longest first, whatever reaches its batch has."""
    error = case_errors.c
    counted = select(error.kind, func.count().label("waiting"), func.min(error.at, type_=Moment).label("since"))
    joined = counted.select_from(pending_cases).join(case_errors, error.id == _error(func.max))
    failed = _waits.ready_at.is_(None), error.kind != "unwatched", ~is_cancelled(_waits.batch_id)
    with db.read() as conn:
        rows = conn.execute(joined.where(*failed).group_by(error.kind))
        by_themselves = [record(StalledBatch, row, batch_id=None, cause=row.kind) for row in rows]
        found = [*_stalled_batches(conn, now, after), *by_themselves]
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
        after = timedelta(minutes=current(conn).settings.unscreened_minutes)
        still = [one for one in _stalled_batches(conn, now, after) if now - one.since >= after]
    count = 0
    for one in still:
        of_batch = (_waits.batch_id == one.batch_id, _waits.ready_at.is_not(None))
        count += _enter_all(db, _outside(literal(one.cause)).where(*of_batch), now)
    # and what failed by itself, that long after its first failure: it may have been tried for a while before it parked
    early = exists().where(_first.c.id == _error(func.min), _first.c.at <= now - after)
    failed = _outside(case_errors.c.kind).join(case_errors, case_errors.c.id == _error(func.max))
    return count + _enter_all(db, failed.where(_waits.ready_at.is_(None), early, ~is_cancelled(_waits.batch_id)), now)


def _stalled_batches(conn: Connection, now: datetime, after: timedelta) -> Sequence[StalledBatch]:
    """The batches with cases that are ready, none of which is coming to an end."""
    ids = batches_with_ready_cases(conn)
    found = standings(conn, ids)
    stopped = [_stalled(conn, batch_id, found[batch_id], now, after) for batch_id in ids]
    return [one for one in stopped if one is not None]


def _stalled(conn: Connection, batch_id: str, found: Standing, now: datetime, after: timedelta) -> StalledBatch | None:
    ready = (_waits.batch_id == batch_id, _waits.ready_at.is_not(None))
    oldest = conn.execute(select(func.min(_waits.ready_at, type_=Moment)).where(*ready)).scalar()
    # the last outcome, the last thing done to the batch, or when the oldest case that is ready became so
    moments = (found.totals.last_completed_at, found.changed_at, oldest)
    since, cause = max(moment for moment in moments if moment is not None), found.why
    if found.state is BatchState.CANCELLED or (found.state is BatchState.PAUSED and cause is None):
        return None
    if found.state not in (BatchState.PAUSED, BatchState.CAPPED):
        cause = _stuck(conn, batch_id, since, now, after)
        if cause is None or (cause != NO_WORKER and batch_row(conn, batch_id).overnight):
            return None  # an overnight batch waits for hours by its nature, and says so itself
    waiting = conn.execute(select(func.count()).select_from(pending_cases).where(*ready)).scalar_one()
    return StalledBatch(batch_id=batch_id, cause=cause or NO_PROGRESS, since=since, waiting=waiting, state=found.state)


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


def _outside(cause: ColumnElement[str]) -> Select[Any]:
    """Cases, with this cause, that would be reviewed if they were labeled unsafe, are pending and have no entry; locked
    until the transaction ends, so that no outcome is committed between look and entry.
    """
    entered = exists().where(inbox_entries.c.case_id == _waits.case_id)
    return (
        select(cases.c.id, cases.c.batch_id, cases.c.flags, cause.label("cause"))
        .select_from(pending_cases)
        .join(cases, cases.c.id == _waits.case_id)
        .join(batches, batches.c.id == _waits.batch_id)
        .where(are_reviewed(), batches.c.overnight.is_(False), ~entered)
        .order_by(_waits.row)
        .limit(CHUNK)
        .with_for_update(skip_locked=True, of=pending_cases)
    )


def _enter_all(db: Database, query: Select[Any], now: datetime) -> int:
    """Let these cases enter, chunk after chunk; how many."""
    count = 0
    while True:
        with db.write() as conn:
            rows = conn.execute(query).all()
            found: dict[tuple[str, str], dict[str, list[str]]] = {}
            for row in rows:
                found.setdefault((row.batch_id, row.cause), {})[row.id] = row.flags["text"] + row.flags["reply"]
            for (batch_id, cause), flags in sorted(found.items()):
                enter_unscreened(conn, batch_id, flags, cause, now)
        count += len(rows)
        if len(rows) < CHUNK:
            return count


def _error(which: Callable[[ColumnElement[int]], ColumnElement[int]]) -> ColumnElement[int]:
    """The id of a waiting case's first (`func.min`) or last error."""
    error = case_errors.alias()
    of_case = select(which(error.c.id)).where(error.c.case_id == _waits.case_id)
    return of_case.correlate(pending_cases).scalar_subquery()
