"""What reviews make of a case: another review, by rule, coin or request; agreement; a senior's decision; amendments."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from sqlalchemy import Connection, Integer, Select, bindparam, func, insert, select, update

from screening.labels import Outcome
from screening.review.actors import LOCAL_USER, SYSTEM, Acting, Actor, Role
from screening.review.policy import Action, require
from screening.review.rating_form import RatingForm, RatingLabel
from screening.review.triage import Tier, floor, second_reading_coin
from storage.audit_log import append
from storage.batches.entries import open_again
from storage.database import Database, record
from storage.review.claims import UNASSIGNED, NotAvailable, has_lease, is_open
from storage.review.follow_ups import open_second_reading
from storage.review.program_texts import tell_again
from storage.schema import (
    accounts,
    adjudications,
    cases,
    inbox_entries,
    ratings,
    screenings,
    second_reading_requests,
    skips,
)
from storage.schema.review import LATER_READING
from storage.settings_store import SecondReadingRule, SiteSettings
from storage.visibility import is_erased, see_readings


class Why(StrEnum):
    """Why another reading was asked for."""

    ASKED = "asked"
    RULE = "rule"
    SAMPLED = "sampled"
    DISAGREEMENT = "disagreement"


def second_reading_due(
    conn: Connection,
    reader: Actor,
    case_id: str,
    form: RatingForm,
    settings: SiteSettings,
    before: RatingLabel | None = None,
) -> Why | None:
    """Why the case needs a second reading after this one, or None. ``before`` is the label that it revises.

    The coin applies only where somebody else could read; what a rule asks for stays needed where nobody could (see
    `adjudication`). A reading that was asked for stays asked for.
    """
    if conn.execute(_requests_of(case_id)).first() is not None:
        return Why.ASKED
    by_rule = _matching_rules(form, settings, before) & set(settings.second_reading_rules)
    if by_rule or _is_doubtful(conn, case_id, form.label):
        return Why.RULE
    drawn = second_reading_coin(case_id) < settings.second_reading_rate
    return Why.SAMPLED if drawn and others(conn, reader, case_id) else None


def _requests_of(case_id: str) -> Select[Any]:
    found = select(second_reading_requests.c.id).where(second_reading_requests.c.case_id == case_id).limit(1)
    return found.where(second_reading_requests.c.why == Why.ASKED.value)


def has_asked_in(conn: Connection, reader: str, case_id: str) -> bool:
    """The same in the caller's transaction, of the person with this id."""
    by_them = second_reading_requests.c.asked_by == reader
    return conn.execute(_requests_of(case_id).where(by_them)).first() is not None


def has_asked(db: Database, actor: Actor, case_id: str) -> bool:
    """Whether this person asked for a second opinion of the case. Raises Forbidden."""
    require(actor, Action.RATE, actor.id)
    with db.read() as conn:
        return has_asked_in(conn, actor.id, case_id)


def _is_doubtful(conn: Connection, case_id: str, label: RatingLabel) -> bool:
    """Whether a reading needs another one whatever the site has set: of safe in a P0 case, in one that the agents
    called unsafe, or in one whose text states a risk; of unsafe where they called it safe, since it is one of the few
    that an estimate of the misses rests on, and most of these are readers' errors where misses are rare.
    """
    row = conn.execute(
        select(cases.c.flags, inbox_entries.c.tier, screenings.c.outcome)
        .join(inbox_entries, inbox_entries.c.case_id == cases.c.id)
        .outerjoin(screenings, screenings.c.case_id == cases.c.id)
        .where(cases.c.id == case_id)
    ).one()
    if label is not RatingLabel.SAFE:
        return label is RatingLabel.UNSAFE and row.outcome == Outcome.SAFE.value
    stated = floor([flag for part in dict(row.flags or {}).values() for flag in part]) <= Tier.P1
    return stated or row.tier == Tier.P0 or row.outcome == Outcome.UNSAFE.value


def _matching_rules(form: RatingForm, settings: SiteSettings, before: RatingLabel | None) -> set[SecondReadingRule]:
    holds = {
        SecondReadingRule.UNSURE: form.certainty <= settings.unsure_at,
        SecondReadingRule.SOFTENED: before is RatingLabel.UNSAFE and form.label is not before,
    }
    return {SecondReadingRule(form.label.value), *(rule for rule, fits in holds.items() if fits)}


def others(conn: Connection, reader: Actor, case_id: str) -> bool:
    """Whether anybody else could read it: the case never comes again to who gave it back as *not me*."""
    declined = select(skips.c.reviewer).where(skips.c.case_id == case_id, skips.c.reason == "not_me")
    others = accounts.c.active.is_(True), accounts.c.id != reader.id, accounts.c.id.not_in(declined)
    people = conn.execute(select(accounts.c.roles).where(*others)).scalars()
    return any({Role.REVIEWER.value, Role.SENIOR.value} & set(roles) for roles in people)


