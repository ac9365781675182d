"""Reference labels against outcomes: how many cases of each; `storage.research.cells` says which."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Select, func, select

from screening.labels import Label
from screening.review.actors import Actor
from screening.review.policy import Action, require
from storage.batches.counts import PENDING, kinds
from storage.database import Database
from storage.schema import cases, screenings
from storage.visibility import accepted_labels

Labels = Literal["original", "adjudicated"]
_DECIDABLE = (Label.SAFE.value, Label.UNSAFE.value)
_OUTCOME_NOW = func.coalesce(screenings.c.outcome, PENDING)


Counts = Mapping[tuple[str, str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusions:
    """The counts by the file's labels, and by the labels that clinicians accepted where there are some."""

    original: Counts
    adjudicated: Counts


def confusions(db: Database, actor: Actor, batch_id: str, group: str | None = None) -> Confusions:
    """How many cases (of one group, where one is named) have this reference and this outcome or ``pending``; cells
    without a case are left out. Read from tallies, so flat in the rows of the batch; of a group case by case.

    A label of insufficient information leaves the case without a reference, so it is not counted among the
    adjudicated.
    """
    require(actor, Action.VIEW_RESULTS)
    with db.read() as conn:
        if group is not None:
            return _count_group(conn, batch_id, group)
        original = _of_kinds(conn, batch_id)
        return Confusions(
            original=_decidable(original), adjudicated=_decidable(_adjudicated_counts(conn, batch_id, original))
        )


def _decidable(counts: Mapping[tuple[str, str], int]) -> Counts:
    return {cell: cases for cell, cases in counts.items() if cases and cell[0] in _DECIDABLE}


def _of_kinds(conn: Connection, batch_id: str) -> Counter[tuple[str, str]]:
    """From the tallies."""
    counts: Counter[tuple[str, str]] = Counter()
    for kind, cases_of_it in kinds(conn, batch_id).items():
        counts[kind.reference or "", kind.outcome] += cases_of_it
    return counts


def _adjudicated_counts(
    conn: Connection, batch_id: str, original: Mapping[tuple[str, str], int]
) -> Counter[tuple[str, str]]:
    """The same counts where each case with an accepted label is under that one; none of these is open."""
    latest = accepted_labels(batch_id).subquery().c
    ended = _OUTCOME_NOW.label("outcome")
    moved = _of_batch(select(cases.c.reference, latest.label, ended), batch_id)
    counts = Counter(original)
    for row in conn.execute(moved.join(latest.case_id.table, latest.case_id == cases.c.id)):
        counts[row.reference or "", row.outcome] -= 1
        counts[row.label, row.outcome] += 1
    return counts


def _count_group(conn: Connection, batch_id: str, group: str) -> Confusions:
    """The counts of one group, case by case."""
    latest = accepted_labels(batch_id).subquery().c
    columns = (
        cases.c.reference.label("original"),
        func.coalesce(latest.label, cases.c.reference).label("adjudicated"),
        _OUTCOME_NOW.label("outcome_now"),
    )
    of_batch = _of_batch(select(*columns), batch_id).outerjoin(latest.case_id.table, latest.case_id == cases.c.id)
    cell = of_batch.where(cases.c.group_name == group).subquery().c
    counted = select(cell.original, cell.adjudicated, cell.outcome_now, func.count().label("cases"))
    original: Counter[tuple[str, str]] = Counter()
    adjudicated: Counter[tuple[str, str]] = Counter()
    for row in conn.execute(counted.group_by(cell.original, cell.adjudicated, cell.outcome_now)):
        original[row.original, row.outcome_now] += row.cases
        adjudicated[row.adjudicated, row.outcome_now] += row.cases
    return Confusions(original=_decidable(original), adjudicated=_decidable(adjudicated))


def confusion(
    db: Database, actor: Actor, batch_id: str, labels: Labels = "original", group: str | None = None
) -> Counts:
    """The counts of `confusions` by one kind of label."""
    both = confusions(db, actor, batch_id, group)
    return both.original if labels == "original" else both.adjudicated


def _of_batch(query: Select[*tuple[Any, ...]], batch_id: str) -> Select[*tuple[Any, ...]]:
    return (
        query.select_from(cases)
        .outerjoin(screenings, screenings.c.case_id == cases.c.id)
        .where(cases.c.batch_id == batch_id)
    )
