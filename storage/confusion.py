"""Reference labels against outcomes: how many cases of each; `storage.cells` says which."""

from collections.abc import Mapping
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, func, select

from screening.labels import Label
from storage.actors import Actor
from storage.database import Database
from storage.policy import Action, require
from storage.results import PENDING
from storage.schema import adjudications, cases, screenings

Labels = Literal["original", "adjudicated"]
_DECIDABLE = (Label.SAFE.value, Label.UNSAFE.value)


def confusion(
    db: Database, actor: Actor, batch_id: str, labels: Labels = "original", group: str | None = None
) -> Mapping[tuple[str, str], int]:
    """How many cases (of one group, where one is named) have this reference and this outcome or ``pending``; cells
    without a case are left out.

    With ``adjudicated`` a clinician's latest adjudication stands for the file's label where there is one; one of
    insufficient information leaves the case without a reference, so it is not counted.
    """
    require(actor, Action.VIEW_RESULTS)
    query = select(reference_now(labels).label("reference_now"), outcome_now().label("outcome_now"))
    of_batch = _of_batch(query, batch_id)
    cell = (of_batch if group is None else of_batch.where(cases.c.group_name == group)).subquery().c
    counted = select(cell.reference_now, cell.outcome_now, func.count().label("cases"))
    counted = counted.where(cell.reference_now.in_(_DECIDABLE)).group_by(cell.reference_now, cell.outcome_now)
    with db.read() as conn:
        return {(row.reference_now, row.outcome_now): row.cases for row in conn.execute(counted)}


def _of_batch(query: Select[*tuple[Any, ...]], batch_id: str) -> Select[*tuple[Any, ...]]:
    return (
        query.select_from(cases)
        .outerjoin(screenings, screenings.c.case_id == cases.c.id)
        .where(cases.c.batch_id == batch_id)
    )


def outcome_now() -> ColumnElement[str]:
    """A case's outcome, or ``pending``; joins `screenings`."""
    return func.coalesce(screenings.c.outcome, PENDING)


def reference_now(labels: Labels) -> ColumnElement[str]:
    """A case's reference label: the file's, or the latest adjudication where there is one."""
    if labels == "original":
        return cases.c.reference
    latest = (
        select(adjudications.c.label)
        .where(adjudications.c.case_id == cases.c.id)
        .order_by(adjudications.c.version.desc())
        .limit(1)
        .scalar_subquery()
    )
    return func.coalesce(latest, cases.c.reference)
