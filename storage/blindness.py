"""Blind first: nobody is served the engine's view of a case that is open before they have rated it themselves."""

from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Text, and_, cast, exists, false, or_, select

from screening.labels import Outcome
from screening.review.actors import Acting, Actor
from screening.review.policy import Action, is_allowed, require
from screening.review.reach import Reach
from screening.review.triage import Tier
from screening.text.flags import Flag
from storage.database import insert_into
from storage.schema import adjudications, batches, cases, inbox_entries, ratings, reveals, screenings
from storage.schema.review import LATER_READING

_ENTRY, _RATING = inbox_entries.alias(), ratings.alias()
"""For the conditions here, whatever the query around them joins. Made once: making one takes as long as a query."""


class NotYetRated(Exception):
    """The case waits for a reading, and this person has not given theirs: the engine's view is not served."""


class Unread(Exception):
    """Other people's readings of an open case are not shown to whoever may still read it."""


def is_withheld(actor: Actor, case_id: ColumnElement[str]) -> ColumnElement[bool]:
    """The condition under which a listing must leave out the engine's view of a case for this person."""
    return and_(is_waiting(case_id), ~has_rated(actor, case_id))


def open_to(actor: Actor, batch_id: str, *, ended: bool = False) -> Select[Any]:
    """The open cases of a batch that this person may yet read, those that could not be screened among them unless they
    must have ``ended``.
    """
    entry = inbox_entries.c
    found = select(entry.case_id.label("id")).where(entry.batch_id == batch_id, is_open_to(actor))
    return found.where(entry.kind.is_not(None)) if ended else found


def is_open_to(actor: Actor) -> ColumnElement[bool]:
    """The condition that an entry of the inbox is open and this person has not rated its case. While its first reading
    is due nobody has, so only the others are looked up.
    """
    entry = inbox_entries.c
    return and_(entry.closed_at.is_(None), or_(~LATER_READING, ~has_rated(actor, entry.case_id)))


def is_waiting(case_id: ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that a case is open in the inbox."""
    open_now = exists().where(_ENTRY.c.case_id == case_id, _ENTRY.c.closed_at.is_(None))
    return open_now.correlate_except(_ENTRY)  # however deep it stands in a query


def counts_as_with_clinicians(actor: Actor, case_id: ColumnElement[str]) -> ColumnElement[bool]:
    """The condition under which a count must take a case as with clinicians, whatever the engine made of it.

    What is withheld from a list would be told by the difference between a count and that list. Only those are
    counted for otherwise who may be given the case to read.
    """
    return is_withheld(actor, case_id) if is_allowed(actor, Action.CLAIM_NEXT) else false()


def reveal(conn: Connection, by: Acting, case_id: str, *, open_at_once: bool = False) -> None:
    """Allow this person the engine's view of one case, and record that they have it, in the caller's transaction.

    Raises Forbidden, or NotYetRated while the case is open and they have not rated it. A P0 case that they hold may
    be opened at once: their rating then is not blind.
    """
    rated = conn.execute(select(has_rated(by.actor, cases.c.id)).where(cases.c.id == case_id)).scalar()
    entry = conn.execute(select(inbox_entries).where(inbox_entries.c.case_id == case_id)).first()
    holding = entry is not None and entry.holder == by.id and entry.lease_expires_at > by.now
    require(by.actor, Action.VIEW_EVIDENCE, by.id if rated or holding else None)
    if entry is not None and entry.closed_at is None and not rated and not (holding and _urgent(entry, open_at_once)):
        raise NotYetRated("rate the text first: what the engine says of it is shown afterwards")
    _remember(conn, by, case_id, before_rating=not rated)


def _remember(conn: Connection, by: Acting, case_id: str, *, before_rating: bool) -> None:
    row = {"case_id": case_id, "reviewer": by.id, "before_rating": before_rating, "at": by.now}
    conn.execute(insert_into(conn, reveals).values(row).on_conflict_do_nothing())


def _urgent(entry: Any, open_at_once: bool) -> bool:
    return open_at_once and entry.tier == Tier.P0


def has_rated(actor: Actor, case_id: ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that this person has rated the case."""
    own = exists().where(_RATING.c.case_id == case_id, _RATING.c.reviewer == actor.id)
    return own.correlate_except(_RATING)


def is_blind(conn: Connection, actor: Actor, case_id: str, *, first: bool) -> bool:
    """Whether a rating given now is blind. The first one is, unless the engine's view was served to this person
    before, live while they had the text screened, or as evidence, or other people's readings were; a later one is
    while nothing was served at all. Listing views are not logged: whoever may see results may
    have seen the case in one.
    """
    if is_allowed(actor, Action.VIEW_RESULTS) and (not first or _was_listed(conn, case_id)):
        return False
    seen = conn.execute(
        select(reveals.c.before_rating).where(reveals.c.case_id == case_id, reveals.c.reviewer == actor.id)
    ).scalar()
    own = (
        select(cases.c.id)
        .join(batches, batches.c.id == cases.c.batch_id)
        .where(cases.c.id == case_id, batches.c.kind == "interactive", batches.c.created_by == actor.id)
    )
    return (seen is not True if first else seen is None) and conn.execute(own).first() is None


def are_reviewed() -> ColumnElement[bool]:
    """The condition on a case and its batch that it is reviewed where the AI labels it unsafe, or says nothing of it:
    its batch has them reviewed, or it states an imminent risk, which is reviewed whatever its batch was set to.
    """
    imminent = cast(cases.c.flags, Text).like(f'%"{Flag.STATED_IMMINENT}"%')
    return or_(batches.c.reach == Reach.READ.value, imminent)


def _was_listed(conn: Connection, case_id: str) -> bool:
    """Whether lists told of a case that is open now: before its second look, since nothing had brought it to the inbox
    when it was settled, or while it was closed, before it was opened again.
    """
    read_anyway = and_(screenings.c.outcome == Outcome.UNSAFE.value, are_reviewed())
    settled_by_itself = and_(
        screenings.c.outcome != Outcome.HUMAN_REVIEW.value, screenings.c.audited.is_(False), ~read_anyway
    )
    closed_once = exists().where(adjudications.c.case_id == cases.c.id)
    joined = select(cases.c.id).join(screenings, screenings.c.case_id == cases.c.id)
    query = joined.join(batches, batches.c.id == cases.c.batch_id).where(cases.c.id == case_id)
    return conn.execute(query.where(or_(settled_by_itself, closed_once))).first() is not None


def see_readings(conn: Connection, by: Acting, case_id: str) -> None:
    """Allow this person everybody's readings of a case, in the caller's transaction. While it is open these are for
    those who have read it, and for seniors once two readers disagree: a reading of a senior's own is no longer blind
    then. Raises Forbidden, Unread.
    """
    mine = conn.execute(select(has_rated(by.actor, cases.c.id)).where(cases.c.id == case_id)).scalar()
    require(by.actor, Action.VIEW_RATINGS, by.id if mine else None)
    entry = conn.execute(select(inbox_entries).where(inbox_entries.c.case_id == case_id)).first()
    if entry is None or mine:
        return
    if entry.closed_at is None and not (entry.reading == "third" and is_allowed(by.actor, Action.ADJUDICATE)):
        raise Unread("the readings so far are shown once you have read the case")
    _remember(conn, by, case_id, before_rating=True)
