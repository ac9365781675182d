"""A batch by message batches: what is handed in is recorded first, what comes back counts once, and waste is counted.

Every step may be done again after a crash: requests are recorded with their ids before they are sent, an answer is
written only where there is none, and a round is planned only when the one before has ended.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from math import ceil
from typing import Any

from sqlalchemy import Connection, Row, Select, and_, exists, func, insert, select, update

from screening.pipeline.draws import Answer, Draw, Usage, decode_draws, unusable
from screening.pipeline.engine import MAIN
from storage.batches.batch_state import Caps, standing, was_cancelled
from storage.batches.pending import batches_with_ready_cases, keep_error
from storage.database import Database, insert_once, record
from storage.identifiers import new_id
from storage.schema import (
    batches,
    case_errors,
    cases,
    message_batches,
    message_copies,
    message_requests,
    node_runs,
    pending_cases,
    screenings,
)
from storage.settings_store import current_in

LARGEST = 5_000
"""Requests of one message batch: far below the service's own limits, and little to hold in memory."""
TIMES_KEPT = 2_000

_of, _asked = message_batches.c, message_requests.c


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawWanted:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What came back for one request: a draw under its reply's id, or a kind of failure."""

    custom_id: str
    draw: Draw | None = None
    reply_id: str | None = None
    error: str | None = None


def overnight_batches(db: Database) -> list[str]:
    """Batches with something to do: cases that are ready, or message batches whose results were not counted."""
    with db.read() as conn:
        ready = batches_with_ready_cases(conn)
        of_ready = select(batches.c.id).where(batches.c.id.in_(ready), batches.c.overnight.is_(True))
        open_ones = select(_of.batch_id).where(_of.ended_at.is_(None))
        return sorted({*conn.execute(of_ready).scalars(), *conn.execute(open_ones).scalars()})


def is_overnight(db: Database, batch_id: str) -> bool:
    """Whether the batch is screened by message batches."""
    with db.read() as conn:
        return bool(conn.execute(select(batches.c.overnight).where(batches.c.id == batch_id)).scalar())


def configuration_of(db: Database, batch_id: str) -> str:
    """The version of the configuration that the batch began with."""
    return str(db.value(select(batches.c.configuration).where(batches.c.id == batch_id)))


def allows_sending(db: Database, batch_id: str) -> bool:
    """Whether its state allows further calls."""
    with db.read() as conn:
        return standing(conn, batch_id, count_failed=False).allows_calls


def may_send(db: Database, batch_id: str) -> bool:
    """Whether its state allows further calls, and the stop button is not pressed."""
    with db.read() as conn:
        allowed = standing(conn, batch_id, count_failed=False).allows_calls
        return allowed and not current_in(conn).settings.stopped


def is_cancelled(db: Database, batch_id: str) -> bool:
    """Whether somebody cancelled the batch."""
    with db.read() as conn:
        return was_cancelled(conn, batch_id)


def open_cases(db: Database, batch_id: str) -> list[str]:
    """The cases that wait for no person, in the file's order."""
    waits = pending_cases.c
    query = select(waits.case_id).where(waits.batch_id == batch_id, waits.ready_at.is_not(None)).order_by(waits.row)
    return db.values(query)


def has_reference(db: Database, case_id: str) -> bool:
    """Whether the case has a reference label: what has none does not leave by this way."""
    with db.read() as conn:
        return conn.execute(select(cases.c.reference).where(cases.c.id == case_id)).scalar() is not None


def plan(
    db: Database, batch_id: str, wanted: Sequence[DrawWanted], rounds_left: int | None, now: datetime
) -> list[HandedIn]:
    """Record the next round before anything of it is sent; nothing where one is open already."""
    with db.write() as conn:
        conn.execute(select(batches.c.id).where(batches.c.id == batch_id).with_for_update())
        last = conn.execute(select(func.max(_of.round)).where(_of.batch_id == batch_id)).scalar() or 0
        if open_message_batches(conn, batch_id):
            return []
        for part, start in enumerate(range(0, len(wanted), LARGEST)):
            _record(conn, batch_id, (last + 1, part), wanted[start : start + LARGEST], rounds_left, now)
        return open_message_batches(conn, batch_id)


def _record(
    conn: Connection,
    batch_id: str,
    place: tuple[int, int],
    wanted: Sequence[DrawWanted],
    rounds_left: int | None,
    now: datetime,
) -> None:
    made = new_id(now)
    row = {"id": made, "batch_id": batch_id, "round": place[0], "part": place[1], "seed": secrets.token_hex(16)}
    conn.execute(
        insert(message_batches),
        {**row, "requests": len(wanted), "rounds_left": rounds_left, "processed": 0, "created_at": now},
    )
    rows = [
        {
            "custom_id": f"{made}-{at}", "message_batch": made, "case_id": one.case_id, "node": one.node,
            "variant": one.variant, "number": one.number,
        }
        for at, one in enumerate(wanted)
    ]  # fmt: skip
    conn.execute(insert(message_requests), rows)


def open_ones(db: Database, batch_id: str) -> list[HandedIn]:
    """The message batches of this batch whose results were not all counted."""
    with db.read() as conn:
        return open_message_batches(conn, batch_id)


def open_message_batches(conn: Connection, batch_id: str) -> list[HandedIn]:
    """As `open_ones`, in the caller's transaction."""
    query = select(message_batches).where(_of.batch_id == batch_id, _of.ended_at.is_(None)).order_by(_of.part)
    return [record(HandedIn, row) for row in conn.execute(query)]


