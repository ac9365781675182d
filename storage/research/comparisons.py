"""A second pipeline on the same cases. It decides nothing and opens nothing in the inbox."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Row,
    ScalarSelect,
    Select,
    and_,
    case,
    exists,
    func,
    insert,
    or_,
    select,
    type_coerce,
    update,
)

from screening.review.actors import SYSTEM, Acting, Actor
from screening.review.policy import Action, is_allowed, require
from storage.audit_log import append
from storage.batches.batch_state import CAP_REACHED, Caps
from storage.batches.counts import Totals
from storage.database import Database, record
from storage.identifiers import new_id
from storage.schema import batches, cases, comparison_outcomes, comparisons, node_runs, screenings
from storage.visibility import accepted_label, hidden_from, was_erased


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One comparison and how far it is: ``done`` of at most ``of`` cases; ``totals`` is what it has cost so far."""

    id: str
    batch_id: str
    batch_name: str
    name: str
    configuration: str
    done: int
    of: int
    caps: Caps
    totals: Totals
    created_at: datetime
    ended_why: str | None
    begun_anew: bool = False
    """Another one tries the same."""

    @property
    def running(self) -> bool:
        """Whether cases are still to be screened."""
        return self.ended_why is None and self.done < self.of

    @property
    def may_go_on(self) -> bool:
        """Whether it ended before it had all its cases and may be resumed: not at a cap, not begun anew."""
        ended = self.ended_why is not None and self.ended_why not in CAP_REACHED
        return ended and not self.begun_anew and self.done < self.of


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What one pipeline made of one case, in calls, dollars (None: unknown) and seconds."""

    outcome: str
    calls: int
    cost_usd: float | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One case under both pipelines, with its reference label: the accepted one, else the file's. ``hidden``: in
    review, and lists hide its outcome from this person.
    """

    case_id: str
    external_id: str
    reference: str | None
    first: Side
    second: Side
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """What is to be tried: a kept configuration under a name, on at most so many cases, within these caps."""

    configuration: str
    name: str
    most_cases: int
    caps: Caps = field(default_factory=Caps)


def begin_comparison(db: Database, by: Acting, batch_id: str, trial: Trial) -> str:
    """Try it on a batch's settled cases; the worker does the rest. The same again gives the one that there is, with the
    caps given last, until that has all its cases; one that may go on goes on. Raises Forbidden.
    """
    require(by.actor, Action.CREATE_BATCH)
    require(by.actor, Action.VIEW_RESULTS)
    with db.write() as conn:
        return _begin(conn, by, trial, batch_id)


def _begin(conn: Connection, by: Acting, trial: Trial, batch_id: str) -> str:
    tried = {"configuration": trial.configuration, "name": trial.name, "most_cases": trial.most_cases}
    wanted = {"batch_id": batch_id, **tried}
    caps = {"max_calls": trial.caps.max_calls, "max_cost_usd": trial.caps.max_cost_usd}
    kept = select(func.count()).where(comparison_outcomes.c.comparison_id == comparisons.c.id).scalar_subquery()
    goes_on = or_(comparisons.c.ended_at.is_(None), _may_be_resumed()), kept < comparisons.c.most_cases
    same = select(comparisons.c.id).filter_by(**wanted).where(*goes_on)
    if (found := conn.execute(same.order_by(comparisons.c.ended_at.is_(None).desc())).scalar()) is not None:
        _resume(conn, by, str(found))
        _change_caps(conn, by, str(found), caps)
        return str(found)
    row: dict[str, Any] = {"id": new_id(by.now), "created_by": by.id, "created_at": by.now, **wanted}
    conn.execute(insert(comparisons).values(row | caps))
    append(conn, by, "comparison_begun", str(row["id"]), {"batch_id": batch_id, "cases": trial.most_cases})
    return str(row["id"])


def _change_caps(conn: Connection, by: Acting, comparison_id: str, caps: Mapping[str, Any]) -> None:
    differs = or_(*(comparisons.c[name].is_distinct_from(cap) for name, cap in caps.items()))
    if conn.execute(update(comparisons).where(comparisons.c.id == comparison_id, differs).values(caps)).rowcount:
        append(conn, by, "comparison_capped", comparison_id, dict(caps))


def end_comparison(db: Database, by: Acting, comparison_id: str, why: str) -> None:
    """No further case is asked about; what was found stays. The worker (SYSTEM) may give one up. Raises Forbidden."""
    with db.write() as conn:
        if by.actor != SYSTEM:
            require(by.actor, Action.CREATE_BATCH)
        _end(conn, by, comparison_id, why)


def resume_comparison(db: Database, by: Acting, comparison_id: str) -> bool:
    """Go on with the cases that one which was stopped, or ended by a fault, does not have yet; whether it was so. One
    that reached a cap stays ended, and so does one that was begun anew. Raises Forbidden.
    """
    require(by.actor, Action.CREATE_BATCH)
    require(by.actor, Action.VIEW_RESULTS)
    with db.write() as conn:
        return _resume(conn, by, comparison_id)


def _may_be_resumed() -> ColumnElement[bool]:
    return and_(comparisons.c.ended_why.not_in(CAP_REACHED), ~_is_begun_anew())


def _is_begun_anew() -> ColumnElement[bool]:
    """Whether another one that has not ended tries the same on at least as many texts: both would be paid."""
    other = comparisons.alias()
    same = (other.c[name] == comparisons.c[name] for name in ("batch_id", "configuration"))
    lasts = other.c.ended_at.is_(None), other.c.most_cases >= comparisons.c.most_cases
    return exists().where(*same, *lasts, other.c.id != comparisons.c.id).correlate(comparisons)


