"""A senior gives several open cases to a colleague at once: reserved for them, like one that is handed over."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select, update

from screening.review.actors import Acting, Actor, Role
from screening.review.policy import Action, require
from screening.review.triage import Tier
from storage.audit_log import append
from storage.database import Database
from storage.review.claims import NotAvailable
from storage.review.inbox import RESERVATION, RESERVATIONS
from storage.schema import accounts, inbox_entries, ratings, skips

MOST = 200
"""Cases given at once."""
_entry = inbox_entries.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """Which cases are reserved now, and why each of the others is not, in words."""

    given: tuple[str, ...]
    refused: Mapping[str, str]


def assign(db: Database, by: Acting, case_ids: Sequence[str], to: str) -> Assigned:
    """Reserve these cases for ``to``, an account's id, each as it stands now: one taken meanwhile is left alone.

    Raises Forbidden, NotAvailable where that person cannot read cases, ValueError for none or too many.
    """
    require(by.actor, Action.ASSIGN)
    chosen = sorted(set(case_ids))
    if not 1 <= len(chosen) <= MOST:
        raise ValueError(f"choose 1 to {MOST} cases")
    given, refused = [], {}
    with db.write() as conn:
        senior = _senior(conn, by.actor, to)
        for case_id in chosen:  # in one order, so that two who do this at once wait in line and not for each other
            entry = conn.execute(select(inbox_entries).where(_entry.case_id == case_id).with_for_update()).first()
            reason = _obstacle(conn, entry, to, by.now, senior=senior)
            if reason:
                refused[case_id] = reason
            else:
                _give(conn, by, entry, to)
                given.append(case_id)
    return Assigned(given=tuple(given), refused=refused)


def _senior(conn: Connection, actor: Actor, to: str) -> bool:
    """Whether this colleague is one."""
    person = conn.execute(select(accounts.c.active, accounts.c.roles).where(accounts.c.id == to)).first()
    readers = {Role.REVIEWER.value, Role.SENIOR.value}
    if person is None or not person.active or not readers & set(person.roles) or to == actor.id:
        raise NotAvailable("that person cannot take cases")
    return Role.SENIOR.value in person.roles


def _obstacle(conn: Connection, entry: Any, to: str, now: datetime, *, senior: bool) -> str:
    """What keeps a case from being given to them, in words; empty where nothing does."""
    if entry is None or entry.closed_at is not None:
        return "is closed"
    if entry.holder is not None and entry.lease_expires_at > now:
        return "was taken meanwhile"
    if entry.ahead_until is not None and entry.ahead_until > now:
        return "is about to be opened by somebody"
    if entry.held_by is not None and entry.held_by == entry.handed_to and entry.reserved_until > now:
        return "was set aside by its reader"
    if entry.reading == "third" and not senior:
        return "is a senior's to decide"
    if conn.execute(select(ratings.c.id).where(ratings.c.case_id == entry.case_id, ratings.c.reviewer == to)).first():
        return "was read by them already"
    said = select(skips.c.at).where(skips.c.case_id == entry.case_id, skips.c.reviewer == to)
    return "was given back by them: not me" if conn.execute(said.where(skips.c.reason == "not_me")).first() else ""


def _give(conn: Connection, by: Acting, entry: Any, to: str) -> None:
    until = by.now + RESERVATIONS.get(Tier(entry.tier), RESERVATION)
    values = {"held_by": by.id, "handed_to": to, "reserved_until": until}
    conn.execute(update(inbox_entries).where(_entry.case_id == entry.case_id).values(values))
    append(conn, by, "assigned", entry.case_id, {"to": to, "until": until.isoformat()})
