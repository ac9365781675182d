"""The ledger of a batch's labels: who changed which label when, from what to what, and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Select, and_, func, select

from screening.review.actors import Acting
from screening.review.policy import Action, require
from screening.review.pseudonyms import pseudonym
from storage.database import Database
from storage.schema import adjudications, cases
from storage.visibility import hidden_from, order_given, record_shown

MOST_ENTRIES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One accepted label. ``number`` is its place in the batch: the version of the data set that begins with it.

    ``before`` is the label that stood until then: the one accepted before, else the file's, None where there was none.
    ``by`` is a pseudonym, or ``system`` where reviewers agreed. ``reason`` is in their own words, for a label changed.
    """

    number: int
    case_id: str
    row: int
    external_id: str
    at: datetime
    by: str
    before: str | None
    label: str
    method: str
    reason: str | None

    @property
    def changes(self) -> bool:
        """Whether another label stood before."""
        return self.before is not None and self.before != self.label


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """The entries in their order; ``hidden`` ones belong to cases in review of which this person hides the outcome.
    ``earlier`` ones come before those that were fetched.
    """

    entries: tuple[Entry, ...]
    hidden: int
    earlier: int = 0


def ledger(
    db: Database, by: Acting, batch_id: str, key: str, as_of: int | None = None, most: int = MOST_ENTRIES
) -> Ledger:
    """The last ``most`` of the first ``as_of`` entries of a batch, or of all; ``key`` is the site's pseudonym key. What
    is shown of cases that are in review again is written down. Raises Forbidden.
    """
    require(by.actor, Action.VIEW_RESULTS)
    require(by.actor, Action.VIEW_RATINGS)
    with db.read() as conn:
        last = conn.execute(_number(batch_id)).scalar_one() if as_of is None else as_of
        earlier = max(0, last - most)
        hidden = hidden_from(conn, by.actor, adjudications.c.case_id, None)
        rows = conn.execute(_entries(batch_id, hidden).offset(earlier).limit(last - earlier)).all()
    shown = tuple(_show(rows, key, earlier + 1))
    record_shown(db, by, [entry.case_id for entry in shown])
    return Ledger(entries=shown, hidden=len(rows) - len(shown), earlier=earlier)


def _number(batch_id: str) -> Select[Any]:
    joined = select(func.count()).select_from(adjudications).join(cases, cases.c.id == adjudications.c.case_id)
    return joined.where(cases.c.batch_id == batch_id)


def _entries(batch_id: str, hidden: ColumnElement[bool]) -> Select[Any]:
    made, earlier = adjudications.c, adjudications.alias("earlier").c
    previous = and_(earlier.case_id == made.case_id, earlier.version == made.version - 1)
    before = func.coalesce(earlier.label, cases.c.reference).label("before")
    columns = (made.case_id, cases.c.row, cases.c.external_id, made.at, made.by, made.label, made.method, made.reason)
    query = select(*columns, before, hidden.label("hidden")).select_from(adjudications)
    joined = query.join(cases, cases.c.id == made.case_id).outerjoin(earlier.case_id.table, previous)
    return joined.where(cases.c.batch_id == batch_id).order_by(*order_given())


def _show(rows: list[Any] | Any, key: str, first: int) -> Iterator[Entry]:
    for number, row in enumerate(rows, start=first):
        if row.hidden:
            continue
        fields = {name: value for name, value in row._mapping.items() if name != "hidden"}
        yield Entry(number=number, **fields | {"by": row.by if row.by == "system" else pseudonym(key, row.by)})
