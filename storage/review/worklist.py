"""The worklist of a batch: what it called unsafe, each to be acknowledged once by somebody who sees what it was called.

An entry here is no reading. Who acknowledged a case has seen the engine's view of it: a reading of theirs is not blind.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, exists, func, select

from screening.labels import Outcome
from screening.review.actors import Acting, Actor
from screening.review.policy import Action, require
from screening.review.reach import Reach
from storage.audit_log import append
from storage.database import Database, insert_once
from storage.schema import acknowledgements, batches, cases, screenings
from storage.visibility import is_in_review, unblind

MOST = 500
"""Cases that one press may acknowledge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """One case of a worklist."""

    case_id: str
    row: int
    external_id: str
    node: str | None
    completed_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Worklist:
    """The first cases of a batch that wait to be acknowledged; ``waiting`` counts all of them."""

    cases: tuple[Listed, ...]
    waiting: int


def worklist(db: Database, actor: Actor, batch_id: str, limit: int = 50) -> Worklist:
    """What waits, in the file's order, without what is in review. Raises Forbidden."""
    require(actor, Action.ACKNOWLEDGE)
    columns = (cases.c.id.label("case_id"), cases.c.row, cases.c.external_id)
    page = select(*columns, screenings.c.node, screenings.c.completed_at)
    joined = [
        query.select_from(screenings)
        .join(cases, cases.c.id == screenings.c.case_id)
        .where(_waits(), screenings.c.batch_id == batch_id)
        for query in (page.order_by(cases.c.row).limit(limit), select(func.count()))
    ]
    with db.read() as conn:
        rows, waiting = conn.execute(joined[0]).all(), conn.execute(joined[1]).scalar_one()
    return Worklist(cases=tuple(Listed(**row._mapping) for row in rows), waiting=int(waiting))


def acknowledge(db: Database, by: Acting, case_ids: Sequence[str]) -> int:
    """Say that these were seen; returns how many nobody had acknowledged before. Raises Forbidden, ValueError."""
    require(by.actor, Action.ACKNOWLEDGE)
    if len(case_ids) > MOST:
        raise ValueError(f"at most {MOST} cases at a time")
    joined = select(cases.c.id).join(screenings, screenings.c.case_id == cases.c.id)
    with db.write() as conn:
        known = conn.execute(joined.where(cases.c.id.in_(case_ids), _waits()).order_by(cases.c.id)).scalars()
        count = 0
        for case_id in known.all():
            count += insert_once(conn, acknowledgements, {"case_id": case_id, "by": by.id, "at": by.now})
            unblind(conn, by.id, [case_id], by.now)
            append(conn, by, "acknowledged", case_id, {})
    return count


def is_listed() -> ColumnElement[bool]:
    """The condition that an outcome is on the worklist of its batch, acknowledged or not."""
    lists = select(batches.c.id).where(batches.c.reach == Reach.LIST.value)
    return and_(screenings.c.outcome == Outcome.UNSAFE.value, screenings.c.batch_id.in_(lists))


def _waits() -> ColumnElement[bool]:
    done = exists().where(acknowledgements.c.case_id == cases.c.id)
    return and_(is_listed(), ~done, ~is_in_review(cases.c.id))
