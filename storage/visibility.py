"""Who may see what of a case: the one module of these predicates, for lists, counts, files and pages alike.

Lists, files and pages of cases show outcomes; a person may hide those of cases in review. What they were shown all the
same is written down, and their review of it is then not blinded. The desk shows nothing of the AI before the save.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, Text, and_, cast, exists, false, func, literal, or_, select

from screening.labels import Outcome
from screening.review.policy import LOCAL_USER, SYSTEM, Acting, Action, Actor, is_allowed, require
from screening.review.triage import Priority, Reach
from screening.text.flags import Flag
from storage.audit_log import append
from storage.database import Database, Source, insert_into, reading, upsert
from storage.schema.engine import screenings
from storage.schema.intake import batches, cases
from storage.schema.review import adjudications, inbox_entries, reviews, unblindings
from storage.schema.site import preferences

_ENTRY, _REVIEW = inbox_entries.alias(), reviews.alias()
"""For the conditions here, whatever the query around them joins. Made once: making one takes as long as a query."""


class NotYetReviewed(Exception):
    """The case is in review, and this person has not given theirs: the AI's view is not shown."""


class Unread(Exception):
    """Other people's reviews of an open case are not shown to whoever may still review it."""


def is_in_review(case_id: ColumnElement[str]) -> ColumnElement[bool]:
    open_now = exists().where(_ENTRY.c.case_id == case_id, _ENTRY.c.closed_at.is_(None))
    return open_now.correlate_except(_ENTRY)  # however deep it stands in a query


def has_reviewed(actor: Actor, case_id: ColumnElement[str]) -> ColumnElement[bool]:
    own = exists().where(_REVIEW.c.case_id == case_id, _REVIEW.c.reviewer == actor.id)
    return own.correlate_except(_REVIEW)


