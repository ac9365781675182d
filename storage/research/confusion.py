"""Reference labels against outcomes: how many cases of each; `storage.cells` says which."""

from collections.abc import Mapping
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, case, func, select

from screening.labels import Label, Outcome
from screening.review.actors import Actor
from screening.review.policy import Action, require
from storage.batches.results import PENDING
from storage.blindness import counts_as_with_clinicians
from storage.database import Database
from storage.review.accepted import accepted_label
from storage.schema import cases, screenings

Labels = Literal["original", "adjudicated"]
_DECIDABLE = (Label.SAFE.value, Label.UNSAFE.value)


def confusion(
    db: Database, actor: Actor, batch_id: str, labels: Labels = "original", group: str | None = None
) -> Mapping[tuple[str, str], int]:
    """How many cases (of one group, where one is named) have this reference and this outcome or ``pending``; cells
    without a case are left out.

    With ``adjudicated`` the label that clinicians accepted stands for the file's where there is one; one of
    insufficient information leaves the case without a reference, so it is not counted. For those who read, a case
    that is withheld from them counts as with clinicians: see `unread`.
    """
    require(actor, Action.VIEW_RESULTS)
    query = select(reference_now(labels).label("reference_now"), outcome_now(actor).label("outcome_now"))
    of_batch = _of_batch(query, batch_id)
    cell = (of_batch if group is None else of_batch.where(cases.c.group_name == group)).subquery().c
    counted = select(cell.reference_now, cell.outcome_now, func.count().label("cases"))
    counted = counted.where(cell.reference_now.in_(_DECIDABLE)).group_by(cell.reference_now, cell.outcome_now)
    with db.read() as conn:
        return {(row.reference_now, row.outcome_now): row.cases for row in conn.execute(counted)}


def unread(db: Database, actor: Actor, batch_id: str, group: str | None = None) -> int:
    """How many cases of a matrix, whichever its labels, count as with clinicians because they are open and this
    person may yet read them.
    """
    require(actor, Action.VIEW_RESULTS)
    query = select(func.count()).select_from(cases).where(cases.c.batch_id == batch_id)
    open_ones = query.where(cases.c.reference.in_(_DECIDABLE), counts_as_with_clinicians(actor, cases.c.id))
    with db.read() as conn:
        one = open_ones if group is None else open_ones.where(cases.c.group_name == group)
        return int(conn.execute(one).scalar_one())


def _of_batch(query: Select[*tuple[Any, ...]], batch_id: str) -> Select[*tuple[Any, ...]]:
    return (
        query.select_from(cases)
        .outerjoin(screenings, screenings.c.case_id == cases.c.id)
        .where(cases.c.batch_id == batch_id)
    )


def outcome_now(actor: Actor) -> ColumnElement[str]:
    """A case's outcome as this person may count it, or ``pending``; joins `screenings`."""
    with_clinicians = counts_as_with_clinicians(actor, cases.c.id)
    return case((with_clinicians, Outcome.HUMAN_REVIEW.value), else_=func.coalesce(screenings.c.outcome, PENDING))


def reference_now(labels: Labels) -> ColumnElement[str]:
    """A case's reference label: the file's, or the accepted one where there is one."""
    if labels == "original":
        return cases.c.reference
    return func.coalesce(accepted_label(cases.c.id), cases.c.reference)
