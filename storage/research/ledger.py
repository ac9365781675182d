"""The ledger of a batch's labels: who changed which label when, from what to what, and why."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, and_, func, select

from screening.review.actors import Actor
from screening.review.policy import Action, require
from screening.review.pseudonyms import pseudonym
from storage.accepted import is_accepted, order_given
from storage.database import Database
from storage.schema import adjudications, cases

MOST_ENTRIES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One accepted label. ``number`` is its place in the batch: the version of the data set that begins with it.

    ``before`` is the label that stood until then: the one accepted before, else the file's, None where there was none.
    ``by`` is a pseudonym, or ``system`` where readers agreed. ``reason`` is in their own words, for a label changed.
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
    """The entries in their order; ``hidden`` ones belong to cases that are open again, whose next reader is blind.
    ``earlier`` ones come before those that were fetched.
    """

    entries: tuple[Entry, ...]
    hidden: int
    earlier: int = 0


def ledger(
    db: Database, actor: Actor, batch_id: str, key: str, as_of: int | None = None, most: int = MOST_ENTRIES
) -> Ledger:
    """The last ``most`` of the first ``as_of`` entries of a batch, or of all; ``key`` is the site's pseudonym key.

    Raises Forbidden.
    """
    require(actor, Action.VIEW_RESULTS)
    require(actor, Action.VIEW_RATINGS)
    with db.read() as conn:
        last = conn.execute(_number(batch_id)).scalar_one() if as_of is None else as_of
        earlier = max(0, last - most)
        rows = conn.execute(_entries(batch_id).offset(earlier).limit(last - earlier)).all()
    shown = tuple(_show(rows, key, earlier + 1))
    return Ledger(entries=shown, hidden=len(rows) - len(shown), earlier=earlier)


def _number(batch_id: str) -> Select[Any]:
    joined = select(func.count()).select_from(adjudications).join(cases, cases.c.id == adjudications.c.case_id)
    return joined.where(cases.c.batch_id == batch_id)


def _entries(batch_id: str) -> Select[Any]:
    made, earlier = adjudications.c, adjudications.alias("earlier").c
    previous = and_(earlier.case_id == made.case_id, earlier.version == made.version - 1)
    before = func.coalesce(earlier.label, cases.c.reference).label("before")
    columns = (made.case_id, cases.c.row, cases.c.external_id, made.at, made.by, made.label, made.method, made.reason)
    query = select(*columns, before, is_accepted(made.case_id).label("closed")).select_from(adjudications)
    joined = query.join(cases, cases.c.id == made.case_id).outerjoin(earlier.case_id.table, previous)
    return joined.where(cases.c.batch_id == batch_id).order_by(*order_given())


def _show(rows: list[Any] | Any, key: str, first: int) -> Iterator[Entry]:
    for number, row in enumerate(rows, start=first):
        if not row.closed:
            continue
        fields = {name: value for name, value in row._mapping.items() if name != "closed"}
        yield Entry(number=number, **fields | {"by": row.by if row.by == "system" else pseudonym(key, row.by)})
