"""Numbers about the work: a shift by priority, one's own texts opened today, figures of the site for a monitor."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Connection, Select, String, bindparam, func, or_, select

from screening.review.actors import Acting, Actor
from screening.review.policy import Action, require
from screening.review.triage import Tier
from storage.audit_log import append
from storage.database import Database
from storage.schema import (
    Moment,
    audit_events,
    batch_tallies,
    case_errors,
    case_notes,
    follow_ups,
    inbox_entries,
    pending_cases,
    ratings,
)
from storage.settings_store import current_in
from storage.site import faults, processes
from storage.site.processes import Process

_entry = inbox_entries.c


@dataclass(frozen=True, slots=True, kw_only=True)
class TierShift:
    """One tier in a period. Of the cases that ``arrived`` in it: how many were ``looked_at`` by its end, how many
    were overdue by then (``overdue``, looked at too late or not at all), and the times to the first look; ``read``
    counts the readings given in the period, by the tier shown with them, whenever their cases arrived; a revision is
    no other reading. Median, p90 and share are None without
    a case to tell them from.
    """

    tier: Tier
    arrived: int
    looked_at: int
    overdue: int
    read: int
    handed_over: int
    median: timedelta | None
    p90: timedelta | None
    within_target: float | None
    told_from: int
    """Cases whose target has passed or that were looked at: the share within target is of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Left:
    """What the next shift takes over: cases still open at the end, and how many of them were past their target."""

    open: int
    late: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """Every tier, what was left of each at the end, and the follow-ups."""

    begin: datetime
    end: datetime
    tiers: tuple[TierShift, ...]
    left: Mapping[Tier, Left]
    follow_ups_opened: int
    follow_ups_closed: int
    follow_ups_overdue: int


def shift(db: Database, actor: Actor, begin: datetime, end: datetime) -> Shift:
    """The period from ``begin`` up to, not including, ``end``, as it stood at its end. ValueError for an empty one.
    Raises Forbidden.
    """
    require(actor, Action.VIEW_COUNTS)
    if begin >= end:
        raise ValueError("the period ends before it begins")
    with db.read() as conn:
        tiers, left = tier_shifts(conn, begin, end), _remaining_by_tier(conn, end)
        opened, closed, overdue = _follow_ups(conn, begin, end)
    return Shift(
        begin=begin,
        end=end,
        tiers=tiers,
        left=left,
        follow_ups_opened=opened,
        follow_ups_closed=closed,
        follow_ups_overdue=overdue,
    )


def shift_of(db: Database, actor: Actor, tier: Tier, begin: datetime, end: datetime) -> TierShift:
    """One tier in the period. Raises Forbidden."""
    require(actor, Action.VIEW_COUNTS)
    with db.read() as conn:
        [found] = tier_shifts(conn, begin, end, (tier,))
    return found


def tier_shifts(
    conn: Connection, begin: datetime, end: datetime, tiers: Sequence[Tier] = tuple(Tier)
) -> tuple[TierShift, ...]:
    """Each tier in the period, inside the caller's transaction."""
    arrived = _arrivals(conn, begin, end, tiers)
    shown = func.coalesce(ratings.c.tier, _entry.tier)
    readings = select(shown, func.count()).select_from(ratings).where(ratings.c.version == 1)
    read = _by_tier(conn, readings.group_by(shown), ratings, begin, end)
    notes = select(_entry.tier, func.count()).select_from(case_notes).where(case_notes.c.kind == "hand_over")
    notes = notes.group_by(_entry.tier)
    handed = _by_tier(conn, notes, case_notes, begin, end)
    return tuple(
        _tier(tier, [row for row in arrived if row.tier == tier], read.get(tier, 0), handed.get(tier, 0), end)
        for tier in tiers
    )


def _remaining_by_tier(conn: Connection, end: datetime) -> Mapping[Tier, Left]:
    waited = _entry.entered_at < end, or_(_entry.closed_at.is_(None), _entry.closed_at >= end)
    late = func.count().filter(_entry.due_at <= end)
    query = select(_entry.tier, func.count().label("open"), late.label("late")).where(*waited).group_by(_entry.tier)
    found = {Tier(row.tier): Left(open=row.open, late=row.late) for row in conn.execute(query)}
    return {tier: found.get(tier, Left(open=0, late=0)) for tier in Tier}