def is_yet_to_review(actor: Actor, case_id: ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that a case is in review and this person has not reviewed it."""
    return and_(is_in_review(case_id), ~has_reviewed(actor, case_id))


def hides_in_review(conn: Connection, actor: Actor) -> bool:
    """Whether outcomes of cases in review are hidden from this person: as they chose, else from reviewers of a site
    with sign-in; always from those who may not see outcomes, never from the program itself.
    """
    if actor == SYSTEM:
        return False
    if not is_allowed(actor, Action.VIEW_RESULTS):
        return True
    chosen = conn.execute(select(preferences.c.hide_in_review).where(preferences.c.account == actor.id)).scalar()
    if chosen is not None:
        return bool(chosen)
    return actor.id != LOCAL_USER.id and is_allowed(actor, Action.CLAIM_NEXT)


def choose_hiding(db: Database, by: Acting, *, hide: bool) -> None:
    """Remember this person's choice. Raises Forbidden."""
    require(by.actor, Action.VIEW_RESULTS)
    with db.write() as conn:
        upsert(conn, preferences, {"account": by.id, "hide_in_review": hide})
        append(conn, by, "outcomes_hidden" if hide else "outcomes_shown", None, {})


def hidden_from(conn: Connection, actor: Actor, case_id: ColumnElement[str], hide: bool | None) -> ColumnElement[bool]:
    """The condition that lists leave out what the AI made of a case. ``hide`` None: as this person has chosen."""
    chosen = hides_in_review(conn, actor) if hide is None else hide
    return is_yet_to_review(actor, case_id) if chosen else false()


def record_shown(db: Database, by: Acting, case_ids: Sequence[str]) -> None:
    """Write down, before they are shown, the cases that this person has yet to review of these; once each."""
    if by.actor == SYSTEM or not case_ids:
        return
    case_id = screenings.c.case_id
    seen = exists().where(unblindings.c.case_id == case_id, unblindings.c.reviewer == by.id)
    new = select(case_id).where(case_id.in_(case_ids), is_yet_to_review(by.actor, case_id), ~seen)
    if found := db.values(new.order_by(case_id)):
        with db.write() as conn:
            unblind(conn, by.id, found, by.now)
            append(conn, by, "outcomes_seen", None, {"cases": len(found)})


def unblind(
    conn: Connection, person_id: str, case_ids: Iterable[str], now: datetime, *, before_review: bool = True
) -> None:
    """Keep that this person knows of these cases, in the caller's transaction; the first time counts."""
    same = {"reviewer": person_id, "before_review": before_review, "at": now}
    if rows := [{"case_id": case_id, **same} for case_id in case_ids]:
        conn.execute(insert_into(unblindings).on_conflict_do_nothing(), rows)


def reveal(conn: Connection, by: Acting, case_id: str, *, open_at_once: bool = False, browsing: bool = False) -> bool:
    """Allow this person the AI's view of one case, and record that they have it, in the caller's transaction; whether
    it comes before their review.

    Raises Forbidden, or NotYetReviewed while the case is in review and they have not. A P0 case that they hold may be
    opened at once, and whoever is ``browsing`` may see any case of a list unless they hide those in review: their
    review then is not blinded.
    """
    reviewed = conn.execute(select(has_reviewed(by.actor, cases.c.id)).where(cases.c.id == case_id)).scalar()
    entry = conn.execute(select(inbox_entries).where(inbox_entries.c.case_id == case_id)).first()
    leased = entry is not None and entry.lease_token is not None and entry.assigned_until > by.now
    holding = leased and entry is not None and entry.assignee == by.id
    require(by.actor, Action.VIEW_EVIDENCE, by.id if reviewed or holding else None)
    early = entry is not None and entry.closed_at is None and not reviewed
    if early:
        urgent = holding and open_at_once and entry is not None and entry.priority == Priority.P0
        if not urgent and not (browsing and not hides_in_review(conn, by.actor)):
            raise NotYetReviewed("review the text first: what the AI says of it is shown afterwards")
    unblind(conn, by.id, [case_id], by.now, before_review=not reviewed)
    return early


def is_blind(conn: Connection, actor: Actor, case_id: str, *, first: bool) -> bool:
    """Whether a review given now is blinded. The first one is, unless this person was shown the AI's view before (in a
    list, live while they had the text screened, or as evidence) or other people's reviews; a later one is while
    nothing was shown at all. Lists of decided cases keep no record: whoever may see results may have seen those.
    """
    if is_allowed(actor, Action.VIEW_RESULTS) and (not first or _was_listed(conn, case_id)):
        return False
    theirs = unblindings.c.case_id == case_id, unblindings.c.reviewer == actor.id
    seen = conn.execute(select(unblindings.c.before_review).where(*theirs)).scalar()
    asked = batches.c.kind == "interactive", batches.c.created_by == actor.id
    own = select(cases.c.id).join(batches, batches.c.id == cases.c.batch_id).where(cases.c.id == case_id, *asked)
    return (seen is not True if first else seen is None) and conn.execute(own).first() is None


def are_reviewed() -> ColumnElement[bool]:
    """The condition on a case and its batch that it is reviewed where the AI labels it unsafe, or says nothing of it:
    its batch has them reviewed, or it states an imminent risk, which is reviewed whatever its batch was set to.
    """
    imminent = cast(cases.c.flags, Text).like(f'%"{Flag.STATED_IMMINENT}"%')
    return or_(batches.c.reach == Reach.READ.value, imminent)


def _was_listed(conn: Connection, case_id: str) -> bool:
    """Whether lists told of a case that is in review now: before it was sent there, since nothing had brought it to the
    inbox when it was decided, or while it was closed, before it was opened again.
    """
    outcome = screenings.c.outcome
    read_anyway = and_(outcome == Outcome.UNSAFE.value, are_reviewed())
    settled_by_itself = and_(outcome != Outcome.HUMAN_REVIEW.value, screenings.c.audited.is_(False), ~read_anyway)
    closed_once = exists().where(adjudications.c.case_id == cases.c.id)
    joined = select(cases.c.id).join(screenings, screenings.c.case_id == cases.c.id)
    query = joined.join(batches, batches.c.id == cases.c.batch_id).where(cases.c.id == case_id)
    return conn.execute(query.where(or_(settled_by_itself, closed_once))).first() is not None


def see_reviews(conn: Connection, by: Acting, case_id: str) -> None:
    """Allow this person everybody's reviews of a case, in the caller's transaction. While it is open these are for
    those who have reviewed it, and for seniors once two reviewers disagree: a review of a senior's own is no longer
    blinded then. Raises Forbidden, Unread.
    """
    mine = conn.execute(select(has_reviewed(by.actor, cases.c.id)).where(cases.c.id == case_id)).scalar()
    require(by.actor, Action.VIEW_REVIEWS, by.id if mine else None)
    entry = conn.execute(select(inbox_entries).where(inbox_entries.c.case_id == case_id)).first()
    if entry is None or mine:
        return
    if entry.closed_at is None and not (entry.review_round == "third" and is_allowed(by.actor, Action.ADJUDICATE)):
        raise Unread("the reviews so far are shown once you have reviewed the case")
    unblind(conn, by.id, [case_id], by.now)


def was_erased(case_id: ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that a case was erased: it holds nothing any more, and nobody reads it again."""
    its = cases.alias()
    return exists().where(its.c.id == case_id, its.c.erased_at.is_not(None)).correlate_except(its)


def is_erased(db: Source, case_id: str) -> bool:
    """Whether this one was; also asked by pages that keep the text of a case from one run to the next."""
    with reading(db) as conn:
        return bool(conn.execute(select(was_erased(literal(case_id)))).scalar())


def accepted_label(case_id: ColumnElement[str]) -> ColumnElement[Any]:
    """The latest adjudication's label; NULL without one, and while the case is open again: the next is blind to it."""
    made = adjudications.alias().c  # whatever the query itself joins
    return (
        select(made.label)
        .where(made.case_id == case_id, ~is_in_review(made.case_id))
        .order_by(made.version.desc())
        .limit(1)
        .scalar_subquery()
    )


def accepted_labels(batch_id: str) -> Select[Any]:
    """The accepted label of each case of a batch that has one: `accepted_label`, each adjudication looked at once."""
    made = adjudications.c
    newest = select(made.case_id, func.max(made.version).label("version")).group_by(made.case_id)
    latest = newest.join(cases, cases.c.id == made.case_id).where(cases.c.batch_id == batch_id).subquery().c
    same = and_(made.case_id == latest.case_id, made.version == latest.version)
    return select(made.case_id, made.label).join(latest.case_id.table, same).where(~is_in_review(made.case_id))


def is_accepted(case_id: ColumnElement[str]) -> ColumnElement[bool]:
    made = adjudications.alias().c
    return and_(exists().where(made.case_id == case_id), ~is_in_review(case_id))


def order_given() -> tuple[ColumnElement[Any], ...]:
    """The order in which labels were accepted: by their moments, and never one of a case before an earlier one of the
    same, whatever a clock that was set back has made of the moments.
    """
    made = adjudications.c
    latest = func.max(made.at).over(partition_by=made.case_id, order_by=made.version)
    return latest, made.case_id, made.version
