"""Running sums of a batch's facts, so that progress and caps cost the same for ten rows and for a million.

Each is added to in the transaction that inserts the fact it counts, and only when the insert took place.
The tests derive the same sums from the facts alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, lru_cache
from typing import Any

from sqlalchemy import (
    Connection,
    Integer,
    RowMapping,
    Select,
    String,
    Update,
    bindparam,
    case,
    func,
    insert,
    literal_column,
    select,
    true,
    union_all,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from screening.labels import Outcome
from storage.database import insert_for
from storage.schema import batch_tallies, kind_tallies

SHARDS = 8
"""Rows among which a batch's sums are spread: so many commits on one batch need not wait for each other."""

UNPRICED_AT_FIRST = 1_000
"""Lost calls that a cap on cost lets pass before the first run gives a price: a worker that is started anew in a
batch's first seconds must not end the batch, and one that only ever loses calls must not go on for ever."""

_SUMS = ("accepted", "rejected", "safe", "unsafe", "human_review", "calls", "lost_calls", "unpriced_calls", "cost_usd")


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
        sums = {name: getattr(self, name) + getattr(more, name) for name in _SUMS}
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


def open_tallies(conn: Connection, batch_id: str) -> None:
    """Create the sums of a new batch, all zero."""
    conn.execute(insert(batch_tallies), [{"batch_id": batch_id, "shard": shard} for shard in range(SHARDS)])


def add(conn: Connection, batch_id: str, row: int, more: Totals) -> None:
    """Add to the sums, in the shard of this row."""
    if more != Totals():
        conn.execute(sum_statement(), sum_values(batch_id, row, more))


def sum_values(batch_id: str, row: int, more: Totals) -> dict[str, Any]:
    """What `sum_statement` is executed with."""
    values = {f"more_{name}": getattr(more, name) for name in (*_SUMS, "last_completed_at")}
    return {"batch": batch_id, "of_row": row % SHARDS, **values}


@cache
def sum_statement() -> Update:
    """The statement, written once: every run and every outcome adds to the sums. Outcomes are not committed in the
    order in which they were completed: the later moment stays.
    """
    table, known = batch_tallies.c, batch_tallies.c.last_completed_at
    values: dict[str, Any] = {name: table[name] + bindparam(f"more_{name}", type_=table[name].type) for name in _SUMS}
    other = bindparam("more_last_completed_at", type_=known.type)
    values["last_completed_at"] = case((known > other, known), else_=func.coalesce(other, known))
    shard = (table.batch_id == bindparam("batch"), table.shard == bindparam("of_row"))
    return update(batch_tallies).where(*shard).values(values)


def one_outcome(outcome: Outcome, now: datetime) -> Totals:
    """What the outcome of one case adds to the sums."""
    return Totals(**{outcome.value: 1}, last_completed_at=now)


def totals(conn: Connection, batch_ids: Sequence[str]) -> dict[str, Totals]:
    """The sums of each of these batches; a batch that does not exist is left out."""
    if len(batch_ids) == 1:
        rows = conn.execute(_sums_of_one(), {"one": batch_ids[0]})
    else:
        rows = conn.execute(_sums_of_many(), {"many": list(batch_ids)})
    return {row.batch_id: _totals(row._mapping) for row in rows}


def _sums() -> Select[Any]:
    table = batch_tallies.c
    columns = [func.sum(table[name]).label(name) for name in _SUMS]
    last = func.max(table.last_completed_at).label("last_completed_at")
    return select(table.batch_id, *columns, last).group_by(table.batch_id)


@cache
def _sums_of_one() -> Select[Any]:
    """The query of one batch, written once: workers and watching pages ask it several times a second."""
    return _sums().where(batch_tallies.c.batch_id == bindparam("one"))


@cache
def _sums_of_many() -> Select[Any]:
    return _sums().where(batch_tallies.c.batch_id.in_(bindparam("many", expanding=True)))


def _totals(row: RowMapping) -> Totals:
    integers = {name: int(row[name]) for name in _SUMS if name != "cost_usd"}
    return Totals(**integers, cost_usd=float(row["cost_usd"]), last_completed_at=row["last_completed_at"])


PENDING = "pending"
IN_REVIEW = "in review"
"""Beside the outcomes: not screened yet, and open in the inbox."""


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
    """The kind that has this key."""
    outcome, reference, node, reason = key.split("/")
    return Kind(outcome=outcome, reference=reference or None, node=node or None, reason=reason or None)


def add_kinds(conn: Connection, batch_id: str, row: int, more: Mapping[Kind, int]) -> None:
    """Add to the counts, in the shard of this row and in one statement; what is pending first, so that no two wait for
    each other. Nothing to add is nothing to do: rows may all be refused, or in already.
    """
    if more:
        conn.execute(kind_statement(conn.dialect.name, len(more)), kind_values(batch_id, row, more))


def kind_values(batch_id: str, row: int, more: Mapping[Kind, int]) -> dict[str, Any]:
    """What `kind_statement` is executed with."""
    kinds_of_row = sorted(more, key=lambda each: (each.outcome != PENDING, each.key))
    values: dict[str, Any] = {"batch": batch_id, "of_row": row % SHARDS}
    for at, kind in enumerate(kinds_of_row):
        values |= {f"kind_{at}": kind.key, f"cases_{at}": more[kind]}
    return values


@lru_cache(maxsize=16)
def kind_statement(dialect: str, count: int) -> "sqlite.Insert | postgresql.Insert":
    """The statement for so many kinds, written once: every outcome adds to two."""
    place = (bindparam("batch", type_=String), bindparam("of_row", type_=Integer))
    rows = [
        select(*place, bindparam(f"kind_{at}", type_=String), bindparam(f"cases_{at}", type_=Integer)).where(true())
        for at in range(count)
    ]
    names = ("batch_id", "shard", "kind", "cases")
    counted = insert_for(dialect, kind_tallies).from_select(names, union_all(*rows))
    total = {"cases": kind_tallies.c.cases + literal_column("excluded.cases", Integer)}
    return counted.on_conflict_do_update(index_elements=names[:3], set_=total)


def kinds(conn: Connection, batch_id: str) -> dict[Kind, int]:
    """How many cases of the batch are of each kind; those without a case are left out."""
    tally = kind_tallies.c
    query = select(tally.kind, func.sum(tally.cases).label("cases")).where(tally.batch_id == batch_id)
    rows = conn.execute(query.group_by(tally.kind).order_by(tally.kind))
    return {kind_of(row.kind): int(row.cases) for row in rows if row.cases}
