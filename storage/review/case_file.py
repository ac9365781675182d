"""What is known of one case besides its text and its runs: where it came from, what was found in it, what failed."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, select

from screening.review.actors import Acting
from screening.review.triage import Tier
from storage.batches.batch_state import was_cancelled
from storage.batches.case_texts import text_for_agents
from storage.database import Database, record
from storage.schema import batches, case_errors, cases, inbox_entries, pending_cases
from storage.visibility import reveal


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseError:
    """One failed attempt; ``calls`` were made and do not count. Never message text."""

    kind: str
    message: str
    calls: int
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """Its place in the inbox. ``closed_at`` None is open; ``reading`` is the one that is due, or was last."""

    tier: Tier
    why: str
    reading: str
    entered_at: datetime
    due_at: datetime
    closed_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A text as received and the copy that the agents are shown."""

    text: str
    model_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseFile:
    """One case. ``flags`` and ``parts`` by part, "text" and, where there is one, "reply".

    ``not_screened``: why its row could not be read as it should. ``waits_for_retry``: pending, its last attempt failed,
    and its batch was not cancelled. ``batch_owner`` began that.
    """

    case_id: str
    batch_id: str
    batch_name: str
    batch_owner: str
    row: int
    parts: Mapping[str, Part]
    text_sha256: str
    flags: Mapping[str, tuple[str, ...]]
    group: str | None
    not_screened: str | None
    received_at: datetime
    errors: tuple[CaseError, ...]
    waits_for_retry: bool
    entry: Entry | None


def reveal_case_file(db: Database, by: Acting, case_id: str, *, browsing: bool = False) -> CaseFile:
    """The file of a case, under the same blind-first check as its evidence.

    Raises Forbidden, NotYetRated, KeyError for an unknown case.
    """
    with db.write() as conn:
        row = _row(conn, case_id)
        reveal(conn, by, case_id, browsing=browsing)
        errors, entry = _errors(conn, case_id), _entry(conn, case_id)
        failed = row.pending is not None and row.ready_at is None
        waits_for_retry = failed and not was_cancelled(conn, row.batch_id)
    return record(
        CaseFile,
        row,
        case_id=case_id,
        parts=_parts(row),
        flags=_flags(row.flags),
        group=row.group_name,
        received_at=row.created_at,
        errors=errors,
        waits_for_retry=waits_for_retry,
        entry=entry,
    )


def _parts(row: Any) -> dict[str, Part]:
    shown = text_for_agents(row)
    turns = None if shown.thread is None else "\n\n".join(turn.text for turn in shown.thread.turns)
    parts = {"text": Part(text=row.text, model_text=shown.text if turns is None else turns)}
    if shown.reply is not None:
        parts["reply"] = Part(text=row.reply, model_text=shown.reply)
    return parts


def _row(conn: Connection, case_id: str) -> Any:
    query = (
        select(cases, batches.c.name.label("batch_name"), batches.c.created_by.label("batch_owner"))
        .add_columns(pending_cases.c.ready_at)
        .add_columns(pending_cases.c.case_id.label("pending"))
        .join(batches, batches.c.id == cases.c.batch_id)
        .outerjoin(pending_cases, pending_cases.c.case_id == cases.c.id)
        .where(cases.c.id == case_id)
    )
    row = conn.execute(query).first()
    if row is None:
        raise KeyError(case_id)
    return row


def _flags(stored: Any) -> Mapping[str, tuple[str, ...]]:
    return {part: tuple(found) for part, found in dict(stored or {}).items()}


def _errors(conn: Connection, case_id: str) -> tuple[CaseError, ...]:
    table = case_errors.c
    rows = conn.execute(select(case_errors).where(table.case_id == case_id).order_by(table.id))
    return tuple(record(CaseError, row) for row in rows)


def _entry(conn: Connection, case_id: str) -> Entry | None:
    row = conn.execute(select(inbox_entries).where(inbox_entries.c.case_id == case_id)).first()
    if row is None:
        return None
    return record(Entry, row, tier=Tier(row.tier))
