"""A second pipeline on the same cases. It decides nothing, opens nothing in the inbox, and is shown to nobody who may
yet read the case blind."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Row, Select, and_, exists, func, insert, select, type_coerce, update

from screening.engine.draws import encode_draws
from screening.engine.screen import Screening
from screening.review.actors import SYSTEM, Actor
from screening.review.policy import Action, require
from storage.batches.configurations import load_configuration
from storage.batches.screenings import CaseForScreening, case_of
from storage.blindness import withheld
from storage.database import Database, insert_once
from storage.identifiers import new_id
from storage.review.accepted import accepted_label
from storage.schema import batches, cases, comparison_outcomes, comparisons, node_runs, screenings
from storage.site.audit_log import append


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One comparison and how far it is: ``done`` of at most ``of`` cases."""

    id: str
    batch_id: str
    batch_name: str
    name: str
    configuration: str
    done: int
    of: int
    created_at: datetime
    ended_why: str | None

    @property
    def running(self) -> bool:
        """Whether cases are still to be screened."""
        return self.ended_why is None and self.done < self.of


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """What one pipeline made of one case, in calls, dollars (None: unknown) and seconds."""

    outcome: str
    calls: int
    cost_usd: float | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """One case under both pipelines, with its reference label: the accepted one, else the file's."""

    case_id: str
    external_id: str
    reference: str | None
    first: Side
    second: Side


@dataclass(frozen=True, slots=True, kw_only=True)
class Paired:
    """The pairs that may be shown to this person, and how many are withheld because they may yet read them blind."""

    pairs: tuple[Pair, ...]
    withheld: int


def begin_comparison(
    db: Database, actor: Actor, batch_id: str, configuration: str, name: str, most_cases: int, now: datetime
) -> str:
    """Begin; the worker does the rest. The same again while one like it runs gives that one. Raises Forbidden."""
    require(actor, Action.CREATE_BATCH)
    require(actor, Action.VIEW_RESULTS)
    row: dict[str, Any] = {"id": new_id(now), "batch_id": batch_id, "configuration": configuration, "name": name}
    row |= {"most_cases": most_cases, "created_by": actor.id, "created_at": now}
    with db.write() as conn:
        same = and_(comparisons.c.batch_id == batch_id, comparisons.c.configuration == configuration)
        running = comparisons.c.most_cases == most_cases, comparisons.c.ended_at.is_(None)
        found = conn.execute(select(comparisons.c.id).where(same, *running)).scalar()
        if found is not None:
            return str(found)
        conn.execute(insert(comparisons).values(row))
        append(conn, actor, "comparison_begun", str(row["id"]), {"batch": batch_id, "cases": most_cases}, now)
    return str(row["id"])


def end_comparison(db: Database, actor: Actor, comparison_id: str, why: str, now: datetime) -> None:
    """No further case is asked about; what was found stays. The worker (SYSTEM) may give one up. Raises Forbidden."""
    if actor != SYSTEM:
        require(actor, Action.CREATE_BATCH)
    with db.write() as conn:
        ended = update(comparisons).where(comparisons.c.id == comparison_id, comparisons.c.ended_at.is_(None))
        if conn.execute(ended.values(ended_at=now, ended_why=why[:40])).rowcount:
            append(conn, actor, "comparison_ended", comparison_id, {"why": why[:40]}, now)


def list_comparisons(db: Database, actor: Actor) -> tuple[Comparison, ...]:
    """All comparisons, the newest first."""
    require(actor, Action.VIEW_RESULTS)
    done = _count(comparison_outcomes, comparison_outcomes.c.comparison_id == comparisons.c.id)
    settled = _count(screenings, screenings.c.batch_id == comparisons.c.batch_id)
    query = select(comparisons, batches.c.name.label("batch_name"), done.label("done"), settled.label("settled"))
    joined = query.join(batches, batches.c.id == comparisons.c.batch_id).order_by(comparisons.c.created_at.desc())
    with db.read() as conn:
        return tuple(_comparison(row) for row in conn.execute(joined))


