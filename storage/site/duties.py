"""What only one process at a time may do, on whatever machine: a lease in the database says who does it now."""

from datetime import datetime, timedelta

from sqlalchemy import or_

from storage.clock import shared_now
from storage.database import Database, insert_into
from storage.schema import duties


def take(db: Database, name: str, holder: str, now: datetime, lasts: timedelta) -> bool:
    """Whether ``holder`` does this duty from now on, for ``lasts``: it did before, or nobody does.

    Take it again before it runs out; whoever dies leaves it free when it has run out. One that would last far longer
    than any does was taken by a clock that ran ahead, and does not count.
    """
    with db.write() as conn:
        moment = shared_now(conn, now)
        row = {"name": name, "holder": holder, "until": moment + lasts}
        taken = (
            insert_into(conn, duties)
            .values(row)
            .on_conflict_do_update(
                index_elements=["name"],
                set_={"holder": holder, "until": moment + lasts},
                where=or_(duties.c.holder == holder, duties.c.until <= moment, duties.c.until > moment + 3 * lasts),
            )
            .returning(duties.c.name)
        )
        return conn.execute(taken).first() is not None


def leave(db: Database, name: str, holder: str, now: datetime) -> None:
    """Free it for the next process, as an orderly end does."""
    with db.write() as conn:
        mine = duties.c.name == name, duties.c.holder == holder
        conn.execute(duties.update().where(*mine).values(until=shared_now(conn, now)))
