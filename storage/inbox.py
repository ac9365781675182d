"""The inbox: one reviewer at a time holds a case, by a lease that the database enforces.

A claim is one conditional UPDATE. Whoever has the current token, unexpired, holds the case; nobody else can renew,
release or rate it. Leaving a P0 or P1 case open takes a note for whoever comes next.
"""

import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, insert, or_, select, update

from storage.actors import Actor
from storage.audit_log import Detail, append
from storage.database import Database, insert_into
from storage.leases import LEASE, earliest, is_open, leased, next_free, read_by
from storage.policy import Action, allowed, require
from storage.schema import accounts, case_notes, inbox_entries, second_reading_requests, skips
from storage.tiers import Tier

_entry = inbox_entries.c
NEEDS_NOTE = (Tier.P0, Tier.P1)
"""Tiers that are not left open without a note."""

RESERVATIONS = {Tier.P0: timedelta(minutes=15), Tier.P1: timedelta(minutes=15)}
"""How long a case stays set aside or handed over before it is free again for everybody."""

_RESERVATION = timedelta(hours=1)


class LeaseLost(Exception):
    """The lease has run out, or somebody else holds the case; a draft is kept."""


class NotAvailable(Exception):
    """The case is closed, or held by somebody else, or its reading is for another person."""


class NoteNeeded(ValueError):
    """A P0 or P1 case is not left open without a note."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A case in one person's hands until ``expires_at``; the token proves it."""

    case_id: str
    token: str
    expires_at: datetime
    tier: Tier
    why: str
    entered_at: datetime
    due_at: datetime


def new_token() -> str:
    """256 random bits."""
    return secrets.token_hex(32)


def claim_next(
    db: Database,
    actor: Actor,
    now: datetime,
    lease: timedelta = LEASE,
    tiers: Collection[Tier] | None = None,
    token: Callable[[], str] = new_token,
) -> Claim | None:
    """The case due next that is free for this person, now held by them; None when there is none."""
    require(actor, Action.CLAIM_NEXT)
    with db.write() as conn:
        for among in [None] if tiers is None else _by_urgency(conn, actor, now, tiers):
            due_next = _entry.case_id == next_free(actor, now, among)
            if (taken := _take(conn, due_next, actor, now, lease, token())) is not None:
                append(conn, actor, "claimed", taken.case_id, {"tier": int(taken.tier)}, now)
                return taken
    return None


def _by_urgency(conn: Connection, actor: Actor, now: datetime, tiers: Collection[Tier]) -> list[list[Tier]]:
    """The tiers of a filter, the one whose next case is due first in front: each is an index of its own, so that
    a filter does not read past the cases it leaves out. Tiers without a free case are not in it.
    """
    heads = [(conn.execute(earliest(actor, now, tier)).first(), tier) for tier in sorted(set(tiers))]
    return [[tier] for head, tier in sorted((tuple(head), tier) for head, tier in heads if head is not None)]


def claim(
    db: Database,
    actor: Actor,
    case_id: str,
    now: datetime,
    lease: timedelta = LEASE,
    token: Callable[[], str] = new_token,
) -> Claim:
    """A chosen case: any for a senior; for a reviewer one that was handed to them, or that they held last.

    Raises Forbidden, or NotAvailable when somebody else holds it, it is closed, or they have read it already.
    """
    with db.write() as conn:
        row = _entry_row(conn, case_id)
        require(actor, Action.CLAIM_NAMED, actor.id if actor.id in (row.handed_to, row.holder) else row.holder)
        free = and_(or_(~leased(now), _entry.holder == actor.id, _entry.holder.is_(None)), ~read_by(actor))
        if row.reading == "third" and not allowed(actor, Action.ADJUDICATE):
            raise NotAvailable("two readers disagree: this reading is a senior's")
        taken = _take(conn, and_(_entry.case_id == case_id, is_open(), free), actor, now, lease, token())
        if taken is None:
            raise NotAvailable("somebody else holds this case, or its reading is not yours")
        append(conn, actor, "claimed", case_id, {"tier": int(taken.tier), "named": True}, now)
    return taken


