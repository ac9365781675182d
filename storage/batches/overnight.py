"""A batch by message batches: what is handed in is recorded first, what comes back counts once, and waste is counted.

Every step may be done again after a crash: requests are recorded with their ids before they are sent, an answer is
written only where there is none, and a round is planned only when the one before has ended.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from math import ceil
from typing import Any, NamedTuple

from sqlalchemy import Row, Select, and_, exists, func, insert, or_, select, update

from screening.pipeline.draws import Answer, Draw, Usage, decode_draws
from storage.batches.batch_state import batch_row
from storage.batches.pending import batches_with_ready_cases, keep_error
from storage.database import Database, Source, reading, record, writing
from storage.schema.columns import new_id
from storage.schema.engine import case_errors, message_batches, message_requests, node_runs, screenings
from storage.schema.intake import batches, cases, pending_cases

LARGEST = 2_000
"""Requests of one message batch: far below the service's own limits, and little to hold in memory."""

_of, _asked = message_batches.c, message_requests.c


class DrawWanted(NamedTuple):
    case_id: str
    node: str
    variant: str
    number: int


HandedIn = Row[Any]
"""One of our message batches; its ``service_id`` is None where it is not known to have been sent."""
OpenCase = Row[Any]


def overnight_batches(db: Database) -> dict[str, str]:
    """Batches with ready cases or uncounted results, and the version of their configuration."""
    with db.read() as conn:
        ready = and_(batches.c.id.in_(batches_with_ready_cases(conn)), batches.c.cancelled_at.is_(None))
        unsettled = exists().where(_of.batch_id == batches.c.id, _of.ended_at.is_(None))
        due = select(batches.c.id, batches.c.configuration).where(batches.c.overnight, or_(ready, unsettled))
        return {row.id: row.configuration for row in conn.execute(due.order_by(batches.c.id))}


def is_overnight(db: Database, batch_id: str) -> bool:
    return any(db.values(select(batches.c.overnight).where(batches.c.id == batch_id)))


def open_cases(db: Database, batch_id: str) -> list[OpenCase]:
    """The cases that wait for no person, in the file's order: ``case_id``, whether it is ``labelled`` (no other text
    leaves by this way), and how often it was ``parked``, set aside for what failed.
    """
    waits = pending_cases.c
    parked = select(func.count()).where(case_errors.c.case_id == waits.case_id).scalar_subquery()
    columns = waits.case_id, cases.c.reference.is_not(None).label("labelled"), parked.label("parked")
    query = select(*columns).join(cases, cases.c.id == waits.case_id)
    return list(db.rows(query.where(waits.batch_id == batch_id, waits.ready_at.is_not(None)).order_by(waits.row)))


def plan(db: Database, batch_id: str, wanted: Sequence[DrawWanted], now: datetime) -> list[HandedIn]:
    """Record the next round before anything of it is sent; nothing where one is open already."""
    with db.write() as conn:
        batch_row(conn, batch_id, lock=True)
        if open_message_batches(conn, batch_id):
            return []
        last = conn.execute(select(func.max(_of.round)).where(_of.batch_id == batch_id)).scalar() or 0
        for start in range(0, len(wanted), LARGEST):
            part, its_id = wanted[start : start + LARGEST], new_id(now)
            made = {"id": its_id, "batch_id": batch_id, "round": last + 1, "seed": secrets.token_hex(16)}
            conn.execute(insert(message_batches), {**made, "requests": len(part), "processed": 0, "created_at": now})
            ids = ({"message_batch": its_id, "custom_id": f"{its_id}-{at}"} for at in range(len(part)))
            conn.execute(insert(message_requests), [its | one._asdict() for its, one in zip(ids, part, strict=True)])
        return open_message_batches(conn, batch_id)


def open_message_batches(source: Source, batch_id: str) -> list[HandedIn]:
    query = select(message_batches).where(_of.batch_id == batch_id, _of.ended_at.is_(None))
    with reading(source) as conn:
        return list(conn.execute(query.order_by(_of.id)))


def is_needed(db: Database, sent: HandedIn) -> bool:
    """Whether a case still waits for its answers: none does after a cancellation, or once all have their outcomes."""
    waits = exists().where(_asked.message_batch == sent.id, pending_cases.c.case_id == _asked.case_id)
    with db.read() as conn:
        return batch_row(conn, sent.batch_id).cancelled_at is None and bool(conn.execute(select(waits)).scalar())


def unanswered(db: Database, message_batch: str) -> list[Row[Any]]:
    return list(db.rows(select(message_requests).where(_asked.message_batch == message_batch, _asked.code.is_(None))))


def note(db: Database, message_batch: str, told: Mapping[str, object]) -> None:
    """Record what the service says of the message batch: the id that it gave it, how much is ``processed``."""
    with db.write() as conn:
        conn.execute(update(message_batches).where(_of.id == message_batch).values(**told))


def service_ids(db: Database) -> set[str]:
    return set(db.values(select(_of.service_id).where(_of.service_id.is_not(None))))


def reply_ids(db: Database, batch_id: str) -> list[str]:
    """Ids of the replies that were counted, so that one sent again under another request is no draw."""
    return db.values(_requests_of(batch_id, _asked.reply_id).where(_asked.reply_id.is_not(None)))


