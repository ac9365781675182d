"""Notes that readers leave beside a case for whoever comes next."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, and_, exists, insert, select

from screening.review.actors import Acting
from screening.review.policy import Action, require
from storage.blindness import has_rated
from storage.database import Database
from storage.review.claims import holds
from storage.schema import accounts, case_notes, cases, inbox_entries, ratings

OPINIONS = ("second_opinion",)
"""Kinds of notes that may give a reading away: shown only to whoever has read the case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One note, by an account's display name where there is one; ``kind`` says how its author left the case."""

    author: str
    kind: str
    note: str
    at: datetime


def notes(db: Database, by: Acting, case_id: str, token: str | None = None) -> tuple[Note, ...]:
    """The notes on a case, the oldest first, for whoever may see its text. Raises Forbidden.

    What a second opinion was asked with, and whatever its readers wrote, stays hidden until the actor has read the
    case: a second reading is blind to the first.
    """
    table = case_notes.c
    by_reader = exists().where(and_(ratings.c.case_id == case_id, ratings.c.reviewer == table.author))
    query = (
        select(case_notes, accounts.c.display_name)
        .outerjoin(accounts, accounts.c.id == table.author)
        .where(table.case_id == case_id)
        .order_by(table.id)
    )
    with db.read() as conn:
        rated = bool(conn.execute(select(has_rated(by.actor, cases.c.id)).where(cases.c.id == case_id)).scalar())
        holding = (
            token is not None and conn.execute(select(inbox_entries.c.case_id).where(holds(by, case_id, token))).first()
        )
        require(by.actor, Action.VIEW_TEXT, by.id if rated or holding else None)
        rows = conn.execute(query if rated else query.where(table.kind.not_in(OPINIONS), ~by_reader)).all()
    return tuple(Note(author=row.display_name or row.author, kind=row.kind, note=row.note, at=row.at) for row in rows)


def add_note(conn: Connection, by: Acting, case_id: str, kind: str, note: str, to: str | None = None) -> None:
    """Keep a note beside the case, inside the caller's transaction."""
    conn.execute(
        insert(case_notes).values(case_id=case_id, author=by.id, kind=kind, handed_to=to, note=note.strip(), at=by.now)
    )
