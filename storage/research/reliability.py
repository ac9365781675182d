"""What verification is made of: each settled case with its audit coin, and its blind first reading if there is one."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Select, and_, func, select

from screening.labels import Label, Outcome
from screening.review.actors import Actor
from screening.review.policy import Action, require
from screening.review.reach import Reach
from screening.statistics.rules.protocol import Ended
from screening.statistics.verification import AuditCase, audit_coin
from storage.database import Database
from storage.schema import batches, cases, configurations, node_runs, ratings, screenings

_INSUFFICIENT = "insufficient_information"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A settled case of the audit, with when it was settled and when its blind first reading was given."""

    case: AuditCase
    settled_at: datetime
    read_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSample:
    """All settled cases that ran with one configuration and were under audit, in the order they were settled.

    ``without_audit`` counts settled cases whose probability was 0 (single texts, batches without an audit): nothing
    can be said of them. ``not_blind`` counts readings that were due and are left out because the engine's view had
    been served before. ``reaches`` are what these batches did with texts called unsafe: of one that only listed or
    counted them too few are read for any claim about specificity.
    """

    configuration_version: str
    configuration: Mapping[str, Any]
    readings: tuple[Reading, ...]
    without_audit: int
    not_blind: int
    reaches: frozenset[Reach] = frozenset()

    @property
    def cases(self) -> tuple[AuditCase, ...]:
        """The cases alone."""
        return tuple(reading.case for reading in self.readings)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredConfiguration:
    """A configuration that settled cases: how many, and from when to when."""

    version: str
    settled: int
    first_at: datetime
    last_at: datetime


def measured_configurations(db: Database, actor: Actor) -> tuple[MeasuredConfiguration, ...]:
    """The configurations that have settled batch cases, the latest used first."""
    require(actor, Action.VIEW_RESULTS)
    done = screenings.c
    query = (
        select(
            done.configuration,
            func.count().label("settled"),
            func.min(done.completed_at).label("first_at"),
            func.max(done.completed_at).label("last_at"),
        )
        .join(batches, batches.c.id == done.batch_id)
        .where(batches.c.kind == "batch")
        .group_by(done.configuration)
        .order_by(func.max(done.completed_at).desc())
    )
    with db.read() as conn:
        return tuple(
            MeasuredConfiguration(
                version=row.configuration, settled=row.settled, first_at=row.first_at, last_at=row.last_at
            )
            for row in conn.execute(query)
        )


def audit_sample(db: Database, actor: Actor, version: str) -> AuditSample:
    """The audit of one configuration over all its batches. Raises Forbidden, KeyError for an unknown version.

    The coin is tossed again from the batch's seed and the case, as at ingest; strata are the audit probabilities.
    """
    require(actor, Action.VIEW_RESULTS)
    with db.read() as conn:
        body = conn.execute(select(configurations.c.body).where(configurations.c.version == version)).scalar()
        if body is None:
            raise KeyError(version)
        rows = conn.execute(_readings(version)).all()
    audited = [row for row in rows if row.audit_probability > 0]
    readings = tuple(map(_reading, audited))
    return AuditSample(
        configuration_version=version,
        configuration=body,
        readings=readings,
        without_audit=len(rows) - len(audited),
        reaches=frozenset(Reach(row.reach) for row in audited),
        not_blind=sum(
            row.blind is False and reading.case.selected for row, reading in zip(audited, readings, strict=True)
        ),
    )


def _readings(version: str) -> Select[Any]:
    first = and_(ratings.c.case_id == cases.c.id, ratings.c.version == 1, ratings.c.reading == "first")
    return (
        select(
            cases.c.id,
            cases.c.audit_probability,
            batches.c.seed,
            batches.c.reach,
            screenings.c.outcome,
            screenings.c.completed_at,
            ratings.c.label,
            ratings.c.blind,
            ratings.c.at,
        )
        .select_from(cases)
        .join(screenings, screenings.c.case_id == cases.c.id)
        .join(batches, batches.c.id == cases.c.batch_id)
        .outerjoin(ratings, first)
        .where(screenings.c.configuration == version, batches.c.kind == "batch")
        .order_by(screenings.c.completed_at, cases.c.id)
    )


def _reading(row: Any) -> Reading:
    """A settled case with the chance that it had of being read: 1 where all that is called unsafe is read."""
    blind = bool(row.blind)
    read_anyway = row.outcome == Outcome.UNSAFE.value and row.reach == Reach.READ
    case = AuditCase(
        stratum=f"audited with probability {row.audit_probability:g}",
        outcome=Outcome(row.outcome),
        probability=1.0 if read_anyway else row.audit_probability,
        coin=audit_coin(str(row.seed), row.id),
        blind_first=Label(row.label) if blind and row.label in ("safe", "unsafe") else None,
        inconclusive=blind and row.label == _INSUFFICIENT,
    )
    return Reading(case=case, settled_at=row.completed_at, read_at=row.at if blind else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeMix:
    """How often cases ended in each way in two windows of equal numbers of cases, the earlier half and the later."""

    before: Mapping[str, int]
    after: Mapping[str, int]
    split_at: datetime | None


def outcome_mix(db: Database, actor: Actor, version: str) -> OutcomeMix:
    """The ends of the first node that a case met, by label or kind of abstention; no person's reading enters.

    The halves are by count in the order of settling, with the earlier one larger by one where the number is odd.
    """
    require(actor, Action.VIEW_RESULTS)
    query = (
        select(node_runs.c.label, node_runs.c.ended, screenings.c.completed_at)
        .join(screenings, screenings.c.case_id == node_runs.c.case_id)
        .join(batches, batches.c.id == screenings.c.batch_id)
        .where(screenings.c.configuration == version, batches.c.kind == "batch", node_runs.c.position == 0)
        .order_by(screenings.c.completed_at, screenings.c.case_id)
    )
    with db.read() as conn:
        rows = conn.execute(query).all()
    half = (len(rows) + 1) // 2
    split = rows[half].completed_at if len(rows) > half else None
    return OutcomeMix(before=_ends(rows[:half]), after=_ends(rows[half:]), split_at=split)


def _ends(rows: Sequence[Any]) -> Mapping[str, int]:
    return dict(Counter(row.label if row.ended == Ended.IDENTIFIED.value else row.ended for row in rows))
