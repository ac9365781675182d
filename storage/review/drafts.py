"""A half-filled form, kept per case and reader: it survives expiry, reload, restart and a refused submit."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, delete, select

from screening.review.actors import Acting, Actor
from screening.review.policy import Action, require
from storage.database import Database, insert_into
from storage.erased import is_erased
from storage.schema import drafts

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
    """Delete the draft, in the transaction that stores the rating made from it."""
    conn.execute(delete(drafts).where(drafts.c.case_id == case_id, drafts.c.reviewer == actor.id))