def _arrivals(conn: Connection, begin: datetime, end: datetime, tiers: Sequence[Tier]) -> Sequence[Any]:
    due = func.coalesce(_entry.first_due_at, _entry.due_at).label("due_at")
    query = select(_entry.tier, _entry.entered_at, due, _entry.first_opened_at)
    inside = _entry.tier.in_(tiers), _entry.entered_at >= begin, _entry.entered_at < end
    return conn.execute(query.where(*inside)).all()


def _by_tier(conn: Connection, query: Any, table: Any, begin: datetime, end: datetime) -> dict[int, int]:
    joined = query.join(inbox_entries, _entry.case_id == table.c.case_id)
    rows = conn.execute(joined.where(table.c.at >= begin, table.c.at < end))
    return {row[0]: row[1] for row in rows}


def _tier(tier: Tier, rows: Sequence[Any], read: int, handed_over: int, end: datetime) -> TierShift:
    looked = [row for row in rows if row.first_opened_at is not None and row.first_opened_at < end]
    waited = sorted(row.first_opened_at - row.entered_at for row in looked)
    late = sum(row.first_opened_at > row.due_at for row in looked)
    seen = {id(row) for row in looked}
    never = sum(row.due_at < end for row in rows if id(row) not in seen)
    told_from = len(looked) + never
    return TierShift(
        tier=tier,
        arrived=len(rows),
        looked_at=len(looked),
        overdue=late + never,
        read=read,
        handed_over=handed_over,
        median=quantile(waited, 0.5),
        p90=quantile(waited, 0.9),
        within_target=(len(looked) - late) / told_from if told_from else None,
        told_from=told_from,
    )


