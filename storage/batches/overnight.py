"""A batch by message batches: what is handed in is recorded first, what comes back counts once, and waste is counted.

Every step may be done again after a crash: requests are recorded with their ids before they are sent, an answer is
written only where there is none, and a round is planned only when the one before has ended.
"""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from math import ceil
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, Select, and_, exists, func, insert, select, update

from screening.pipeline.draws import Answer, Draw, Usage, decode_draws, unusable
from screening.pipeline.engine import MAIN
from storage.batches.batch_state import was_cancelled
from storage.batches.pending import batches_with_ready_cases, keep_error
from storage.clock import new_id
from storage.database import Database, record
from storage.schema import (
    batches,
    case_errors,
    cases,
    message_batches,
    message_requests,
    node_runs,
    pending_cases,
    screenings,
)

LARGEST = 2_000
"""Requests of one message batch: far below the service's own limits, and little to hold in memory."""
TIMES_KEPT = 2_000

_of, _asked = message_batches.c, message_requests.c


class DrawWanted(NamedTuple):
    """One draw that a case needs, by node, variant and number."""

    case_id: str
    node: str
    variant: str
    number: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HandedIn:
    """One message batch of ours. ``service_id`` None: not known to have been sent."""

    id: str
    batch_id: str
    seed: str
    service_id: str | None
    requests: int
    created_at: datetime


def overnight_batches(db: Database) -> list[str]:
    """Batches with something to do: cases that are ready, of none that was cancelled, or message batches whose results
    were not counted.
    """
    with db.read() as conn:
        ready = batches_with_ready_cases(conn)
        going = batches.c.overnight.is_(True), batches.c.cancelled_at.is_(None)
        of_ready = select(batches.c.id).where(batches.c.id.in_(ready), *going)
        open_ones = select(_of.batch_id).where(_of.ended_at.is_(None))
        return sorted({*conn.execute(of_ready).scalars(), *conn.execute(open_ones).scalars()})


def is_overnight(db: Database, batch_id: str) -> bool:
    """Whether the batch is screened by message batches."""
    return any(db.values(select(batches.c.overnight).where(batches.c.id == batch_id)))


def configuration_of(db: Database, batch_id: str) -> str:
    """The version of the configuration that the batch began with."""
    return str(db.value(select(batches.c.configuration).where(batches.c.id == batch_id)))


def open_cases(db: Database, batch_id: str) -> list[str]:
    """The cases that wait for no person, in the file's order."""
    waits = pending_cases.c
    query = select(waits.case_id).where(waits.batch_id == batch_id, waits.ready_at.is_not(None)).order_by(waits.row)
    return db.values(query)


def plan(db: Database, batch_id: str, wanted: Sequence[DrawWanted], now: datetime) -> list[HandedIn]:
    """Record the next round before anything of it is sent; nothing where one is open already."""
    with db.write() as conn:
        conn.execute(select(batches.c.id).where(batches.c.id == batch_id).with_for_update())
        if conn.execute(_open_ones(batch_id)).first():
            return []
        last = conn.execute(select(func.max(_of.round)).where(_of.batch_id == batch_id)).scalar() or 0
        for start in range(0, len(wanted), LARGEST):
            part = wanted[start : start + LARGEST]
            made = {"id": new_id(now), "batch_id": batch_id, "round": last + 1, "seed": secrets.token_hex(16)}
            conn.execute(insert(message_batches), {**made, "requests": len(part), "processed": 0, "created_at": now})
            ids = {"message_batch": made["id"]}
            rows = [{**ids, "custom_id": f"{made['id']}-{at}", **one._asdict()} for at, one in enumerate(part)]
            conn.execute(insert(message_requests), rows)
        return [record(HandedIn, row) for row in conn.execute(_open_ones(batch_id))]


def open_message_batches(db: Database, batch_id: str) -> list[HandedIn]:
    """The message batches of this batch whose results were not counted."""
    return [record(HandedIn, row) for row in db.rows(_open_ones(batch_id))]


def _open_ones(batch_id: str) -> Select[Any]:
    return select(message_batches).where(_of.batch_id == batch_id, _of.ended_at.is_(None)).order_by(_of.id)


def is_needed(db: Database, message_batch: str) -> bool:
    """Whether a case still waits for its answers: none does after a cancellation, or once all have their outcomes."""
    waits = select(_asked.custom_id).join(pending_cases, pending_cases.c.case_id == _asked.case_id)
    batch_id = select(_of.batch_id).where(_of.id == message_batch)
    with db.read() as conn:
        if was_cancelled(conn, conn.execute(batch_id).scalar_one()):
            return False
        return conn.execute(waits.where(_asked.message_batch == message_batch).limit(1)).first() is not None


