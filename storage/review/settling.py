"""What a reading does to its case, in the transaction that stores it.

One reading adjudicates at once unless a second one is due. Two readings that agree adjudicate; two that do not wait
for a senior. Every version of an accepted label is kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, func, insert, select, update

from screening.review.actors import SYSTEM, Actor
from screening.review.rating_form import RatingForm, RatingLabel
from storage.review.follow_ups import open_second_reading
from storage.review.second_readings import Why, doubtful_safe, request, second_reading_due
from storage.schema import adjudications, inbox_entries, ratings
from storage.site.settings_store import SiteSettings

_entry = inbox_entries.c


class Next(StrEnum):
    """What happens to a case after a reading."""

    CLOSED = "closed"
    SECOND_READING = "second_reading"
    SENIOR = "senior"


class Method(StrEnum):
    """How an adjudication came about."""

    SINGLE = "single"
    AGREEMENT = "agreement"
    SENIOR = "senior"
    DISCUSSION = "discussion"
    AMENDMENT = "amendment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjudication:
    """One version of a case's accepted label; ``by`` is an account, or the program where readers agreed."""

    case_id: str
    version: int
    label: RatingLabel
    method: Method
    by: str
    reason: str | None
    rating_ids: tuple[str, ...]
    at: datetime


def settle(
    conn: Connection, reader: Actor, case_id: str, reading: str, form: RatingForm, settings: SiteSettings, now: datetime
) -> Next:
    """What a new reading does to its case, in the transaction that stored it."""
    if reading == "first":
        why = second_reading_due(conn, reader, case_id, form, settings)
        if why is None:
            return _close_alone(conn, case_id, form, reader, None, now)
        return _wait(conn, case_id, why, reader, now)
    labels = {row.label for row in latest_readings(conn, case_id)}
    if reading == "second" and len(labels) == 1:
        return close(conn, case_id, form.label, Method.AGREEMENT, SYSTEM, None, now)
    if reading == "second":
        return _dispute(conn, case_id, reader, now)
    return Next.SENIOR


def resettle(
    conn: Connection,
    reader: Actor,
    case_id: str,
    form: RatingForm,
    before: RatingLabel,
    reason: str,
    settings: SiteSettings,
    now: datetime,
) -> Next:
    """What a revised reading does to its case: it never leaves a closed case with a label its reader took back."""
    entry = conn.execute(select(_entry.closed_at, _entry.reading).where(_entry.case_id == case_id)).one()
    if entry.closed_at is None:
        return Next.SENIOR if entry.reading == "third" else Next.SECOND_READING
    versions = versions_in(conn, case_id)
    if not versions:  # erased: nobody decides on it any more
        return Next.CLOSED
    accepted = versions[-1]
    if accepted.label is form.label:
        return Next.CLOSED
    if len(latest_readings(conn, case_id)) > 1 or accepted.method is not Method.SINGLE:
        return _dispute(conn, case_id, reader, now)
    why = second_reading_due(conn, reader, case_id, form, settings, before)
    if why is None:
        return _close_alone(conn, case_id, form, reader, reason, now)
    return _wait(conn, case_id, why, reader, now)


def _close_alone(
    conn: Connection, case_id: str, form: RatingForm, reader: Actor, reason: str | None, now: datetime
) -> Next:
    """One reading closes the case. Where it needed another and nobody else is there to give it, that stays open."""
    if doubtful_safe(conn, case_id, form):
        open_second_reading(conn, reader, case_id, now)
    return close(conn, case_id, form.label, Method.SINGLE, reader, reason, now)


def _wait(conn: Connection, case_id: str, why: Why, reader: Actor, now: datetime) -> Next:
    if why is not Why.ASKED:
        request(conn, SYSTEM.id, case_id, why, now)
    conn.execute(update(inbox_entries).where(_entry.case_id == case_id).values(reading="second", closed_at=None))
    return Next.SECOND_READING


def _dispute(conn: Connection, case_id: str, reader: Actor, now: datetime) -> Next:
    request(conn, SYSTEM.id, case_id, Why.DISAGREEMENT, now)
    conn.execute(update(inbox_entries).where(_entry.case_id == case_id).values(reading="third", closed_at=None))
    return Next.SENIOR


def close(
    conn: Connection,
    case_id: str,
    label: RatingLabel,
    method: Method,
    by: Actor,
    reason: str | None,
    now: datetime,
) -> Next:
    """Accept a label: a new version beside the readings it rests on; the case leaves the inbox."""
    last = conn.execute(select(func.max(adjudications.c.version)).where(adjudications.c.case_id == case_id)).scalar()
    conn.execute(
        insert(adjudications).values(
            case_id=case_id,
            version=(last or 0) + 1,
            label=label.value,
            method=method.value,
            by=by.id,
            reason=reason,
            rating_ids=[row.id for row in latest_readings(conn, case_id)],
            at=now,
        )
    )
    kept = ("holder", "token", "lease_expires_at", "held_by", "handed_to", "reserved_until", "ahead_for", "ahead_until")
    free = dict.fromkeys(kept)
    conn.execute(update(inbox_entries).where(_entry.case_id == case_id).values(closed_at=now, **free))
    return Next.CLOSED


def latest_readings(conn: Connection, case_id: str) -> Sequence[Any]:
    """Each reader's last version on this case, in the order in which they first read it."""
    rows = conn.execute(
        select(ratings.c.id, ratings.c.reviewer, ratings.c.label, ratings.c.version)
        .where(ratings.c.case_id == case_id)
        .order_by(ratings.c.version, ratings.c.at, ratings.c.id)
    )
    return tuple({row.reviewer: row for row in rows}.values())


def versions_in(conn: Connection, case_id: str) -> tuple[Adjudication, ...]:
    """All versions of a case's label, the first one first, inside the caller's transaction."""
    return versions_of(conn, [case_id]).get(case_id, ())


def versions_of(conn: Connection, case_ids: Sequence[str]) -> dict[str, tuple[Adjudication, ...]]:
    """`versions_in` for each of these cases that has a label, in one statement."""
    found: dict[str, list[Adjudication]] = {}
    query = select(adjudications).where(adjudications.c.case_id.in_(case_ids))
    for row in conn.execute(query.order_by(adjudications.c.case_id, adjudications.c.version)):
        found.setdefault(row.case_id, []).append(adjudication_of(row))
    return {case_id: tuple(versions) for case_id, versions in found.items()}


def adjudication_of(row: Any) -> Adjudication:
    """A row of adjudications as a value."""
    return Adjudication(
        case_id=row.case_id,
        version=row.version,
        label=RatingLabel(row.label),
        method=Method(row.method),
        by=row.by,
        reason=row.reason,
        rating_ids=tuple(row.rating_ids),
        at=row.at,
    )