def is_needed(db: Database, message_batch: str) -> bool:
    """Whether a case still waits for its answers: none does after a cancellation, or once all have their outcomes."""
    waits = select(_asked.custom_id).join(pending_cases, pending_cases.c.case_id == _asked.case_id)
    batch_id = select(_of.batch_id).where(_of.id == message_batch)
    with db.read() as conn:
        if was_cancelled(conn, conn.execute(batch_id).scalar_one()):
            return False
        return conn.execute(waits.where(_asked.message_batch == message_batch).limit(1)).first() is not None


def wanted_draws(db: Database, message_batch: str) -> dict[str, DrawWanted]:
    """What was recorded under each custom id of a message batch and has no answer yet."""
    query = select(message_requests).where(_asked.message_batch == message_batch, _asked.code.is_(None))
    rows = db.rows(query.order_by(_asked.custom_id))
    return {row.custom_id: record(DrawWanted, row) for row in rows}


def record_sent(db: Database, message_batch: str, service_id: str) -> None:
    """Record the id that the service gave the message batch; the first one recorded is kept."""
    with db.write() as conn:
        conn.execute(
            update(message_batches)
            .where(_of.id == message_batch, _of.service_id.is_(None))
            .values(service_id=service_id)
        )


def record_progress(db: Database, message_batch: str, processed: int) -> None:
    """Record how far the service is with the message batch."""
    with db.write() as conn:
        conn.execute(update(message_batches).where(_of.id == message_batch).values(processed=processed))


def known_ids(db: Database) -> set[str]:
    """Ids of message batches at the service that are ours or were already checked."""
    with db.read() as conn:
        ours = conn.execute(select(_of.service_id).where(_of.service_id.is_not(None))).scalars()
        return {*ours, *conn.execute(select(message_copies.c.service_id)).scalars()}


def sizes_of(db: Database, batch_id: str) -> set[int]:
    """How many requests each message batch of this batch has."""
    return set(db.values(select(_of.requests).where(_of.batch_id == batch_id)))


def reply_ids(db: Database, batch_id: str) -> list[str]:
    """Ids of the replies that were counted, so that one sent again under another request is no draw."""
    query = select(_asked.reply_id).join(message_batches, _of.id == _asked.message_batch)
    return db.values(query.where(_of.batch_id == batch_id, _asked.reply_id.is_not(None)))


def keep_answers(db: Database, found: Iterable[Answered]) -> None:
    """Store each answer; one that is already stored is not changed."""
    with db.write() as conn:
        for one in found:
            free = (_asked.custom_id == one.custom_id, _asked.code.is_(None))
            conn.execute(update(message_requests).where(*free).values(_columns(one)))


def _columns(one: Answered) -> dict[str, Any]:
    if one.draw is None:
        return {"error": (one.error or "malformed")[:40]}
    usage = one.draw.usage
    return {
        "code": one.draw.code,
        "raw": None if one.draw.answer is Answer.LABEL else one.draw.raw,
        "reply_id": one.reply_id,
        "error": None,
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
    }


def end_message_batch(db: Database, message_batch: str, now: datetime) -> None:
    """Note that all its results were counted: what has no answer has failed, and is asked for in another round; what
    nobody needs any more is lost.
    """
    of_it = _asked.message_batch == message_batch
    with db.write() as conn:
        unanswered = update(message_requests).where(of_it, _asked.code.is_(None), _asked.error.is_(None))
        conn.execute(unanswered.values(error="no_result"))
        open_one = update(message_batches).where(_of.id == message_batch, _of.ended_at.is_(None))
        ended = open_one.values(ended_at=now, processed=_of.requests).returning(_of.batch_id)
        if (batch_id := conn.execute(ended).scalar()) is not None:
            lose_unused_in(conn, batch_id, now)


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseAnswers:
    """What came back for one case: draws by (node, variant) and number, and failures with how often each failed."""

    draws: Mapping[tuple[str, str], Mapping[int, Draw]]
    failures: Mapping[tuple[str, str, int], Sequence[str]]
    parked: int

    def in_order(self, node: str, variant: str) -> list[Draw]:
        """The first draws of a node, up to the first that is not there."""
        known, found = self.draws.get((node, variant), {}), list[Draw]()
        while (draw := known.get(len(found))) is not None:
            found.append(draw)
        return found


def answers_of(db: Database, case_id: str) -> CaseAnswers:
    """Everything that came back for a case; ``parked`` is how often it was left to a person for what failed."""
    draws: dict[tuple[str, str], dict[int, Draw]] = {}
    failures: dict[tuple[str, str, int], list[str]] = {}
    with db.read() as conn:
        rows = conn.execute(select(message_requests).where(_asked.case_id == case_id)).all()
        errors = select(func.count()).where(case_errors.c.case_id == case_id)
        parked = int(conn.execute(errors).scalar_one())
    for row in rows:
        if row.code is not None:
            draws.setdefault((row.node, row.variant), {})[row.number] = _draw(row)
        elif row.error is not None:
            failures.setdefault((row.node, row.variant, row.number), []).append(row.error)
    return CaseAnswers(draws=draws, failures=failures, parked=parked)


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


def record_match(db: Database, service_id: str, custom_id: str | None, requests: int) -> None:
    """Note what a batch of so many requests on the account is, by one of its custom ids: one of ours that is not known
    to have been sent, the same requests once more, or somebody else's. So it is looked into once.
    """
    prefix = (custom_id or "").partition("-")[0]
    with db.write() as conn:
        row = conn.execute(select(_of.batch_id, _of.service_id).where(_of.id == prefix)).first()
        if row is not None and row.service_id is None:
            conn.execute(update(message_batches).where(_of.id == prefix).values(service_id=service_id))
            return
        found = {"batch_id": row.batch_id if row else None, "duplicates": requests if row else 0}
        insert_once(conn, message_copies, {"service_id": service_id, **found})


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
