"""What an overnight batch has asked for and bought: held against its caps before a round is sent, and counted as lost
where nobody needs it any more.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from math import ceil
from typing import Any

from sqlalchemy import Connection, Select, exists, func, select

from screening.pipeline.draws import Usage
from storage.batches.batch_state import Caps, standing, was_cancelled
from storage.batches.pending import keep_error
from storage.database import Database
from storage.schema import case_errors, cases, message_batches, message_copies, message_requests, node_runs, screenings

_of, _asked = message_batches.c, message_requests.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """The caps of a batch; how many answers were ``asked`` for without those that failed; how many came, for ``usage``
    in all; and ``copies`` of them that the service made and charged a second time.
    """

    caps: Caps
    asked: int
    answers: int
    copies: int
    usage: Usage

    @property
    def mean_usage(self) -> Usage | None:
        """The tokens of one answer, rounded up; None before any were counted."""
        if not self.usage.input_tokens:
            return None
        return Usage(**{name: ceil(tokens / self.answers) for name, tokens in asdict(self.usage).items()})


def spending(db: Database, batch_id: str) -> Spending:
    """What the batch may spend and has spent. Raises UnknownBatch."""
    tokens = [field.name for field in fields(Usage)]
    sums = [func.coalesce(func.sum(_asked[name]), 0).label(name) for name in tokens]
    asked = func.count().filter(_asked.error.is_(None)).label("asked")
    with db.read() as conn:
        row = conn.execute(_requests_of(batch_id, asked, func.count(_asked.code).label("answers"), *sums)).one()
        twice = select(func.sum(message_copies.c.duplicates)).where(message_copies.c.batch_id == batch_id)
        copies = int(conn.execute(twice).scalar() or 0)
        caps = standing(conn, batch_id, count_failed=False).caps
    usage = Usage(**{name: int(getattr(row, name)) for name in tokens})
    return Spending(caps=caps, asked=row.asked, answers=row.answers, copies=copies, usage=usage)


def mean_characters(db: Database, batch_id: str) -> float:
    """Characters that agents are shown of a case of this batch; 0 without any case."""
    text, reply = func.coalesce(cases.c.model_text, cases.c.text), func.coalesce(cases.c.model_reply, cases.c.reply)
    shown = func.length(text) + func.coalesce(func.length(reply), 0)
    with db.read() as conn:
        return float(conn.execute(select(func.avg(shown)).where(cases.c.batch_id == batch_id)).scalar() or 0.0)


def costs_of(db: Database, case_id: str) -> list[float | None]:
    """The cost of each committed run of a case."""
    return db.values(select(node_runs.c.cost_usd).where(node_runs.c.case_id == case_id))


def lose_unused(db: Database, batch_id: str, now: datetime) -> None:
    """Count as lost what was bought for agents that will not end: their case has its outcome, or the batch was
    cancelled. What was counted before is not counted again.
    """
    with db.write() as conn:
        lose_unused_in(conn, batch_id, now)


def lose_unused_in(conn: Connection, batch_id: str, now: datetime) -> None:
    """As `lose_unused`, in the caller's transaction."""
    known = _count_lost(conn, batch_id)
    for case_id, count in _count_unused(conn, batch_id).items():
        if count > (before := known.get(case_id, 0)):
            keep_error(conn, case_id, "withdrawn", "broken off in the middle of a node", count - before, now)


def _count_unused(conn: Connection, batch_id: str) -> Mapping[str, int]:
    run = node_runs.c
    used = exists().where(run.case_id == _asked.case_id, run.node == _asked.node, run.variant == _asked.variant)
    query = _requests_of(batch_id, _asked.case_id, func.count().label("answers")).where(_asked.code.is_not(None), ~used)
    if not was_cancelled(conn, batch_id):
        query = query.where(exists().where(screenings.c.case_id == _asked.case_id))
    return {row.case_id: row.answers for row in conn.execute(query.group_by(_asked.case_id))}


def _count_lost(conn: Connection, batch_id: str) -> Mapping[str, int]:
    """Lost calls of each case that were counted already."""
    calls = func.sum(case_errors.c.calls).label("calls")
    query = select(case_errors.c.case_id, calls).join(cases, cases.c.id == case_errors.c.case_id)
    rows = conn.execute(query.where(cases.c.batch_id == batch_id).group_by(case_errors.c.case_id))
    return {row.case_id: int(row.calls) for row in rows}


def _requests_of(batch_id: str, *columns: Any) -> Select[Any]:
    joined = select(*columns).select_from(message_requests).join(message_batches, _of.id == _asked.message_batch)
    return joined.where(_of.batch_id == batch_id)
