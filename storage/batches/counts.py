"""A batch's running counts: how many of its rows are of each kind, and what they cost. So progress and caps cost the
same for ten rows and for a million. And by what pages tell whether a figure may be another by now.

Added to in the transaction that inserts the fact that is counted, and only when the insert took place. The tests derive
the same counts from the facts alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, ScalarSelect, Table, case, func, or_, select

from screening.labels import Outcome
from screening.review.policy import Actor
from storage.database import Database, insert_into, record
from storage.schema.intake import batch_counts, batches, cases
from storage.schema.review import (
    ENTERED_OTHERWISE,
    adjudications,
    inbox_entries,
    reviews,
    second_review_requests,
    unblindings,
    undone_reviews,
)

SHARDS = 8
"""Rows among which each count of a batch is spread: so many commits on one batch need not wait for each other."""

UNPRICED_AT_FIRST = 1_000
"""Lost calls that a cap on cost lets pass before the first run gives a price: a worker that is started anew in a
batch's first seconds must not end the batch, and one that only ever loses calls must not go on for ever."""

_CASES = ("accepted", "rejected", *(outcome.value for outcome in Outcome))
_LAST = "last_completed_at"
_SPENT = ("calls", "lost_calls", "unpriced_calls", "cost_usd")
PENDING, REJECTED = "pending", "rejected"
IN_REVIEW = "in review"
"""Beside the outcomes: not screened yet, no case at all, and open in the inbox."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Totals:
    """What came in, how it ended, and what was spent. ``cost_usd`` is the known part of the cost of ``calls``.

    ``lost_calls`` were made but their draws did not count; ``unpriced_calls`` are those of ``calls`` whose
    price is unknown.
    """

    accepted: int = 0
    rejected: int = 0
    safe: int = 0
    unsafe: int = 0
    human_review: int = 0
    calls: int = 0
    lost_calls: int = 0
    unpriced_calls: int = 0
    cost_usd: float = 0.0
    last_completed_at: datetime | None = None

    def __add__(self, more: "Totals") -> "Totals":
        """The sums of both; the later one's moment where it has one."""
        sums = {name: getattr(self, name) + getattr(more, name) for name in (*_CASES, *_SPENT)}
        return Totals(**sums, last_completed_at=more.last_completed_at or self.last_completed_at)

    @property
    def ended(self) -> int:
        """Decided, or left to a person."""
        return self.safe + self.unsafe + self.human_review

    @property
    def pending(self) -> int:
        """Accepted and not ended yet."""
        return self.accepted - self.ended

    @property
    def known_cost_usd(self) -> float | None:
        """The cost of ``calls``, or None as soon as part of it is unknown, as all of it is where every call was lost.

        >>> Totals(lost_calls=5).known_cost_usd, Totals(calls=1, lost_calls=5, cost_usd=0.5).known_cost_usd
        (None, 0.5)
        """
        return None if self.unpriced_calls or (self.lost_calls and not self.calls) else self.cost_usd

    @property
    def cost_for_cap_usd(self) -> float | None:
        """The cost with lost calls at the mean price of the others; None when it cannot be known.

        >>> Totals(calls=6, cost_usd=0.03, lost_calls=4).cost_for_cap_usd
        0.05
        >>> [Totals(lost_calls=lost).cost_for_cap_usd for lost in (1_000, 1_001)]
        [0.0, None]
        """
        if self.unpriced_calls or (self.lost_calls > UNPRICED_AT_FIRST and not self.calls):
            return None
        lost = self.lost_calls * self.cost_usd / self.calls if self.calls else 0.0
        return self.cost_usd + lost


NOTHING = Totals()


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What a list of results is narrowed by: an outcome or ``pending``, the file's label, the agent and the reason."""

    outcome: str
    reference: str | None
    node: str | None = None
    reason: str | None = None

    @property
    def key(self) -> str:
        """All four as one word, by which the cases of a batch are sorted in an index.

        >>> Kind(outcome="safe", reference="unsafe", node="worker", reason="identified").key
        'safe/unsafe/worker/identified'
        >>> kind_of("pending///")
        Kind(outcome='pending', reference=None, node=None, reason=None)
        """
        return "/".join((self.outcome, self.reference or "", self.node or "", self.reason or ""))


def kind_of(key: str) -> Kind:
    outcome, reference, node, reason = key.split("/")
    return Kind(outcome=outcome, reference=reference or None, node=node or None, reason=reason or None)


NO_CASE = Kind(outcome=REJECTED, reference=None)
"""A row of the file that was refused."""


def add(conn: Connection, batch_id: str, row: int, more: Mapping[Kind, int], spent: Totals = NOTHING) -> None:
    """Add to the counts, in the shard of this row. Nothing to add is nothing to do: rows may be in already. Of
    ``spent`` the calls, their cost and the moment are added, beside the kind that is pending.
    """
    if not any(more.values()) and spent == NOTHING:
        return
    rows = list[dict[str, Any]]()  # what is pending first, so that no two wait for each other
    for kind in sorted(more, key=lambda each: (each.outcome != PENDING, each.key)):
        sums = NOTHING if rows else spent
        added = {name: getattr(sums, name) for name in (*_SPENT, _LAST)} | {"kind": kind.key, "cases": more[kind]}
        rows.append({"batch_id": batch_id, "shard": row % SHARDS, **added})
    conn.execute(_ADD, rows)


