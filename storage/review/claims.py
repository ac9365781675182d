"""Claims: one reviewer at a time holds a case, by a lease that the database enforces.

A claim is one conditional UPDATE. Whoever has the current token, unexpired, holds the case; nobody else can renew,
release or rate it. One SQL condition, shared by claims, counts and lists, says whether an open case is free for a given
reviewer; it treats an expired lease and a past reservation as free, so that no job has to clear them.
"""

import secrets
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import BindParameter, ColumnElement, Connection, and_, bindparam, case, false, func, or_, select, true

from screening.review.policy import Acting, Action, Actor, Role, is_allowed, require
from screening.review.triage import Priority
from storage.audit_log import append
from storage.database import Database, Source, record, writing
from storage.schema import LATER_REVIEW, Moment, audit_events, cases, inbox_entries, reviews, skips
from storage.visibility import has_reviewed

LEASE = timedelta(minutes=15)
"""How long a claim lasts without a sign of activity."""

SNOOZE = timedelta(minutes=30)
"""How long a skipped case stays away from whoever skipped it."""

_entry = inbox_entries.c
_OWN_ID = select(cases.c.external_id).where(cases.c.id == _entry.case_id).correlate(inbox_entries).scalar_subquery()
_WHY = func.coalesce(_entry.why + ":" + _entry.cause, _entry.why).label("why")
SHOWN = (*(column for column in _entry if column.name != "why"), _WHY)
"""An entry; ``why`` the case is in the inbox, with the cause after a colon where it could not be screened."""
_NAMED = (*SHOWN, _OWN_ID.label("external_id"))
"""With the own id of its case."""


At = datetime | BindParameter[datetime]
"""A moment, or the parameter for one in a statement that is built once and executed often."""
NOW: BindParameter[datetime] = bindparam("now", type_=Moment)
SNOOZED_SINCE: BindParameter[datetime] = bindparam("snoozed_since", type_=Moment)


def moment(now: datetime) -> dict[str, datetime]:
    return {"now": now, "snoozed_since": now - SNOOZE}


def is_open() -> ColumnElement[bool]:
    return _entry.closed_at.is_(None)


def is_assigned(now: At) -> ColumnElement[bool]:
    """The condition that somebody has the case now: before them, or kept for them."""
    return and_(_entry.assigned_until.is_not(None), _entry.assigned_until > now)


def is_leased(now: At) -> ColumnElement[bool]:
    return and_(is_assigned(now), _entry.lease_token.is_not(None))


def is_kept(now: At) -> ColumnElement[bool]:
    """The condition that the case is kept for somebody: put on hold by them, or given to them."""
    return and_(is_assigned(now), _entry.lease_token.is_(None))


def has_lease(entry: Any, now: datetime) -> bool:
    return entry.lease_token is not None and entry.assigned_until > now


def is_kept_in(entry: Any, now: datetime) -> bool:
    return entry.assigned_until is not None and entry.assigned_until > now and entry.lease_token is None


def of_priority(priorities: Collection[Priority] | None) -> ColumnElement[bool]:
    """The condition that the case is in one of these priorities; None is no filter."""
    if priorities is None:
        return true()
    only = sorted(int(priority) for priority in priorities)
    return _entry.priority == only[0] if len(only) == 1 else _entry.priority.in_(only)


def of_batch(batch: str | None) -> ColumnElement[bool]:
    return true() if batch is None else _entry.batch_id == batch


def _skips(actor: Actor, now: At) -> Any:
    """The cases that the actor skipped recently, or declined at any time."""
    since = now - SNOOZE if isinstance(now, datetime) else SNOOZED_SINCE
    recent = or_(skips.c.reason == "declined", skips.c.at > since)
    return select(skips.c.case_id).where(skips.c.reviewer == actor.id, recent)


def in_hand(actor: Actor, now: At) -> ColumnElement[bool]:
    """The condition that an open case may not be free for this actor: few, and each kind has an index."""
    ids = select(_entry.case_id).where(is_open())
    later = ids.where(LATER_REVIEW, _entry.review_round.in_(("second", "third")))
    return _entry.case_id.in_(ids.where(is_assigned(now)).union(later, _skips(actor, now)))


def is_reviewed_by(actor: Actor) -> ColumnElement[bool]:
    """The condition that the actor has reviewed the case: its next review is for somebody else."""
    mine = select(reviews.c.case_id).where(reviews.c.reviewer == actor.id)
    return and_(_entry.review_round != "first", _entry.case_id.in_(mine))


