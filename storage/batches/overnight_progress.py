"""How far a batch by message batches is, what it bought, and what of that nobody needed: derived from the tables."""

from dataclasses import dataclass

from sqlalchemy import Connection, and_, func, select

from storage.database import Database
from storage.schema import message_batches, message_copies, message_requests, node_runs

_of, _asked = message_batches.c, message_requests.c


@dataclass(frozen=True, slots=True, kw_only=True)
class OvernightProgress:
    """How far an overnight batch is: the round under way (0 before the first), its requests and how many of them the
    service has worked off, rounds left after it (None: not known), answers bought, those no rule needed, those that
    came twice, requests that failed and were or will be asked again.
    """

    round: int
    requests: int
    processed: int
    rounds_left: int | None
    answers: int
    unneeded: int
    duplicates: int
    failed: int
    under_way: bool


def overnight_progress(db: Database, batch_id: str) -> OvernightProgress:
    """How far it is, from the tables."""
    with db.read() as conn:
        rows = conn.execute(select(message_batches).where(_of.batch_id == batch_id)).all()
        joined = select(func.count(_asked.code), func.count(_asked.error)).join(
            message_batches, _of.id == _asked.message_batch
        )
        answers, failed = conn.execute(joined.where(_of.batch_id == batch_id)).one()
        duplicates = select(func.sum(message_copies.c.duplicates)).where(message_copies.c.batch_id == batch_id)
        twice = conn.execute(duplicates).scalar() or 0
        unneeded = _count_unneeded(conn, batch_id)
    last = max((row.round for row in rows), default=0)
    latest = [row for row in rows if row.round == last]
    return OvernightProgress(
        round=last,
        requests=sum(row.requests for row in latest),
        processed=sum(row.processed for row in latest),
        rounds_left=latest[0].rounds_left if latest else None,
        answers=int(answers),
        unneeded=unneeded,
        duplicates=int(twice),
        failed=int(failed),
        under_way=any(row.ended_at is None for row in latest),
    )


def _count_unneeded(conn: Connection, batch_id: str) -> int:
    """Answers beyond where their node ended."""
    run = node_runs.c
    beyond = (
        select(func.count())
        .select_from(message_requests)
        .join(message_batches, _of.id == _asked.message_batch)
        .join(node_runs, and_(run.case_id == _asked.case_id, run.node == _asked.node, run.variant == _asked.variant))
        .where(_of.batch_id == batch_id, _asked.code.is_not(None), _asked.number >= run.calls)
    )
    return int(conn.execute(beyond).scalar_one())
