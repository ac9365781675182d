"""Batches that rows still come into: of a file, until its end, and of what a program hands in during a day."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, Row, select

from screening.review.actors import SYSTEM
from storage.batches.batch_state import TAKES_ROWS, Standing, standings
from storage.batches.intake import close_intake
from storage.database import Database
from storage.schema import batches

TEXT_BY_TEXT = "API"
"""The format of a batch that is no file: a program hands its texts in one by one, a batch a day."""
_DAY_OVER = timedelta(days=2)
"""After this nothing comes into the batch of a day, wherever on the earth the day began."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """How many rows of a file have come in, and the code of why no more are taken in; None while they are. Those of
    programs are ``in_line``: their service takes in one after another.
    """

    rows: int
    missing: str | None
    in_line: bool = False


def open_files(db: Database) -> dict[str, OpenFile]:
    """The batches of files that are not in to their end, in the order in which they were begun."""
    with db.read() as conn:
        files = [one for one in _open_batches(conn) if one.intake.get("format") != TEXT_BY_TEXT]
        found = standings(conn, [one.id for one in files], count_failed=False)
    return {one.id: _open_file(found[one.id], in_line="program" in one.intake) for one in files}


def _open_file(found: Standing, *, in_line: bool) -> OpenFile:
    rows = found.totals.accepted + found.totals.rejected
    return OpenFile(rows=rows, missing=found.rows_missing, in_line=in_line)


def close_past_days(db: Database, now: datetime) -> None:
    """Close what a program handed in on a day that is over: one that hands in nothing more closes none itself."""
    with db.read() as conn:
        past = [one for one in _open_batches(conn) if now - one.created_at > _DAY_OVER]
    for one in past:
        if one.intake.get("format") == TEXT_BY_TEXT:
            close_intake(db, SYSTEM.at(now), one.id)


def _open_batches(conn: Connection) -> Sequence[Row[Any, Any, Any]]:
    """Those that take rows, with what was announced of them, in the order in which they were begun."""
    batch = batches.c
    query = select(batch.id, batch.intake, batch.created_at).where(batch.kind == "batch", TAKES_ROWS)
    return conn.execute(query.order_by(batch.created_at, batch.id)).all()
