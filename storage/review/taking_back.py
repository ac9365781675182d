"""A reading taken back within half a minute, before the engine's view was served: as if it had not been given.

The case is in its reader's hands again, blind as before. The reading is moved to a table of its own and the audit
log names it, so nothing is lost; what it brought about (an accepted label, a second reading by rule) goes with it.
"""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, delete, exists, insert, select, update

from screening.review.actors import SYSTEM, Acting, Actor
from screening.review.policy import Action, require
from storage.audit_log import append
from storage.database import Database
from storage.review.adjudication import versions_in
from storage.review.claims import LEASE, Claim, NotAvailable, claim, new_token
from storage.review.drafts import keep
from storage.schema import (
    adjudications,
    inbox_entries,
    ratings,
    readings_taken_back,
    reveals,
    second_reading_requests,
)

TIME_TO_TAKE_BACK = timedelta(seconds=30)
ON_THE_WAY = timedelta(seconds=10)
"""What a press in time may take to arrive."""


class TooLate(NotAvailable):
    """It is too late to take the reading back: from now on it can only be changed, with a reason."""


def take_back(db: Database, by: Acting, case_id: str, rating_id: str, lease: timedelta = LEASE) -> Claim:
    """The case in this person's hands again, and the reading as their draft. Raises Forbidden, TooLate.

    It is too late once the time is over, the engine's view was served to them, they changed the reading, or somebody
    else has the case or has read it. A repeated press finds the case in their hands and gives it to them again.
    """
    with db.write() as conn:
        entry = conn.execute(select(inbox_entries).where(inbox_entries.c.case_id == case_id).with_for_update()).first()
        row = conn.execute(select(ratings).where(ratings.c.id == rating_id)).first()
        if row is not None and entry is not None:
            require(by.actor, Action.RATE, row.reviewer)
            _in_time(conn, row, entry, case_id, by.now)
            _move(conn, row, by.now)
            theirs = {"holder": by.id, "token": new_token(), "lease_expires_at": by.now}
            conn.execute(
                update(inbox_entries)
                .where(inbox_entries.c.case_id == case_id)
                .values(closed_at=None, reading=row.reading, **theirs)
            )
            append(conn, by, "reading_taken_back", case_id, {"rating": rating_id})
        elif not _was_taken_back(conn, by.actor, rating_id):
            raise TooLate("there is no such reading of yours")
    return claim(db, by, case_id, lease)


def _was_taken_back(conn: Connection, actor: Actor, rating_id: str) -> bool:
    table = readings_taken_back.c
    query = select(table.rating_id).where(table.rating_id == rating_id, table.reviewer == actor.id)
    return conn.execute(query).first() is not None


def _in_time(conn: Connection, row: Any, entry: Any, case_id: str, now: datetime) -> None:
    if row.case_id != case_id or row.version != 1 or now > row.at + TIME_TO_TAKE_BACK + ON_THE_WAY:
        raise TooLate("the time to take it back is over")
    mine = reveals.c.case_id == case_id, reveals.c.reviewer == row.reviewer
    if conn.execute(select(exists().where(*mine))).scalar():
        raise TooLate("you have seen what the engine says of it")
    later = ratings.c.case_id == case_id, ratings.c.id != row.id, ratings.c.at >= row.at
    held = entry.holder is not None and entry.lease_expires_at > now
    if held or conn.execute(select(exists().where(*later))).scalar():
        raise TooLate("another reader has begun")


def _move(conn: Connection, row: Any, now: datetime) -> None:
    same = ("case_id", "reviewer", "reading", "label", "certainty", "blind", "fields")
    kept = {name: getattr(row, name) for name in same}
    conn.execute(insert(readings_taken_back).values(rating_id=row.id, rated_at=row.at, at=now, **kept))
    for made in versions_in(conn, row.case_id):
        if row.id in made.rating_ids:
            which = adjudications.c.case_id == row.case_id, adjudications.c.version == made.version
            conn.execute(delete(adjudications).where(*which))
    asked = second_reading_requests.c
    by_rule = asked.case_id == row.case_id, asked.asked_by == SYSTEM.id, asked.at == row.at
    conn.execute(delete(second_reading_requests).where(*by_rule))
    conn.execute(delete(ratings).where(ratings.c.id == row.id))
    fields = {name: value for name, value in row.fields.items() if name != "form_version"}
    keep(conn, row.reviewer, row.case_id, fields | {"label": row.label, "certainty": row.certainty}, now)