def _adding() -> Any:
    """The statement: every run adds a row and every outcome two, which RETURNING makes one statement. Outcomes are not
    committed in the order in which they were completed: the later moment stays.
    """
    made, table = insert_into(batch_counts), batch_counts.c
    added = made.excluded
    total: dict[str, Any] = {name: table[name] + added[name] for name in ("cases", *_SPENT)}
    later = case((table[_LAST] > added[_LAST], table[_LAST]), else_=func.coalesce(added[_LAST], table[_LAST]))
    changed = made.on_conflict_do_update(index_elements=["batch_id", "shard", "kind"], set_=total | {_LAST: later})
    return changed.returning(table.shard)


_ADD = _adding()


def rows_of(*outcomes: str) -> ColumnElement[int]:
    """How many of the counted rows came to one of these outcomes, or are ``pending`` or ``rejected``."""
    kind = batch_counts.c.kind
    return func.sum(case((or_(*(kind.startswith(f"{one}/") for one in outcomes)), batch_counts.c.cases), else_=0))


ENDED = tuple(outcome.value for outcome in Outcome)
SUMS: dict[str, ColumnElement[Any]] = {
    "accepted": rows_of(PENDING, *ENDED),
    "rejected": rows_of(REJECTED),
    **{name: rows_of(name) for name in ENDED},
    **{name: func.sum(batch_counts.c[name]) for name in _SPENT},
    _LAST: func.max(batch_counts.c[_LAST]),
}
"""The columns of `totals_of`, of one batch or of each that is grouped by."""


def totals_of(row: Row[Any]) -> Totals:
    """What `SUMS` are of a batch; nothing where nothing of it was counted."""
    whole = {name: int(getattr(row, name) or 0) for name in (*_CASES, *_SPENT[:-1])}
    return record(Totals, row, cost_usd=row.cost_usd or 0.0, **whole)


def kinds(conn: Connection, batch_id: str) -> dict[Kind, int]:
    """How many cases of the batch are of each kind; those without a case are left out."""
    count = batch_counts.c
    query = select(count.kind, func.sum(count.cases).label("cases")).where(count.batch_id == batch_id)
    rows = conn.execute(query.where(count.kind != NO_CASE.key).group_by(count.kind).order_by(count.kind))
    return {kind_of(row.kind): int(row.cases) for row in rows if row.cases}


Mark = tuple[object, ...]
"""Equal while nothing was settled, read, accepted, opened again, taken back, erased or revealed to this person."""


class BatchMark(NamedTuple):
    """``settled``, which draws follow from, beside what people did and how much this person was shown."""

    settled: tuple[int, ...]
    others: Mark

    @property
    def accepted(self) -> int:
        """How many rows the batch has."""
        return self.settled[0]


def _count(table: Table, *which: ColumnElement[bool]) -> ScalarSelect[int]:
    return select(func.count()).select_from(table).where(*which).scalar_subquery()


_SETTLED = (rows_of(PENDING, *ENDED), *map(rows_of, ENDED), func.sum(batch_counts.c.calls))
_REVIEWS = (
    *map(_count, (reviews, adjudications, undone_reviews, second_review_requests)),
    _count(cases, cases.c.erased_at.is_not(None)),
    _count(inbox_entries, ENTERED_OTHERWISE),
)
"""How many there are of each kind: a case closes with a label, opens again by a request or what is taken back, and
enters by an outcome or otherwise. Not the last moment of each: a clock that was set back makes none later.
"""


def batch_now(db: Database, actor: Actor, batch_id: str) -> BatchMark:
    """What everything this person may be told of a batch follows from."""
    shown = _count(unblindings, unblindings.c.reviewer == actor.id)
    sums = select(*_SETTLED, *_REVIEWS, shown).where(batch_counts.c.batch_id == batch_id)
    found = tuple(int(sum_ or 0) for sum_ in db.row(sums))
    return BatchMark(settled=found[: len(_SETTLED)], others=found[len(_SETTLED) :])


def configuration_now(db: Database, version: str) -> Mark:
    """What everything that is claimed of a configuration follows from."""
    of_it = select(batches.c.id).where(batches.c.configuration == version)
    return tuple(db.row(select(*_SETTLED, *_REVIEWS).where(batch_counts.c.batch_id.in_(of_it))))


def reviews_now(db: Database) -> Mark:
    """What everything that is said of reviews alone follows from."""
    return tuple(db.row(select(*_REVIEWS)))


def revisions_now(db: Database) -> Mark:
    """What everything that is said of reviews changed after the AI's view was served follows from."""
    return tuple(db.row(select(*_REVIEWS, _count(unblindings))))


def count_reviews(db: Database) -> int:
    """How many reviews there are, with revisions: what is counted from them takes as long."""
    return int(db.value(select(func.count()).select_from(reviews)))