def state(actor: Actor, now: At) -> ColumnElement[str]:
    """Which state of `queue.State` an open case is in, as this actor sees it."""
    given = and_(_entry.assignee == actor.id, _entry.assigned_by != actor.id)  # by a colleague: theirs to take up
    return case(
        (and_(is_leased(now), _entry.assignee == actor.id), "mine"),
        (is_leased(now), "held"),
        (is_reviewed_by(actor), "read"),
        (false() if Role.SENIOR in actor.roles else _entry.review_round == "third", "senior"),
        (and_(is_kept(now), ~given), "reserved"),
        (_entry.case_id.in_(_skips(actor, now)), "skipped"),
        else_="free",
    )


def free_for(
    actor: Actor, now: At, priorities: Collection[Priority] | None, batch: str | None = None
) -> ColumnElement[bool]:
    """Whether the actor may be given this case by "the next one"."""
    return and_(is_open(), of_priority(priorities), of_batch(batch), state(actor, now) == "free")


def in_order(priorities: Collection[Priority] | None) -> tuple[ColumnElement[Any], ...]:
    """P0 first, then by deadline; within one priority only by deadline, which is that priority's index."""
    first = () if priorities is not None and len(set(priorities)) == 1 else (_entry.routine,)
    return (*first, _entry.due_at, _entry.case_id)


CLAIMED, OPENED = "claimed", "opened"
"""What the audit log says of a case that somebody took: without its text, or with it in the same moment."""


class LeaseLost(Exception):
    """The lease has run out, or somebody else holds the case; a draft is kept."""


class Incomplete(ValueError):
    """A note, a reason or a disposition that must be given is missing; the message says which."""


class NotAvailable(Exception):
    """The case is closed, or held by somebody else, or its review is for another person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A case in one person's hands until ``expires_at``; the token proves it."""

    case_id: str
    external_id: str
    token: str
    expires_at: datetime
    priority: Priority
    why: str
    entered_at: datetime
    due_at: datetime


_HELD = select(*_NAMED).where(is_open(), is_leased(NOW), _entry.assignee == bindparam("holder"))


def claim_next(
    db: Source,
    by: Acting,
    lease: timedelta = LEASE,
    priorities: Collection[Priority] | None = None,
    batch: str | None = None,
    action: str = CLAIMED,
) -> Claim | None:
    """The case due next that is free for them, now theirs; or None. ``action`` is what the audit log calls it."""
    require(by.actor, Action.CLAIM_NEXT)
    with writing(db) as conn:
        for among in by_urgency(conn, by, priorities, batch):
            due_next = select(_entry.case_id).where(free_for(by.actor, by.now, among, batch)).order_by(*in_order(among))
            # PostgreSQL skips rows that another transaction is claiming
            first = due_next.limit(1).with_for_update(skip_locked=True, of=inbox_entries).scalar_subquery()
            if (taken := _take(conn, _entry.case_id == first, by, lease, action)) is not None:
                append(conn, by, action, taken.case_id, {"priority": int(taken.priority)})
                return taken
    return None


def by_urgency(
    conn: Connection, by: Acting, priorities: Collection[Priority] | None, batch: str | None = None
) -> Sequence[Collection[Priority] | None]:
    """The priorities of a filter with a free case, that whose next case is due first in front: each is read along its
    own index, without the cases that the filter leaves out. [None] without a filter.
    """
    if priorities is None:
        return [None]
    heads = []
    for priority in sorted(set(priorities)):
        free = select(_entry.routine, _entry.due_at).where(free_for(by.actor, by.now, [priority], batch))
        if (head := conn.execute(free.order_by(*in_order([priority])).limit(1)).first()) is not None:
            heads.append((*head, priority))
    return [[head[-1]] for head in sorted(heads)]


