"""The ways a case changes hands: left, put on hold, transferred, assigned; and where it is by now, for a page that lies
open. Where its reviewer is gone it is freed by `storage.site.accounts`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, select, update

from screening.review.policy import Acting, Action, Actor, Role, require
from screening.review.review_form import ReviewLabel
from screening.review.triage import Priority
from storage.audit_log import append
from storage.database import Database, upsert
from storage.review.adjudication import Next, Why, has_asked, request
from storage.review.claims import Incomplete, LeaseLost, NotAvailable, has_lease, holds, is_kept_in, lock_entry
from storage.review.evidence import add_note
from storage.review.follow_ups import open_of
from storage.schema import UNASSIGNED, accounts, case_notes, inbox_entries, reviews, skips
from storage.site.accounts import is_reviewer
from storage.visibility import was_erased

_entry = inbox_entries.c
NEEDS_NOTE = (Priority.P0, Priority.P1)
"""Priorities that are not left open without a note."""

RESERVATIONS = {Priority.P0: timedelta(minutes=15), Priority.P1: timedelta(minutes=15)}
"""How long a case stays on hold or handed over before it is free again for everybody."""

RESERVATION = timedelta(hours=1)
MOST = 200
"""Cases given at once."""


def release(db: Database, by: Acting, case_id: str, token: str, note: str = "") -> None:
    """Give the case back. Raises LeaseLost, Incomplete (P0, P1)."""
    with db.write() as conn:
        _let_go(conn, by, case_id, token, kind="release", note=note)
        append(conn, by, "released", case_id, {"note": bool(note)})


def skip(db: Database, by: Acting, case_id: str, token: str, note: str = "", reason: str = "skip") -> None:
    """Give the case back; for a while it does not come to this person again. Raises LeaseLost, Incomplete."""
    with db.write() as conn:
        _let_go(conn, by, case_id, token, kind="skip", note=note)
        upsert(conn, skips, {"case_id": case_id, "reviewer": by.id, "reason": reason, "at": by.now})
        append(conn, by, "skipped", case_id, {"reason": reason})


def decline(db: Database, by: Acting, case_id: str, token: str, note: str = "") -> None:
    """Give the case back for good, without a reason and at any priority: nobody has to read what they cannot."""
    skip(db, by, case_id, token, note.strip() or "declined", reason="declined")


def hold(db: Database, by: Acting, case_id: str, token: str, note: str) -> datetime:
    """Set the case aside for this person; returns when it is free again for all. Raises LeaseLost, Incomplete."""
    return _reserve(db, by, case_id, token, by.id, note, "hold")


def hand_over(db: Database, by: Acting, case_id: str, token: str, to: str, note: str) -> datetime:
    """Reserve the case for an account; returns when it is free again for all. Raises LeaseLost, Incomplete, or
    NotAvailable when they cannot take it: it stays in hand, and no word tells a second reviewer who read it first.
    """
    return _reserve(db, by, case_id, token, to, note, "hand_over")


def _reserve(db: Database, by: Acting, case_id: str, token: str, to: str, note: str, kind: str) -> datetime:
    if not note.strip():
        raise Incomplete("enter a note for the next reviewer")
    with db.write() as conn:
        priority = _let_go(conn, by, case_id, token, kind=kind, note=note, to=to)
        if kind == "hand_over":
            entry = conn.execute(select(inbox_entries).where(_entry.case_id == case_id)).one()
            if obstacle(conn, entry, to, by.now, senior=is_senior(conn, by.actor, to)):
                raise NotAvailable("that person cannot take this case")
        return _keep_for(conn, by, case_id, priority, to, "held" if kind == "hold" else "handed_over")


def assign(db: Database, by: Acting, case_ids: Sequence[str], to: str) -> tuple[Sequence[str], Mapping[str, str]]:
    """Reserve these cases for an account, each as it stands now: which are reserved, and why each other is not, in
    words. Raises NotAvailable where that person cannot read cases, ValueError for none or too many.
    """
    require(by.actor, Action.ASSIGN)
    chosen = sorted(set(case_ids))
    if not 1 <= len(chosen) <= MOST:
        raise ValueError(f"choose 1 to {MOST} cases")
    given, refused = dict[str, Priority](), dict[str, str]()
    with db.write() as conn:
        senior = is_senior(conn, by.actor, to)
        for case_id in chosen:  # in one order, so that two who do this at once wait in line and not for each other
            entry = lock_entry(conn, case_id)
            reason = obstacle(conn, entry, to, by.now, senior=senior)
            if entry is None or reason:
                refused[case_id] = reason
            else:
                given[case_id] = Priority(entry.priority)
        for case_id, priority in given.items():  # once all are locked: each locks the log
            _keep_for(conn, by, case_id, priority, to, "assigned")
    return list(given), refused


def _keep_for(conn: Connection, by: Acting, case_id: str, priority: Priority, to: str, action: str) -> datetime:
    until = by.now + RESERVATIONS.get(priority, RESERVATION)
    kept = {"assignee": to, "assigned_by": by.id, "assigned_until": until, "lease_token": None}
    conn.execute(update(inbox_entries).where(_entry.case_id == case_id).values(kept))
    append(conn, by, action, case_id, {"until": until.isoformat(), "to": to})
    return until


def is_senior(conn: Connection, actor: Actor, to: str) -> bool:
    """Whether this colleague is one. Raises NotAvailable where they read no cases."""
    roles = conn.execute(select(accounts.c.roles).where(accounts.c.id == to, is_reviewer())).scalar()
    if roles is None or to == actor.id:
        raise NotAvailable("that person cannot take cases")
    return Role.SENIOR.value in roles


def obstacle(conn: Connection, entry: Any, to: str, now: datetime, *, senior: bool) -> str:
    """What keeps a case from being given to them, in words; empty where nothing does."""
    if entry is None or entry.closed_at is not None:
        return "is closed"
    if has_lease(entry, now):
        return "was taken meanwhile"
    if is_kept_in(entry, now) and entry.assigned_by == entry.assignee:
        return "was put on hold by its reviewer"
    if entry.review_round == "third" and not senior:
        return "is a senior's to decide"
    if conn.execute(select(reviews.c.id).where(reviews.c.case_id == entry.case_id, reviews.c.reviewer == to)).first():
        return "was reviewed by them already"
    said = select(skips.c.at).where(skips.c.case_id == entry.case_id, skips.c.reviewer == to)
    return "was declined by them" if conn.execute(said.where(skips.c.reason == "declined")).first() else ""


def _let_go(
    conn: Connection, by: Acting, case_id: str, token: str, *, kind: str, note: str, to: str | None = None
) -> Priority:
    priority = conn.execute(
        update(inbox_entries).where(holds(by, case_id, token)).values(UNASSIGNED).returning(_entry.priority)
    ).scalar()
    if priority is None:
        raise LeaseLost("this case is not assigned to you any more")
    if not note.strip() and Priority(priority) in NEEDS_NOTE:
        raise Incomplete("P0 and P1 cases need a hand-off note before you leave them")
    if note.strip():
        add_note(conn, by, case_id, kind, note, to)
    return Priority(priority)


def ask_second_opinion(db: Database, by: Acting, case_id: str, token: str, note: str = "") -> None:
    """Have a second reviewer decide as well; asked under the lease, twice is once. Raises LeaseLost. The note is shown
    to nobody before they have reviewed the case themselves.
    """
    with db.write() as conn:
        if conn.execute(select(_entry.case_id).where(holds(by, case_id, token))).first() is None:
            raise LeaseLost("this case is not assigned to you any more")
        asked = not has_asked(conn, by.actor, case_id)
        kept = case_notes.c
        same = kept.case_id == case_id, kept.author == by.id, kept.kind == "second_opinion", kept.note == note.strip()
        noted = bool(note.strip()) and conn.execute(select(kept.id).where(*same)).first() is None
        if asked:
            request(conn, by.id, case_id, Why.ASKED, by.now)
        if noted:
            add_note(conn, by, case_id, "second_opinion", note)
        if asked or noted:
            append(conn, by, "second_opinion_asked", case_id, {"note": noted})


class Place(StrEnum):
    """Where a case is, as one reviewer needs to know it."""

    HELD = "held"  # in this person's hands, with this token
    ELSEWHERE = "elsewhere"  # in this person's hands, with another token: taken up again in another page
    KEPT = "kept"  # nobody's, and put on hold by this person or handed to them: given to nobody else until then
    FREE = "free"  # nobody's: the lease is over
    TAKEN = "taken"  # in somebody else's hands, or kept for them
    READ = "read"  # read by this person
    CLOSED = "closed"  # closed, and not by a review of this person's
    ERASED = "erased"  # nobody reads it any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """``at`` and ``label`` are of this person's own last review; ``until`` is how long it is kept for them."""

    place: Place
    closed: bool = False
    at: datetime | None = None
    label: ReviewLabel | None = None
    until: datetime | None = None


