"""A second pipeline on the same cases: what is tried, the next cases for the worker, and what came of them. It decides
nothing and opens nothing in the inbox.
"""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Row, Select, func, or_, select, type_coerce, update

from screening.pipeline.draws import Usage
from screening.pipeline.engine import Screening
from screening.review.policy import SYSTEM, Acting, Action, Actor, is_allowed, require
from storage.audit_log import append
from storage.batches.batch_state import CAP_REACHED, Caps
from storage.batches.configurations import UnreadableConfiguration, load_configuration
from storage.batches.counts import Totals
from storage.batches.screenings import CaseForScreening, case_of
from storage.database import Database, Source, insert_once, record, writing
from storage.schema import batches, cases, comparison_outcomes, comparisons, node_runs, screenings
from storage.schema.columns import new_id
from storage.visibility import accepted_label, hidden_from, was_erased

NO_CAPS = Caps()
_MAY_BE_RESUMED = comparisons.c.ended_why.not_in(CAP_REACHED)


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

    @property
    def running(self) -> bool:
        """Whether cases are still to be screened."""
        return self.ended_why is None and self.done < self.of

    @property
    def may_go_on(self) -> bool:
        """Whether it ended before it had all its cases and may be resumed: not at a cap."""
        return self.ended_why is not None and self.ended_why not in CAP_REACHED and self.done < self.of


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


def begin_comparison(
    db: Database, by: Acting, batch_id: str, *, configuration: str, name: str, most_cases: int, caps: Caps = NO_CAPS
) -> str:
    """Try a kept configuration under a name on at most so many of a batch's settled cases; the worker does the rest.
    The same configuration again gives the one that there is, with the caps and the number of cases given last, until
    that has all its cases or reached a cap: nothing is paid twice. Raises Forbidden.
    """
    require(by.actor, Action.CREATE_BATCH)
    require(by.actor, Action.VIEW_RESULTS)
    kept = select(func.count()).where(comparison_outcomes.c.comparison_id == comparisons.c.id).scalar_subquery()
    same = select(comparisons.c.id, kept.label("kept")).filter_by(batch_id=batch_id, configuration=configuration)
    goes_on = or_(comparisons.c.ended_at.is_(None), _MAY_BE_RESUMED)
    lacks_cases = or_(kept < comparisons.c.most_cases, kept < most_cases)
    newest = same.where(goes_on, lacks_cases).order_by(comparisons.c.created_at.desc())
    limits = {"most_cases": most_cases, **asdict(caps)}
    with db.write() as conn:
        if (found := conn.execute(newest).first()) is not None:
            resume_comparison(conn, by, found.id)
            limits |= {"most_cases": max(most_cases, found.kept)}
            differs = or_(*(comparisons.c[name].is_distinct_from(limit) for name, limit in limits.items()))
            if conn.execute(update(comparisons).where(comparisons.c.id == found.id, differs).values(limits)).rowcount:
                append(conn, by, "comparison_capped", found.id, limits)
            return str(found.id)
        comparison_id = new_id(by.now)
        row = {"id": comparison_id, "batch_id": batch_id, "configuration": configuration, "name": name, **limits}
        conn.execute(comparisons.insert().values(**row, created_by=by.id, created_at=by.now))
        append(conn, by, "comparison_begun", comparison_id, {"batch_id": batch_id, "cases": most_cases})
        return comparison_id


def end_comparison(db: Database, by: Acting, comparison_id: str, why: str) -> None:
    """No further case is asked about; what was found stays. The worker (SYSTEM) may give one up. Raises Forbidden."""
    if by.actor != SYSTEM:
        require(by.actor, Action.CREATE_BATCH)
    going = update(comparisons).where(comparisons.c.id == comparison_id, comparisons.c.ended_at.is_(None))
    with db.write() as conn:
        if conn.execute(going.values(ended_at=by.now, ended_why=why[:40])).rowcount:
            append(conn, by, "comparison_ended", comparison_id, {"why": why[:40]})


def resume_comparison(db: Source, by: Acting, comparison_id: str) -> bool:
    """Go on with one that was stopped, or ended by a fault and not at a cap; whether it was so. Raises Forbidden."""
    require(by.actor, Action.CREATE_BATCH)
    require(by.actor, Action.VIEW_RESULTS)
    ended = update(comparisons).where(comparisons.c.id == comparison_id, _MAY_BE_RESUMED)
    with writing(db) as conn:
        if not conn.execute(ended.values(ended_at=None, ended_why=None)).rowcount:
            return False
        append(conn, by, "comparison_resumed", comparison_id, {})
    return True


def list_comparisons(db: Database, actor: Actor) -> tuple[Comparison, ...]:
    """All comparisons, the newest first, for those who may see results or decide what is put in force."""
    _require_figures(actor)
    theirs = screenings.c
    settled = select(func.count()).select_from(screenings).where(theirs.batch_id == comparisons.c.batch_id)
    not_erased = or_(~was_erased(theirs.case_id), _compared(comparisons.c.id, theirs.case_id))  # before it came to it
    of = settled.where(not_erased).correlate(comparisons).scalar_subquery()
    query = _SPENT.add_columns(batches.c.name.label("batch_name"), of.label("settled"))
    query = query.join(batches, batches.c.id == comparisons.c.batch_id).group_by(batches.c.name)
    return tuple(
        record(Comparison, row, of=min(row.most_cases, row.settled), caps=record(Caps, row), totals=_totals(row))
        for row in db.rows(query.order_by(comparisons.c.created_at.desc()))
    )


_kept = comparison_outcomes.c


def _compared(comparison_id: Any, case_id: Any) -> ColumnElement[bool]:
    kept = select(_kept.case_id).where(_kept.comparison_id == comparison_id, _kept.case_id == case_id)
    return kept.correlate_except(comparison_outcomes).exists()  # of these two, however deep it stands in a query