def request(conn: Connection, by: str, case_id: str, why: Why, now: datetime) -> None:
    """Record that another reading was asked for, in the caller's transaction."""
    conn.execute(insert(second_reading_requests).values(case_id=case_id, why=why.value, asked_by=by, at=now))


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


def settle(conn: Connection, by: Acting, case_id: str, reading: str, form: RatingForm, settings: SiteSettings) -> Next:
    """What a new reading does to its case, in the transaction that stored it."""
    if reading == "first":
        why = second_reading_due(conn, by.actor, case_id, form, settings)
        return _close_or_wait(conn, case_id, form, by, why, None, settings)
    if reading == "second" and len(_labels_ever_given(conn, case_id)) == 1:
        return close(conn, case_id, form.label, Method.AGREEMENT, SYSTEM.at(by.now), None)
    if reading == "second":
        return _dispute(conn, case_id, by, settings)
    return Next.SENIOR


def resettle(
    conn: Connection,
    by: Acting,
    case_id: str,
    form: RatingForm,
    before: RatingLabel,
    reason: str,
    settings: SiteSettings,
) -> Next:
    """What a revised reading does to its case: it never leaves a closed case with a label its reader took back."""
    entry = conn.execute(select(_entry.closed_at, _entry.reading).where(_entry.case_id == case_id)).one()
    if entry.closed_at is None:
        return Next.SENIOR if entry.reading == "third" else Next.SECOND_READING
    accepted = versions_in(conn, case_id)[-1]
    if accepted.label is form.label:
        return Next.CLOSED
    if len(latest_readings(conn, case_id)) > 1 or accepted.method is not Method.SINGLE:
        return _dispute(conn, case_id, by, settings)
    why = second_reading_due(conn, by.actor, case_id, form, settings, before)
    return _close_or_wait(conn, case_id, form, by, why, reason, settings)


def _close_or_wait(
    conn: Connection,
    case_id: str,
    form: RatingForm,
    by: Acting,
    why: Why | None,
    reason: str | None,
    settings: SiteSettings,
) -> Next:
    """One reading closes the case unless another one is due. Where a rule asks for one and nobody else is there to give
    it, the case would wait for ever: it is closed, and that stays open.
    """
    if why is Why.ASKED or (why is not None and others(conn, by.actor, case_id)):
        if why is not Why.ASKED:
            request(conn, SYSTEM.id, case_id, why, by.now)
        open_again(conn, case_id, "second", by.now, settings)
        return Next.SECOND_READING
    if why is not None:
        open_second_reading(conn, by, case_id)
    return close(conn, case_id, form.label, Method.SINGLE, by, reason)


def _dispute(conn: Connection, case_id: str, by: Acting, settings: SiteSettings) -> Next:
    request(conn, SYSTEM.id, case_id, Why.DISAGREEMENT, by.now)
    open_again(conn, case_id, "third", by.now, settings)
    return Next.SENIOR


def close(conn: Connection, case_id: str, label: RatingLabel, method: Method, by: Acting, reason: str | None) -> Next:
    """Accept a label: a new version beside the readings it rests on; the case leaves the inbox, and the program that
    handed it in is told.
    """
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
            at=by.now,
        )
    )
    conn.execute(update(inbox_entries).where(_entry.case_id == case_id).values(closed_at=by.now, **UNASSIGNED))
    tell_again(conn, case_id, by.now)
    return Next.CLOSED


def latest_readings(conn: Connection, case_id: str) -> Sequence[Any]:
    """Each reader's last version on this case, in the order in which they first read it."""
    rows = conn.execute(
        select(ratings.c.id, ratings.c.reviewer, ratings.c.label)
        .where(ratings.c.case_id == case_id)
        .order_by(ratings.c.version, ratings.c.at, ratings.c.id)
    )
    return tuple({row.reviewer: row for row in rows}.values())


def _labels_ever_given(conn: Connection, case_id: str) -> set[str]:
    """Every label that any version of any reading gave: a first word that was changed after the reveal still counts,
    or the engine's view would decide whether readers agree.
    """
    return set(conn.execute(select(ratings.c.label).where(ratings.c.case_id == case_id)).scalars())


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
    return record(
        Adjudication, row, label=RatingLabel(row.label), method=Method(row.method), rating_ids=tuple(row.rating_ids)
    )


class ReasonNeeded(ValueError):
    """A change to what was recorded needs a reason."""


