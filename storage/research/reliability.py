"""What is claimed of a configuration rests on: each settled case with its audit coin, and its blind first review if
there is one; and how its cases ended, as drift is measured by it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from sqlalchemy import BigInteger, ColumnElement, Connection, Row, Select, and_, cast, false, func, select, type_coerce

from screening.evaluation.audit import AuditCase, audit_coin
from screening.evaluation.metrics import Proportion
from screening.labels import Label, Outcome
from screening.review.policy import Action, Actor, require
from screening.review.triage import Priority, Reach
from storage.batches.counts import ENDED, rows_of
from storage.database import Database
from storage.schema import adjudications, batch_counts, batches, configurations, inbox_entries, reviews, screenings

SEVERAL = ("agreement", "senior", "discussion")
"""How several reviewers settle a case."""
_NOT_TOSSED = 1 - 2**-53
"""Stands for a coin that did not fall."""

OfBatch = Mapping[str, Any]
"""Seed, reach and audit rate of each batch of the configuration, by its id."""

_DONE = screenings.c
_FACTS = (_DONE.outcome, _DONE.audit_probability, _DONE.batch_id)


def is_first_review(case_id: ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that a review is the first one of this case, as it was first given."""
    return and_(reviews.c.case_id == case_id, reviews.c.version == 1, reviews.c.review_round == "first")


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A settled case of the audit, with when it was settled and when its blind first review was given."""

    case: AuditCase
    settled_at: datetime
    read_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSample:
    """All settled cases that ran with one configuration and were under audit.

    ``reviews`` are those whose coin fell, in the order they were settled; ``others`` stand for all the rest, alike
    ones counted together (their coins are not told apart). ``without_audit`` counts settled cases whose probability
    was 0 (single texts, batches without an audit): nothing can be said of them. ``not_blind`` counts reviews that
    were due and are left out because the AI's view had been served before. ``reaches`` are what these batches did
    with texts labeled unsafe: of one that only listed or counted them too few are read for any claim about specificity.
    """

    configuration_version: str
    configuration: Mapping[str, Any]
    reviews: tuple[Review, ...]
    without_audit: int
    not_blind: int
    reaches: frozenset[Reach] = frozenset()
    others: tuple[tuple[AuditCase, int], ...] = ()

    @property
    def case_counts(self) -> tuple[tuple[AuditCase, int], ...]:
        """Every case under audit, with how many it stands for."""
        return (*((review.case, 1) for review in self.reviews), *self.others)


def measured_configurations(db: Database, actor: Actor) -> Sequence[Row[Any]]:
    """The configurations (``version``) with settled batch cases, the latest used first: how many, from when to when."""
    require(actor, Action.VIEW_RESULTS)
    last = func.max(batch_counts.c.last_completed_at)
    first = select(func.min(_DONE.completed_at)).where(_DONE.batch_id == batches.c.id).scalar_subquery()
    of_batch = (
        select(batches.c.configuration, rows_of(*ENDED).label("settled"), last.label("last_at"))
        .add_columns(first.label("first_at"))
        .join(batch_counts, batch_counts.c.batch_id == batches.c.id)
        .where(batches.c.kind == "batch")
        .group_by(batches.c.id, batches.c.configuration)
        .subquery()
    )
    one = of_batch.c
    query = (
        select(
            one.configuration.label("version"),
            cast(func.sum(one.settled), BigInteger).label("settled"),
            func.min(one.first_at).label("first_at"),
            func.max(one.last_at).label("last_at"),
        )
        .where(one.first_at.is_not(None))
        .group_by(one.configuration)
        .order_by(func.max(one.last_at).desc())
    )
    return db.rows(query)


def audit_sample(db: Database, actor: Actor, version: str) -> AuditSample:
    """Over all batches of a configuration. The coin is tossed again from a batch's seed and the case, as at ingest;
    strata are the audit probabilities. Raises Forbidden, KeyError for an unknown version.
    """
    require(actor, Action.VIEW_RESULTS)
    with db.read() as conn:
        body = conn.execute(select(configurations.c.body).where(configurations.c.version == version)).scalar()
        if body is None:
            raise KeyError(version)
        of_batch = batches_of(conn, version)
        rows = conn.execute(_reviews(version, of_batch)).all()
        groups = _unaudited_groups(conn, version, of_batch)
    audited = [(one, _case(one, of_batch)) for one in groups if of_batch[one.batch_id].audit_rate > 0]
    return AuditSample(
        configuration_version=version,
        configuration=body,
        reviews=tuple(
            Review(case=_case(row, of_batch), settled_at=row.completed_at, read_at=row.at if row.blind else None)
            for row in rows
        ),
        others=tuple((case, one.alike) for one, case in audited),
        without_audit=sum(one.alike for one in groups if of_batch[one.batch_id].audit_rate == 0),
        reaches=frozenset(Reach(one.reach) for one in of_batch.values() if one.audit_rate > 0),
        not_blind=sum(row.blind is False for row in rows)
        + sum(one.alike for one, case in audited if one.blind is False and case.selected),
    )


def batches_of(conn: Connection, version: str) -> OfBatch:
    """The batches that were screened with a configuration, without single texts."""
    columns = (batches.c.id, batches.c.seed, batches.c.reach, batches.c.audit_rate)
    query = select(*columns).where(batches.c.configuration == version, batches.c.kind == "batch")
    return {row.id: row for row in conn.execute(query)}


def _of(version: str, of_batch: OfBatch, *, audited: bool | None = None) -> list[ColumnElement[bool]]:
    of_coin = [] if audited is None else [_DONE.audited.is_(audited)]
    return [_DONE.configuration == version, _DONE.batch_id.in_(list(of_batch)), *of_coin]


def _join_reviews(query: Select[Any]) -> Select[Any]:
    """The query with the first blind review, what several reviewers settled, whether a further one is due, and whether
    the case left the inbox unread, as one that is erased does.
    """
    case_id, made, newest = _DONE.case_id, adjudications, adjudications.alias("newest")
    last = select(func.max(newest.c.version)).where(newest.c.case_id == case_id, newest.c.method.in_(SEVERAL))
    disputed = and_(inbox_entries.c.closed_at.is_(None), inbox_entries.c.review_round != "first")
    settled = and_(made.c.case_id == case_id, made.c.version == last.correlate(screenings).scalar_subquery())
    facts = (reviews.c.label, reviews.c.blind, made.c.label.label("settled"))
    joined = query.outerjoin(reviews, is_first_review(case_id)).outerjoin(made, settled)
    unread = and_(inbox_entries.c.closed_at.is_not(None), reviews.c.id.is_(None))
    return joined.add_columns(*facts, func.coalesce(disputed, False).label("disputed"), unread.label("unread"))


def _reviews(version: str, of_batch: OfBatch) -> Select[Any]:
    query = select(*_FACTS, _DONE.case_id, _DONE.audited, _DONE.completed_at, reviews.c.at).select_from(
        screenings.outerjoin(inbox_entries, inbox_entries.c.case_id == _DONE.case_id)
    )
    query = query.where(*_of(version, of_batch, audited=True), _DONE.batch_id.in_(under_audit(of_batch)))
    return _join_reviews(query).order_by(_DONE.completed_at, _DONE.case_id)


def under_audit(of_batch: OfBatch) -> list[str]:
    """Those of the batches that had an audit."""
    return [batch_id for batch_id, one in of_batch.items() if one.audit_rate > 0]


def _unaudited_groups(conn: Connection, version: str, of_batch: OfBatch) -> list["_Alike"]:
    """Texts that no coin chose, alike ones together: those that came to the inbox by what was read, and the rest, which
    are read off an index, whatever their number.
    """
    ended = select(func.count().label("alike"), *_FACTS).where(*_of(version, of_batch, audited=False))
    query = select(func.count().label("alike"), *_FACTS).select_from(
        inbox_entries.join(screenings, _DONE.case_id == inbox_entries.c.case_id)
    )
    query = _join_reviews(query.where(*_of(version, of_batch, audited=False)))
    named = (*_FACTS, reviews.c.label, reviews.c.blind, adjudications.c.label, "disputed", "unread")
    came = [_Alike(**row._mapping) for row in conn.execute(query.group_by(*named))]
    rest = Counter[tuple[Any, ...]]()
    for alike, *facts in conn.execute(ended.group_by(*_FACTS)):
        rest[tuple(facts)] += alike
    for one in came:
        rest[one.outcome, one.audit_probability, one.batch_id] -= one.alike
    return [*came, *(_Alike(alike, *facts) for facts, alike in rest.items() if alike)]


class _Alike(NamedTuple):
    """So many texts of one batch that are alike in all that their place in the tally follows from."""

    alike: int
    outcome: str
    audit_probability: float
    batch_id: str
    label: str | None = None
    blind: bool | None = None
    settled: str | None = None
    disputed: bool = False
    unread: bool = False
    audited: bool = False


def _case(row: Any, of_batch: OfBatch) -> AuditCase:
    """A settled case with the chance that it had of being read: 1 where all that is labeled unsafe is read."""
    its = of_batch[row.batch_id]
    read_anyway = row.outcome == Outcome.UNSAFE.value and its.reach == Reach.READ
    return AuditCase(
        stratum=f"texts with π {row.audit_probability:g}",
        outcome=Outcome(row.outcome),
        probability=1.0 if read_anyway else row.audit_probability,
        tossed_at=its.audit_rate,
        coin=audit_coin(str(its.seed), row.case_id) if row.audited else _NOT_TOSSED,
        blind_first=row.label if row.blind else None,
        settled=row.settled if row.blind else None,
        disputed=bool(row.blind and row.disputed),
        unreadable=row.blind is False or bool(row.unread),
    )


def audited_reviews(db: Database, actor: Actor, version: str) -> tuple[tuple[str, AuditCase], ...]:
    """The cases of `audit_sample` by id, in their order, with a blind first review, or a due one that was not blind."""
    require(actor, Action.VIEW_RESULTS)
    joined = inbox_entries.join(screenings, _DONE.case_id == inbox_entries.c.case_id)
    query = select(*_FACTS, _DONE.case_id, _DONE.audited).select_from(joined)
    with db.read() as conn:
        of_batch = batches_of(conn, version)
        here = (_DONE.configuration == version, _DONE.batch_id.in_(under_audit(of_batch)), reviews.c.id.is_not(None))
        rows = conn.execute(_join_reviews(query.where(*here)).order_by(_DONE.completed_at, _DONE.case_id)).all()
    found = ((row.case_id, _case(row, of_batch), row.blind) for row in rows)
    return tuple((case_id, case) for case_id, case, blind in found if blind or case.selected)


def severities(db: Database, actor: Actor, version: str) -> Mapping[int | None, int]:
    """How many blind first reviews of audited texts said unsafe, by the level of ideation; None: not stated."""
    require(actor, Action.VIEW_RESULTS)
    query = select(reviews.c.fields).join(screenings, is_first_review(_DONE.case_id))
    with db.read() as conn:
        chosen = _of(version, batches_of(conn, version), audited=True)
        found = conn.execute(query.where(*chosen, reviews.c.blind.is_(True), reviews.c.label == Label.UNSAFE.value))
        return Counter(fields["ideation"] for fields in found.scalars())


def priorities_shown(db: Database, actor: Actor, version: str) -> Mapping[bool, Proportion]:
    """Of the blinded first reviews of this configuration's texts, by whether an urgent priority (P0, P1) was shown with
    them: how many were of texts that the AI had escalated or labeled unsafe. Raises Forbidden.
    """
    require(actor, Action.VIEW_RESULTS)
    flagged, urgent = _DONE.outcome != Outcome.SAFE.value, reviews.c.priority <= Priority.P1.value
    query = select(urgent.label("urgent"), flagged.label("flagged"), func.count().label("n"))
    query = query.join(screenings, is_first_review(_DONE.case_id))
    query = query.where(_DONE.configuration == version, reviews.c.blind.is_(True), reviews.c.priority.is_not(None))
    counts = Counter(
        {(bool(row.urgent), bool(row.flagged)): row.n for row in db.rows(query.group_by("urgent", "flagged"))}
    )
    return {
        shown: Proportion(counts[shown, True], counts[shown, True] + counts[shown, False]) for shown in (True, False)
    }


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
        of_config = _of(version, batches_of(conn, version))
        until = _complete_at(conn, of_config, reference)
        rows = conn.execute(_ends_by_day(of_config, until)).all()
    at_first, since, looks = Counter[str](), Counter[str](), dict[int, Mapping[str, int]]()
    days: dict[int, list[int]] = {}
    for row in rows:
        of_day = days.setdefault(row.day, [0, 0])
        of_day[0] += row.alike
        of_day[1] += row.escalated
        if row.first_end is not None:
            (since if row.later else at_first)[row.first_end] += row.alike
            if row.later:
                looks[row.day] = dict(since)
    return OutcomeMix(reference=dict(at_first), looks=tuple(looks.values()), until=until, escalated=by_month(days))


def by_month(days: Mapping[int, Sequence[int]]) -> tuple[tuple[int, int], ...]:
    """Two counts by the number of the day as full months of 30 days since the first; the last, unfinished one is left
    out.

    >>> by_month({100: (5, 1), 129: (5, 0), 131: (7, 7)}), by_month({100: (5, 1), 131: (7, 7), 161: (1, 0)})
    (((10, 1),), ((5, 1), (7, 7)))
    """
    if not days:
        return ()
    first, months = min(days), (max(days) - min(days)) // MONTH.days
    sums = np.zeros((months + 1, 2), dtype=np.int64)
    for day, counts in days.items():
        sums[(day - first) // MONTH.days] += counts
    return tuple((int(one), int(other)) for one, other in sums[:months])


def _complete_at(conn: Connection, of_config: list[ColumnElement[bool]], reference: int) -> datetime | None:
    """When the reference was complete; None before."""
    last = select(_DONE.completed_at).where(*of_config).order_by(_DONE.completed_at)
    return conn.execute(last.offset(reference - 1).limit(1)).scalar()


def settled_cases(
    db: Database,
    actor: Actor,
    version: str,
    most: int,
    *,
    outcome: Outcome | None = None,
    sampled: bool | None = None,
    first_end: str | None = None,
    in_reference: bool | None = None,
    reference: int = REFERENCE,
) -> tuple[str, ...]:
    """The ids of settled cases in the order of their ends, so many at most: those of an outcome, of batches with an
    audit (``sampled``), with such an end of their first node, in the reference window; None asks for nothing. Whoever
    lists them leaves out the AI's view of what waits. Raises Forbidden.
    """
    require(actor, Action.VIEW_RESULTS)
    with db.read() as conn:
        of_batch = batches_of(conn, version)
        of_config = _of(version, of_batch)
        query = select(_DONE.case_id).where(*of_config)
        query = query.filter_by(**{k: v for k, v in (("outcome", outcome), ("first_end", first_end)) if v is not None})
        if sampled is not None:
            audited = _DONE.batch_id.in_(under_audit(of_batch))
            query = query.where(audited if sampled else ~audited)
        if in_reference is not None and (until := _complete_at(conn, of_config, reference)) is not None:
            query = query.where(_DONE.completed_at <= until if in_reference else _DONE.completed_at > until)
        return tuple(conn.execute(query.order_by(_DONE.completed_at, _DONE.case_id).limit(most)).scalars())


def _ends_by_day(of_config: list[ColumnElement[bool]], until: datetime | None) -> Select[Any]:
    """How many ended alike; those whose first node was never asked have no ``first_end``."""
    moment = type_coerce(_DONE.completed_at, BigInteger)
    later = false() if until is None else _DONE.completed_at > until
    escalated = func.count().filter(_DONE.outcome == Outcome.HUMAN_REVIEW.value).label("escalated")
    columns: list[ColumnElement[Any]] = [func.count().label("alike"), escalated, _DONE.first_end]
    counted = select(later.label("later"), (moment // _DAY).label("day"), *columns).where(*of_config)
    return counted.group_by("later", "day", _DONE.first_end).order_by("later", "day")
