"""The cases behind one number of a confusion matrix: filtered, a page at a time, without their texts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import ColumnElement, Float, Select, and_, case, cast, func, select

from screening.engine.screen import MAIN
from screening.review.actors import Actor
from screening.review.policy import Action, require
from storage.blindness import withheld
from storage.database import Database
from storage.research.confusion import Labels, outcome_now, reference_now
from storage.review.accepted import is_accepted
from storage.schema import cases, node_runs, screenings
from storage.site.audit_log import append

MOST_CHOICES = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """Which cases: one cell of a batch's matrix, and what else they must share. None asks for nothing.

    ``gap_at_most`` keeps the cases whose deciding agent was this much in two minds; ``source`` says where the
    reference is from.
    """

    batch_id: str
    reference: str
    outcome: str
    labels: Labels = "original"
    node: str | None = None
    reason: str | None = None
    group: str | None = None
    gap_at_most: float | None = None
    source: Literal["file", "adjudicated"] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseInCell:
    """One case of a cell. ``gap`` is how far the most frequent answer of the node that ended the case lay ahead of
    the second, as a share of its draws; None where no agent was asked.
    """

    case_id: str
    row: int
    external_id: str
    node: str | None
    reason: str | None
    calls: int | None
    group: str | None
    gap: float | None
    reference_value: str | None
    adjudicated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CellPage:
    """``found`` cases fit and may be shown; ``waiting`` more are open in the inbox and this person has not read
    them: the engine's view of those is not served before. For those who read, all of these wait in the cells of
    cases with clinicians, so that their number in a cell tells nothing.
    """

    cases: tuple[CaseInCell, ...]
    found: int
    waiting: int


def cell_page(db: Database, actor: Actor, wanted: Cell, limit: int = 50, offset: int = 0) -> CellPage:
    """The cases of a cell in the file's order. Raises Forbidden."""
    require(actor, Action.VIEW_RESULTS)
    hidden = withheld(actor, cases.c.id)
    with db.read() as conn:
        waiting = conn.execute(_joined(select(func.count()), wanted, actor).where(hidden)).scalar_one()
        fits = _filtered(_joined(select(func.count()), wanted, actor), wanted).where(~hidden)
        found = conn.execute(fits).scalar_one()
        page = _filtered(_joined(select(*_columns()), wanted, actor), wanted).where(~hidden)
        rows = conn.execute(page.order_by(cases.c.row).limit(limit).offset(offset)).all()
    return CellPage(cases=tuple(CaseInCell(**row._mapping) for row in rows), found=found, waiting=waiting)


def cell_choices(db: Database, actor: Actor, wanted: Cell) -> Mapping[str, tuple[str, ...]]:
    """What the shown cases of a cell can be filtered by: the values of ``node`` and ``reason`` among them."""
    require(actor, Action.VIEW_RESULTS)
    found: dict[str, tuple[str, ...]] = {}
    with db.read() as conn:
        for name in ("node", "reason"):
            column = screenings.c[name]
            query = _joined(select(column).distinct(), wanted, actor)
            shown = query.where(column.is_not(None), ~withheld(actor, cases.c.id))
            found[name] = tuple(conn.execute(shown.order_by(column).limit(MOST_CHOICES)).scalars())
    return found


def groups(db: Database, actor: Actor, batch_id: str) -> tuple[str, ...]:
    """The groups of a batch, in order; empty where the file names none."""
    require(actor, Action.VIEW_RESULTS)
    name = cases.c.group_name
    query = select(name).distinct().where(cases.c.batch_id == batch_id, name.is_not(None)).order_by(name)
    with db.read() as conn:
        return tuple(conn.execute(query.limit(MOST_CHOICES)).scalars())


def text_starts(
    db: Database, actor: Actor, case_ids: Sequence[str], now: datetime, characters: int = 80
) -> Mapping[str, str]:
    """The beginning of each text, each one a view in the audit log. Raises Forbidden."""
    require(actor, Action.VIEW_TEXT)
    beginning = func.substr(cases.c.text, 1, characters).label("beginning")
    with db.write() as conn:
        rows = conn.execute(select(cases.c.id, beginning).where(cases.c.id.in_(case_ids)).order_by(cases.c.id)).all()
        for row in rows:
            append(conn, actor, "text_viewed", row.id, {"characters": characters}, now)
    return {row.id: row.beginning for row in rows}


def _columns() -> list[ColumnElement[Any]]:
    case_, ended = cases.c, screenings.c
    return [
        case_.id.label("case_id"),
        *(case_.row, case_.external_id, ended.node, ended.reason, ended.calls, case_.group_name.label("group")),
        *(_gap().label("gap"), case_.reference_value, is_accepted(cases.c.id).label("adjudicated")),
    ]


def _joined(query: Select[Any], wanted: Cell, actor: Actor) -> Select[Any]:
    """The cases of the cell and of the group, each beside its outcome and the run of the node that ended it."""
    run = node_runs.c
    last = and_(run.case_id == cases.c.id, run.node == screenings.c.node, run.variant == MAIN)
    of_cell = (
        query.select_from(cases)
        .outerjoin(screenings, screenings.c.case_id == cases.c.id)
        .outerjoin(node_runs, last)
        .where(cases.c.batch_id == wanted.batch_id, outcome_now(actor) == wanted.outcome)
        .where(reference_now(wanted.labels) == wanted.reference)
    )
    return of_cell if wanted.group is None else of_cell.where(cases.c.group_name == wanted.group)


def _filtered(query: Select[Any], wanted: Cell) -> Select[Any]:
    if wanted.node is not None:
        query = query.where(screenings.c.node == wanted.node)
    if wanted.reason is not None:
        query = query.where(screenings.c.reason == wanted.reason)
    if wanted.gap_at_most is not None:
        query = query.where(_gap() <= wanted.gap_at_most)
    if wanted.source is not None:
        accepted = is_accepted(cases.c.id)
        query = query.where(accepted if wanted.source == "adjudicated" else ~accepted)
    return query


def _gap() -> ColumnElement[Any]:
    """(most frequent − second) / draws; what is neither S nor U in the codes counts as escalate."""
    draws = node_runs.c.draws
    total = func.length(draws)
    safe = total - func.length(func.replace(draws, "S", ""))
    unsafe = total - func.length(func.replace(draws, "U", ""))
    escalate = total - safe - unsafe
    most = case((and_(safe >= unsafe, safe >= escalate), safe), (unsafe >= escalate, unsafe), else_=escalate)
    least = case((and_(safe <= unsafe, safe <= escalate), safe), (unsafe <= escalate, unsafe), else_=escalate)
    return cast(2 * most + least - total, Float) / func.nullif(total, 0)
