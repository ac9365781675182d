"""Whom the site tells what, in which order. Nobody is told anything before an administrator adds somebody.

A target may hold a password: it is written once, read by the sender alone, and shown without its secrets.
"""

import secrets
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from screening.review.actors import Acting, Actor
from screening.review.policy import Action, require
from screening.review.triage import Priority
from storage.audit_log import append, serialise
from storage.clock import new_id
from storage.database import Database, record
from storage.schema import TO_SEND, notification_recipients, notifications

MOST_STEPS = 5
MINUTES_A_DAY = 24 * 60
_one = notification_recipients.c


class Event(StrEnum):
    """What somebody may be told of."""

    ARRIVED_P0 = "arrived_p0"
    ARRIVED_P1 = "arrived_p1"
    OVERDUE = "overdue"
    FAULT = "fault"  # model or workers down, anchor of the audit log not written


class Kind(StrEnum):
    """How somebody is reached."""

    SERVICE = "service"  # mail, chat, pager, SMS
    WEBHOOK = "webhook"  # signed, to a server of the site's own
    MONITOR = "monitor"  # told every minute that all is well, and alarmed by silence


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """One who is told, without the target's secrets. ``problem`` is why the last try failed."""

    id: str
    name: str
    kind: Kind
    shown: str
    step: int
    events: frozenset[Event]
    quiet: tuple[int, int] | None
    active: bool
    problem: str | None
    tried_at: datetime | None


def is_told(one: Recipient, event: str, priority: Priority | None) -> bool:
    """Whether they are told of this: ``event`` is a message's, arrived, overdue, follow_up, fault or test."""
    arrived = Event.ARRIVED_P0 if priority is Priority.P0 else Event.ARRIVED_P1
    wanted = {"arrived": arrived, "overdue": Event.OVERDUE, "follow_up": Event.OVERDUE, "fault": Event.FAULT}
    return event not in wanted or wanted[event] in one.events


def add_recipient(
    db: Database,
    by: Acting,
    *,
    name: str,
    kind: Kind,
    target: str,
    shown: str,
    step: int = 1,
    events: Collection[Event] = frozenset(Event),
    quiet: tuple[int, int] | None = None,
) -> tuple[Recipient, str | None]:
    """Add a recipient; beside it the secret that signs a webhook's messages, which is told here and never again.
    ``step`` is the place in the on-call order, 1 first; quiet hours are minutes of the day.

    Raises Forbidden, and ValueError for what cannot be told anything, or is told already: a press made twice.
    """
    require(by.actor, Action.CHANGE_SETTINGS)
    if not name.strip() or len(name) > 80:
        raise ValueError("give the recipient a name of at most 80 characters")
    if not 1 <= step <= MOST_STEPS:
        raise ValueError(f"the on-call order has places 1 to {MOST_STEPS}")
    if quiet is not None and any(not 0 <= minute < MINUTES_A_DAY for minute in quiet):
        raise ValueError("quiet hours are times of a day")
    quiet_from, quiet_to = quiet or (None, None)
    row = {
        "id": new_id(by.now),
        "name": name.strip(),
        "kind": kind.value,
        "target": target,
        "shown": shown,
        "secret": secrets.token_hex(32) if kind is Kind.WEBHOOK else None,
        "step": step,
        "events": sorted(events),
        "quiet_from": quiet_from,
        "quiet_to": quiet_to,
        "active": True,
    }
    with db.write() as conn:
        serialise(conn)
        same = _one.name == row["name"], _one.target == target, _one.active.is_(True)
        if conn.execute(select(_one.id).where(*same)).first() is not None:
            raise ValueError("a recipient of this name and address is there already")
        made = conn.execute(insert(notification_recipients).values(row).returning(notification_recipients)).one()
        append(conn, by, "recipient_added", made.id, {"kind": made.kind, "step": step}, notification_recipients)
    return _recipient(made), made.secret


def set_active(db: Database, by: Acting, recipient_id: str, active: bool) -> None:
    """Tell them from now on, or no longer; what is on its way to somebody switched off is dropped. Twice is once."""
    require(by.actor, Action.CHANGE_SETTINGS)
    with db.write() as conn:
        switched = update(notification_recipients).where(_one.id == recipient_id, _one.active.is_not(active))
        if not conn.execute(switched.values(active=active)).rowcount:
            return
        if not active:
            waiting = TO_SEND, notifications.c.recipient_id == recipient_id
            conn.execute(update(notifications).where(*waiting).values(given_up_at=by.now, error="switched off"))
        append(conn, by, "recipient_switched", recipient_id, {"active": active}, notification_recipients)


def remove_recipient(db: Database, by: Acting, recipient_id: str) -> None:
    """Forget them with their target and all that was sent to them; the audit log keeps that it was. Twice is once."""
    require(by.actor, Action.CHANGE_SETTINGS)
    with db.write() as conn:
        conn.execute(delete(notifications).where(notifications.c.recipient_id == recipient_id))
        if conn.execute(delete(notification_recipients).where(_one.id == recipient_id)).rowcount:
            append(conn, by, "recipient_removed", recipient_id, {}, notification_recipients)


def list_recipients(db: Database, actor: Actor) -> tuple[Recipient, ...]:
    """Everybody, in the on-call order."""
    require(actor, Action.CHANGE_SETTINGS)
    with db.read() as conn:
        return _recipients(conn)


def active_recipients(conn: Connection) -> tuple[Recipient, ...]:
    """Those that are told, in the on-call order, inside the caller's transaction."""
    return tuple(one for one in _recipients(conn) if one.active and one.kind in (Kind.SERVICE, Kind.WEBHOOK))


def told_of_urgent(db: Database) -> tuple[Recipient, ...]:
    """Who is told of a P0 case that arrives; a monitor is told of nothing. For whoever signs in."""
    with db.read() as conn:
        return tuple(one for one in active_recipients(conn) if Event.ARRIVED_P0 in one.events)


def waiting_messages(db: Database, actor: Actor) -> int:
    """How many messages wait to go out, those that wait for quiet hours to end among them."""
    require(actor, Action.CHANGE_SETTINGS)
    return int(db.value(select(func.count()).where(TO_SEND)))


def _recipients(conn: Connection) -> tuple[Recipient, ...]:
    rows = conn.execute(select(notification_recipients).order_by(_one.step, _one.name, _one.id))
    return tuple(map(_recipient, rows))


def _recipient(row: Any) -> Recipient:
    quiet = None if row.quiet_from is None else (row.quiet_from, row.quiet_to)
    return record(Recipient, row, kind=Kind(row.kind), events=frozenset(map(Event, row.events)), quiet=quiet)
