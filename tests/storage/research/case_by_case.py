"""A batch case by case, the slow way: what its columns of numbers (`storage.research.recordings`) are held against."""

from collections.abc import Mapping

from sqlalchemy import func, select

from screening.labels import Outcome
from screening.review.actors import Actor
from screening.review.policy import Action, require
from storage.batches.counts import PENDING
from storage.database import Database
from storage.schema import adjudications, cases, screenings
from storage.visibility import is_accepted, is_in_review, order_given


def outcomes_now(db: Database, actor: Actor, batch_id: str) -> tuple[Outcome | None, ...]:
    """What became of each case of a batch, in the file's order: what the matrix counts. None is pending."""
    require(actor, Action.VIEW_RESULTS)
    query = (
        select(func.coalesce(screenings.c.outcome, PENDING).label("outcome")).select_from(cases).outerjoin(screenings)
    )
    found = db.values(query.where(cases.c.batch_id == batch_id).order_by(cases.c.row))
    return tuple(None if outcome == PENDING else Outcome(outcome) for outcome in found)


def cases_in_review(db: Database, batch_id: str) -> frozenset[str]:
    """The cases of a batch that are open in the inbox."""
    return frozenset(db.values(select(cases.c.id).where(cases.c.batch_id == batch_id, is_in_review(cases.c.id))))


def adjudicated_labels(db: Database, actor: Actor, batch_id: str, version: int | None = None) -> Mapping[str, str]:
    """Each case's accepted label as of the first ``version`` adjudications of the batch, or of
    all. Version 0 is the file as it came.
    """
    require(actor, Action.VIEW_RESULTS)
    query = (
        select(adjudications.c.case_id, adjudications.c.label, is_accepted(cases.c.id).label("accepted"))
        .join(cases, cases.c.id == adjudications.c.case_id)
        .where(cases.c.batch_id == batch_id)
        .order_by(*order_given())
    )
    rows = db.rows(query)
    return {row.case_id: row.label for row in rows[:version] if row.accepted}
