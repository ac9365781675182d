"""How a person looks at a list (its filters and order), kept under a name: their own, for each kind of list."""

from collections.abc import Mapping
from enum import StrEnum

from sqlalchemy import ColumnElement, and_, bindparam, delete, select

from screening.review.actors import Acting, Actor
from screening.review.policy import Action, require
from storage.database import Database, insert_into
from storage.schema import saved_views as table

NAME_LIMIT, MOST_VIEWS, QUERY_LIMIT = 60, 50, 2_000


class Place(StrEnum):
    """Which list: results are seen by some roles, the inbox is seen by all."""

    RESULTS = "results"
    INBOX = "inbox"


_KEPT = (
    select(table.c.name, table.c.query)
    .where(table.c.account == bindparam("who"), table.c.place == bindparam("where"))
    .order_by(table.c.name)
    .limit(MOST_VIEWS)
)
_ACTIONS: Mapping[Place, Action] = {Place.RESULTS: Action.VIEW_RESULTS, Place.INBOX: Action.VIEW_COUNTS}


def saved_views(db: Database, actor: Actor, place: Place) -> Mapping[str, str]:
    """The person's views by name, in order. Raises Forbidden."""
    require(actor, _ACTIONS[place])
    return {row.name: row.query for row in db.rows(_KEPT, {"who": actor.id, "where": place.value})}


def save_view(db: Database, by: Acting, place: Place, name: str, query: str) -> None:
    """Keep a view; one of the same name is replaced. Raises Forbidden, ValueError for no name or one too long."""
    require(by.actor, _ACTIONS[place])
    kept = " ".join(name.split())
    if not kept or len(kept) > NAME_LIMIT or not kept.isprintable() or len(query) > QUERY_LIMIT:
        raise ValueError(f"a view has a name of 1 to {NAME_LIMIT} printable characters")
    with db.write() as conn:
        row = {"account": by.id, "place": place.value, "name": kept, "query": query, "at": by.now}
        made = insert_into(conn, table).values(row)
        changed = {"query": made.excluded.query, "at": made.excluded.at}
        conn.execute(made.on_conflict_do_update(index_elements=["account", "place", "name"], set_=changed))


def forget_view(db: Database, actor: Actor, place: Place, name: str) -> None:
    """Take one of the person's views away. Raises Forbidden."""
    require(actor, _ACTIONS[place])
    with db.write() as conn:
        conn.execute(delete(table).where(_of(actor, place), table.c.name == name))


def _of(actor: Actor, place: Place) -> ColumnElement[bool]:
    return and_(table.c.account == actor.id, table.c.place == place.value)
