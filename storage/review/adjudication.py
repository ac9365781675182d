"""A senior's decisions: on open cases that readers left, and amendments of closed ones, each with its reason.

A later change is a new version; nothing is overwritten. What readings do by themselves is in `storage.settling`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import Connection, select

from screening.review.actors import LOCAL_USER, Actor
from screening.review.policy import Action, require
from screening.review.rating_form import RatingLabel
from screening.review.tiers import Tier
from storage.blindness import see_readings
from storage.database import Database
from storage.review.claims import NotAvailable
from storage.review.leases import is_open
from storage.review.settling import Adjudication, Method, Next, close, latest_readings, versions_in
from storage.schema import cases, inbox_entries, ratings
from storage.schema.review import LATER_READING
from storage.site.audit_log import append

__all__ = [
    "Adjudication", "Disagreement", "Method", "Next", "ReasonNeeded", "StaleVersion", "adjudicate", "amend",
    "disagreements", "is_party", "versions",
]  # fmt: skip

_entry = inbox_entries.c


class ReasonNeeded(ValueError):
    """A change to what was recorded comes with a reason."""


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
    actor: Actor,
    case_id: str,
    label: RatingLabel,
    reason: str,
    now: datetime,
    method: Literal[Method.SENIOR, Method.DISCUSSION] = Method.SENIOR,
) -> Adjudication:
    """A senior's decision on an open case that has at least one reading.

    Raises Forbidden, ReasonNeeded, or NotAvailable when it is closed, unread, or being read at the moment, or when
    one of two readers who disagree would decide between them alone.
    """
    require(actor, Action.ADJUDICATE)
    _needs(reason)
    with db.write() as conn:
        entry = _locked(conn, case_id)
        if entry is not None and (done := _done(conn, actor, case_id, label, method, reason)) is not None:
            return done
        if entry is None or entry.closed_at is not None:
            raise NotAvailable("this case is not open")
        if entry.holder not in (None, actor.id) and entry.lease_expires_at > now:
            raise NotAvailable("somebody is reading this case at the moment")
        readers = [reading.reviewer for reading in latest_readings(conn, case_id)]
        if not readers:
            raise NotAvailable("nobody has read this case yet")
        if method is Method.SENIOR and is_party(actor, readers):
            raise NotAvailable("you are one of the two readers: somebody else decides, or you do in a discussion")
        close(conn, case_id, label, method, actor, reason.strip(), now)
        return _recorded(conn, actor, case_id, "adjudicated", now)


def is_party(actor: Actor, readers: Sequence[str]) -> bool:
    """Whether this is one of the first two ``readers`` of a case read by two or more: theirs is the disagreement.

    Where nobody signs in there is one local user and nobody else who could decide.
    """
    return actor != LOCAL_USER and len(readers) > 1 and actor.id in readers[:2]


def amend(
    db: Database, actor: Actor, case_id: str, label: RatingLabel, reason: str, based_on: int, now: datetime
) -> Adjudication:
    """A new version of a closed case's label; ``based_on`` is the version the senior was looking at.

    Raises Forbidden, ReasonNeeded, StaleVersion, or NotAvailable when the case is not closed.
    """
    require(actor, Action.ADJUDICATE)
    _needs(reason)
    with db.write() as conn:
        entry = _locked(conn, case_id)
        if entry is None or entry.closed_at is None:
            raise NotAvailable("only a closed case can be amended")
        made = versions_in(conn, case_id)
        if not made:
            raise NotAvailable("this case was closed without a label: what it held was erased")
        done = _done(conn, actor, case_id, label, Method.AMENDMENT, reason)
        if done is not None and done.version == based_on + 1:
            return done
        if made[-1].version != based_on:
            raise StaleVersion("the case was amended in the meantime")
        close(conn, case_id, label, Method.AMENDMENT, actor, reason.strip(), now)
        return _recorded(conn, actor, case_id, "amended", now)


def _done(
    conn: Connection, actor: Actor, case_id: str, label: RatingLabel, method: Method, reason: str
) -> Adjudication | None:
    """The version in force of a closed case, where it is this very decision of this person: pressed twice is once."""
    closed = select(_entry.case_id).where(_entry.case_id == case_id, _entry.closed_at.is_not(None))
    if conn.execute(closed).first() is None or not (known := versions_in(conn, case_id)):
        return None
    last = known[-1]
    return (
        last if (last.by, last.label, last.method, last.reason) == (actor.id, label, method, reason.strip()) else None
    )


def _recorded(conn: Connection, actor: Actor, case_id: str, action: str, now: datetime) -> Adjudication:
    made = versions_in(conn, case_id)[-1]
    append(conn, actor, action, case_id, {"version": made.version, "method": made.method.value}, now)
    return made


def _locked(conn: Connection, case_id: str) -> Any:
    return conn.execute(select(inbox_entries).where(_entry.case_id == case_id).with_for_update()).first()


def _needs(reason: str) -> None:
    if not reason.strip():
        raise ReasonNeeded("say why")


def versions(db: Database, actor: Actor, case_id: str, now: datetime) -> tuple[Adjudication, ...]:
    """All versions of a case's label, the first one first, for whom its readings are. Raises Forbidden, Unread."""
    with db.write() as conn:
        see_readings(conn, actor, case_id, now)
        return versions_in(conn, case_id)


def disagreements(db: Database, actor: Actor, limit: int = 50, offset: int = 0) -> tuple[Disagreement, ...]:
    """The cases that wait for a senior, most urgent first."""
    require(actor, Action.ADJUDICATE)
    mine = select(ratings.c.case_id).where(ratings.c.reviewer == actor.id)
    query = (
        select(inbox_entries, cases.c.external_id, _entry.case_id.in_(mine).label("mine"))
        .join(cases, cases.c.id == _entry.case_id)
        .where(is_open(), LATER_READING, _entry.reading == "third")
        .order_by(_entry.routine, _entry.due_at, _entry.case_id)
        .limit(limit)
        .offset(offset)
    )
    with db.read() as conn:
        rows = conn.execute(query).all()
    return tuple(
        Disagreement(
            case_id=row.case_id,
            external_id=row.external_id,
            tier=Tier(row.tier),
            entered_at=row.entered_at,
            due_at=row.due_at,
            read_by_me=bool(row.mine),
        )
        for row in rows
    )
