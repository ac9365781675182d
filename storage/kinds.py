"""How many cases of a batch share an ending and a reference label: counted where they end, so that a matrix and the
choices of a filter cost the same for ten rows and for a million.

Each is added to in the transaction that inserts the fact it counts. The tests derive the same counts from the facts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Integer, String, bindparam, func, literal_column, select, true, union_all
from sqlalchemy.dialects import postgresql, sqlite

from storage.database import insert_for
from storage.schema import kind_tallies

PENDING = "pending"
IN_REVIEW = "in review"
"""Beside the outcomes: not screened yet, and open in the inbox."""

SHARDS = 8
"""Rows among which a kind's count is spread: so many commits on one batch need not wait for each other."""


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
        conn.execute(add_statement(conn.dialect.name, len(more)), values_to_add(batch_id, row, more))


def values_to_add(batch_id: str, row: int, more: Mapping[Kind, int]) -> dict[str, Any]:
    """What `add_statement` is executed with."""
    kinds_of_row = sorted(more, key=lambda each: (each.outcome != PENDING, each.key))
    values: dict[str, Any] = {"batch": batch_id, "of_row": row % SHARDS}
    for at, kind in enumerate(kinds_of_row):
        values |= {f"kind_{at}": kind.key, f"cases_{at}": more[kind]}
    return values


@lru_cache(maxsize=16)
def add_statement(dialect: str, count: int) -> "sqlite.Insert | postgresql.Insert":
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
