"""A reader's own readings and what became of them."""

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import Select, and_, select

from screening.review.actors import Actor
from screening.review.policy import Action, require
from screening.review.rating_form import RatingLabel
from storage.database import Database, record
from storage.review.claims import KEPT
from storage.schema import adjudications, cases, inbox_entries, ratings


@dataclass(frozen=True, slots=True, kw_only=True)
class MyReading:
    """One's reading of a case, its last version. ``accepted`` is None while the case is open, and then it ``waits_for``
    another reading; also where the case was erased.
    """

    case_id: str
    external_id: str
    at: datetime
    label: RatingLabel
    certainty: int
    waits_for: str | None
    accepted: RatingLabel | None

    @property
    def otherwise(self) -> bool:
        """Whether the label that was accepted is another one."""
        return self.accepted is not None and self.accepted is not self.label


def my_readings(
    db: Database, actor: Actor, *, limit: int = 50, before: datetime | None = None
) -> tuple[MyReading, ...]:
    """One a case, the newest first, at most ``limit`` of them, all before a moment where one is given. Raises
    Forbidden.
    """
    require(actor, Action.VIEW_RATINGS, actor.id)
    query = _newest(actor.id, limit)
    rows = db.rows(query if before is None else query.where(ratings.c.at < before))
    return tuple(map(_reading, rows))


@lru_cache(maxsize=KEPT)
def _newest(reviewer: str, limit: int) -> Select[Any]:
    """Somebody's readings, the newest first: written once, asked at every run of the inbox."""
    made, later, entry = adjudications.c, adjudications.alias().c, inbox_entries.c
    after = ratings.alias().c
    superseded = select(after.id).where(
        after.case_id == ratings.c.case_id, after.reviewer == reviewer, after.version > ratings.c.version
    )
    newer = select(later.version).where(later.case_id == made.case_id, later.version > made.version).exists()
    return (
        select(ratings, cases.c.external_id, entry.closed_at, entry.reading.label("due"))
        .add_columns(made.label.label("accepted"))
        .join(cases, cases.c.id == ratings.c.case_id)
        .join(inbox_entries, entry.case_id == ratings.c.case_id)
        .outerjoin(adjudications, and_(made.case_id == ratings.c.case_id, entry.closed_at.is_not(None), ~newer))
        .where(ratings.c.reviewer == reviewer, ~superseded.exists())
        .order_by(ratings.c.at.desc(), ratings.c.id.desc())
        .limit(limit)
    )


def _reading(row: Any) -> MyReading:
    return record(
        MyReading,
        row,
        label=RatingLabel(row.label),
        waits_for=None if row.closed_at else row.due,
        accepted=RatingLabel(row.accepted) if row.accepted else None,
    )
