"""Reference labels against outcomes: how many cases of each; `storage.cells` says which."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Select, case, func, select

from screening.labels import Label, Outcome
from screening.review.actors import Actor
from screening.review.policy import Action, require
from storage.accepted import accepted_label, accepted_labels
from storage.batches.results import PENDING
from storage.blindness import counts_as_with_clinicians
from storage.database import Database
from storage.schema import cases, screenings

Labels = Literal["original", "adjudicated"]
_DECIDABLE = (Label.SAFE.value, Label.UNSAFE.value)


Counts = Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusions:
    """The counts by the file's labels, and by the labels that clinicians accepted where there are some."""

    original: Counts
    adjudicated: Counts


def confusions(db: Database, actor: Actor, batch_id: str, group: str | None = None) -> Confusions:
    """How many cases (of one group, where one is named) have this reference and this outcome or ``pending``; cells
    without a case are left out. Both kinds of labels are counted in one query.

    A label of insufficient information leaves the case without a reference, so it is not counted among the
    adjudicated. For those who read, a case that is withheld from them counts as with clinicians: see `unread`.
    """
    require(actor, Action.VIEW_RESULTS)
    latest = accepted_labels(batch_id).subquery().c
    columns = (
        cases.c.reference.label("original"),
        func.coalesce(latest.label, cases.c.reference).label("adjudicated"),
        outcome_now(actor).label("outcome_now"),
    )
    of_batch = _of_batch(select(*columns), batch_id).outerjoin(latest.case_id.table, latest.case_id == cases.c.id)
    cell = (of_batch if group is None else of_batch.where(cases.c.group_name == group)).subquery().c
    counted = select(cell.original, cell.adjudicated, cell.outcome_now, func.count().label("cases"))
    original: dict[tuple[str, str], int] = {}
    adjudicated: dict[tuple[str, str], int] = {}
    with db.read() as conn:
        for row in conn.execute(counted.group_by(cell.original, cell.adjudicated, cell.outcome_now)):
            for label, counts in ((row.original, original), (row.adjudicated, adjudicated)):
                if label in _DECIDABLE:
                    counts[label, row.outcome_now] = counts.get((label, row.outcome_now), 0) + row.cases
    return Confusions(original=original, adjudicated=adjudicated)


def confusion(
    db: Database, actor: Actor, batch_id: str, labels: Labels = "original", group: str | None = None
) -> Counts:
    """The counts of `confusions` by one kind of label."""
    both = confusions(db, actor, batch_id, group)
    return both.original if labels == "original" else both.adjudicated


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
