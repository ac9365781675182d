"""Numbers about the work: a shift by priority, one's own texts opened today, figures of the site for a monitor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median
from typing import Any

import numpy as np
from sqlalchemy import ColumnElement, Connection, Select, String, Table, bindparam, func, or_, select

from screening.evaluation.metrics import Proportion
from screening.review.policy import Acting, Action, Actor, require
from screening.review.triage import Priority
from storage.audit_log import append
from storage.database import Database
from storage.schema.columns import Moment
from storage.schema.engine import case_errors
from storage.schema.intake import batch_counts, pending_cases
from storage.schema.review import case_notes, follow_ups, inbox_entries, reviews
from storage.schema.site import audit_events
from storage.site import health

_entry = inbox_entries.c
DAY = timedelta(days=1)
STRETCH = timedelta(hours=8)
"""Nobody reads for longer without a break: before that lies a night's rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PriorityShift:
    """One priority in a period. Of the cases that ``arrived`` in it: how many were ``looked_at`` by its end, how many
    were overdue by then (``overdue``, looked at too late or not at all), and the times to the first look; ``read``
    counts the reviews given in the period, by the priority shown with them, whenever their cases arrived; a revision is
    no other review. Median and p90 are None without a case to tell them from.
    """

    priority: Priority
    arrived: int
    looked_at: int
    overdue: int
    read: int
    handed_over: int
    median: timedelta | None
    p90: timedelta | None
    within_target: Proportion
    """Of the cases whose target has passed or that were looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Every priority, the follow-ups, and what the next shift takes over of each: how many cases were still open at the
    end, and how many of them were past their target.
    """

    priorities: tuple[PriorityShift, ...]
    left: Mapping[Priority, tuple[int, int]]
    follow_ups_opened: int
    follow_ups_closed: int
    follow_ups_overdue: int


def shift(db: Database, actor: Actor, begin: datetime, end: datetime) -> Shift:
    """From ``begin`` up to, not including, ``end``, as it stood then. Raises Forbidden, ValueError for an empty one."""
    require(actor, Action.VIEW_COUNTS)
    if begin >= end:
        raise ValueError("the period ends before it begins")
    with db.read() as conn:
        priorities = priority_shifts(conn, begin, end)
        waited = _entry.entered_at < end, or_(_entry.closed_at.is_(None), _entry.closed_at >= end)
        remaining = select(_entry.priority, func.count(), func.count().filter(_entry.due_at <= end)).where(*waited)
        found = {row[0]: (row[1], row[2]) for row in conn.execute(remaining.group_by(_entry.priority))}
        left = {priority: found.get(priority, (0, 0)) for priority in Priority}
        count, table = func.count(), follow_ups.c
        open_then = or_(table.closed_at.is_(None), table.closed_at >= end)
        counted = select(
            count.filter(table.opened_at >= begin, table.opened_at < end).label("follow_ups_opened"),
            count.filter(table.closed_at >= begin, table.closed_at < end).label("follow_ups_closed"),
            count.filter(table.opened_at < end, table.due_at < end, open_then).label("follow_ups_overdue"),
        )
        return Shift(priorities=priorities, left=left, **conn.execute(counted).one()._mapping)


def shift_of(db: Database, actor: Actor, priority: Priority, begin: datetime, end: datetime) -> PriorityShift:
    require(actor, Action.VIEW_COUNTS)
    with db.read() as conn:
        [found] = priority_shifts(conn, begin, end, (priority,))
    return found


def priority_shifts(
    conn: Connection, begin: datetime, end: datetime, priorities: Sequence[Priority] = tuple(Priority)
) -> tuple[PriorityShift, ...]:

    def given(priority: ColumnElement[int], table: Table, kind: ColumnElement[bool]) -> dict[Priority, int]:
        query = select(priority, func.count()).select_from(table).join(inbox_entries, _entry.case_id == table.c.case_id)
        return _by_priority(conn, query.where(table.c.at >= begin, table.c.at < end, kind).group_by(priority))

    due = func.coalesce(_entry.first_due_at, _entry.due_at).label("due_at")
    inside = _entry.priority.in_(priorities), _entry.entered_at >= begin, _entry.entered_at < end
    columns = _entry.priority, _entry.entered_at, due, _entry.first_opened_at
    arrived = conn.execute(select(*columns).where(*inside)).all()
    read = given(func.coalesce(reviews.c.priority, _entry.priority), reviews, reviews.c.version == 1)
    handed = given(_entry.priority, case_notes, case_notes.c.kind == "hand_over")
    return tuple(
        _priority(one, [row for row in arrived if row.priority == one], read.get(one, 0), handed.get(one, 0), end)
        for one in priorities
    )