def unanswered(db: Database, message_batch: str) -> list[Row[Any]]:
    """The requests without an answer, and of each whether its text is ``labelled``: no other leaves by this way."""
    query = select(message_requests, cases.c.reference.is_not(None).label("labelled"))
    query = query.join(cases, cases.c.id == _asked.case_id)
    return list(db.rows(query.where(_asked.message_batch == message_batch, _asked.code.is_(None))))


def record_sent(db: Database, message_batch: str, service_id: str) -> None:
    """Record the id that the service gave the message batch; the first one recorded is kept."""
    with db.write() as conn:
        unsent = update(message_batches).where(_of.id == message_batch, _of.service_id.is_(None))
        conn.execute(unsent.values(service_id=service_id))


def record_progress(db: Database, message_batch: str, processed: int) -> None:
    """Record how far the service is with the message batch."""
    with db.write() as conn:
        conn.execute(update(message_batches).where(_of.id == message_batch).values(processed=processed))


def service_ids(db: Database) -> set[str]:
    """The service's ids of everything that is known to be ours."""
    return set(db.values(select(_of.service_id).where(_of.service_id.is_not(None))))


def reply_ids(db: Database, batch_id: str) -> list[str]:
    """Ids of the replies that were counted, so that one sent again under another request is no draw."""
    return db.values(_requests_of(batch_id, _asked.reply_id).where(_asked.reply_id.is_not(None)))


def keep_results(
    db: Database, one: HandedIn, found: Mapping[str, tuple[Draw, str] | tuple[None, str]], now: datetime
) -> None:
    """Store what came back by custom id, a draw with its reply's id or a kind of failure, and end the message batch. An
    answer that is stored already is not changed; what has none has failed, and is asked for in another round; what
    nobody needs any more is lost.
    """
    of_it = _asked.message_batch == one.id, _asked.code.is_(None)
    with db.write() as conn:
        for custom_id, result in found.items():
            conn.execute(
                update(message_requests).where(*of_it, _asked.custom_id == custom_id).values(_columns(*result))
            )
        conn.execute(update(message_requests).where(*of_it, _asked.error.is_(None)).values(error="no_result"))
        open_one = update(message_batches).where(_of.id == one.id, _of.ended_at.is_(None))
        conn.execute(open_one.values(ended_at=now, processed=_of.requests))
        lose_unused(conn, one.batch_id, now)


def _columns(draw: Draw | None, told: str) -> dict[str, Any]:
    if draw is None:
        return {"error": told[:40]}
    raw = None if draw.answer is Answer.LABEL else draw.raw
    return {"code": draw.code, "raw": raw, "reply_id": told, "error": None, **asdict(draw.usage)}


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseAnswers:
    """What came back for one case: draws by (node, variant) and number, and failures with how often each failed.
    ``parked`` is how often it was left to a person for what failed; ``labelled`` that it has a reference label.
    """

    draws: Mapping[tuple[str, str], Mapping[int, Draw]]
    failures: Mapping[tuple[str, str], Mapping[int, Sequence[str]]]
    parked: int
    labelled: bool

    def in_order(self, node: str, variant: str) -> list[Draw]:
        """The first draws of a node, up to the first that is not there."""
        known, found = self.draws.get((node, variant), {}), list[Draw]()
        while (draw := known.get(len(found))) is not None:
            found.append(draw)
        return found


def answers_of(db: Database, case_id: str) -> CaseAnswers:
    """Everything that came back for a case."""
    draws: dict[tuple[str, str], dict[int, Draw]] = {}
    failures: dict[tuple[str, str], dict[int, list[str]]] = {}
    with db.read() as conn:
        rows = conn.execute(select(message_requests).where(_asked.case_id == case_id)).all()
        parked = conn.execute(select(func.count()).where(case_errors.c.case_id == case_id)).scalar_one()
        labelled = conn.execute(select(cases.c.reference.is_not(None)).where(cases.c.id == case_id)).scalar()
    for row in rows:
        if row.code is not None:
            draws.setdefault((row.node, row.variant), {})[row.number] = _draw(row)
        elif row.error is not None:
            failures.setdefault((row.node, row.variant), {}).setdefault(row.number, []).append(row.error)
    return CaseAnswers(draws=draws, failures=failures, parked=parked, labelled=bool(labelled))


def _draw(row: Row[Any]) -> Draw:
    (read,) = decode_draws(row.code)
    usage = record(Usage, row)
    if read.answer is Answer.LABEL:
        return Draw(label=read.label, usage=usage)
    return unusable(read.answer, row.raw or "", usage)


