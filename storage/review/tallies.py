"""How many cases are open, and how many of them late: from tallies and short ranges, never by counting what waits."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, bindparam, func, literal, null, select, union_all

from screening.review.actors import Actor
from screening.review.policy import Action, require
from screening.review.triage import Tier
from storage.database import Database
from storage.review.claims import is_open
from storage.schema import Moment, inbox_entries, inbox_tallies
from storage.schema.review import LATER_READING

_entry = inbox_entries.c
MOST_LATE = 100
"""Late cases of a tier are counted as far as this; one more is "more than"."""


_NOW = bindparam("now", type_=Moment)
_NONE = null().cast(Moment).label("due")
_TALLIED = select(literal("open").label("what"), inbox_tallies.c.tier, func.sum(inbox_tallies.c.open).label("n"), _NONE)
_LATE = (
    select(literal("late"), literal(int(tier)), func.count(), _NONE).select_from(
        select(_entry.case_id)
        .where(is_open(), _entry.tier == int(tier), _entry.due_at <= _NOW)
        .order_by(_entry.due_at)
        .limit(MOST_LATE + 1)
        .subquery()
    )
    for tier in Tier
)
_NEWEST = select(_entry.due_at).where(is_open(), _entry.tier == int(Tier.P0)).order_by(_entry.due_at.desc()).limit(1)
_DISPUTED = select(literal("disputed"), literal(0), func.count(), _NONE).where(
    is_open(), LATER_READING, _entry.reading == "third"
)
_STANDING = union_all(
    _TALLIED.group_by(inbox_tallies.c.tier),
    *_LATE,
    _DISPUTED,
    select(literal("newest"), literal(int(Tier.P0)), literal(0), _NEWEST.scalar_subquery()),
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
"""Written once: an open inbox asks every few seconds, and most of the asking was the writing of the question."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tallies:
    """Open cases of each tier, as counted by the database's triggers; those whose target has passed, `MOST_LATE` + 1
    standing for any greater number; the open cases on which two readers disagree; and the latest target of an open P0
    case, which moves on when one comes in.
    """

    open: Mapping[Tier, int]
    late: Mapping[Tier, int]
    disputed: int
    newest_urgent: datetime | None


def tallies(conn: Connection, now: datetime) -> Tallies:
    """How many are open and late."""
    rows = conn.execute(_STANDING, {"now": now}).all()
    found = {(row.what, row.tier): row for row in rows}
    counted = Counter({key: int(row.n) for key, row in found.items()})
    return Tallies(
        open={tier: counted["open", tier] for tier in Tier},
        late={tier: counted["late", tier] for tier in Tier},
        disputed=counted["disputed", 0],
        newest_urgent=found["newest", Tier.P0].due,
    )


def first_due_by_tier(db: Database, actor: Actor) -> Mapping[Tier, datetime]:
    """The earliest target of each tier's open cases; a tier without any is left out. Raises Forbidden."""
    require(actor, Action.VIEW_COUNTS)
    found = db.row(_FIRST_DUE)
    return {tier: due for tier, due in zip(Tier, found, strict=True) if due is not None}