def _priority(priority: Priority, rows: Sequence[Any], read: int, handed_over: int, end: datetime) -> PriorityShift:
    looked = [row for row in rows if row.first_opened_at is not None and row.first_opened_at < end]
    waited = sorted(row.first_opened_at - row.entered_at for row in looked)
    late = sum(row.first_opened_at > row.due_at for row in looked)
    never = sum(row.due_at < end for row in rows if row.first_opened_at is None or row.first_opened_at >= end)
    return PriorityShift(
        priority=priority,
        arrived=len(rows),
        looked_at=len(looked),
        overdue=late + never,
        read=read,
        handed_over=handed_over,
        median=median(waited) if waited else None,
        p90=_p90(waited),
        within_target=Proportion(len(looked) - late, len(looked) + never),
    )


def _p90(waited: Sequence[timedelta]) -> timedelta | None:
    """The smallest that nine in ten do not exceed; None of none."""
    seconds = [each.total_seconds() for each in waited]
    return timedelta(seconds=np.quantile(seconds, 0.9, method="inverted_cdf")) if seconds else None


_ACTOR = bindparam("actor", type_=String)
_SINCE = bindparam("since", type_=Moment)
_RECENT = bindparam("recent", type_=Moment)
_EVENT = audit_events.c
_PAUSE = select(func.max(_EVENT.seq)).where(
    _EVENT.actor == _ACTOR, _EVENT.action == "break_taken", _EVENT.at >= _RECENT
)
_OPENED = select(func.count(_EVENT.subject.distinct())).where(
    _EVENT.actor == _ACTOR, _EVENT.action.in_(("opened", "text_viewed"))
)
_EXPOSURE = select(
    _OPENED.where(_EVENT.at >= _SINCE).scalar_subquery().label("texts"),
    _OPENED.where(_EVENT.at >= _RECENT, _EVENT.seq > func.coalesce(_PAUSE.scalar_subquery(), 0))
    .scalar_subquery()
    .label("since_break"),
)
_READ = (
    select(func.count())
    .select_from(reviews)
    .where(reviews.c.reviewer == _ACTOR, reviews.c.at >= _SINCE, reviews.c.version == 1)
)


def exposure(db: Database, by: Acting, since: datetime) -> Any:
    """One's own exposure: a row of how many different ``texts`` were opened since a moment (the start of the day), and
    how many ``since_break``, the last one, as far as a `STRETCH` back, over any midnight. Raises Forbidden.
    """
    require(by.actor, Action.VIEW_CARE, by.id)
    return db.row(_EXPOSURE, {"actor": by.id, "since": since, "recent": by.now - STRETCH})


def count_cases_read(db: Database, actor: Actor, since: datetime) -> int:
    """How many cases the actor has read since a moment: their own count. Raises Forbidden."""
    require(actor, Action.VIEW_CARE, actor.id)
    return int(db.value(_READ, {"actor": actor.id, "since": since}))


def take_break(db: Database, by: Acting) -> None:
    """Start the count since the last break again; leases and drafts are not changed. Raises Forbidden."""
    require(by.actor, Action.VIEW_CARE, by.id)
    with db.write() as conn:
        append(conn, by, "break_taken", None, {})


def figures(db: Database, now: datetime) -> Mapping[str, Any]:
    """The figures at ``now``, of one moment. ``oldest_due`` is of open cases; ``first_looks`` covers the last day."""
    sums = select(*(func.coalesce(func.sum(batch_counts.c[name]), 0).label(name) for name in _SUMS))
    ready = pending_cases.c.ready_at
    waiting = select(func.count(ready).label("waiting"), (func.count() - func.count(ready)).label("parked"))
    by_priority = {
        "open": select(_entry.priority, func.count()),
        "overdue": select(_entry.priority, func.count()).where(_entry.due_at <= now),
        "oldest_due": select(_entry.priority, func.min(_entry.due_at, type_=Moment)),
    }
    with db.read() as conn:
        return {
            **{
                name: _by_priority(conn, query.where(_entry.closed_at.is_(None)).group_by(_entry.priority))
                for name, query in by_priority.items()
            },
            **conn.execute(sums).one()._mapping,
            **conn.execute(waiting).one()._mapping,
            "errors": {row[0]: row[1] for row in conn.execute(_ERRORS)},
            "processes": health.processes(conn, now),
            "faults": {lasting.fault for lasting in health.open_faults(conn)},
            "first_looks": priority_shifts(conn, now - DAY, now),
        }


_ERRORS = select(case_errors.c.kind, func.count()).group_by(case_errors.c.kind)  # read off an index
_SUMS = ("calls", "lost_calls", "unpriced_calls", "cost_usd")


def require_ready(db: Database, now: datetime) -> None:
    """Return where the database answers, has its tables, and keeps what is written to it. Raises whatever is wrong."""
    with db.read() as conn:
        conn.execute(select(pending_cases.c.case_id).limit(1)).first()
    health.take(db, "ready", "whoever asks", now, timedelta())


def _by_priority(conn: Connection, query: Select[*tuple[Any, ...]]) -> dict[Priority, Any]:
    return {Priority(row[0]): row[1] for row in conn.execute(query)}
