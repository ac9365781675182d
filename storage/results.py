"""What became of each row of a batch, in the file's order, read a page at a time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, func, select

from storage.actors import Actor
from storage.database import Database
from storage.policy import Action, require
from storage.schema import case_errors, cases, node_runs, screenings

PENDING = "pending"
PAGE = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One accepted row. ``outcome`` is an outcome's value or ``pending``; ``calls`` and ``cost_usd`` are those of its
    committed runs, so far. ``error`` is the kind of the last error of a row that is pending.
    """

    case_id: str
    row: int
    external_id: str
    outcome: str
    node: str | None
    reason: str | None
    calls: int
    cost_usd: float | None
    delta: float | None
    reference: str | None
    reference_value: str | None
    group: str | None
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _SoFar:
    calls: int = 0
    cost_usd: float | None = None
    error: str | None = None


_NOTHING = _SoFar()


def results(db: Database, actor: Actor, batch_id: str) -> Iterator[Result]:
    """The rows in file order. Each page is one moment of the database; a running batch may change between pages.

    Raises Forbidden when the first row is asked for.
    """
    require(actor, Action.VIEW_RESULTS)
    last = 0
    while True:
        with db.read() as conn:
            page = _page(conn, batch_id, last)
            so_far = _so_far(conn, [row.case_id for row in page if row.outcome is None])
        yield from (_result(row, so_far.get(row.case_id, _NOTHING)) for row in page)
        if len(page) < PAGE:
            return
        last = page[-1].row


def _page(conn: Connection, batch_id: str, last: int) -> Sequence[Row[Any]]:
    case, ended = cases.c, screenings.c
    columns: list[ColumnElement[Any]] = [
        case.id.label("case_id"),
        *(case.row, case.external_id, case.reference, case.reference_value, case.group_name.label("group")),
        *(ended.outcome, ended.node, ended.reason, ended.calls, ended.cost_usd, ended.delta),
    ]
    query = select(*columns)
    of_batch = (
        query.select_from(cases)
        .outerjoin(screenings, screenings.c.case_id == cases.c.id)
        .where(case.batch_id == batch_id, case.row > last)
    )
    return conn.execute(of_batch.order_by(case.row).limit(PAGE)).all()


def _so_far(conn: Connection, case_ids: Sequence[str]) -> dict[str, _SoFar]:
    """What pending cases have used so far, and their last errors."""
    run, error = node_runs.c, case_errors.c
    spent = select(run.case_id, func.sum(run.calls).label("calls"), func.sum(run.cost_usd).label("cost_usd"))
    of_runs = conn.execute(spent.where(run.case_id.in_(case_ids)).group_by(run.case_id))
    used = {row.case_id: (int(row.calls), row.cost_usd) for row in of_runs}
    last = select(func.max(error.id)).where(error.case_id.in_(case_ids)).group_by(error.case_id)
    kinds = {row.case_id: row.kind for row in conn.execute(select(error.case_id, error.kind).where(error.id.in_(last)))}
    return {
        case_id: _SoFar(calls=used.get(case_id, (0, None))[0], cost_usd=used.get(case_id, (0, None))[1], error=kind)
        for case_id, kind in ((case_id, kinds.get(case_id)) for case_id in used.keys() | kinds.keys())
    }


def _result(row: Row[Any], so_far: _SoFar) -> Result:
    fields = dict(row._mapping)
    if fields["outcome"] is None:
        fields |= {"outcome": PENDING, "calls": so_far.calls, "cost_usd": so_far.cost_usd}
    return Result(**fields, error=so_far.error)
