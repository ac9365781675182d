"""Finding open cases by what names them: their id, group or batch. Texts are not looked at.

Each search is bounded: names by an index and its first matches, batches among the cases due first.
"""

from collections.abc import Collection
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, and_, or_, select, union

from screening.review.actors import Actor
from screening.review.policy import Action, require
from screening.review.tiers import Tier
from storage.database import Database
from storage.review.leases import in_order, in_tiers, is_open, state
from storage.review.queue import Waiting, waiting_of
from storage.schema import batches, cases, inbox_entries

FIRST_NAMED = 1_000
"""Cases with such a beginning of an id or group of which the open ones are found."""
FIRST_DUE = 5_000
"""Open cases due first, among which those of a batch are found."""
MOST_BATCHES = 20
LONGEST = 120
_entry = inbox_entries.c


def find(
    db: Database, actor: Actor, now: datetime, words: str, tiers: Collection[Tier] | None = None, limit: int = 50
) -> tuple[Waiting, ...]:
    """Open cases whose id or group begins with the words or whose batch has them in its name, most urgent first."""
    require(actor, Action.BROWSE_QUEUE)
    wanted = words.strip()[:LONGEST]
    if not wanted:
        return ()
    with db.read() as conn:
        found = _named(conn, wanted) | _in_batches(conn, wanted)
        query = (
            select(inbox_entries, cases.c.external_id, state(actor, now).label("state"))
            .join(cases, cases.c.id == _entry.case_id)
            .where(_entry.case_id.in_(sorted(found)), is_open(), in_tiers(tiers))
        )
        rows = conn.execute(query.order_by(*in_order(None)).limit(limit)).all()
    return tuple(waiting_of(row, now) for row in rows)


def _named(conn: Connection, words: str) -> set[str]:
    by_id = select(cases.c.id).where(cases.c.id == words.lower())
    by_name = select(cases.c.id).where(_begins(conn, cases.c.external_id, words)).limit(FIRST_NAMED)
    by_group = select(cases.c.id).where(_begins(conn, cases.c.group_name, words)).limit(FIRST_NAMED)
    ids = union(by_id, *(select(each.subquery().c.id) for each in (by_name, by_group))).subquery()
    query = select(_entry.case_id).where(_entry.case_id.in_(select(ids.c.id)), is_open())
    return set(conn.execute(query).scalars())


def _begins(conn: Connection, column: ColumnElement[str], words: str) -> ColumnElement[bool]:
    """As the index of either database can tell: SQLite compares bytes, PostgreSQL has an index of patterns."""
    if conn.dialect.name == "postgresql":
        return column.startswith(words, autoescape=True)
    return and_(column >= words, column < words + "\U0010ffff")


def _in_batches(conn: Connection, words: str) -> set[str]:
    named = or_(batches.c.name.icontains(words, autoescape=True), batches.c.id == words.lower())
    newest = select(batches.c.id).where(named).order_by(batches.c.created_at.desc()).limit(MOST_BATCHES)
    chosen = list(conn.execute(newest).scalars())
    if not chosen:
        return set()
    first = select(_entry.case_id).where(is_open()).order_by(*in_order(None)).limit(FIRST_DUE).subquery()
    query = select(cases.c.id).join(first, first.c.case_id == cases.c.id).where(cases.c.batch_id.in_(chosen))
    return set(conn.execute(query).scalars())
