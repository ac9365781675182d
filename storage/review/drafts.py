"""What reviewers write beside their reviews: a half-filled form, and notes for whoever comes next."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BindParameter, Connection, String, and_, bindparam, delete, exists, insert, select

from screening.review.actors import Acting, Actor
from screening.review.policy import Action, require
from storage.database import Database, insert_into, record
from storage.review.claims import require_text
from storage.schema import accounts, case_notes, drafts, reviews
from storage.visibility import is_erased

OPINIONS = ("second_opinion",)
"""Kinds of notes that may give a review away: shown only to whoever has read the case."""


_CASE: BindParameter[str] = bindparam("case", type_=String)
_ALL = (
    select(case_notes, accounts.c.display_name)
    .outerjoin(accounts, accounts.c.id == case_notes.c.author)
    .where(case_notes.c.case_id == _CASE)
    .order_by(case_notes.c.id)
)
_BY_REVIEWER = exists().where(and_(reviews.c.case_id == _CASE, reviews.c.reviewer == case_notes.c.author))
_BLIND = _ALL.where(case_notes.c.kind.not_in(OPINIONS), ~_BY_REVIEWER)
"""Written once: asked for every case that is opened."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """One note, with the display name of its author where there is one; ``kind`` says how they left the case."""

    author: str
    author_name: str
    kind: str
    note: str
    at: datetime


def notes(db: Database, by: Acting, case_id: str, token: str | None = None) -> tuple[Note, ...]:
    """The notes on a case, the oldest first, for whoever may see its text. Raises Forbidden.

    What a second opinion was asked with, and whatever its reviewers wrote, stays hidden until the actor has read the
    case: a second review is blind to the first.
    """
    with db.read() as conn:
        return notes_in(conn, case_id, rated=require_text(conn, by, case_id, token))


def notes_in(conn: Connection, case_id: str, *, rated: bool) -> tuple[Note, ...]:
    """As `notes`, inside the caller's transaction, which knows whether the reviewer has read the case."""
    rows = conn.execute(_ALL if rated else _BLIND, {"case": case_id}).all()
    return tuple(record(Note, row, author_name=row.display_name or row.author) for row in rows)


def add_note(conn: Connection, by: Acting, case_id: str, kind: str, note: str, to: str | None = None) -> None:
    """Keep a note beside the case, inside the caller's transaction."""
    conn.execute(
        insert(case_notes).values(case_id=case_id, author=by.id, kind=kind, handed_to=to, note=note.strip(), at=by.now)
    )


LONGEST_DRAFT = 20_000
"""Characters of a draft as JSON, in any script: a form with a long note is a quarter of it."""


def save_draft(db: Database, by: Acting, case_id: str, body: Mapping[str, Any]) -> None:
    """Keep what this person has filled in so far, over what they had before. ValueError when it is too long.
    Raises Forbidden.
    """
    require(by.actor, Action.RATE, by.id)
    if len(json.dumps(dict(body), ensure_ascii=False)) > LONGEST_DRAFT:
        raise ValueError("the draft is too long to be kept")
    with db.write() as conn:
        keep(conn, by.id, case_id, body, by.now)


def keep(conn: Connection, reviewer: str, case_id: str, body: Mapping[str, Any], now: datetime) -> None:
    """As `save_draft`, in the caller's transaction. Of a case that was erased nothing is kept."""
    if is_erased(conn, case_id):
        return
    row = {"case_id": case_id, "reviewer": reviewer, "body": dict(body), "updated_at": now}
    conn.execute(
        insert_into(conn, drafts)
        .values(**row)
        .on_conflict_do_update(index_elements=["case_id", "reviewer"], set_={"body": row["body"], "updated_at": now})
    )


def load_draft(db: Database, actor: Actor, case_id: str) -> Mapping[str, Any] | None:
    """What this person has filled in so far; None without a draft. Raises Forbidden."""
    require(actor, Action.RATE, actor.id)
    query = select(drafts.c.body).where(drafts.c.case_id == case_id, drafts.c.reviewer == actor.id)
    with db.read() as conn:
        body: Mapping[str, Any] | None = conn.execute(query).scalar()
    return body


def discard(conn: Connection, actor: Actor, case_id: str) -> None:
    """Delete the draft, in the transaction that stores the review made from it."""
    conn.execute(delete(drafts).where(drafts.c.case_id == case_id, drafts.c.reviewer == actor.id))
