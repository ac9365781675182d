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
from storage.erased import is_erased
from storage.review.adjudication import Method, versions_in
from storage.review.claims import LEASE, Claim, NotAvailable, claim_in, has_lease, new_token
from storage.review.drafts import keep
from storage.review.follow_ups import For
from storage.schema import (
    adjudications,
    follow_ups,
    inbox_entries,
    ratings,
    readings_taken_back,
    second_reading_requests,
    unblindings,
)

TIME_TO_TAKE_BACK = timedelta(seconds=30)
_BY_ITSELF = (Method.SINGLE, Method.AGREEMENT)
"""How a reading closes its case without anybody's decision."""
ON_THE_WAY = timedelta(seconds=10)
"""What a press in time may take to arrive."""


class TooLate(NotAvailable):
    """The reading is not taken back any more; the message says why."""


def take_back(db: Database, by: Acting, case_id: str, rating_id: str, lease: timedelta = LEASE) -> Claim:
    """The case in this person's hands again, and the reading as their draft: both or, when it raises, neither.

    It is too late once the time is over, the engine's view was served to them, they changed the reading, the case was
    erased or decided on, or somebody else has it, is about to open it or has read it. A repeated press finds the case
    in their hands and gives it to them again. Raises Forbidden, TooLate, NotAvailable.
    """
    with db.write() as conn:
        entry = conn.execute(select(inbox_entries).where(inbox_entries.c.case_id == case_id).with_for_update()).first()
        row = conn.execute(select(ratings).where(ratings.c.id == rating_id)).first()
        if row is not None and entry is not None:
            require(by.actor, Action.RATE, row.reviewer)
            _require_untouched(conn, row, case_id, by.now)
            _require_alone(conn, row, entry, by.now)
            _move(conn, row, by.now)
            theirs = {"assignee": by.id, "assigned_by": by.id, "assigned_until": by.now, "lease_token": new_token()}
            if row.reading == "first" and entry.first_due_at is not None:
                theirs |= {"due_at": entry.first_due_at, "first_due_at": None}
            opened = update(inbox_entries).where(inbox_entries.c.case_id == case_id)
            conn.execute(opened.values(closed_at=None, reading=row.reading, **theirs))
            append(
                conn, by, "reading_taken_back", case_id, {"rating": rating_id}, ratings, adjudications, inbox_entries
            )
        elif not _was_taken_back(conn, by.actor, rating_id):
            raise TooLate("there is no such review of yours")
        return claim_in(conn, by, case_id, lease, new_token())


def _was_taken_back(conn: Connection, actor: Actor, rating_id: str) -> bool:
    table = readings_taken_back.c
    query = select(table.rating_id).where(table.rating_id == rating_id, table.reviewer == actor.id)
    return conn.execute(query).first() is not None


def _require_untouched(conn: Connection, row: Any, case_id: str, now: datetime) -> None:
    """Raises TooLate where the time is over, or where the reading or its case is not as its reader left it."""
    over = now > row.at + TIME_TO_TAKE_BACK + ON_THE_WAY
    if row.case_id != case_id or over:
        raise TooLate("the time to take it back is over")
    if is_erased(conn, case_id):
        raise TooLate("what this case held was erased")
    mine = ratings.c.case_id == case_id, ratings.c.reviewer == row.reviewer, ratings.c.version > 1
    if conn.execute(select(exists().where(*mine))).scalar():
        raise TooLate("you have changed your review since")
    seen = unblindings.c.case_id == case_id, unblindings.c.reviewer == row.reviewer
    if conn.execute(select(exists().where(*seen))).scalar():
        raise TooLate("you have seen the AI's result")


def _require_alone(conn: Connection, row: Any, entry: Any, now: datetime) -> None:
    """Raises TooLate where somebody else has begun to act on the case."""
    later = ratings.c.case_id == row.case_id, ratings.c.reviewer != row.reviewer, ratings.c.at >= row.at
    if conn.execute(select(exists().where(*later))).scalar():
        raise TooLate("another reviewer has reviewed it since")
    resting = (made for made in versions_in(conn, row.case_id) if row.id in made.rating_ids)
    if any(made.method not in _BY_ITSELF or made.at != row.at for made in resting):
        raise TooLate("its label was decided since")
    if has_lease(entry, now):
        raise TooLate("another reviewer has begun")


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
    one = follow_ups.c  # what asks for a person to act stays: somebody may have begun
    instead = one.disposition == For.SECOND_READING, one.closed_at.is_(None), one.note.is_(None)
    theirs = one.case_id == row.case_id, one.opened_at == row.at, one.opened_by == row.reviewer
    conn.execute(delete(follow_ups).where(*theirs, *instead))
    conn.execute(delete(ratings).where(ratings.c.id == row.id))
    fields = {name: value for name, value in row.fields.items() if name != "form_version"}
    keep(conn, row.reviewer, row.case_id, fields | {"label": row.label, "certainty": row.certainty}, now)