def claim(db: Source, by: Acting, case_id: str, lease: timedelta = LEASE, action: str = CLAIMED) -> Claim:
    """A chosen case: any for a senior; for a reviewer one that was handed to them, or that they held last. Raises
    NotAvailable when somebody else holds it, it is closed, or they have read it already.
    """
    with writing(db) as conn:
        row = conn.execute(select(inbox_entries).where(_entry.case_id == case_id)).first()
        if row is None:
            raise NotAvailable("this case is not in the queue")
        require(by.actor, Action.CLAIM_NAMED, _owner(conn, by, row))
        if row.review_round == "third" and not is_allowed(by.actor, Action.ADJUDICATE):
            raise NotAvailable("two reviewers disagree: a senior decides")
        if row.closed_at is not None:
            raise NotAvailable("this case is closed")
        unheld = or_(~is_leased(by.now), _entry.assignee == by.id)
        free = and_(_entry.case_id == case_id, is_open(), unheld, ~is_reviewed_by(by.actor))
        taken = _take(conn, free, by, lease, action)
        if taken is None:
            raise NotAvailable("this case is assigned to somebody else, or this review is not yours")
        append(conn, by, action, case_id, {"priority": int(taken.priority), "named": True})
    return taken


def _owner(conn: Connection, by: Acting, row: Any) -> str | None:
    """Whom the case is kept for, else who held it last, also where it went back as their page slept."""
    if row.assignee == by.id or row.lease_token is not None or is_kept_in(row, by.now):
        return str(row.assignee)
    event = audit_events.c
    claimed = select(event.actor).where(event.subject == row.case_id, event.action.in_((CLAIMED, OPENED)))
    return conn.execute(claimed.order_by(event.seq.desc()).limit(1)).scalar()


def opened(now: datetime) -> dict[str, Any]:
    """What an entry says once whoever has the case has its text before them."""
    return {
        "first_opened_at": func.coalesce(_entry.first_opened_at, bindparam(None, now, type_=Moment)),
        "last_opened_at": now,
    }


def _take(conn: Connection, which: ColumnElement[bool], by: Acting, lease: timedelta, action: str) -> Claim | None:
    theirs = {"assignee": by.id, "assigned_by": by.id, "assigned_until": by.now + lease}
    theirs |= {"lease_token": secrets.token_hex(32)}
    if action == OPENED:
        theirs |= opened(by.now)
    row = conn.execute(inbox_entries.update().where(which).values(theirs).returning(*_NAMED)).first()
    return None if row is None else _claim(row)


def _claim(row: Any) -> Claim:
    given = {"token": row.lease_token, "expires_at": row.assigned_until, "priority": Priority(row.priority)}
    return record(Claim, row, **given)


def my_claims(db: Database, by: Acting, batch: str | None = None) -> tuple[Claim, ...]:
    """The cases this person holds now, of one batch where it is named, most urgent first; after a reload they continue
    with these. Raises Forbidden.
    """
    require(by.actor, Action.CLAIM_NEXT)
    held = db.rows(_HELD, {"now": by.now, "holder": by.id})
    rows = (row for row in held if batch in (None, row.batch_id))
    # few, so sorted here: the database would read its index of that order from end to end
    return tuple(_claim(row) for row in sorted(rows, key=lambda row: (row.routine, row.due_at, row.case_id)))


def holds(by: Acting, case_id: str, token: str) -> ColumnElement[bool]:
    """The condition that this person's lease on this case is current; every write under a lease contains it."""
    return and_(
        _entry.case_id == case_id, _entry.lease_token == token, _entry.assignee == by.id, is_leased(by.now), is_open()
    )


def require_text(conn: Connection, by: Acting, case_id: str, token: str | None) -> bool:
    """Whether this person has read the case. Raises Forbidden unless so, they hold it, or may see any text."""
    reviewed = bool(conn.execute(select(has_reviewed(by.actor, cases.c.id)).where(cases.c.id == case_id)).scalar())
    mine = select(_entry.case_id).where(holds(by, case_id, token or ""))
    require(by.actor, Action.VIEW_TEXT, by.id if reviewed or conn.execute(mine).first() is not None else None)
    return reviewed


def renew(db: Database, by: Acting, case_id: str, token: str, lease: timedelta = LEASE) -> Claim:
    """The same claim with a later expiry, after a sign of activity. Raises LeaseLost."""
    held = inbox_entries.update().where(holds(by, case_id, token)).values(assigned_until=by.now + lease)
    with db.write() as conn:
        row = conn.execute(held.returning(*_NAMED)).first()
    if row is None:
        raise LeaseLost("this case is not assigned to you any more")
    return _claim(row)


def lock_entry(conn: Connection, case_id: str) -> Any:
    """The row of a case in the inbox, which nobody changes before the caller commits; None without one."""
    return conn.execute(select(inbox_entries).where(_entry.case_id == case_id).with_for_update()).first()
