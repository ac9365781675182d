"""What waits, and with whom: list and counts of the inbox. Neither ever touches the text of a case."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Select, and_, case, cast, func, literal, null, select

from screening.review.actors import Actor
from screening.review.policy import Action, require
from screening.review.tiers import Tier
from storage.database import Database
from storage.review.leases import in_order, in_tiers, is_open, leased, snoozed, state, untouched
from storage.schema import Moment, cases, inbox_entries
from storage.schema.review import STANDS_OUT

_entry = inbox_entries.c
EVERY = "every"
"""The line of the counts query that counts all open cases of a tier."""


class State(StrEnum):
    """What keeps an open case from this person, if anything; each open case is in exactly one state."""

    FREE = "free"
    MINE = "mine"
    HELD = "held"  # leased by somebody else
    READ = "read"  # this person has read it; it waits for another
    SENIOR = "senior"  # two readers disagree, a senior decides
    RESERVED = "reserved"  # set aside, or handed to a named person
    SKIPPED = "skipped"  # by this person, for a while or for good


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """One open case in a list; age and time left follow from ``entered_at`` and ``due_at``."""

    case_id: str
    external_id: str
    tier: Tier
    why: str
    entered_at: datetime
    due_at: datetime
    state: State
    holder: str | None
    lease_expires_at: datetime | None
    handed_to: str | None
    reserved_until: datetime | None
    reading: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """How many open cases are in each state inside the filter, and how many lie outside it.

    ``held_until`` is when the first lease of somebody else runs out, ``reserved_until`` likewise; None where
    there is none. ``free_by_tier`` covers the free cases inside the filter.
    """

    by_state: Mapping[State, int]
    free_by_tier: Mapping[Tier, int]
    outside_filter: int
    held_until: datetime | None
    reserved_until: datetime | None

    @property
    def open(self) -> int:
        """All open cases."""
        return sum(self.by_state.values()) + self.outside_filter

    @property
    def free(self) -> int:
        """Cases that "the next one" could give this person now."""
        return self.by_state[State.FREE]

    @property
    def held(self) -> int:
        """Cases that somebody else holds now."""
        return self.by_state[State.HELD]


def queue(
    db: Database,
    actor: Actor,
    now: datetime,
    tiers: Collection[Tier] | None = None,
    limit: int = 50,
    offset: int = 0,
) -> tuple[Waiting, ...]:
    """Open cases in the order they are due: P0 first, then by deadline. For supervisors."""
    require(actor, Action.BROWSE_QUEUE)
    page = (
        select(inbox_entries, state(actor, now).label("state"))
        .where(is_open(), in_tiers(tiers))
        .order_by(*in_order(tiers))
        .limit(limit)
        .offset(offset)
        .subquery()
    )
    query = (
        select(page, cases.c.external_id)
        .join(cases, cases.c.id == page.c.case_id)
        .order_by(page.c.routine, page.c.due_at, page.c.case_id)
    )
    with db.read() as conn:
        rows = conn.execute(query).all()
    return tuple(_waiting(row, now) for row in rows)


def _waiting(row: Any, now: datetime) -> Waiting:
    held = row.lease_expires_at is not None and row.lease_expires_at > now
    reserved = row.reserved_until is not None and row.reserved_until > now
    return Waiting(
        case_id=row.case_id,
        external_id=row.external_id,
        tier=Tier(row.tier),
        why=row.why,
        entered_at=row.entered_at,
        due_at=row.due_at,
        state=State(row.state),
        holder=row.holder if held else None,
        lease_expires_at=row.lease_expires_at if held else None,
        handed_to=row.handed_to if reserved else None,
        reserved_until=row.reserved_until if reserved else None,
        reading=row.reading,
    )


def counts(db: Database, actor: Actor, now: datetime, tiers: Collection[Tier] | None = None) -> Counts:
    """How many cases wait and what keeps them from this person, from one query over open cases only.

    Cases that nobody ever touched are counted by the index, tier by tier; only the others are looked at.
    """
    require(actor, Action.VIEW_COUNTS)
    standing = (
        _standing(actor, now)
        .where(STANDS_OUT)
        .union_all(_standing(actor, now).where(untouched(), snoozed(actor, now)))
        .subquery()
        .c
    )
    looked_at = select(
        standing.state,
        standing.tier,
        func.count().label("n"),
        func.min(standing.lease, type_=Moment).label("lease"),
        func.min(standing.reserved, type_=Moment).label("reserved"),
    ).group_by(standing.state, standing.tier)
    nothing = cast(null(), Moment)
    every = select(literal(EVERY), _entry.tier, func.count(), nothing, nothing).where(is_open()).group_by(_entry.tier)
    with db.read() as conn:
        rows = conn.execute(looked_at.union_all(every)).all()
    return _counts(rows, set(Tier if tiers is None else tiers))


def _standing(actor: Actor, now: datetime) -> Select[Any]:
    return select(
        state(actor, now).label("state"),
        _entry.tier,
        case((leased(now), _entry.lease_expires_at)).label("lease"),
        case((_entry.reserved_until > now, _entry.reserved_until)).label("reserved"),
    ).where(is_open())


def _counts(rows: Collection[Any], tiers: set[Tier]) -> Counts:
    inside = [row for row in rows if row.tier in tiers]
    found = Counter[tuple[str, int]]({(row.state, row.tier): row.n for row in inside})
    by_state = {one: sum(found[one, tier] for tier in tiers) for one in State}
    # free: what was looked at and is free, and all that nothing was to look at
    free = {tier: found[EVERY, tier] - sum(found[one, tier] for one in State if one is not State.FREE) for tier in Tier}
    return Counts(
        by_state=by_state | {State.FREE: sum(free.values())},
        free_by_tier=free,
        outside_filter=sum(row.n for row in rows if row.tier not in tiers and row.state == EVERY),
        held_until=_first(row.lease for row in inside if row.state == State.HELD),
        reserved_until=_first(row.reserved for row in inside if row.state == State.RESERVED),
    )


def _first(moments: Iterable[datetime | None]) -> datetime | None:
    return min((moment for moment in moments if moment is not None), default=None)


def handed_to_me(db: Database, actor: Actor, now: datetime) -> tuple[str, ...]:
    """Cases set aside by this person or handed to them, still reserved: the ones they may claim by name."""
    require(actor, Action.CLAIM_NEXT)
    mine = and_(is_open(), _entry.handed_to == actor.id, _entry.reserved_until > now)
    query = select(_entry.case_id).where(mine).order_by(_entry.routine, _entry.due_at)
    with db.read() as conn:
        return tuple(conn.execute(query).scalars())
