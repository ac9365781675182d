"""Derived anew from the facts alone, the slow way: a batch's running sums, and what clinicians accepted."""

from sqlalchemy import Connection, case, func, select

from screening.labels import Outcome
from screening.review.policy import Action, Actor, require
from storage.batches.counts import PENDING, Kind, Totals
from storage.database import Database
from storage.schema import adjudications, case_errors, cases, node_runs, rejected_rows, screenings
from storage.visibility import is_accepted, order_given


def recount(conn: Connection, batch_id: str) -> Totals:
    """The sums of `storage.batches.counts`."""
    of_batch = cases.c.batch_id == batch_id
    accepted = conn.execute(select(func.count()).select_from(cases).where(of_batch)).scalar_one()
    refused = select(func.count()).select_from(rejected_rows).where(rejected_rows.c.batch_id == batch_id)
    ended = select(screenings.c.outcome, func.count()).where(screenings.c.batch_id == batch_id)
    outcomes: dict[str, int] = {row[0]: row[1] for row in conn.execute(ended.group_by(screenings.c.outcome))}
    latest = select(func.max(screenings.c.completed_at)).where(screenings.c.batch_id == batch_id)
    unpriced = func.sum(case((node_runs.c.cost_usd.is_(None), node_runs.c.calls), else_=0))
    spent = conn.execute(
        select(func.sum(node_runs.c.calls), func.sum(node_runs.c.cost_usd), unpriced)
        .join(cases, cases.c.id == node_runs.c.case_id)
        .where(of_batch)
    ).one()
    lost = select(func.sum(case_errors.c.calls)).join(cases, cases.c.id == case_errors.c.case_id).where(of_batch)
    beside = select(func.sum(node_runs.c.lost_calls)).join(cases, cases.c.id == node_runs.c.case_id).where(of_batch)
    return Totals(
        accepted=accepted,
        rejected=conn.execute(refused).scalar_one(),
        safe=outcomes.get(Outcome.SAFE.value, 0),
        unsafe=outcomes.get(Outcome.UNSAFE.value, 0),
        human_review=outcomes.get(Outcome.HUMAN_REVIEW.value, 0),
        calls=int(spent[0] or 0),
        lost_calls=sum(int(conn.execute(query).scalar_one() or 0) for query in (lost, beside)),
        unpriced_calls=int(spent[2] or 0),
        cost_usd=float(spent[1] or 0.0),
        last_completed_at=conn.execute(latest).scalar_one(),
    )


def recount_kinds(conn: Connection, batch_id: str) -> dict[Kind, int]:
    """The counts of `storage.batches.counts` from the facts."""
    ended = screenings.c
    query = select(cases.c.reference, ended.outcome, ended.node, ended.reason, func.count().label("cases"))
    joined = query.outerjoin(screenings, ended.case_id == cases.c.id).where(cases.c.batch_id == batch_id)
    rows = conn.execute(joined.group_by(cases.c.reference, ended.outcome, ended.node, ended.reason))
    return {
        Kind(outcome=row.outcome or PENDING, reference=row.reference, node=row.node, reason=row.reason): row.cases
        for row in rows
    }


def adjudicated_labels(db: Database, actor: Actor, batch_id: str, version: int | None = None) -> dict[str, str]:
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