def cases_to_compare(db: Database, limit: int) -> tuple[tuple[str, CaseForScreening], ...]:
    """The next cases of the oldest comparison that is not done, each with the comparison's id."""
    done = _count(comparison_outcomes, comparison_outcomes.c.comparison_id == comparisons.c.id)
    settled = _count(screenings, screenings.c.batch_id == comparisons.c.batch_id)
    waiting = (
        select(comparisons, done.label("done"))
        .where(comparisons.c.ended_at.is_(None), done < comparisons.c.most_cases, done < settled)
        .order_by(comparisons.c.created_at)
        .limit(1)
    )
    with db.read() as conn:
        one = conn.execute(waiting).first()
        if one is None:
            return ()
        rows = conn.execute(_undone(one).limit(min(limit, one.most_cases - one.done))).all()
    configuration = load_configuration(db, one.configuration)
    return tuple((one.id, case_of(row, configuration)) for row in rows)


def keep_compared(
    db: Database, comparison_id: str, case_id: str, found: Screening, cost: float | None, seconds: float, now: datetime
) -> bool:
    """Keep what the second pipeline made of a case, once; whether this was the first time."""
    row = {
        "comparison_id": comparison_id,
        "case_id": case_id,
        "outcome": found.outcome.value,
        "node": found.node,
        "reason": found.reason.value,
        "calls": found.calls,
        "cost_usd": cost,
        "seconds": seconds,
        "draws": {f"{run.node}/{run.variant}": encode_draws(run.draws) for run in found.runs},
        "at": now,
    }
    with db.write() as conn:
        return insert_once(conn, comparison_outcomes, row)


def paired_outcomes(db: Database, actor: Actor, comparison_id: str) -> Paired:
    """Both outcomes of every case compared so far. What this person may yet read blind is left out, and counted."""
    require(actor, Action.VIEW_RESULTS)
    hidden = withheld(actor, cases.c.id)
    with db.read() as conn:
        rows = conn.execute(_pairs(comparison_id, hidden)).all()
    shown = tuple(_pair(row) for row in rows if not row.hidden)
    return Paired(pairs=shown, withheld=len(rows) - len(shown))


def _count(table: Any, condition: ColumnElement[bool]) -> ColumnElement[int]:
    return select(func.count()).select_from(table).where(condition).scalar_subquery()


def _undone(one: Row[Any]) -> Select[Any]:
    """Settled cases of the comparison's batch that it has not screened yet, in the file's order."""
    compared = comparison_outcomes.c
    kept = exists().where(compared.comparison_id == one.id, compared.case_id == cases.c.id)
    query = select(cases, batches.c.seed, batches.c.kind).join(batches, batches.c.id == cases.c.batch_id)
    settled = query.join(screenings, screenings.c.case_id == cases.c.id)
    return settled.where(cases.c.batch_id == one.batch_id, ~kept).order_by(cases.c.row)


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


def _pair(row: Row[Any]) -> Pair:
    return Pair(
        case_id=row.id,
        external_id=row.external_id,
        reference=row.reference if row.reference in ("safe", "unsafe") else None,
        first=Side(
            outcome=row.outcome, calls=row.calls, cost_usd=row.cost_usd, seconds=float(row.seconds or 0) / 1_000_000
        ),
        second=Side(outcome=row.outcome_2, calls=row.calls_2, cost_usd=row.cost_usd_2, seconds=row.seconds_2),
    )


def _comparison(row: Row[Any]) -> Comparison:
    return Comparison(
        id=row.id,
        batch_id=row.batch_id,
        batch_name=row.batch_name,
        name=row.name,
        configuration=row.configuration,
        done=row.done,
        of=min(row.most_cases, row.settled),
        created_at=row.created_at,
        ended_why=row.ended_why,
    )
