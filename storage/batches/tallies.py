"""Running sums of a batch's facts, so that progress and caps cost the same for ten rows and for a million.

Each is added to in the transaction that inserts the fact it counts, and only when the insert took place.
The tests derive the same sums from the facts alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, RowMapping, Select, Update, bindparam, case, func, insert, select, update

from screening.labels import Outcome
from storage.schema import batch_tallies

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
        conn.execute(add_statement(), values_to_add(batch_id, row, more))


def values_to_add(batch_id: str, row: int, more: Totals) -> dict[str, Any]:
    """What `add_statement` is executed with."""
    values = {f"more_{name}": getattr(more, name) for name in (*_SUMS, "last_completed_at")}
    return {"batch": batch_id, "of_row": row % SHARDS, **values}


@cache
def add_statement() -> Update:
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
