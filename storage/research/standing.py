"""Where a batch stands for whoever looks at it: cheap to read, and another value whenever a figure may be another."""

from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, func, select

from screening.review.actors import Actor
from storage.batches.counts import ENDED, PENDING, rows_of
from storage.database import Database
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

Standing = tuple[object, ...]
"""Equal while nothing was settled, read, accepted, opened again, taken back, erased or revealed to this person."""


class BatchStanding(NamedTuple):
    """``settled``, which draws follow from, beside what people did and how much this person was shown."""

    settled: tuple[int, ...]
    reviews: Standing
    shown: int

    @property
    def accepted(self) -> int:
        """How many rows the batch has."""
        return self.settled[0]


def batch_now(db: Database, actor: Actor, batch_id: str) -> BatchStanding:
    """What everything this person may be told of a batch follows from."""
    shown = select(func.count()).select_from(unblindings).where(unblindings.c.reviewer == actor.id)
    with db.read() as conn:
        return BatchStanding(
            settled=tuple(int(sum_ or 0) for sum_ in _settled_sums(conn, batch_counts.c.batch_id == batch_id)),
            reviews=_reviews(conn),
            shown=conn.execute(shown).scalar_one(),
        )


def configuration_now(db: Database, version: str) -> Standing:
    """What everything that is claimed of a configuration follows from."""
    of_it = select(batches.c.id).where(batches.c.configuration == version)
    with db.read() as conn:
        return (*_settled_sums(conn, batch_counts.c.batch_id.in_(of_it)), *_reviews(conn))


def reviews_now(db: Database) -> Standing:
    """What everything that is said of reviews alone follows from."""
    with db.read() as conn:
        return _reviews(conn)


def revisions_now(db: Database) -> Standing:
    """What everything that is said of reviews changed after the engine's view was served follows from."""
    with db.read() as conn:
        return (*_reviews(conn), conn.execute(select(func.count()).select_from(unblindings)).scalar())


def count_reviews(db: Database) -> int:
    """How many reviews there are, with revisions: what is counted from them takes as long."""
    return int(db.value(select(func.count()).select_from(reviews)))


def _settled_sums(conn: Connection, chosen: ColumnElement[bool]) -> tuple[Any, ...]:
    settled = [rows_of(one) for one in ENDED]
    sums = select(rows_of(PENDING, *ENDED), *settled, func.sum(batch_counts.c.calls))
    return tuple(conn.execute(sums.where(chosen)).one())


def _reviews(conn: Connection) -> tuple[Any, ...]:
    """How many there are of each kind: a case closes with a label, opens again by a request or what is taken back, and
    enters by an outcome or otherwise. Not the last moment of each: a clock that was set back makes none later.
    """
    kinds = (reviews, adjudications, undone_reviews, second_review_requests)
    counted = [select(func.count()).select_from(table) for table in kinds]
    counted.append(select(func.count()).select_from(cases).where(cases.c.erased_at.is_not(None)))
    counted.append(select(func.count()).select_from(inbox_entries).where(ENTERED_OTHERWISE))
    return tuple(conn.execute(one).scalar() for one in counted)
