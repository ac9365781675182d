"""What verification is made of: each settled case with its audit coin, and its blind first reading if there is one."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Select, and_, func, literal, select, type_coerce

from screening.labels import Label, Outcome
from screening.review.actors import Actor
from screening.review.policy import Action, require
from screening.review.reach import Reach
from screening.statistics.rules.protocol import Ended
from screening.statistics.verification import AuditCase, audit_coin
from storage.database import Database
from storage.schema import (
    adjudications,
    batches,
    cases,
    configurations,
    inbox_entries,
    node_runs,
    ratings,
    screenings,
)

_INSUFFICIENT = "insufficient_information"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A settled case of the audit, with when it was settled and when its blind first reading was given."""

    case: AuditCase
    settled_at: datetime
    read_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSample:
    """All settled cases that ran with one configuration and were under audit.

    ``readings`` are those whose coin fell, in the order they were settled; ``others`` stand for all the rest, alike
    ones counted together (their coins are not told apart). ``without_audit`` counts settled cases whose probability
    was 0 (single texts, batches without an audit): nothing can be said of them. ``not_blind`` counts readings that
    were due and are left out because the engine's view had been served before. ``reaches`` are what these batches did
    with texts called unsafe: of one that only listed or counted them too few are read for any claim about specificity.
    """

    configuration_version: str
    configuration: Mapping[str, Any]
    readings: tuple[Reading, ...]
    without_audit: int
    not_blind: int
    reaches: frozenset[Reach] = frozenset()
    others: tuple[tuple[AuditCase, int], ...] = ()

    @property
    def counted(self) -> tuple[tuple[AuditCase, int], ...]:
        """Every case under audit, with how many it stands for."""
        return (*((reading.case, 1) for reading in self.readings), *self.others)


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
        groups = conn.execute(_groups(version)).all()
    others = [(_case(row, _NOT_TOSSED), row.alike) for row in groups if row.audit_probability > 0]
    readings = tuple(_reading(row) for row in rows)
    return AuditSample(
        configuration_version=version,
        configuration=body,
        readings=readings,
        others=tuple(others),
        without_audit=sum(row.alike for row in groups if row.audit_probability == 0),
        reaches=frozenset(Reach(row.reach) for row in (*rows, *groups) if row.audit_probability > 0),
        not_blind=sum(row.blind is False for row in rows)
        + sum(row.alike for row in groups if row.audit_probability > 0 and row.blind is False and _due(row)),
    )


_SEVERAL = ("agreement", "senior", "discussion")
_NOT_TOSSED = 1 - 2**-53
"""Stands for a coin that did not fall."""


def _due(row: Any) -> bool:
    return _case(row, _NOT_TOSSED).selected


def _facts(version: str) -> tuple[list[ColumnElement[Any]], Callable[[Select[Any]], Select[Any]]]:
    """The columns that a case's place in the tally follows from, and the tables they stand in."""
    first = and_(ratings.c.case_id == cases.c.id, ratings.c.version == 1, ratings.c.reading == "first")
    several = adjudications.alias("several")
    newest = (
        select(several.c.case_id, func.max(several.c.version).label("version"))
        .where(several.c.method.in_(_SEVERAL))
        .group_by(several.c.case_id)
        .subquery()
    )
    made = adjudications.alias("settled_by_several")
    disputed = and_(inbox_entries.c.closed_at.is_(None), inbox_entries.c.reading != "first")
    columns: list[ColumnElement[Any]] = [
        cases.c.audit_probability,
        batches.c.reach,
        screenings.c.outcome,
        ratings.c.label,
        ratings.c.blind,
        made.c.label.label("settled"),
        func.coalesce(disputed, False).label("disputed"),
    ]

    def joined(query: Select[Any]) -> Select[Any]:
        return (
            query.select_from(screenings)
            .join(cases, cases.c.id == screenings.c.case_id)
            .join(batches, batches.c.id == cases.c.batch_id)
            .outerjoin(ratings, first)
            .outerjoin(newest, newest.c.case_id == cases.c.id)
            .outerjoin(made, and_(made.c.case_id == newest.c.case_id, made.c.version == newest.c.version))
            .outerjoin(inbox_entries, inbox_entries.c.case_id == cases.c.id)
            .where(screenings.c.configuration == version, batches.c.kind == "batch")
        )

    return columns, joined