def _take(
    conn: Connection, which: ColumnElement[bool], actor: Actor, now: datetime, lease: timedelta, token: str
) -> Claim | None:
    row = conn.execute(
        update(inbox_entries)
        .where(which)
        .values(
            holder=actor.id,
            token=token,
            lease_expires_at=now + lease,
            held_by=None,
            handed_to=None,
            reserved_until=None,
        )
        .returning(*inbox_entries.c)
    ).first()
    return None if row is None else _claim(row)


def _claim(row: Any) -> Claim:
    return Claim(
        case_id=row.case_id,
        token=row.token,
        expires_at=row.lease_expires_at,
        tier=Tier(row.tier),
        why=row.why,
        entered_at=row.entered_at,
        due_at=row.due_at,
    )


def my_claims(db: Database, actor: Actor, now: datetime) -> tuple[Claim, ...]:
    """What this person holds at the moment, most urgent first: where they go on after a reload."""
    require(actor, Action.CLAIM_NEXT)
    query = select(inbox_entries).where(is_open(), leased(now), _entry.holder == actor.id)
    with db.read() as conn:
        rows = conn.execute(query.order_by(_entry.routine, _entry.due_at, _entry.case_id)).all()
    return tuple(_claim(row) for row in rows)


def holds(actor: Actor, case_id: str, token: str, now: datetime) -> ColumnElement[bool]:
    """The condition that this person's lease on this case is current; part of every write under a lease."""
    return and_(_entry.case_id == case_id, _entry.token == token, _entry.holder == actor.id, leased(now), is_open())


def renew(db: Database, actor: Actor, case_id: str, token: str, now: datetime, lease: timedelta = LEASE) -> Claim:
    """The same claim with a later expiry, after a sign of activity. Raises LeaseLost."""
    with db.write() as conn:
        row = conn.execute(
            update(inbox_entries)
            .where(holds(actor, case_id, token, now))
            .values(lease_expires_at=now + lease)
            .returning(*inbox_entries.c)
        ).first()
    if row is None:
        raise LeaseLost("the lease on this case is not yours any more")
    return _claim(row)


def release(db: Database, actor: Actor, case_id: str, token: str, now: datetime, note: str = "") -> None:
    """Give the case back. Raises LeaseLost, NoteNeeded (P0, P1)."""
    with db.write() as conn:
        _let_go(conn, actor, case_id, token, now, kind="release", note=note)
        append(conn, actor, "released", case_id, {"note": bool(note)}, now)


def release_all(db: Database, actor: Actor, now: datetime, note: str = "signed out") -> int:
    """Give back everything this person holds, as sign-out does, and return how many cases that was."""
    with db.write() as conn:
        mine = and_(is_open(), leased(now), _entry.holder == actor.id)
        rows = conn.execute(select(_entry.case_id, _entry.token).where(mine).order_by(_entry.case_id)).all()
        for row in rows:
            _let_go(conn, actor, row.case_id, row.token, now, kind="release", note=note)
        if rows:
            append(conn, actor, "released_all", None, {"cases": len(rows)}, now)
    return len(rows)


def skip(db: Database, actor: Actor, case_id: str, token: str, now: datetime, note: str = "") -> None:
    """Give the case back; for a while it does not come to this person again. Raises LeaseLost, NoteNeeded."""
    _pass_on(db, actor, case_id, token, now, "skip", note)


def not_me(db: Database, actor: Actor, case_id: str, token: str, now: datetime) -> None:
    """Give the case back for good, without a reason and at any tier: nobody has to read what they cannot."""
    _pass_on(db, actor, case_id, token, now, "not_me", "not me")


def _pass_on(db: Database, actor: Actor, case_id: str, token: str, now: datetime, reason: str, note: str) -> None:
    with db.write() as conn:
        _let_go(conn, actor, case_id, token, now, kind="skip", note=note)
        row = {"case_id": case_id, "reviewer": actor.id, "reason": reason, "at": now}
        conn.execute(
            insert_into(conn, skips)
            .values(**row)
            .on_conflict_do_update(index_elements=["case_id", "reviewer"], set_={"reason": reason, "at": now})
        )
        append(conn, actor, "skipped", case_id, {"reason": reason}, now)