class StaleVersion(Exception):
    """Somebody else amended the case in between: look at theirs first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disagreement:
    """A case on which two readers disagree; their labels are not in the list, so that a third can read blind."""

    case_id: str
    external_id: str
    tier: Tier
    entered_at: datetime
    due_at: datetime
    read_by_me: bool


def adjudicate(
    db: Database,
    by: Acting,
    case_id: str,
    label: RatingLabel,
    reason: str,
    method: Literal[Method.SENIOR, Method.DISCUSSION] = Method.SENIOR,
) -> Adjudication:
    """A senior's decision on an open case that has at least one reading.

    Raises Forbidden, ReasonNeeded, or NotAvailable when it is closed, unread, or being read at the moment, or when
    one of two readers who disagree would decide between them alone.
    """
    require(by.actor, Action.ADJUDICATE)
    _needs(reason)
    with db.write() as conn:
        entry = _lock(conn, case_id)
        if entry is None or entry.closed_at is not None:
            made = versions_in(conn, case_id)
            if made and _is_same(made[-1], by, label, method, reason):
                return made[-1]
            raise NotAvailable("this case is not open")
        if has_lease(entry, by.now) and entry.assignee != by.id:
            raise NotAvailable("somebody is reviewing this case at the moment")
        readers = [reading.reviewer for reading in latest_readings(conn, case_id)]
        if not readers:
            raise NotAvailable("nobody has reviewed this case yet")
        if method is Method.SENIOR and is_party(by.actor, readers):
            raise NotAvailable("you are one of the two reviewers: somebody else decides, or you do in a discussion")
        close(conn, case_id, label, method, by, reason.strip())
        return _record(conn, by, case_id, "adjudicated")


def is_party(actor: Actor, readers: Sequence[str]) -> bool:
    """Whether this is one of the first two ``readers`` of a case read by two or more: theirs is the disagreement.

    Where nobody signs in there is one local user and nobody else who could decide.
    """
    return actor != LOCAL_USER and len(readers) > 1 and actor.id in readers[:2]


def amend(db: Database, by: Acting, case_id: str, label: RatingLabel, reason: str, based_on: int) -> Adjudication:
    """A new version of a closed case's label; ``based_on`` is the version the senior was looking at.

    Raises Forbidden, ReasonNeeded, StaleVersion, or NotAvailable when the case is not closed or was erased.
    """
    require(by.actor, Action.ADJUDICATE)
    _needs(reason)
    with db.write() as conn:
        entry = _lock(conn, case_id)
        if entry is None or entry.closed_at is None:
            raise NotAvailable("only a closed case can be amended")
        if is_erased(conn, case_id):
            raise NotAvailable("what this case held was deleted: nothing more is decided on it")
        last = versions_in(conn, case_id)[-1]
        if last.version == based_on + 1 and _is_same(last, by, label, Method.AMENDMENT, reason):
            return last
        if last.version != based_on:
            raise StaleVersion("the case was amended in the meantime")
        close(conn, case_id, label, Method.AMENDMENT, by, reason.strip())
        return _record(conn, by, case_id, "amended")


def _is_same(made: Adjudication, by: Acting, label: RatingLabel, method: Method, reason: str) -> bool:
    """Whether this version is this very decision of this person: pressed twice is once."""
    return (made.by, made.label, made.method, made.reason) == (by.id, label, method, reason.strip())


def _record(conn: Connection, by: Acting, case_id: str, action: str) -> Adjudication:
    made = versions_in(conn, case_id)[-1]
    append(
        conn, by, action, case_id, {"version": made.version, "method": made.method.value}, adjudications, inbox_entries
    )
    return made


def _lock(conn: Connection, case_id: str) -> Any:
    return conn.execute(select(inbox_entries).where(_entry.case_id == case_id).with_for_update()).first()


def _needs(reason: str) -> None:
    if not reason.strip():
        raise ReasonNeeded("say why")


def reveal_versions(db: Database, by: Acting, case_id: str) -> tuple[Adjudication, ...]:
    """All versions of a case's label, the first one first, for whom its readings are. Raises Forbidden, Unread."""
    with db.write() as conn:
        see_readings(conn, by, case_id)
        return versions_in(conn, case_id)


_MINE = select(ratings.c.case_id).where(ratings.c.reviewer == bindparam("reader"))
_THIRD = (
    select(inbox_entries, cases.c.external_id, _entry.case_id.in_(_MINE).label("mine"))
    .join(cases, cases.c.id == _entry.case_id)
    .where(is_open(), LATER_READING, _entry.reading == "third")
    .order_by(_entry.routine, _entry.due_at, _entry.case_id)
    .limit(bindparam("most", type_=Integer))
)
"""Written once: every open inbox of a senior asks every few seconds."""


def disagreements(db: Database, actor: Actor, limit: int = 50) -> tuple[Disagreement, ...]:
    """The cases that wait for a senior, most urgent first. Raises Forbidden."""
    require(actor, Action.ADJUDICATE)
    rows = db.rows(_THIRD, {"reader": actor.id, "most": limit})
    return tuple(record(Disagreement, row, tier=Tier(row.tier), read_by_me=bool(row.mine)) for row in rows)