def _resume(conn: Connection, by: Acting, comparison_id: str) -> bool:
    ended = update(comparisons).where(comparisons.c.id == comparison_id, _may_be_resumed())
    if not conn.execute(ended.values(ended_at=None, ended_why=None)).rowcount:
        return False
    append(conn, by, "comparison_resumed", comparison_id, {})
    return True


def _end(conn: Connection, by: Acting, comparison_id: str, why: str) -> None:
    ended = update(comparisons).where(comparisons.c.id == comparison_id, comparisons.c.ended_at.is_(None))
    if conn.execute(ended.values(ended_at=by.now, ended_why=why[:40])).rowcount:
        append(conn, by, "comparison_ended", comparison_id, {"why": why[:40]})


def list_comparisons(db: Database, actor: Actor) -> tuple[Comparison, ...]:
    """All comparisons, the newest first, for those who may see results or decide what is put in force."""
    _require_figures(actor)
    more = _count_settled().label("settled"), _is_begun_anew().label("begun_anew")
    query = select(comparisons, batches.c.name.label("batch_name"), *more)
    joined = query.join(batches, batches.c.id == comparisons.c.batch_id).order_by(comparisons.c.created_at.desc())
    with db.read() as conn:
        spent = spendings(conn)
        return tuple(_comparison(row, spent.get(row.id, Totals())) for row in conn.execute(joined))


def _count_settled() -> ScalarSelect[int]:
    """How many of its batch's cases a comparison has, or may yet have: not what was erased before it came to it."""
    one, theirs = comparison_outcomes.c, screenings.c
    compared = exists().where(one.comparison_id == comparisons.c.id, one.case_id == theirs.case_id)
    query = select(func.count()).select_from(screenings).where(theirs.batch_id == comparisons.c.batch_id)
    return query.where(or_(~was_erased(theirs.case_id), compared)).correlate(comparisons).scalar_subquery()


def spendings(conn: Connection) -> dict[str, Totals]:
    """What each comparison has cost so far; ``accepted`` counts its cases."""
    one = comparison_outcomes.c
    columns = (
        func.count().label("cases"),
        func.sum(one.calls).label("calls"),
        func.sum(one.cost_usd).label("cost_usd"),
        func.sum(case((one.cost_usd.is_(None), one.calls), else_=0)).label("unpriced"),
    )
    sums = select(one.comparison_id, *columns).group_by(one.comparison_id)
    kept = {row.comparison_id: row for row in conn.execute(sums)}
    lost = conn.execute(select(comparisons.c.id, comparisons.c.lost_calls)).all()
    return {name: _totals(kept.get(name), calls) for name, calls in lost}


def _totals(row: Row[Any] | None, lost: int) -> Totals:
    if row is None:
        return Totals(lost_calls=lost)
    return Totals(
        accepted=row.cases,
        calls=int(row.calls),
        cost_usd=float(row.cost_usd or 0.0),
        unpriced_calls=int(row.unpriced),
        lost_calls=lost,
    )


def paired_outcomes(db: Database, actor: Actor, comparison_id: str) -> tuple[Pair, ...]:
    """Both outcomes of every case compared so far. Whoever may only decide what is put in force is not told which case
    is which.
    """
    _require_figures(actor)
    named = is_allowed(actor, Action.VIEW_RESULTS)
    with db.read() as conn:
        rows = conn.execute(_pairs(comparison_id, hidden_from(conn, actor, cases.c.id, None))).all()
    return tuple(_pair(row, named=named) for row in rows)


def _require_figures(actor: Actor) -> None:
    if not is_allowed(actor, Action.ACTIVATE_PIPELINE):
        require(actor, Action.VIEW_RESULTS)


def _pairs(comparison_id: str, hidden: ColumnElement[bool]) -> Select[Any]:
    first, second, run = screenings.c, comparison_outcomes.c, node_runs.c
    took = (
        select(func.sum(_seconds(run.ended_at) - _seconds(run.started_at)))
        .where(run.case_id == cases.c.id)
        .scalar_subquery()
    )
    return (
        select(
            cases.c.id, cases.c.external_id, hidden.label("hidden"), took.label("seconds"),
            func.coalesce(accepted_label(cases.c.id), cases.c.reference).label("reference"),
            first.outcome, first.calls, first.cost_usd,
            second.outcome.label("outcome_2"), second.calls.label("calls_2"),
            second.cost_usd.label("cost_usd_2"), second.seconds.label("seconds_2"),
        )
        .select_from(comparison_outcomes)
        .join(cases, cases.c.id == second.case_id)
        .join(screenings, first.case_id == cases.c.id)
        .where(second.comparison_id == comparison_id)
        .order_by(cases.c.row)
    )  # fmt: skip


def _seconds(moment: ColumnElement[Any]) -> ColumnElement[int]:
    """A stored moment is whole microseconds."""
    return type_coerce(moment, BigInteger)


def _pair(row: Row[Any], *, named: bool) -> Pair:
    return Pair(
        case_id=row.id if named else "",
        external_id=row.external_id if named else "",
        reference=row.reference if row.reference in ("safe", "unsafe") else None,
        hidden=bool(row.hidden),
        first=record(Side, row, seconds=float(row.seconds or 0) / 1_000_000),
        second=Side(outcome=row.outcome_2, calls=row.calls_2, cost_usd=row.cost_usd_2, seconds=row.seconds_2),
    )


def _comparison(row: Row[Any], spent: Totals) -> Comparison:
    return record(
        Comparison,
        row,
        batch_name=row.batch_name,
        done=spent.accepted,
        of=min(row.most_cases, row.settled),
        caps=Caps(max_calls=row.max_calls, max_cost_usd=row.max_cost_usd),
        totals=spent,
    )
