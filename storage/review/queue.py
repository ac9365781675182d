"""The inbox's list, counts and search: what waits, and who has it. Only a search for words reads texts.

Nothing here grows with what waits: a list is read along an index, and a count stops at `MOST_COUNTED`.
"""

import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, Connection, Integer, Select, bindparam, func, literal, select, union_all

from screening.review.policy import Acting, Action, Actor, require
from screening.review.triage import Priority
from storage.database import Database, begins
from storage.review.claims import NOW, SHOWN, in_hand, in_order, is_kept, is_open, moment, of_batch, of_priority, state
from storage.schema import LATER_REVIEW, Moment, batches, cases, inbox_entries

_entry = inbox_entries.c
FIRST_NAMED = 1_000
"""Cases with such a beginning of an id or group of which the open ones are found."""
FIRST_DUE = 5_000
"""Open cases due first, among which those of a batch are found."""
FIRST_READ = 10_000
"""Texts looked through, of the cases due first: some 0.1 s."""
ENOUGH = 200
"""Cases with such words: the search for more ends there."""
MOST_BATCHES = 20
LONGEST = 120
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

    @classmethod
    def _missing_(cls, _value: object) -> "Sort":  # an address may say anything
        return cls.URGENT


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many open cases are in each state inside the filter, and how many lie outside it. ``held_until`` is when the
    first lease of somebody else runs out, ``reserved_until`` likewise; None where there is none.

    ``free_by_priority`` are the free cases inside the filter, ``inside_by_priority`` all in it; ``open_by_priority``
    (with ``first_due_by_priority``), ``late_by_priority`` and ``kept_by_priority`` (not free for this person) all open
    cases. Free and late ones are counted up to `MOST_COUNTED` + 1 a priority, but all free ones of a batch.
    ``disputed`` are those on which two reviewers disagree, also outside the filter. ``newest_urgent``, the latest
    target of an open P0 case, moves on when one comes in.
    """

    by_state: Mapping[State, int]
    free_by_priority: Mapping[Priority, int]
    open_by_priority: Mapping[Priority, int]
    first_due_by_priority: Mapping[Priority, datetime]
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
        return sum(self.by_state.values()) + self.outside_filter

    @property
    def free(self) -> int:
        """Cases that "the next one" could give this person now."""
        return self.by_state[State.FREE]


def queue(
    db: Database,
    by: Acting,
    priorities: Collection[Priority] | None = None,
    limit: int = 50,
    offset: int = 0,
    sort: Sort = Sort.URGENT,
    batch: str | None = None,
) -> Sequence[Any]:
    """Open cases, in the order they are due where no other is asked for: the entry of each, with its ``external_id``
    and ``state``. For supervisors. Raises Forbidden.
    """
    require(by.actor, Action.BROWSE_QUEUE)
    query = _list(by.actor, None if priorities is None else frozenset(priorities), limit, offset, sort, batch)
    return db.rows(query, moment(by.now))


@lru_cache
def _list(
    actor: Actor, priorities: frozenset[Priority] | None, limit: int, offset: int, sort: Sort, batch: str | None
) -> Select[Any]:
    """A page of the list, built once for who asks again and again: the first cases of each priority wanted, merged."""
    entries = select(*SHOWN, state(actor, NOW).label("state")).where(is_open(), of_batch(batch))
    if priorities is None and sort is Sort.URGENT:
        first = entries.order_by(*in_order(None))
    else:
        order = (_entry.due_at, _entry.case_id) if sort is Sort.URGENT else _sort_columns(_entry, sort)
        heads = [
            entries.where(_entry.priority == int(priority)).order_by(*order).limit(limit + offset).subquery()
            for priority in sorted(Priority if priorities is None else priorities)
        ]
        merged = union_all(*(select(head) for head in heads)).subquery()
        first = select(merged).order_by(*_sort_columns(merged.c, sort))
    page = first.limit(limit).offset(offset).subquery()
    joined = select(page, cases.c.external_id).join(cases, cases.c.id == page.c.case_id)
    return joined.order_by(*_sort_columns(page.c, sort))


def _sort_columns(entry: Any, sort: Sort) -> tuple[ColumnElement[Any], ...]:
    if sort is Sort.URGENT:
        return entry.routine, entry.due_at, entry.case_id
    if sort is Sort.LONGEST:
        return entry.entered_at, entry.case_id
    return entry.entered_at.desc(), entry.case_id.desc()


def counts(
    db: Database, by: Acting, priorities: Collection[Priority] | None = None, batch: str | None = None
) -> Counts:
    """How many cases wait in this filter, and what keeps them from this person. Raises Forbidden."""
    require(by.actor, Action.VIEW_COUNTS)
    with db.read() as conn:
        rows = conn.execute(_by_state(by.actor, None), moment(by.now)).all()
        of_one = rows if batch is None else conn.execute(_by_state(by.actor, batch), moment(by.now)).all()
        kept = _by_priority(row for row in rows if row.state != State.FREE)
        values = {"now": by.now, "most": MOST_COUNTED + 1}
        values |= {f"most_{int(priority)}": MOST_COUNTED + 1 + number for priority, number in kept.items()}
        found = {(row.what, row.priority): row for row in conn.execute(_STANDING, values)}
    opened = {priority: int(found["open", priority].n) for priority in Priority}
    inside = set(Priority if priorities is None else priorities)
    every = opened if batch is None else _by_priority(of_one)
    every = {priority: number if priority in inside else 0 for priority, number in every.items()}
    blocked = [row for row in of_one if row.priority in inside and row.state != State.FREE]
    free = {priority: every[priority] - number for priority, number in _by_priority(blocked).items()}
    by_state = {state: sum(row.n for row in blocked if row.state == state) for state in State}
    return Counts(
        by_state=by_state | {State.FREE: sum(free.values())},
        free_by_priority=free,
        open_by_priority=opened,
        first_due_by_priority={priority: due for priority in Priority if (due := found["open", priority].due)},
        inside_by_priority=every,
        late_by_priority={priority: int(found["late", priority].n) for priority in Priority},
        kept_by_priority=kept,
        disputed=int(found["disputed", 0].n),
        newest_urgent=found["newest", 0].due,
        outside_filter=sum(max(0, number - every[priority]) for priority, number in opened.items()),
        held_until=_first_until(blocked, State.HELD),
        reserved_until=_first_until(blocked, State.RESERVED),
    )


def _by_priority(rows: Iterable[Any]) -> dict[Priority, int]:
    numbers = Counter[int]()
    for row in rows:
        numbers[row.priority] += row.n
    return {priority: numbers[priority] for priority in Priority}


def _first_until(rows: Iterable[Any], state: State) -> datetime | None:
    return min((row.until for row in rows if row.state == state and row.until is not None), default=None)


def _counted(what: str, priority: Priority, most: Any, *which: ColumnElement[bool]) -> Select[Any]:
    """How many open cases of a priority there are, as far as a limit, and when the first is due; along its index."""
    query = select(_entry.due_at).where(is_open(), _entry.priority == int(priority), *which)
    first = query.order_by(_entry.due_at).limit(most).subquery().c
    columns: list[Any] = [literal(what).label("what"), literal(int(priority)).label("priority")]
    return select(*columns, func.count().label("n"), func.min(first.due_at, type_=Moment).label("due"))


_NONE = literal(None, Moment).cast(Moment)
_NEWEST = (
    select(_entry.due_at).where(is_open(), _entry.priority == int(Priority.P0)).order_by(_entry.due_at.desc()).limit(1)
)
_STANDING: Any = union_all(
    *(_counted("open", priority, bindparam(f"most_{int(priority)}", type_=Integer)) for priority in Priority),
    *(_counted("late", priority, bindparam("most", type_=Integer), _entry.due_at <= NOW) for priority in Priority),
    select(literal("disputed"), literal(0), func.count(), _NONE).where(
        is_open(), LATER_REVIEW, _entry.review_round == "third"
    ),
    select(literal("newest"), literal(0), literal(0), _NEWEST.scalar_subquery()),
)
"""Written once: an open inbox asks every few seconds, and most of the asking was the writing of the question."""


@lru_cache
def _by_state(actor: Actor, batch: str | None) -> Select[Any]:
    """The statement that counts open cases by their state: all of one batch, else those that may not be free."""
    which = in_hand(actor, NOW) if batch is None else of_batch(batch)
    columns = state(actor, NOW).label("state"), _entry.priority, _entry.assigned_until
    standing = select(*columns).where(which, is_open()).subquery().c
    first = func.min(standing.assigned_until, type_=Moment).label("until")  # of those that are held or kept
    counted = select(standing.state, standing.priority, func.count().label("n"), first)
    return counted.group_by(standing.state, standing.priority)


def reserved_cases(db: Database, by: Acting) -> Sequence[Any]:
    """Cases kept for this person, by themselves or a colleague: they may claim these by name. Raises Forbidden."""
    require(by.actor, Action.CLAIM_NEXT)
    query = select(*SHOWN, state(by.actor, by.now).label("state"), cases.c.external_id)
    theirs = query.join(cases, cases.c.id == _entry.case_id).where(is_open(), is_kept(by.now), _entry.assignee == by.id)
    # few: put in order here, so that the index of what is reserved serves
    return sorted(db.rows(theirs), key=lambda row: _sort_columns(row, Sort.URGENT))


def find(
    db: Database,
    by: Acting,
    words: str,
    *,
    texts: bool = False,
    priorities: Collection[Priority] | None = None,
    sort: Sort = Sort.URGENT,
    limit: int = 50,
) -> tuple[Sequence[Any], int | None]:
    """Open cases whose id or group begins with the words or whose batch has them in its name; with ``texts`` those with
    all of them in text or reply too. Beside them, where not every open case's text was looked through, of how many it
    was: each search is bounded, by an index and its first matches, or to the cases due first.
    """
    require(by.actor, Action.BROWSE_QUEUE)
    if texts:
        require(by.actor, Action.VIEW_TEXT)
    wanted = words.strip()[:LONGEST]
    if not wanted:
        return (), None
    with db.read() as conn:
        found = _cases_by_name(conn, wanted) | _in_batches(conn, wanted)
        texts_read = None
        if texts:
            with_words, texts_read = _with_words(conn, wanted, priorities)
            found |= with_words
        query = (
            select(*SHOWN, cases.c.external_id, state(by.actor, by.now).label("state"))
            .join(cases, cases.c.id == _entry.case_id)
            .where(_entry.case_id.in_(sorted(found)), is_open(), of_priority(priorities))
        )
        rows = conn.execute(query.order_by(*_sort_columns(_entry, sort)).limit(limit)).all()
    return rows, texts_read


def _cases_by_name(conn: Connection, words: str) -> set[str]:
    by_id = select(cases.c.id).where(cases.c.id == words.lower())
    by_name = select(cases.c.id).where(begins(conn, cases.c.external_id, words)).limit(FIRST_NAMED)
    by_group = select(cases.c.id).where(begins(conn, cases.c.group_name, words)).limit(FIRST_NAMED)
    ids = by_id.union(*(select(each.subquery().c.id) for each in (by_name, by_group))).subquery()
    query = select(_entry.case_id).where(_entry.case_id.in_(select(ids.c.id)), is_open())
    return set(conn.execute(query).scalars())


def _with_words(conn: Connection, words: str, priorities: Collection[Priority] | None) -> tuple[set[str], int | None]:
    """Open cases with all the words in text or reply, and how many were looked through where there are more."""
    joined = select(cases.c.id, cases.c.text, cases.c.model_text, cases.c.reply)
    joined = joined.join(inbox_entries, _entry.case_id == cases.c.id).where(is_open(), of_priority(priorities))
    wanted = _fold_case(words).split()
    read, found = 0, set[str]()
    query = joined.order_by(*in_order(priorities)).limit(FIRST_READ + 1).execution_options(yield_per=ENOUGH)
    with conn.execute(query) as rows:
        for row in islice(rows, FIRST_READ):
            text = _fold_case("\n".join(part for part in (row.text, row.model_text, row.reply) if part))
            read += 1
            if all(word in text for word in wanted):
                found.add(row.id)
            if len(found) == ENOUGH:
                break
        return found, None if next(rows, None) is None else read


def _fold_case(text: str) -> str:
    """The form in which words are compared: without regard to case, width and compatibility forms.

    >>> _fold_case("Ｂridge ﬁne STRASSE") == _fold_case("bridge fine Straße")
    True
    """
    return unicodedata.normalize("NFKC", text).casefold()


def _in_batches(conn: Connection, words: str) -> set[str]:
    named = batches.c.name.icontains(words, autoescape=True) | (batches.c.id == words.lower())
    newest = select(batches.c.id).where(named).order_by(batches.c.created_at.desc()).limit(MOST_BATCHES)
    chosen = list(conn.execute(newest).scalars())
    if not chosen:
        return set()
    first = select(_entry.case_id).where(is_open()).order_by(*in_order(None)).limit(FIRST_DUE).subquery()
    query = select(cases.c.id).join(first, first.c.case_id == cases.c.id).where(cases.c.batch_id.in_(chosen))
    return set(conn.execute(query).scalars())
