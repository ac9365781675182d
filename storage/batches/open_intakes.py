"""Batches that rows still come into: of a file, until its end, and of what a program hands in during a day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection, select

from screening.review.actors import SYSTEM
from storage.batches.batch_state import standings, still_takes_rows
from storage.batches.intake import close_intake
from storage.database import Database
from storage.schema import batches

TEXT_BY_TEXT = "API"
"""The format of a batch that is no file: a program hands its texts in one by one, a batch a day."""
_DAY_OVER = timedelta(days=2)
"""After this nothing comes into the batch of a day, wherever on the earth the day began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """How many rows of a file have come in, and the code of why no more are taken in; None while they are."""

    rows: int
    missing: str | None


def open_files(db: Database) -> dict[str, OpenFile]:
    """The batches of files that are not in to their end."""
    with db.read() as conn:
        ids = [batch_id for batch_id, daily, _begun in _open_batches(conn) if not daily]
        found = standings(conn, ids, count_failed=False)
    return {
        batch_id: OpenFile(rows=one.totals.accepted + one.totals.rejected, missing=one.rows_missing)
        for batch_id, one in found.items()
    }


def close_past_days(db: Database, now: datetime) -> None:
    """Close what a program handed in on a day that is over: one that hands in nothing more closes none itself."""
    with db.read() as conn:
        past = [batch_id for batch_id, daily, begun in _open_batches(conn) if daily and now - begun > _DAY_OVER]
    for batch_id in past:
        close_intake(db, SYSTEM.at(now), batch_id)


def _open_batches(conn: Connection) -> Sequence[tuple[str, bool, datetime]]:
    """Those that take rows: whether each is a program's of a day, and when it was begun."""
    batch = batches.c
    query = select(batch.id, batch.intake, batch.created_at).where(batch.kind == "batch", still_takes_rows(batch.id))
    return [(row.id, row.intake.get("format") == TEXT_BY_TEXT, row.created_at) for row in conn.execute(query)]