_ENTRY = select(inbox_entries, was_erased(_entry.case_id).label("erased"))


def standing(db: Database, by: Acting, case_id: str, token: str | None) -> Standing:
    """Where the case is now, without its text and with no label but this person's own. Raises Forbidden, KeyError."""
    require(by.actor, Action.CLAIM_NEXT)
    own = select(reviews.c.label, reviews.c.at).where(reviews.c.case_id == case_id, reviews.c.reviewer == by.id)
    with db.read() as conn:
        entry = conn.execute(_ENTRY.where(_entry.case_id == case_id)).first()
        mine = conn.execute(own.order_by(reviews.c.version.desc()).limit(1)).first()
    if entry is None:
        raise KeyError(case_id)
    if entry.erased:
        return Standing(place=Place.ERASED, closed=True)
    leased = has_lease(entry, by.now) and entry.closed_at is None
    if leased and entry.assignee == by.id:
        return Standing(place=Place.HELD if entry.lease_token == token else Place.ELSEWHERE)
    closed = entry.closed_at is not None
    if mine is not None:
        return Standing(place=Place.READ, closed=closed, at=mine.at, label=ReviewLabel(mine.label))
    kept = is_kept_in(entry, by.now)
    if kept and entry.assignee == by.id and not closed:
        return Standing(place=Place.KEPT, until=entry.assigned_until)
    return Standing(place=Place.CLOSED if closed else Place.TAKEN if leased or kept else Place.FREE, closed=closed)


def what_follows(db: Database, by: Acting, case_id: str) -> tuple[Next, Sequence[Any]]:
    """What a case that this person has read still waits for, and its open follow-ups. Raises Forbidden, KeyError."""
    require(by.actor, Action.REVIEW, by.id)
    with db.read() as conn:
        entry = conn.execute(_ENTRY.where(_entry.case_id == case_id)).first()
        if entry is None:
            raise KeyError(case_id)
        waits = {"third": Next.SENIOR}.get(entry.review_round, Next.SECOND_REVIEW)
        following = waits if entry.closed_at is None else Next.CLOSED
        return following, open_of(conn, by.actor, case_id)
