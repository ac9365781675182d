"""How many cases are open, and how many of them late: from tallies and short ranges, never by counting what waits."""

from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from sqlalchemy import Connection, bindparam, func, literal, select, union_all

from screening.review.actors import Actor
from screening.review.policy import Action, require
from screening.review.triage import Tier
from storage.database import Database
from storage.review.claims import is_open
from storage.schema import Moment, inbox_entries, inbox_tallies

_entry = inbox_entries.c
MOST_LATE = 100
"""Late cases of a tier are counted as far as this; one more is "more than"."""


_NOW = bindparam("now", type_=Moment)
_TALLIED = select(inbox_tallies.c.tier, func.sum(inbox_tallies.c.open).label("n")).group_by(inbox_tallies.c.tier)
_LATE = union_all(
    *(
        select(literal(int(tier)).label("tier"), func.count().label("n")).select_from(
            select(_entry.case_id)
            .where(is_open(), _entry.tier == int(tier), _entry.due_at <= _NOW)
            .order_by(_entry.due_at)
            .limit(MOST_LATE + 1)
            .subquery()
        )
        for tier in Tier
    )
)
_FIRST_DUE = select(
    *(
        select(_entry.due_at)
        .where(is_open(), _entry.tier == int(tier))
        .order_by(_entry.due_at)
        .limit(1)
        .scalar_subquery()
        for tier in Tier
    )
)
_NEWEST = (
    select(_entry.due_at).where(is_open(), _entry.tier == bindparam("tier")).order_by(_entry.due_at.desc()).limit(1)
)
"""Written once: an open inbox asks every few seconds, and most of the asking was the writing of the question."""


def open_by_tier(conn: Connection) -> Mapping[Tier, int]:
    """Open cases of each tier, as counted by the database's triggers."""
    found = Counter[int]({row.tier: int(row.n) for row in conn.execute(_TALLIED)})
    return {tier: found[tier] for tier in Tier}


def newest_entry(conn: Connection, tier: Tier) -> datetime | None:
    """The latest target of an open case of this tier, which moves on when one comes in; None where there is none."""
    return conn.execute(_NEWEST, {"tier": int(tier)}).scalar()


def first_due_by_tier(db: Database, actor: Actor) -> Mapping[Tier, datetime]:
    """The earliest target of each tier's open cases; a tier without any is left out."""
    require(actor, Action.VIEW_COUNTS)
    with db.read() as conn:
        found = conn.execute(_FIRST_DUE).one()
    return {tier: due for tier, due in zip(Tier, found, strict=True) if due is not None}


def late_by_tier(conn: Connection, now: datetime) -> Mapping[Tier, int]:
    """Open cases of each tier whose target has passed; `MOST_LATE` + 1 stands for any greater number."""
    return {Tier(row.tier): row.n for row in conn.execute(_LATE, {"now": now})}
