"""When an open case is free for a given reviewer, as one SQL condition that claims, counts and lists share.

An expired lease and a passed reservation are free inside the condition itself: nothing sweeps.
"""

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    CompoundSelect,
    ScalarSelect,
    Select,
    and_,
    bindparam,
    case,
    false,
    or_,
    select,
    true,
)

from screening.review.actors import Actor, Role
from screening.review.tiers import Tier
from storage.schema import Moment, inbox_entries, ratings, skips
from storage.schema.review import LATER_READING

LEASE = timedelta(minutes=15)
"""How long a claim lasts without a sign of activity."""

SNOOZE = timedelta(minutes=30)
"""How long a skipped case stays away from whoever skipped it."""

KEPT = 256
"""Statements that are written once for a person and asked often: of so many the latest are remembered."""

_entry = inbox_entries.c


def why_of(entry: Any) -> str:
    """Why a case is here, from a row of its entry; of one that could not be screened, with its cause after a colon."""
    return entry.why if entry.cause is None else f"{entry.why}:{entry.cause}"


At = datetime | BindParameter[datetime]
"""A moment, or the place of one in a statement that is written once and asked often."""
NOW: BindParameter[datetime] = bindparam("now", type_=Moment)
SNOOZED_SINCE: BindParameter[datetime] = bindparam("snoozed_since", type_=Moment)


def moment(now: datetime) -> dict[str, datetime]:
    """What fills those places."""
    return {"now": now, "snoozed_since": now - SNOOZE}


def is_open() -> ColumnElement[bool]:
    """Not yet adjudicated."""
    return _entry.closed_at.is_(None)


def leased(now: At) -> ColumnElement[bool]:
    """Somebody holds it at this moment."""
    return and_(_entry.holder.is_not(None), _entry.lease_expires_at > now)


def in_tiers(tiers: Collection[Tier] | None) -> ColumnElement[bool]:
    """Inside the filter; None is no filter."""
    if tiers is None:
        return true()
    only = sorted(int(tier) for tier in tiers)
    return _entry.tier == only[0] if len(only) == 1 else _entry.tier.in_(only)


def reserved_for_others(actor: Actor, now: At) -> ColumnElement[bool]:
    """Set aside by its reader (the actor too), or handed to somebody else, until a moment yet to come."""
    for_actor = and_(_entry.handed_to == actor.id, _entry.held_by != actor.id)
    return and_(_entry.reserved_until.is_not(None), _entry.reserved_until > now, ~for_actor)


def snoozed(actor: Actor, now: At) -> ColumnElement[bool]:
    """The actor skipped it a while ago, or said "not me" at any time."""
    return _entry.case_id.in_(_skipped(actor, now))


def _skipped(actor: Actor, now: At) -> Select[Any]:
    return select(skips.c.case_id).where(
        skips.c.reviewer == actor.id, or_(skips.c.reason == "not_me", skips.c.at > _snoozed_since(now))
    )


def _snoozed_since(now: At) -> At:
    return now - SNOOZE if isinstance(now, datetime) else SNOOZED_SINCE


def sent_ahead(now: At) -> ColumnElement[bool]:
    """Its text lies in somebody's browser, for whom it is kept free until they ask for it or the moment passes."""
    return and_(_entry.ahead_until.is_not(None), _entry.ahead_until > now)


def not_ahead_for_others(actor: Actor, now: At) -> ColumnElement[bool]:
    """No other browser than the actor's has its text before it was asked for."""
    return or_(_entry.ahead_until.is_(None), _entry.ahead_until <= now, _entry.ahead_for == actor.id)


def touched(actor: Actor, now: At) -> CompoundSelect[Any]:
    """The ids of all open cases that may not be free for this actor: few, and each found by an index of its own."""
    ids = select(_entry.case_id).where(is_open())
    return ids.where(leased(now)).union(
        ids.where(_entry.reserved_until.is_not(None), _entry.reserved_until > now),
        ids.where(sent_ahead(now)),
        ids.where(LATER_READING, _entry.reading.in_(("second", "third"))),
        _skipped(actor, now),
    )


def read_by(actor: Actor) -> ColumnElement[bool]:
    """The actor has rated it already, so that its next reading is somebody else's."""
    mine = select(ratings.c.case_id).where(ratings.c.reviewer == actor.id)
    return and_(_entry.reading != "first", _entry.case_id.in_(mine))


def needs_senior(actor: Actor) -> ColumnElement[bool]:
    """Two readers disagree and the actor is no senior."""
    return false() if Role.SENIOR in actor.roles else _entry.reading == "third"


def state(actor: Actor, now: At) -> ColumnElement[str]:
    """In which one of the states of `queue.State` an open case is, as this actor sees it."""
    return case(
        (and_(leased(now), _entry.holder == actor.id), "mine"),
        (leased(now), "held"),
        (read_by(actor), "read"),
        (needs_senior(actor), "senior"),
        (reserved_for_others(actor, now), "reserved"),
        (snoozed(actor, now), "skipped"),
        (~not_ahead_for_others(actor, now), "ahead"),
        else_="free",
    )


def free_for(actor: Actor, now: At, tiers: Collection[Tier] | None) -> ColumnElement[bool]:
    """Whether the actor may be given this case by "the next one"."""
    return and_(
        is_open(),
        in_tiers(tiers),
        or_(_entry.holder.is_(None), _entry.lease_expires_at <= now),
        ~read_by(actor),
        ~needs_senior(actor),
        ~reserved_for_others(actor, now),
        ~snoozed(actor, now),
        not_ahead_for_others(actor, now),
    )


def in_order(tiers: Collection[Tier] | None) -> tuple[ColumnElement[Any], ...]:
    """P0 first, then by deadline; within one tier only by deadline, which is that tier's index."""
    first = () if tiers is not None and len(set(tiers)) == 1 else (_entry.routine,)
    return (*first, _entry.due_at, _entry.case_id)


def earliest(actor: Actor, now: At, tier: Tier) -> Select[Any]:
    """The deadline of the free case of this tier that is due first."""
    free = select(_entry.routine, _entry.due_at).where(free_for(actor, now, [tier]))
    return free.order_by(*in_order([tier])).limit(1)


def next_free(actor: Actor, now: At, tiers: Collection[Tier] | None) -> ScalarSelect[str]:
    """The id of the case due next; rows that another transaction is claiming are passed over (PostgreSQL)."""
    return (
        select(_entry.case_id)
        .where(free_for(actor, now, tiers))
        .order_by(*in_order(tiers))
        .limit(1)
        .with_for_update(skip_locked=True, of=inbox_entries)
        .scalar_subquery()
    )