_SPENT = (
    select(
        comparisons,
        func.count(_kept.case_id).label("done"),
        func.coalesce(func.sum(_kept.calls), 0).label("calls"),
        func.coalesce(func.sum(_kept.cost_usd), 0.0).label("cost_usd"),
        func.coalesce(func.sum(_kept.calls).filter(_kept.cost_usd.is_(None)), 0).label("unpriced_calls"),
    )
    .outerjoin(comparison_outcomes, _kept.comparison_id == comparisons.c.id)
    .group_by(comparisons.c.id)
)
"""Each comparison with what it has cost so far."""


def _totals(row: Row[Any]) -> Totals:
    return record(Totals, row, accepted=row.done)


def paired_outcomes(db: Database, actor: Actor, comparison_id: str) -> tuple[Pair, ...]:
    """Both outcomes of every case so far; without names for whoever may only decide what is put in force."""
    _require_figures(actor)
    named = is_allowed(actor, Action.VIEW_RESULTS)
    first, second, run = screenings.c, comparison_outcomes.c, node_runs.c
    lasted = func.sum(type_coerce(run.ended_at, BigInteger) - type_coerce(run.started_at, BigInteger))  # microseconds
    took = select(lasted).where(run.case_id == cases.c.id).scalar_subquery()
    columns = (
        cases.c.id, cases.c.external_id, took.label("seconds"), first.outcome, first.calls, first.cost_usd,
        func.coalesce(accepted_label(cases.c.id), cases.c.reference).label("reference"),
        *(second[name].label(f"{name}_2") for name in ("outcome", "calls", "cost_usd", "seconds")),
    )  # fmt: skip
    query = select(*columns).select_from(comparison_outcomes).join(cases, cases.c.id == second.case_id)
    query = query.join(screenings, first.case_id == cases.c.id).where(second.comparison_id == comparison_id)
    with db.read() as conn:
        hidden = hidden_from(conn, actor, cases.c.id, None).label("hidden")
        rows = conn.execute(query.add_columns(hidden).order_by(cases.c.row)).all()
    return tuple(
        Pair(
            case_id=row.id if named else "",
            external_id=row.external_id if named else "",
            reference=row.reference if row.reference in ("safe", "unsafe") else None,
            hidden=bool(row.hidden),
            first=record(Side, row, seconds=float(row.seconds or 0) / 1_000_000),
            second=Side(outcome=row.outcome_2, calls=row.calls_2, cost_usd=row.cost_usd_2, seconds=row.seconds_2),
        )
        for row in rows
    )


def _require_figures(actor: Actor) -> None:
    if not is_allowed(actor, Action.ACTIVATE_PIPELINE):
        require(actor, Action.VIEW_RESULTS)


def next_due(
    db: Database, by: Acting, limit: int, put_off: Collection[str] = ()
) -> tuple[str, Caps, Totals, tuple[CaseForScreening, ...]] | None:
    """The oldest comparison that has further cases: its id, its caps, what it has cost so far, and the next cases
    without those that are ``put_off``; None without any. One whose pipeline this version can't read ends: it would hold
    up all that begin after it.
    """
    with db.read() as conn:
        running = _SPENT.where(comparisons.c.ended_at.is_(None)).order_by(comparisons.c.created_at)
        for one in conn.execute(running).all():
            left = min(limit, one.most_cases - one.done)
            if left > 0 and (rows := conn.execute(_cases_to_screen(one, put_off).limit(left)).all()):
                break
        else:
            return None
    try:
        configuration = load_configuration(db, one.configuration)
    except UnreadableConfiguration:
        end_comparison(db, by, one.id, "configuration_unreadable")
        return next_due(db, by, limit, put_off)
    return one.id, record(Caps, one), _totals(one), tuple(case_of(row, configuration) for row in rows)


def _cases_to_screen(one: Row[Any], put_off: Collection[str]) -> Select[Any]:
    """Settled cases that the comparison has not screened yet, in the file's order, without those that were erased."""
    query = select(cases, batches.c.seed, batches.c.kind).join(batches, batches.c.id == cases.c.batch_id)
    left = ~_compared(one.id, cases.c.id), ~was_erased(cases.c.id), cases.c.id.not_in(put_off)
    settled = query.join(screenings, screenings.c.case_id == cases.c.id).where(*left)
    return settled.where(cases.c.batch_id == one.batch_id).order_by(cases.c.row)


def keep_compared(
    db: Database,
    comparison_id: str,
    case_id: str,
    found: Screening,
    now: datetime,
    *,
    cost_usd: float | None,
    seconds: float,
) -> bool:
    """Store once what the second pipeline made of a case; whether it was the first. Calls of a later one are lost."""
    usage = sum((run.usage for run in found.runs), Usage())
    row = {
        "comparison_id": comparison_id,
        "case_id": case_id,
        "outcome": found.outcome.value,
        "node": found.node,
        "reason": found.reason.value,
        "calls": found.calls,
        "tokens": usage.input_tokens + usage.output_tokens,
        "cost_usd": cost_usd,
        "seconds": seconds,
        "draws": {f"{run.node}/{run.variant}": run.codes for run in found.runs},
        "at": now,
    }
    with db.write() as conn:
        kept = insert_once(conn, comparison_outcomes, row)
    if not kept:
        lose_calls(db, comparison_id, found.calls)
    return kept


def lose_calls(db: Database, comparison_id: str, calls: int) -> None:
    """Count calls that were paid for but led to no outcome: they count towards the caps."""
    more = update(comparisons).where(comparisons.c.id == comparison_id)
    with db.write() as conn:
        conn.execute(more.values(lost_calls=comparisons.c.lost_calls + calls))
