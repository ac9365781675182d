"""A button press counts once: its result is stored under the key its page gave it, so sending it again does nothing."""

from datetime import datetime

from sqlalchemy import Connection, select

from screening.review.actors import Actor
from storage.database import insert_once
from storage.schema import submissions


def keep_first_result(conn: Connection, actor: Actor, kind: str, key: str, result: str, now: datetime) -> str:
    """``result`` where this person's key is new, and what the first press under it came to where it is not.

    In the caller's transaction: on PostgreSQL a second press waits here until the first is committed or undone.
    """
    row = {"id": key, "actor": actor.id, "kind": kind, "result": result, "at": now}
    if insert_once(conn, submissions, row):
        return result
    known = select(submissions.c.result).where(submissions.c.id == key, submissions.c.actor == actor.id)
    return str(conn.execute(known.where(submissions.c.kind == kind)).scalar_one())