def keep_results(db: Database, sent: HandedIn, found: Mapping[str, tuple[Draw | None, str]], now: datetime) -> None:
    """Store what came back by custom id, a draw with its reply's id or a kind of failure, and end the message batch. An
    answer that is stored already is not changed; what has none has failed, and is asked for in another round; what
    nobody needs any more is lost.
    """
    of_it = _asked.message_batch == sent.id, _asked.code.is_(None)
    with db.write() as conn:
        for custom_id, (draw, told) in found.items():
            values: dict[str, Any] = {"error": told[:40]}
            if draw is not None:
                raw = None if draw.answer is Answer.LABEL else draw.raw
                values = {"code": draw.code, "raw": raw, "reply_id": told, "error": None, **asdict(draw.usage)}
            conn.execute(update(message_requests).where(*of_it, _asked.custom_id == custom_id).values(values))
        conn.execute(update(message_requests).where(*of_it, _asked.error.is_(None)).values(error="no_result"))
        unsettled = update(message_batches).where(_of.id == sent.id, _of.ended_at.is_(None))
        conn.execute(unsettled.values(ended_at=now, processed=_of.requests))
        lose_unused(conn, sent.batch_id, now)


def requests_of(db: Database, case_id: str) -> list[Row[Any]]:
    return list(db.rows(select(message_requests).where(_asked.case_id == case_id)))


def draw_of(request: Row[Any]) -> Draw:
    """The draw that came back for a request with a ``code``."""
    return replace(decode_draws(request.code)[0], raw=request.raw or "", usage=record(Usage, request))


def mean_characters(db: Database, batch_id: str) -> float:
    """Characters that agents are shown of a case of this batch; 0 without any case."""
    text, reply = func.coalesce(cases.c.model_text, cases.c.text), func.coalesce(cases.c.model_reply, cases.c.reply, "")
    shown = func.avg(func.length(text) + func.length(reply))
    return float(db.value(select(shown).where(cases.c.batch_id == batch_id)) or 0.0)


def lose_unused(source: Source, batch_id: str, now: datetime) -> None:
    """Count once as lost what was bought for cases that have their outcome, or whose batch was cancelled."""
    run = node_runs.c
    used = exists().where(run.case_id == _asked.case_id, run.node == _asked.node, run.variant == _asked.variant)
    unused = _requests_of(batch_id, _asked.case_id, func.count().label("calls")).where(_asked.code.is_not(None), ~used)
    counted = select(case_errors.c.case_id, func.sum(case_errors.c.calls)).group_by(case_errors.c.case_id)
    counted = counted.join(cases, cases.c.id == case_errors.c.case_id).where(cases.c.batch_id == batch_id)
    with writing(source) as conn:
        # one after the other: what two find at once they would both count
        if batch_row(conn, batch_id, lock=True).cancelled_at is None:
            unused = unused.where(exists().where(screenings.c.case_id == _asked.case_id))
        known = {case_id: int(calls) for case_id, calls in conn.execute(counted)}
        for row in conn.execute(unused.group_by(_asked.case_id).order_by(_asked.case_id)).all():
            if (fresh := row.calls - known.get(row.case_id, 0)) > 0:
                keep_error(conn, row.case_id, "withdrawn", "broken off in the middle of a node", fresh, now)


def _requests_of(batch_id: str, *columns: Any) -> Select[Any]:
    joined = select(*columns).select_from(message_requests).join(message_batches, _of.id == _asked.message_batch)
    return joined.where(_of.batch_id == batch_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OvernightProgress:
    """The round under way (0 before the first), its requests and how many of them the service has worked off; of all
    rounds the answers that came, for ``usage``, those beyond where their node ended, requests that wait for an answer,
    and those that failed and were or will be asked again.
    """

    round: int
    requests: int
    processed: int
    under_way: bool
    answers: int
    unneeded: int
    waiting: int
    failed: int
    usage: Usage

    @property
    def mean_usage(self) -> Usage | None:
        """The tokens of one answer, rounded up; None before any were counted."""
        if not self.usage.input_tokens:
            return None
        return Usage(**{name: ceil(tokens / self.answers) for name, tokens in asdict(self.usage).items()})


def overnight_progress(db: Database, batch_id: str) -> OvernightProgress:
    tokens = [field.name for field in fields(Usage)]
    run = node_runs.c
    its_run = and_(run.case_id == _asked.case_id, run.node == _asked.node, run.variant == _asked.variant)
    sums = _requests_of(
        batch_id,
        func.count(_asked.code).label("answers"),
        func.count(_asked.error).label("failed"),
        func.count().filter(_asked.code.is_(None), _asked.error.is_(None)).label("waiting"),
        func.count().filter(_asked.code.is_not(None), _asked.number >= run.calls).label("unneeded"),
        *(func.coalesce(func.sum(_asked[name]), 0).label(name) for name in tokens),
    ).outerjoin(node_runs, its_run)
    with db.read() as conn:
        rows = conn.execute(select(message_batches).where(_of.batch_id == batch_id)).all()
        sent = conn.execute(sums).one()
    last = max((row.round for row in rows), default=0)
    latest = [row for row in rows if row.round == last]
    return record(
        OvernightProgress,
        sent,
        round=last,
        requests=sum(row.requests for row in latest),
        processed=sum(row.processed for row in latest),
        under_way=any(row.ended_at is None for row in latest),
        usage=Usage(**{name: int(getattr(sent, name)) for name in tokens}),
    )