def hold(db: Database, actor: Actor, case_id: str, token: str, note: str, now: datetime) -> datetime:
    """Set the case aside for this person; returns when it is free again for all. Raises LeaseLost, NoteNeeded."""
    return _reserve(db, actor, case_id, token, actor.id, note, now, "hold")


def hand_over(db: Database, actor: Actor, case_id: str, token: str, to: str, note: str, now: datetime) -> datetime:
    """Reserve the case for a named person; returns when it is free again for all.

    ``to`` is an account id. Raises LeaseLost, NoteNeeded, or NotAvailable when that person cannot rate.
    """
    with db.read() as conn:
        person = conn.execute(select(accounts.c.active, accounts.c.roles).where(accounts.c.id == to)).first()
    if person is None or not person.active or not {"reviewer", "senior"} & set(person.roles) or to == actor.id:
        raise NotAvailable("that person cannot take the case")
    return _reserve(db, actor, case_id, token, to, note, now, "hand_over")


def _reserve(
    db: Database, actor: Actor, case_id: str, token: str, to: str, note: str, now: datetime, kind: str
) -> datetime:
    if not note.strip():
        raise NoteNeeded("say in a note what the next reader should know")
    with db.write() as conn:
        tier = _let_go(conn, actor, case_id, token, now, kind=kind, note=note, to=to)
        until = now + RESERVATIONS.get(tier, _RESERVATION)
        conn.execute(
            update(inbox_entries)
            .where(_entry.case_id == case_id)
            .values(held_by=actor.id, handed_to=to, reserved_until=until)
        )
        details: dict[str, Detail] = {"until": until.isoformat(), "to": to}
        append(conn, actor, "held" if kind == "hold" else "handed_over", case_id, details, now)
    return until


def _let_go(
    conn: Connection,
    actor: Actor,
    case_id: str,
    token: str,
    now: datetime,
    *,
    kind: str,
    note: str,
    to: str | None = None,
) -> Tier:
    tier = conn.execute(
        update(inbox_entries)
        .where(holds(actor, case_id, token, now))
        .values(holder=None, token=None, lease_expires_at=None)
        .returning(_entry.tier)
    ).scalar()
    if tier is None:
        raise LeaseLost("the lease on this case is not yours any more")
    if not note.strip() and Tier(tier) in NEEDS_NOTE:
        raise NoteNeeded("a P0 or P1 case that stays open needs a note for the next reader")
    if note.strip():
        add_note(conn, actor, case_id, kind, note, now, to)
    return Tier(tier)


def add_note(
    conn: Connection, actor: Actor, case_id: str, kind: str, note: str, now: datetime, to: str | None = None
) -> None:
    """Keep a note beside the case, inside the caller's transaction."""
    conn.execute(
        insert(case_notes).values(case_id=case_id, author=actor.id, kind=kind, handed_to=to, note=note.strip(), at=now)
    )


def ask_second_opinion(db: Database, actor: Actor, case_id: str, token: str, now: datetime, note: str = "") -> None:
    """Have a second reader decide with this one: asked under the lease, before submitting. Raises LeaseLost.

    The note is shown to nobody before they have read the case themselves.
    """
    with db.write() as conn:
        if conn.execute(select(_entry.case_id).where(holds(actor, case_id, token, now))).first() is None:
            raise LeaseLost("the lease on this case is not yours any more")
        conn.execute(insert(second_reading_requests).values(case_id=case_id, why="asked", asked_by=actor.id, at=now))
        if note.strip():
            add_note(conn, actor, case_id, "second_opinion", note, now)
        append(conn, actor, "second_opinion_asked", case_id, {"note": bool(note.strip())}, now)


def _entry_row(conn: Connection, case_id: str) -> Any:
    row = conn.execute(select(inbox_entries).where(_entry.case_id == case_id)).first()
    if row is None:
        raise NotAvailable("this case is not in the inbox")
    return row
