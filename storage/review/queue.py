"""The inbox's list and counts: what waits, and who has it. Neither ever reads the text of a case.

Nothing here grows with what waits: a list is read along an index, and a count stops at `MOST_COUNTED`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Integer,
    Select,
    bindparam,
    case,
    func,
    literal,
    null,
    select,
    union_all,
)

from screening.review.actors import Acting, Actor
from screening.review.policy import Action, require
from screening.review.triage import Priority
from storage.database import Database, record
from storage.review.claims import (
    KEPT,
    NOW,
    cases_in_hands,
    in_order,
    is_assigned,
    is_kept,
    is_open,
    moment,
    of_batch,
    state,
    why_of,
)
from storage.schema import Moment, cases, inbox_entries
from storage.schema.review import LATER_REVIEW

_entry = inbox_entries.c
MOST_COUNTED = 1_000
"""Open cases of a priority are counted as far as this, and late ones: one more stands for any greater number."""


class State(StrEnum):
    """What keeps an open case from this person, if anything; each open case is in exactly one state."""

    FREE = "free"
    MINE = "mine"
    HELD = "held"  # leased by somebody else
    READ = "read"  # this person has read it; it waits for another
    SENIOR = "senior"  # two reviewers disagree, a senior decides
    RESERVED = "reserved"  # on hold, or handed to a named person
    SKIPPED = "skipped"  # by this person, for a while or for good


class Sort(StrEnum):
    """The order of a list. Whatever it is, "the next one" is the most urgent free case."""

    URGENT = "urgent"  # P0 first, then by deadline
    LONGEST = "longest"  # what came in first
    NEWEST = "newest"


def sort_of(name: str) -> Sort:
    """The order of this name; by urgency where there is none.

    >>> sort_of("newest"), sort_of("shuffled")
    (<Sort.NEWEST: 'newest'>, <Sort.URGENT: 'urgent'>)
    """
    return next((each for each in Sort if each.value == name), Sort.URGENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One open case in a list; age and time left follow from ``entered_at`` and ``due_at``."""

    case_id: str
    external_id: str
    priority: Priority
    why: str
    entered_at: datetime
    due_at: datetime
    state: State
    assignee: str | None
    assigned_until: datetime | None
    review_round: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many open cases are in each state inside the filter, and how many lie outside it.

    ``held_until`` is when the first lease of somebody else runs out, ``reserved_until`` likewise; None where there is
    none. ``free_by_priority`` covers the free cases inside the filter, ``inside_by_priority`` all in it;
    ``open_by_priority``, ``late_by_priority`` and ``kept_by_priority`` (not free for this person) all open cases. Free
    and late ones of a priority are counted up to `MOST_COUNTED` + 1, but all free ones of a batch. ``disputed`` are
    those on which two reviewers disagree, also ones outside the filter. ``newest_urgent`` is the latest target of an
    open P0 case: it moves on when one comes in.
    """

    by_state: Mapping[State, int]
    free_by_priority: Mapping[Priority, int]
    open_by_priority: Mapping[Priority, int]
    inside_by_priority: Mapping[Priority, int]
    late_by_priority: Mapping[Priority, int]
    kept_by_priority: Mapping[Priority, int]
    disputed: int = 0
    newest_urgent: datetime | None = None
    outside_filter: int
    held_until: datetime | None
    reserved_until: datetime | None

    @property
    def open(self) -> int:
        """All open cases."""
        return sum(self.by_state.values()) + self.outside_filter

    @property
    def free(self) -> int:
        """Cases that "the next one" could give this person now."""
        return self.by_state[State.FREE]

    @property
    def held(self) -> int:
        """Cases that somebody else holds now."""
        return self.by_state[State.HELD]


def queue(
    db: Database,
    by: Acting,
    priorities: Collection[Priority] | None = None,
    limit: int = 50,
    offset: int = 0,
    sort: Sort = Sort.URGENT,
    batch: str | None = None,
) -> tuple[Waiting, ...]:
    """Open cases, in the order they are due where no other is asked for. For supervisors. Raises Forbidden."""
    require(by.actor, Action.BROWSE_QUEUE)
    query = _list(by.actor, None if priorities is None else frozenset(priorities), limit, offset, sort, batch)
    rows = db.rows(query, moment(by.now))
    return tuple(waiting_case(row, by.now) for row in rows)


@lru_cache(maxsize=KEPT)
def _list(
    actor: Actor, priorities: frozenset[Priority] | None, limit: int, offset: int, sort: Sort, batch: str | None
) -> Select[Any]:
    """The statement for a page of the list, built once for a person who asks again and again."""
    page = _page(actor, priorities, limit, offset, sort, batch).subquery()
    joined = select(page, cases.c.external_id).join(cases, cases.c.id == page.c.case_id)
    return joined.order_by(*sort_columns(page.c, sort))


def _page(
    actor: Actor, priorities: Collection[Priority] | None, limit: int, offset: int, sort: Sort, batch: str | None
) -> Select[Any] | CompoundSelect[Any]:
    """The first cases of each priority of the filter, merged: no query reads the cases that the filter leaves out."""
    entries = select(inbox_entries, state(actor, NOW).label("state")).where(is_open(), of_batch(batch))
    if priorities is None and sort is Sort.URGENT:
        return entries.order_by(*in_order(None)).limit(limit).offset(offset)
    heads = [
        entries.where(_entry.priority == int(priority)).order_by(*_in_priority(sort)).limit(limit + offset).subquery()
        for priority in sorted(Priority if priorities is None else priorities)
    ]
    merged = union_all(*(select(head) for head in heads)).subquery()
    return select(merged).order_by(*sort_columns(merged.c, sort)).limit(limit).offset(offset)


def sort_columns(entry: Any, sort: Sort) -> tuple[ColumnElement[Any], ...]:
    """The columns of an entry by which a list is sorted."""
    if sort is Sort.URGENT:
        return entry.routine, entry.due_at, entry.case_id
    if sort is Sort.LONGEST:
        return entry.entered_at, entry.case_id
    return entry.entered_at.desc(), entry.case_id.desc()


def _in_priority(sort: Sort) -> tuple[ColumnElement[Any], ...]:
    """The same within one priority: an index of its own."""
    return (_entry.due_at, _entry.case_id) if sort is Sort.URGENT else sort_columns(_entry, sort)


def waiting_case(row: Any, now: datetime) -> Waiting:
    """The case in a row of its entry with ``external_id`` and ``state``."""
    assigned = row.assigned_until is not None and row.assigned_until > now
    return record(
        Waiting,
        row,
        priority=Priority(row.priority),
        why=why_of(row),
        state=State(row.state),
        assignee=row.assignee if assigned else None,
        assigned_until=row.assigned_until if assigned else None,
    )


def counts(
    db: Database, by: Acting, priorities: Collection[Priority] | None = None, batch: str | None = None
) -> Counts:
    """How many cases wait, in these priorities and this batch, and what keeps them from this person. Raises
    Forbidden.
    """
    require(by.actor, Action.VIEW_COUNTS)
    with db.read() as conn:
        rows = conn.execute(_blocked_cases(by.actor), moment(by.now)).all()
        of_one = rows if batch is None else conn.execute(_cases_of(by.actor, batch), moment(by.now)).all()
        kept = {
            priority: sum(row.n for row in rows if row.priority == priority and row.state != State.FREE)
            for priority in Priority
        }
        values = {"now": by.now, "most": MOST_COUNTED + 1}
        values |= {f"most_{int(priority)}": MOST_COUNTED + 1 + number for priority, number in kept.items()}
        found = {(row.what, row.priority): row for row in conn.execute(_STANDING, values)}
    opened = {priority: int(found["open", priority].n) for priority in Priority}
    every = (
        opened
        if batch is None
        else {priority: sum(row.n for row in of_one if row.priority == priority) for priority in Priority}
    )
    return _counts(of_one, kept, opened, every, found, set(Priority if priorities is None else priorities))


def _counted(what: str, priority: Priority, most: BindParameter[int], *which: ColumnElement[bool]) -> Select[Any]:
    """How many open cases of a priority there are, as far as a limit; along the index of that priority."""
    first = select(_entry.case_id).where(is_open(), _entry.priority == int(priority), *which).order_by(_entry.due_at)
    told: list[Any] = [
        literal(what).label("what"),
        literal(int(priority)).label("priority"),
        func.count().label("n"),
        _NONE,
    ]
    return select(*told).select_from(first.limit(most).subquery())


_NONE = null().cast(Moment).label("due")
_NEWEST = (
    select(_entry.due_at).where(is_open(), _entry.priority == int(Priority.P0)).order_by(_entry.due_at.desc()).limit(1)
)
_STANDING: CompoundSelect[Any] = union_all(
    *(_counted("open", priority, bindparam(f"most_{int(priority)}", type_=Integer)) for priority in Priority),
    *(_counted("late", priority, bindparam("most", type_=Integer), _entry.due_at <= NOW) for priority in Priority),
    select(literal("disputed"), literal(0), func.count(), _NONE).where(
        is_open(), LATER_REVIEW, _entry.review_round == "third"
    ),
    select(literal("newest"), literal(0), literal(0), _NEWEST.scalar_subquery()),
)
"""Written once: an open inbox asks every few seconds, and most of the asking was the writing of the question."""
_FIRST_DUE = select(
    *(
        select(_entry.due_at)
        .where(is_open(), _entry.priority == int(priority))
        .order_by(_entry.due_at)
        .limit(1)
        .scalar_subquery()
        for priority in Priority
    )
)


def first_due_by_priority(db: Database, actor: Actor) -> Mapping[Priority, datetime]:
    """The earliest target of each priority's open cases; a priority without any is left out. Raises Forbidden."""
    require(actor, Action.VIEW_COUNTS)
    return {priority: due for priority, due in zip(Priority, db.row(_FIRST_DUE), strict=True) if due is not None}