def stopping_times(db: Database, batch_id: str) -> dict[str, list[int]]:
    """Calls that each node needed in the latest runs under this batch's configuration, whichever batch they were of."""
    run = node_runs.c
    same = select(batches.c.configuration).where(batches.c.id == batch_id).scalar_subquery()
    query = (
        select(run.node, run.calls)
        .join(cases, cases.c.id == run.case_id)
        .join(batches, and_(batches.c.id == cases.c.batch_id, batches.c.configuration == same))
        .where(run.variant == MAIN)
        .order_by(run.ended_at.desc())
        .limit(TIMES_KEPT)
    )
    found: dict[str, list[int]] = {}
    for row in db.rows(query):
        found.setdefault(row.node, []).append(row.calls)
    return found


def mean_characters(db: Database, batch_id: str) -> float:
    """Characters that agents are shown of a case of this batch; 0 without any case."""
    text, reply = func.coalesce(cases.c.model_text, cases.c.text), func.coalesce(cases.c.model_reply, cases.c.reply)
    shown = func.length(text) + func.coalesce(func.length(reply), 0)
    return float(db.value(select(func.avg(shown)).where(cases.c.batch_id == batch_id)) or 0.0)


def costs_of(db: Database, case_id: str) -> list[float | None]:
    """The cost of each committed run of a case."""
    return db.values(select(node_runs.c.cost_usd).where(node_runs.c.case_id == case_id))


def lose_unused(conn: Connection, batch_id: str, now: datetime) -> None:
    """Count as lost what was bought for agents that will not end: their case has its outcome, or the batch was
    cancelled. What was counted before is not counted again.
    """
    run = node_runs.c
    used = exists().where(run.case_id == _asked.case_id, run.node == _asked.node, run.variant == _asked.variant)
    unused = _requests_of(batch_id, _asked.case_id, func.count().label("calls")).where(_asked.code.is_not(None), ~used)
    if not was_cancelled(conn, batch_id):
        unused = unused.where(exists().where(screenings.c.case_id == _asked.case_id))
    counted = select(case_errors.c.case_id, func.sum(case_errors.c.calls).label("calls"))
    counted = counted.join(cases, cases.c.id == case_errors.c.case_id).where(cases.c.batch_id == batch_id)
    known = {row.case_id: int(row.calls) for row in conn.execute(counted.group_by(case_errors.c.case_id))}
    for row in conn.execute(unused.group_by(_asked.case_id)).all():
        if (fresh := row.calls - known.get(row.case_id, 0)) > 0:
            keep_error(conn, row.case_id, "withdrawn", "broken off in the middle of a node", fresh, now)


def _requests_of(batch_id: str, *columns: Any) -> Select[Any]:
    joined = select(*columns).select_from(message_requests).join(message_batches, _of.id == _asked.message_batch)
    return joined.where(_of.batch_id == batch_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class OvernightProgress:
    """How far an overnight batch is: the round under way (0 before the first), its requests and how many of them the
    service has worked off; of all rounds the answers that came, for ``usage``, those beyond where their node ended,
    requests that wait for an answer, and those that failed and were or will be asked again.
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
    """How far it is and what was bought, from the tables."""
    tokens = [field.name for field in fields(Usage)]
    sums = [func.coalesce(func.sum(_asked[name]), 0).label(name) for name in tokens]
    waiting = func.count().filter(_asked.code.is_(None), _asked.error.is_(None))
    run, its_run = node_runs.c, (_asked.case_id, _asked.node, _asked.variant)
    beyond = _requests_of(batch_id, func.count()).join(
        node_runs, and_(*(at == of for at, of in zip((run.case_id, run.node, run.variant), its_run, strict=True)))
    )
    with db.read() as conn:
        rows = conn.execute(select(message_batches).where(_of.batch_id == batch_id)).all()
        answers, failed = func.count(_asked.code), func.count(_asked.error)
        told = conn.execute(_requests_of(batch_id, answers, failed, waiting, *sums)).one()
        unneeded = conn.execute(beyond.where(_asked.code.is_not(None), _asked.number >= run.calls)).scalar_one()
    last = max((row.round for row in rows), default=0)
    latest = [row for row in rows if row.round == last]
    return OvernightProgress(
        round=last,
        requests=sum(row.requests for row in latest),
        processed=sum(row.processed for row in latest),
        under_way=any(row.ended_at is None for row in latest),
        answers=told[0],
        unneeded=unneeded,
        waiting=told[2],
        failed=told[1],
        usage=Usage(**{name: int(getattr(told, name)) for name in tokens}),
    )