def quantile(ordered: Sequence[timedelta], share: float) -> timedelta | None:
    """The smallest value that at least this share of the values does not exceed; None of none.

    >>> quantile([timedelta(minutes=one) for one in (1, 2, 3, 10)], 0.5)
    datetime.timedelta(seconds=120)
    >>> quantile([timedelta(minutes=one) for one in (1, 2, 3, 10)], 0.9)
    datetime.timedelta(seconds=600)
    """
    if not ordered:
        return None
    rank = -(-len(ordered) * round(share * 1_000) // 1_000)
    return ordered[max(rank, 1) - 1]


def _follow_ups(conn: Connection, begin: datetime, end: datetime) -> tuple[int, int, int]:
    table = follow_ups.c
    count = select(func.count()).select_from(follow_ups)
    opened = count.where(table.opened_at >= begin, table.opened_at < end)
    closed = count.where(table.closed_at >= begin, table.closed_at < end)
    open_then = (table.closed_at.is_(None)) | (table.closed_at >= end)
    overdue = count.where(table.opened_at < end, table.due_at < end, open_then)
    found = [conn.execute(query).scalar_one() for query in (opened, closed, overdue)]
    return found[0], found[1], found[2]


_ACTOR: BindParameter[str] = bindparam("actor", type_=String)
_SINCE: BindParameter[datetime] = bindparam("since", type_=Moment)
_RECENT: BindParameter[datetime] = bindparam("recent", type_=Moment)
_EVENT = audit_events.c
_PAUSE = select(func.max(_EVENT.seq)).where(
    _EVENT.actor == _ACTOR, _EVENT.action == "break_taken", _EVENT.at >= _RECENT
)
_OPENED = select(func.count(_EVENT.subject.distinct())).where(
    _EVENT.actor == _ACTOR, _EVENT.action.in_(("opened", "text_viewed"))
)
_TODAY = select(
    _OPENED.where(_EVENT.at >= _SINCE).scalar_subquery().label("texts"),
    _OPENED.where(_EVENT.at >= _RECENT, _EVENT.seq > func.coalesce(_PAUSE.scalar_subquery(), 0))
    .scalar_subquery()
    .label("since_break"),
)
_READ = (
    select(func.count())
    .select_from(ratings)
    .where(ratings.c.reviewer == _ACTOR, ratings.c.at >= _SINCE, ratings.c.version == 1)
)


STRETCH = timedelta(hours=8)
"""Nobody reads for longer without a break: before that lies a night's rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Different texts opened since a moment (the start of the day), and since the last break: as far as a `STRETCH`
    back, over any midnight.
    """

    texts: int
    since_break: int
    break_due: bool


def exposure(db: Database, by: Acting, since: datetime) -> Exposure:
    """One's own exposure since a moment, and whether the site's number of texts before a break is reached.
    Raises Forbidden.
    """
    require(by.actor, Action.VIEW_CARE, by.id)
    with db.read() as conn:
        found = conn.execute(_TODAY, {"actor": by.id, "since": since, "recent": by.now - STRETCH}).one()
        limit = current_in(conn).settings.break_after_texts
    return Exposure(texts=found.texts, since_break=found.since_break, break_due=found.since_break >= limit)


def count_cases_read(db: Database, actor: Actor, since: datetime) -> int:
    """How many cases the actor has read since a moment: their own count, for how far the queue is from its end.
    Raises Forbidden.
    """
    require(actor, Action.VIEW_CARE, actor.id)
    return int(db.value(_READ, {"actor": actor.id, "since": since}))


def take_break(db: Database, by: Acting) -> None:
    """Start the count since the last break again; leases and drafts are not changed. Raises Forbidden."""
    require(by.actor, Action.VIEW_CARE, by.id)
    with db.write() as conn:
        append(conn, by, "break_taken", None, {})


DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One moment. ``oldest_due`` is the earliest deadline of an open case; ``first_looks`` covers the last day."""

    open: Mapping[Tier, int]
    overdue: Mapping[Tier, int]
    oldest_due: Mapping[Tier, datetime]
    waiting: int
    parked: int
    calls: int
    lost_calls: int
    unpriced_calls: int
    cost_usd: float
    errors: Mapping[str, int]
    processes: tuple[Process, ...]
    faults: frozenset[str]
    first_looks: tuple[TierShift, ...]


def figures(db: Database, now: datetime) -> Figures:
    """The figures at ``now``, from one snapshot of the database."""
    with db.read() as conn:
        open_cases = _entry.closed_at.is_(None)
        late = select(_entry.tier, func.count()).where(open_cases, _entry.due_at <= now).group_by(_entry.tier)
        due = select(_entry.tier, func.min(_entry.due_at, type_=Moment)).where(open_cases).group_by(_entry.tier)
        sums = conn.execute(select(*(func.sum(batch_tallies.c[name]) for name in _SUMS))).one()
        return Figures(
            open=_found_by_tier(conn, select(_entry.tier, func.count()).where(open_cases).group_by(_entry.tier)),
            overdue=_found_by_tier(conn, late),
            oldest_due={Tier(row[0]): row[1] for row in conn.execute(due)},
            waiting=_count(conn, pending_cases.c.ready_at.is_not(None)),
            parked=_count(conn, pending_cases.c.ready_at.is_(None)),
            calls=int(sums[0] or 0),
            lost_calls=int(sums[1] or 0),
            unpriced_calls=int(sums[2] or 0),
            cost_usd=float(sums[3] or 0),
            errors={row[0]: row[1] for row in conn.execute(_ERRORS)},
            processes=tuple(processes.processes(conn, now)),
            faults=frozenset(one.fault.value for one in faults.open_faults_in(conn)),
            first_looks=tier_shifts(conn, now - DAY, now),
        )


_ERRORS = select(case_errors.c.kind, func.count()).group_by(case_errors.c.kind)  # read off an index
_SUMS = ("calls", "lost_calls", "unpriced_calls", "cost_usd")


def require_ready(db: Database, now: datetime) -> None:
    """Return where the database answers, has its tables, and keeps what is written to it. Raises whatever is wrong."""
    with db.read() as conn:
        conn.execute(select(pending_cases.c.case_id).limit(1)).first()
    processes.take(db, "ready", "whoever asks", now, timedelta())


def _found_by_tier(conn: Connection, query: Select[Any]) -> dict[Tier, int]:
    return {Tier(row[0]): row[1] for row in conn.execute(query)}


def _count(conn: Connection, which: ColumnElement[bool]) -> int:
    found = select(func.count()).select_from(pending_cases).where(which)
    return int(conn.execute(found).scalar_one())
