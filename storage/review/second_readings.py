"""When a reading is repeated by somebody else: asked for, by rule, or by a coin."""

from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Select, insert, select

from screening.labels import Outcome
from screening.review.actors import Actor, Role
from screening.review.policy import Action, require
from screening.review.rating_form import RatingForm, RatingLabel
from screening.review.triage import Tier, floor, second_reading_coin
from storage.database import Database
from storage.schema import accounts, cases, inbox_entries, screenings, second_reading_requests, skips
from storage.settings_store import SecondReadingRule, SiteSettings


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

    A text that the engine called safe and that is read as unsafe is always read again. The coin applies only where
    somebody else could read; what a rule asks for stays needed where nobody could (see `adjudication`). A reading that
    was asked for stays asked for.
    """
    if conn.execute(_requests_of(case_id)).first() is not None:
        return Why.ASKED
    by_rule = bool(_matching_rules(form, settings, before) & set(settings.second_reading_rules))
    by_rule = by_rule or _is_doubtful_safe(conn, case_id, form)
    by_rule = by_rule or (form.label is RatingLabel.UNSAFE and _was_called_safe(conn, case_id))
    if by_rule:
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


def _is_doubtful_safe(conn: Connection, case_id: str, form: RatingForm) -> bool:
    """Whether a reading of safe needs another one whatever the site has set: of a P0 case, one that the agents called
    unsafe, or of one whose text states a risk.
    """
    if form.label is not RatingLabel.SAFE:
        return False
    row = conn.execute(
        select(cases.c.flags, inbox_entries.c.tier, screenings.c.outcome)
        .join(inbox_entries, inbox_entries.c.case_id == cases.c.id)
        .outerjoin(screenings, screenings.c.case_id == cases.c.id)
        .where(cases.c.id == case_id)
    ).one()
    stated = floor([flag for part in dict(row.flags or {}).values() for flag in part]) <= Tier.P1
    return stated or row.tier == Tier.P0 or row.outcome == Outcome.UNSAFE.value


def _was_called_safe(conn: Connection, case_id: str) -> bool:
    """Whether the engine called the text safe: a reader who then finds it unsafe is one of the few that an estimate of
    the misses rests on, and most of these are readers' errors where misses are rare.
    """
    found = conn.execute(select(screenings.c.outcome).where(screenings.c.case_id == case_id)).scalar()
    return bool(found == Outcome.SAFE.value)


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
