"""Care for the people who read: how many texts they have opened, and when a break is due.

Derived from the audit log; everybody sees their own count and nobody sees another's. Nothing here measures speed.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import BindParameter, String, bindparam, func, select

from screening.review.actors import Acting, Actor
from screening.review.policy import Action, require
from storage.audit_log import append
from storage.database import Database
from storage.schema import Moment, audit_events, ratings
from storage.settings_store import current_in

_ACTOR: BindParameter[str] = bindparam("actor", type_=String)
_SINCE: BindParameter[datetime] = bindparam("since", type_=Moment)
_RECENT: BindParameter[datetime] = bindparam("recent", type_=Moment)
_EVENT = audit_events.c
_PAUSE = select(func.max(_EVENT.seq)).where(
    _EVENT.actor == _ACTOR, _EVENT.action == "break_taken", _EVENT.at >= _RECENT
)
_OPENED = select(func.count(_EVENT.subject.distinct())).where(
    _EVENT.actor == _ACTOR, _EVENT.action.in_(("opened", "text_viewed"))
)
_TODAY = select(
    _OPENED.where(_EVENT.at >= _SINCE).scalar_subquery().label("texts"),
    _OPENED.where(_EVENT.at >= _RECENT, _EVENT.seq > func.coalesce(_PAUSE.scalar_subquery(), 0))
    .scalar_subquery()
    .label("since_break"),
)
_READ = (
    select(func.count())
    .select_from(ratings)
    .where(ratings.c.reviewer == _ACTOR, ratings.c.at >= _SINCE, ratings.c.version == 1)
)


STRETCH = timedelta(hours=8)
"""Nobody reads for longer without a break: before that lies a night's rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exposure:
    """Different texts opened since a moment (the start of the day), and since the last break: as far as a `STRETCH`
    back, over any midnight.
    """

    texts: int
    since_break: int
    break_due: bool


def exposure(db: Database, by: Acting, since: datetime) -> Exposure:
    """One's own exposure since a moment, and whether the site's number of texts before a break is reached.
    Raises Forbidden.
    """
    require(by.actor, Action.VIEW_CARE, by.id)
    with db.read() as conn:
        found = conn.execute(_TODAY, {"actor": by.id, "since": since, "recent": by.now - STRETCH}).one()
        limit = current_in(conn).settings.break_after_texts
    return Exposure(texts=found.texts, since_break=found.since_break, break_due=found.since_break >= limit)


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
