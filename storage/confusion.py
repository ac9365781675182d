"""Reference labels against outcomes: how many, and which cases."""

from collections.abc import Mapping
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseInCell:
    """One case of a cell, without its text."""

    case_id: str
    row: int
    external_id: str
    node: str | None
    reason: str | None
    calls: int | None
    group: str | None


def confusion(db: Database, actor: Actor, batch_id: str, labels: Labels = "original") -> Mapping[tuple[str, str], int]:
    """How many cases have this reference and this outcome (or ``pending``); cells without a case are left out.

    With ``adjudicated`` a clinician's latest adjudication stands for the file's label where there is one; one of
    insufficient information leaves the case without a reference, so it is not counted.
    """
    require(actor, Action.VIEW_RESULTS)
    query = select(_reference(labels).label("reference_now"), _outcome().label("outcome_now"))
    cell = _of_batch(query, batch_id).subquery().c
    counted = select(cell.reference_now, cell.outcome_now, func.count().label("cases"))
    counted = counted.where(cell.reference_now.in_(_DECIDABLE)).group_by(cell.reference_now, cell.outcome_now)
    with db.read() as conn:
        return {(row.reference_now, row.outcome_now): row.cases for row in conn.execute(counted)}


def cases_in_cell(
    db: Database,
    actor: Actor,
    batch_id: str,
    reference: str,
    outcome: str,
    limit: int = 50,
    offset: int = 0,
    labels: Labels = "original",
) -> tuple[CaseInCell, ...]:
    """The cases of one cell in the file's order."""
    require(actor, Action.VIEW_RESULTS)
    query = select(
        cases.c.id.label("case_id"),
        cases.c.row,
        cases.c.external_id,
        screenings.c.node,
        screenings.c.reason,
        screenings.c.calls,
        cases.c.group_name.label("group"),
    )
    cell = _of_batch(query, batch_id).where(_reference(labels) == reference, _outcome() == outcome)
    with db.read() as conn:
        rows = conn.execute(cell.order_by(cases.c.row).limit(limit).offset(offset)).all()
    return tuple(CaseInCell(**row._mapping) for row in rows)


def _of_batch(query: Select[*tuple[Any, ...]], batch_id: str) -> Select[*tuple[Any, ...]]:
    return (
        query.select_from(cases)
        .outerjoin(screenings, screenings.c.case_id == cases.c.id)
        .where(cases.c.batch_id == batch_id)
    )


def _outcome() -> ColumnElement[str]:
    return func.coalesce(screenings.c.outcome, PENDING)


def _reference(labels: Labels) -> ColumnElement[str]:
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