def _readings(version: str) -> Select[Any]:
    columns, joined = _facts(version)
    query = joined(select(cases.c.id, batches.c.seed, screenings.c.completed_at, ratings.c.at, *columns))
    return query.where(cases.c.audited.is_(True)).order_by(screenings.c.completed_at, cases.c.id)


def _groups(version: str) -> Select[Any]:
    columns, joined = _facts(version)
    query = joined(select(func.count().label("alike"), *columns)).where(cases.c.audited.is_(False))
    return query.group_by(*columns[:-1], "disputed")  # by name: its values are parameters of the query


def _reading(row: Any) -> Reading:
    case = _case(row, audit_coin(str(row.seed), row.id))
    return Reading(case=case, settled_at=row.completed_at, read_at=row.at if row.blind else None)


def _case(row: Any, coin: float) -> AuditCase:
    """A settled case with the chance that it had of being read: 1 where all that is called unsafe is read."""
    blind = bool(row.blind)
    read_anyway = row.outcome == Outcome.UNSAFE.value and row.reach == Reach.READ
    return AuditCase(
        stratum=f"audited with probability {row.audit_probability:g}",
        outcome=Outcome(row.outcome),
        probability=1.0 if read_anyway else row.audit_probability,
        tossed_at=row.audit_probability,
        coin=coin,
        blind_first=Label(row.label) if blind and row.label in ("safe", "unsafe") else None,
        inconclusive=blind and row.label == _INSUFFICIENT,
        by_several=blind and row.settled is not None,
        settled=Label(row.settled) if row.settled in ("safe", "unsafe") else None,
        disputed=blind and bool(row.disputed),
    )


REFERENCE = 500
"""Cases of the reference window: the first that a configuration settled. It never moves."""

_DAY = 86_400_000_000  # a Moment is kept in microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeMix:
    """How often cases ended in each way: in the frozen reference, and since then up to the end of each day.

    ``until`` is when the reference was complete; None, with no looks, while fewer cases than it takes are settled.
    """

    reference: Mapping[str, int]
    looks: tuple[Mapping[str, int], ...]
    until: datetime | None


def outcome_mix(db: Database, actor: Actor, version: str, reference: int = REFERENCE) -> OutcomeMix:
    """The ends of the first node that a case met, by label or kind of abstention; no person's reading enters."""
    require(actor, Action.VIEW_RESULTS)
    done = screenings.c
    last = select(done.completed_at).join(batches, batches.c.id == done.batch_id)
    last = last.where(done.configuration == version, batches.c.kind == "batch").order_by(done.completed_at)
    with db.read() as conn:
        until = conn.execute(last.offset(reference - 1).limit(1)).scalar()
        rows = conn.execute(_ends_by_day(version, until)).all()
    at_first, since, looks = Counter[str](), Counter[str](), dict[int, Mapping[str, int]]()
    for row in rows:
        (since if row.later else at_first)[row.label if row.ended == Ended.IDENTIFIED.value else row.ended] += row.alike
        if row.later:
            looks[row.day] = dict(since)
    return OutcomeMix(reference=dict(at_first), looks=tuple(looks.values()), until=until)


def _ends_by_day(version: str, until: datetime | None) -> Select[Any]:
    moment = type_coerce(screenings.c.completed_at, BigInteger)
    later = literal(False) if until is None else screenings.c.completed_at > until
    columns = [later.label("later"), (moment // _DAY).label("day"), node_runs.c.label, node_runs.c.ended]
    return (
        select(func.count().label("alike"), *columns)
        .select_from(screenings)
        .join(node_runs, and_(node_runs.c.case_id == screenings.c.case_id, node_runs.c.position == 0))
        .join(batches, batches.c.id == screenings.c.batch_id)
        .where(screenings.c.configuration == version, batches.c.kind == "batch")
        .group_by("later", "day", node_runs.c.label, node_runs.c.ended)
        .order_by("later", "day")
    )
