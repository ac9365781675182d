"""Care for the people who read: how many texts they have opened, and when a break is due.

Derived from the audit log; everybody sees their own count and nobody sees another's. Nothing here measures speed.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, func, select

from screening.review.actors import Actor
from screening.review.policy import Action, require
from storage.database import Database
from storage.schema import audit_events, ratings
from storage.site.audit_log import append
from storage.site.settings_store import current_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Different texts opened since a moment (the start of the day), and since the last break after it."""

    texts: int
    since_break: int
    break_due: bool


def exposure(db: Database, actor: Actor, since: datetime) -> Exposure:
    """The actor's own exposure since a moment, and whether the site's number of texts before a break is reached."""
    require(actor, Action.VIEW_CARE, actor.id)
    with db.read() as conn:
        pause = conn.execute(
            select(func.max(audit_events.c.seq)).where(_own(actor, "break_taken"), audit_events.c.at >= since)
        ).scalar()
        total = _texts(conn, actor, audit_events.c.at >= since)
        after = total if pause is None else _texts(conn, actor, audit_events.c.seq > pause)
        limit = current_in(conn).settings.break_after_texts
    return Exposure(texts=total, since_break=after, break_due=after >= limit)


def read_since(db: Database, actor: Actor, since: datetime) -> int:
    """How many cases the actor has read since a moment: their own count, for how far the queue is from its end."""
    require(actor, Action.VIEW_CARE, actor.id)
    own = ratings.c.reviewer == actor.id, ratings.c.at >= since, ratings.c.version == 1
    with db.read() as conn:
        return int(conn.execute(select(func.count()).select_from(ratings).where(*own)).scalar_one())


def take_break(db: Database, actor: Actor, now: datetime) -> None:
    """The count since the last break starts again; leases and drafts stay as they are."""
    require(actor, Action.VIEW_CARE, actor.id)
    with db.write() as conn:
        append(conn, actor, "break_taken", None, {}, now)


def _own(actor: Actor, action: str) -> ColumnElement[bool]:
    return and_(audit_events.c.actor == actor.id, audit_events.c.action == action)


def _texts(conn: Connection, actor: Actor, within: ColumnElement[bool]) -> int:
    query = select(func.count(audit_events.c.subject.distinct())).where(_own(actor, "text_viewed"), within)
    return int(conn.execute(query).scalar_one())
