"""The inbox, as pages call it: claims, and the ways to leave a case open.

Leaving a P0 or P1 case open takes a note for whoever comes next. What waits, and how much, is in `storage.queue`.
"""

from datetime import datetime, timedelta

from sqlalchemy import Connection, and_, insert, select, update

from screening.review.actors import Actor
from screening.review.triage import Tier
from storage.audit_log import Detail, append
from storage.database import Database, insert_into
from storage.review.claims import (
    LeaseLost,
    NotAvailable,
    holds,
    is_leased,
    is_open,
    note_ahead,
    take_back,
)
from storage.review.notes import add_note
from storage.schema import accounts, inbox_entries, second_reading_requests, skips

_entry = inbox_entries.c
NEEDS_NOTE = (Tier.P0, Tier.P1)
"""Tiers that are not left open without a note."""

RESERVATIONS = {Tier.P0: timedelta(minutes=15), Tier.P1: timedelta(minutes=15)}
"""How long a case stays set aside or handed over before it is free again for everybody."""

RESERVATION = timedelta(hours=1)


class NoteNeeded(ValueError):
    """A P0 or P1 case is not left open without a note."""


def release(db: Database, actor: Actor, case_id: str, token: str, now: datetime, note: str = "") -> None:
    """Give the case back. Raises LeaseLost, NoteNeeded (P0, P1)."""
    with db.write() as conn:
        _let_go(conn, actor, case_id, token, now, kind="release", note=note)
        append(conn, actor, "released", case_id, {"note": bool(note)}, now)


def release_all(db: Database, actor: Actor, now: datetime, note: str = "signed out") -> int:
    """Give back everything this person holds, as sign-out does, and return how many cases that was."""
    with db.write() as conn:
        ahead = take_back(conn, actor, now)
        mine = and_(is_open(), is_leased(now), _entry.holder == actor.id)
        rows = conn.execute(select(_entry.case_id, _entry.token).where(mine)).all()
        for row in sorted(rows, key=lambda row: row.case_id):
            _let_go(conn, actor, row.case_id, row.token, now, kind="release", note=note)
        note_ahead(conn, actor, ahead, now)
        if rows:
            append(conn, actor, "released_all", None, {"cases": len(rows)}, now)
    return len(rows)


def skip(db: Database, actor: Actor, case_id: str, token: str, now: datetime, note: str = "") -> None:
    """Give the case back; for a while it does not come to this person again. Raises LeaseLost, NoteNeeded."""
    _pass_on(db, actor, case_id, token, now, "skip", note)


def decline(db: Database, actor: Actor, case_id: str, token: str, now: datetime) -> None:
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
        until = now + RESERVATIONS.get(tier, RESERVATION)
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