@lru_cache(maxsize=KEPT)
def _blocked_cases(actor: Actor) -> Select[Any]:
    """The statement that counts the cases that may not be free, by their state."""
    return _by_state(actor, _entry.case_id.in_(cases_in_hands(actor, NOW)))


@lru_cache(maxsize=KEPT)
def _cases_of(actor: Actor, batch: str) -> Select[Any]:
    """The statement that counts all open cases of one batch, by their state."""
    return _by_state(actor, of_batch(batch))


def _by_state(actor: Actor, which: ColumnElement[bool]) -> Select[Any]:
    standing = (
        select(
            state(actor, NOW).label("state"),
            _entry.priority,
            case((is_assigned(NOW), _entry.assigned_until)).label("until"),
        )
        .where(which, is_open())
        .subquery()
        .c
    )
    return select(
        standing.state,
        standing.priority,
        func.count().label("n"),
        func.min(standing.until, type_=Moment).label("until"),
    ).group_by(standing.state, standing.priority)


def _counts(
    of_one: Collection[Any],
    kept: Mapping[Priority, int],
    opened: Mapping[Priority, int],
    every: Mapping[Priority, int],
    found: Mapping[tuple[str, int], Any],
    priorities: Collection[Priority],
) -> Counts:
    """``of_one`` are the rows, and ``every`` the open cases, of the batch that is looked at; else the same as all."""
    inside = [row for row in of_one if row.priority in priorities and row.state != State.FREE]
    places = Counter[tuple[str, int]]({(row.state, row.priority): row.n for row in inside})
    by_state = {one: sum(places[one, priority] for priority in priorities) for one in State}
    free = {
        priority: every[priority] - sum(places[one, priority] for one in State) if priority in priorities else 0
        for priority in Priority
    }
    return Counts(
        by_state=by_state | {State.FREE: sum(free.values())},
        free_by_priority=free,
        open_by_priority=opened,
        inside_by_priority={priority: every[priority] if priority in priorities else 0 for priority in Priority},
        late_by_priority={priority: int(found["late", priority].n) for priority in Priority},
        disputed=int(found["disputed", 0].n),
        newest_urgent=found["newest", 0].due,
        kept_by_priority=kept,
        outside_filter=sum(
            max(0, number - (every[priority] if priority in priorities else 0)) for priority, number in opened.items()
        ),
        held_until=_first(row.until for row in inside if row.state == State.HELD),
        reserved_until=_first(row.until for row in inside if row.state == State.RESERVED),
    )


def _first(moments: Iterable[datetime | None]) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


def reserved_cases(db: Database, by: Acting) -> tuple[Waiting, ...]:
    """Cases put on hold by this person or handed to them, still reserved: the ones they may claim by name.
    Raises Forbidden.
    """
    require(by.actor, Action.CLAIM_NEXT)
    query = select(inbox_entries, state(by.actor, by.now).label("state"), cases.c.external_id)
    theirs = query.join(cases, cases.c.id == _entry.case_id).where(is_open(), is_kept(by.now), _entry.assignee == by.id)
    rows = db.rows(theirs)  # few: put in order here, so that the index of what is reserved serves
    return tuple(
        waiting_case(row, by.now) for row in sorted(rows, key=lambda row: (row.routine, row.due_at, row.case_id))
    )
