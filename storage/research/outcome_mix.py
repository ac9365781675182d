"""How settled cases of a configuration ended, as drift is measured by it, and the cases that such counts stand for."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from sqlalchemy import BigInteger, ColumnElement, Connection, Select, case, func, literal, select, type_coerce

from screening.labels import Outcome
from screening.review.actors import Actor
from screening.review.policy import Action, require
from storage.database import Database
from storage.research.reliability import batches_of, under_audit
from storage.schema import screenings

_DONE = screenings.c

REFERENCE = 500
"""Cases of the reference window: the first that a configuration settled. It never moves."""

_DAY = 86_400_000_000  # a Moment is kept in microseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class OutcomeMix:
    """How often cases ended in each way: in the frozen reference, and since then up to the end of each day.

    ``until`` is when the reference was complete; None, with no looks, while fewer cases than it takes are settled.
    ``escalated`` are the full months since the first case, (settled, escalated to a clinician) each, the newest last.
    """

    reference: Mapping[str, int]
    looks: tuple[Mapping[str, int], ...]
    until: datetime | None
    escalated: tuple[tuple[int, int], ...] = ()


MONTH = timedelta(days=30)


def outcome_mix(db: Database, actor: Actor, version: str, reference: int = REFERENCE) -> OutcomeMix:
    """The ends of the first node that a case met, by label or kind of abstention; no person's review enters."""
    require(actor, Action.VIEW_RESULTS)
    with db.read() as conn:
        of_config = [_DONE.configuration == version, _DONE.batch_id.in_(list(batches_of(conn, version)))]
        until = _complete_at(conn, of_config, reference)
        rows = conn.execute(_ends_by_day(of_config, until)).all()
        days = conn.execute(_escalated_by_day(of_config)).all()
    at_first, since, looks = Counter[str](), Counter[str](), dict[int, Mapping[str, int]]()
    for row in rows:
        (since if row.later else at_first)[row.first_end] += row.alike
        if row.later:
            looks[row.day] = dict(since)
    months = by_month([(row.day, row.settled, row.escalated) for row in days])
    return OutcomeMix(reference=dict(at_first), looks=tuple(looks.values()), until=until, escalated=months)


def by_month(days: Sequence[tuple[int, int, int]]) -> tuple[tuple[int, int], ...]:
    """Counts by day (its number, two counts) as full months of 30 days since the first day; the last, unfinished one
    is left out.

    >>> by_month([(100, 5, 1), (129, 5, 0), (131, 7, 7)]), by_month([(100, 5, 1), (131, 7, 7), (161, 1, 0)])
    (((10, 1),), ((5, 1), (7, 7)))
    """
    if not days:
        return ()
    first, months = days[0][0], (days[-1][0] - days[0][0]) // MONTH.days
    sums = np.zeros((months + 1, 2), dtype=np.int64)
    for day, one, other in days:
        sums[(day - first) // MONTH.days] += (one, other)
    return tuple((int(one), int(other)) for one, other in sums[:months])


def _complete_at(conn: Connection, of_config: list[ColumnElement[bool]], reference: int) -> datetime | None:
    """When the reference was complete; None before."""
    last = select(_DONE.completed_at).where(*of_config).order_by(_DONE.completed_at)
    until: datetime | None = conn.execute(last.offset(reference - 1).limit(1)).scalar()
    return until


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What settled cases of one configuration have in common, as the counts take them. None asks for nothing."""

    outcome: Outcome | None = None
    under_audit: bool | None = None
    first_end: str | None = None
    in_reference: bool | None = None


def settled_cases(
    db: Database, actor: Actor, version: str, wanted: Settled, most: int, reference: int = REFERENCE
) -> tuple[str, ...]:
    """The ids of such cases in the order in which they were settled, so many at most. Raises Forbidden.

    Whoever lists them leaves out the engine's view of what waits.
    """
    require(actor, Action.VIEW_RESULTS)
    with db.read() as conn:
        of_batch = batches_of(conn, version)
        of_config = [_DONE.configuration == version, _DONE.batch_id.in_(list(of_batch))]
        query = select(_DONE.case_id).where(*of_config)
        for name in ("outcome", "first_end"):
            if (value := getattr(wanted, name)) is not None:
                query = query.where(_DONE[name] == value)
        if wanted.under_audit is not None:
            audited = _DONE.batch_id.in_(under_audit(of_batch))
            query = query.where(audited if wanted.under_audit else ~audited)
        if wanted.in_reference is not None and (until := _complete_at(conn, of_config, reference)) is not None:
            query = query.where(_DONE.completed_at <= until if wanted.in_reference else _DONE.completed_at > until)
        return tuple(conn.execute(query.order_by(_DONE.completed_at, _DONE.case_id).limit(most)).scalars())


def _escalated_by_day(of_config: list[ColumnElement[bool]]) -> Select[*tuple[Any, ...]]:
    day = (type_coerce(_DONE.completed_at, BigInteger) // _DAY).label("day")
    escalated = func.sum(case((_DONE.outcome == Outcome.HUMAN_REVIEW.value, 1), else_=0))
    counted = select(day, func.count().label("settled"), escalated.label("escalated")).where(*of_config)
    return counted.group_by("day").order_by("day")


def _ends_by_day(of_config: list[ColumnElement[bool]], until: datetime | None) -> Select[Any]:
    moment = type_coerce(_DONE.completed_at, BigInteger)
    later = literal(False) if until is None else _DONE.completed_at > until
    columns = [later.label("later"), (moment // _DAY).label("day"), _DONE.first_end]
    return (
        select(func.count().label("alike"), *columns)
        .where(*of_config, _DONE.first_end.is_not(None))
        .group_by("later", "day", _DONE.first_end)
        .order_by("later", "day")
    )
