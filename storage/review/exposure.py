"""Care for the people who read: how many texts they have opened, and when a break is due.

Derived from the audit log; everybody sees their own count and nobody sees another's. Nothing here measures speed.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import BindParameter, Connection, String, bindparam, func, select

from screening.review.actors import Acting, Actor
from screening.review.policy import Action, require
from storage.audit_log import append
from storage.database import Database
from storage.schema import Moment, audit_events, ratings
from storage.settings_store import current_in

_ACTOR: BindParameter[str] = bindparam("actor", type_=String)
_SINCE: BindParameter[datetime] = bindparam("since", type_=Moment)
_EVENT = audit_events.c
_PAUSE = select(func.max(_EVENT.seq)).where(_EVENT.actor == _ACTOR, _EVENT.action == "break_taken", _EVENT.at >= _SINCE)
_OPENED = select(func.count(_EVENT.subject.distinct())).where(_EVENT.actor == _ACTOR, _EVENT.action == "text_viewed")
_OPENED_SINCE = _OPENED.where(_EVENT.at >= _SINCE)
_TODAY = select(_OPENED_SINCE.scalar_subquery().label("opened"), _PAUSE.scalar_subquery().label("pause"))
_READ = (
    select(func.count())
    .select_from(ratings)
    .where(ratings.c.reviewer == _ACTOR, ratings.c.at >= _SINCE, ratings.c.version == 1)
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Different texts opened since a moment (the start of the day), and since the last break after it."""

    texts: int
    since_break: int
    break_due: bool


def exposure(db: Database, actor: Actor, since: datetime) -> Exposure:
    """The actor's own exposure since a moment, and whether the site's number of texts before a break is reached.
    Raises Forbidden.
    """
    require(actor, Action.VIEW_CARE, actor.id)
    with db.read() as conn:
        own = {"actor": actor.id, "since": since}
        total, pause = conn.execute(_TODAY, own).one()
        after = total if pause is None else _openings_after(conn, actor, pause)
        limit = current_in(conn).settings.break_after_texts
    return Exposure(texts=total, since_break=after, break_due=after >= limit)


def count_cases_read(db: Database, actor: Actor, since: datetime) -> int:
    """How many cases the actor has read since a moment: their own count, for how far the queue is from its end.
    Raises Forbidden.
    """
    require(actor, Action.VIEW_CARE, actor.id)
    return int(db.value(_READ, {"actor": actor.id, "since": since}))


def take_break(db: Database, by: Acting) -> None:
    """Start the count since the last break again; leases and drafts are not changed. Raises Forbidden."""
    require(by.actor, Action.VIEW_CARE, by.id)
    with db.write() as conn:
        append(conn, by, "break_taken", None, {})


def _openings_after(conn: Connection, actor: Actor, pause: int) -> int:
    return int(conn.execute(_OPENED.where(_EVENT.seq > pause), {"actor": actor.id}).scalar_one())
