"""What workers share: which case comes next, what became of the attempts at it, and how many calls they may make."""

import heapq
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import floor
from typing import Any

from sqlalchemy import Connection, Integer, Row, bindparam, func, or_, select, update

from screening.review.policy import SYSTEM
from storage.batches import counts
from storage.batches.batch_state import pause_in, standing, standings
from storage.batches.counts import PENDING, Kind, Totals
from storage.database import Database, Source, insert_once, writing
from storage.schema import batches, call_limits, case_errors, cases
from storage.schema import pending_cases as waiting_cases
from storage.schema.columns import Moment, shared_now

LONGEST_KIND, LONGEST_MESSAGE = 40, 500
LONGEST_PUT_OFF = timedelta(minutes=1)
"""No case is put off for longer: a later moment was written by a clock that ran ahead, and does not count."""


class UnknownCase(LookupError):
    """There is no case of this id."""


def pending_cases(
    db: Database,
    limit: int,
    now: datetime | None = None,
    *,
    excluding: Collection[str] = (),
    interactive: bool | None = None,
) -> list[str]:
    """At most ``limit`` cases to start now, texts that somebody waits for first; with ``interactive`` True only
    those, with False only those of batches.

    ``excluding`` are those already in flight. The next case always comes from the batch with the fewest in
    flight, so batches share the work evenly however small ``limit`` is. Paused, cancelled and capped batches and
    failed cases are left out, and with ``now`` those that still wait for a fault to pass. The cost does not depend on
    how many cases are pending, nor on how many have failed.
    """
    taken = set(excluding)
    with db.read() as conn:
        if not (with_work := batches_with_ready_cases(conn)):
            return []  # the one question of a worker with nothing to do
        kinds = {row.id: row.kind == "interactive" for row in conn.execute(_KINDS, {"with_work": with_work})}
        wanted = [id_ for id_, waited_for in kinds.items() if interactive in (None, waited_for)]
        allowed = [id_ for id_, found in standings(conn, wanted).items() if found.allows_calls]
        if not allowed:
            return []
        flying = Counter(conn.execute(_FLYING, {"taken": list(taken)}).scalars() if taken else ())
        moment = None if now is None else shared_now(conn, now)
        heap = [(not kinds[batch_id], flying[batch_id], batch_id) for batch_id in allowed]
        heapq.heapify(heap)
        ready, chosen = dict[str, list[str]](), list[str]()
        while heap and len(chosen) < limit:
            later, load, batch_id = heapq.heappop(heap)
            if batch_id not in ready:  # its next cases, the first one last
                most = limit - len(chosen) + flying[batch_id]
                due = {"moment": moment, "beyond": moment and moment + LONGEST_PUT_OFF}
                found = conn.execute(_READY, {"batch": batch_id, "most": most, **due}).scalars()
                ready[batch_id] = [case_id for case_id in found if case_id not in taken][::-1]
            if ready[batch_id]:
                chosen.append(ready[batch_id].pop())
                heapq.heappush(heap, (later, load + 1, batch_id))
        return chosen


def record_error(
    db: Source,
    case_id: str,
    kind: str,
    message: str,
    now: datetime,
    *,
    calls: int = 0,
    stops_batch: bool = False,
    again_in: timedelta | None = None,
) -> None:
    """Note why the case stays pending; it is taken up again by itself after ``again_in`` (at most `LONGEST_PUT_OFF`),
    else after a retry request.

    ``calls`` were made and paid without a draw that counts. With ``stops_batch`` the fault is not the case's: the
    batch is paused with ``kind`` as its reason, and the case goes on with it. A single text is all of its batch:
    it waits for its retry request with the error, for whoever watches it to see. Raises UnknownCase.
    """
    with writing(db) as conn:
        if stops_batch:  # its row before its sums, as whoever adds rows has it: no two wait for each other
            its = select(cases.c.batch_id).where(cases.c.id == case_id).scalar_subquery()
            conn.execute(select(batches.c.id).where(batches.c.id == its).with_for_update(key_share=True))
        place = keep_error(conn, case_id, kind, message, calls, now)
        if again_in is not None:
            end_starts(conn, case_id, not_before=shared_now(conn, now) + min(again_in, LONGEST_PUT_OFF))
        elif not stops_batch or place.kind == "interactive":
            end_starts(conn, case_id, ready_at=None)
        else:
            end_starts(conn, case_id)
            pause_for_fault(conn, place.batch_id, kind, now)


def pause_for_fault(db: Source, batch_id: str, kind: str, now: datetime) -> None:
    """Pause the batch for a fault that is no case's own, unless it may make no further calls anyway. Raises
    UnknownBatch.
    """
    with writing(db) as conn:
        if standing(conn, batch_id).allows_calls:
            pause_in(conn, SYSTEM.at(now), batch_id, kind[:LONGEST_KIND])


def keep_error(db: Source, case_id: str, kind: str, message: str, calls: int, now: datetime) -> Row[Any, Any, Any, Any]:
    """The error as a fact, and its calls in the batch's counts as lost; returns the case's batch with its kind, and its
    row there. The start stays without an end, as when a worker dies: a case over which this keeps happening is
    escalated. Raises UnknownCase.
    """
    query = select(cases.c.batch_id, cases.c.row, cases.c.reference, batches.c.kind)
    query = query.join(batches, batches.c.id == cases.c.batch_id)
    error = {"kind": kind[:LONGEST_KIND], "message": message[:LONGEST_MESSAGE], "calls": calls, "at": now}
    with writing(db) as conn:
        if (place := conn.execute(query.where(cases.c.id == case_id)).first()) is None:
            raise UnknownCase(case_id)
        conn.execute(case_errors.insert(), {"case_id": case_id, **error})
        waiting = Kind(outcome=PENDING, reference=place.reference)
        counts.add(conn, place.batch_id, place.row, {waiting: 0}, Totals(lost_calls=calls))
    return place


def begin_start(conn: Connection, case_id: str, worker: str) -> int | None:
    """Record that this worker begins the case; how many starts, this one included, have not ended. None where the case
    has its outcome.
    """
    return conn.execute(_BEGIN_START, {"one": case_id, "by": worker}).scalar()


def end_starts(db: Source, case_id: str, **more: datetime | None) -> None:
    """Record that all attempts at the case have ended in an orderly way, with ``more`` of when it is taken up again:
    without a ``ready_at`` when somebody asks for a retry.
    """
    with writing(db) as conn:
        conn.execute(_END_STARTS.values(starts=0, **more), {"one": case_id})


# Written once: every case begins and ends with them.
TAKE_OUT = waiting_cases.delete().where(waiting_cases.c.case_id == bindparam("one"))
_END_STARTS = update(waiting_cases).where(waiting_cases.c.case_id == bindparam("one"))
_BEGIN_START = _END_STARTS.values(starts=waiting_cases.c.starts + 1, worker=bindparam("by")).returning(
    waiting_cases.c.starts
)


def waiting_single_texts(conn: Connection) -> list[str]:
    """The batches of single texts that are ready or in work, found without passing the cases of files."""
    with_work = batches_with_ready_cases(conn)
    return list(conn.execute(_SINGLE_TEXTS, {"with_work": with_work}).scalars()) if with_work else []


def batches_with_ready_cases(conn: Connection) -> list[str]:
    """Every batch with a case that waits for no person, by jumping from batch to batch in the index of those."""
    return list(conn.execute(_WITH_WORK).scalars())


# Written once: a worker asks them several times a second.
_waiting = waiting_cases.c
_is_ready = _waiting.ready_at.is_not(None)
_jump = select(func.min(_waiting.batch_id).label("batch_id")).where(_is_ready).cte("jump", recursive=True)
_next = select(func.min(_waiting.batch_id)).where(_is_ready, _waiting.batch_id > _jump.c.batch_id).scalar_subquery()
_jump = _jump.union_all(select(_next).where(_jump.c.batch_id.is_not(None)))
_WITH_WORK = select(_jump.c.batch_id).where(_jump.c.batch_id.is_not(None))
_SINGLE_TEXTS = select(batches.c.id).where(
    batches.c.id.in_(bindparam("with_work", expanding=True)), batches.c.kind == "interactive"
)
_KINDS = (  # the others go by message batches
    select(batches.c.id, batches.c.kind)
    .where(batches.c.id.in_(bindparam("with_work", expanding=True)), batches.c.overnight.is_(False))
    .order_by(batches.c.id)
)
_FLYING = select(_waiting.batch_id).where(_waiting.case_id.in_(bindparam("taken", expanding=True)))
_moment = bindparam("moment", type_=Moment)
_READY = (
    select(_waiting.case_id)
    .where(_waiting.batch_id == bindparam("batch"), _is_ready)
    .where(
        or_(
            _moment.is_(None),
            _waiting.not_before.is_(None),
            _waiting.not_before <= _moment,
            _waiting.not_before > bindparam("beyond", type_=Moment),
        )
    )
    .order_by(_waiting.ready_at, _waiting.row)
    .limit(bindparam("most", type_=Integer))
)


_TURN_S = 10.0
"""Where there are fewer places than holders, how long they are with one before they are with the next."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Calls a second, and how many may pass at once after a pause."""

    per_second: float
    burst: int


def take(db: Database, name: str, pace: Pace, wanted: int) -> tuple[int, float, float]:
    """Leave to make up to ``wanted`` calls: over any time t all workers together get at most burst + t * per_second.
    How many; when their leave began, by `time.monotonic` of this process (never later than it did for the database);
    and in how many seconds to ask again where there is none.

    A clock that was set back delays the next call by no more than one step of the pace.
    """
    with db.write() as conn:
        row = _lock_limit(conn, name)
        since, now = time.monotonic(), _now(conn)
        step = 1 / pace.per_second
        due = max(now, min(row.next_at, now + pace.burst * step))
        count = min(wanted, floor((now - due) / step + 1e-9) + pace.burst)
        if count < 1:
            return 0, since, due - now - (pace.burst - 1) * step
        _change_limit(conn, name, next_at=due + count * step)
    return count, since, 0.0


def hold(db: Database, name: str, holder: str, in_flight: int, total: int, lease_s: float) -> int:
    """How many of ``total`` places ``holder`` may use from now on: an even share, as far as free.

    ``in_flight`` are the most calls it can have under way until it knows the answer. They stay booked beside the
    answer until it renews, so that never more than ``total`` are under way although a share shrinks at once: the
    others get the places that calls leave. A booking ends after ``lease_s`` seconds unless it is renewed, by when
    whoever could not renew must have stopped.
    """
    with db.write() as conn:
        row = _lock_limit(conn, name)
        now = _now(conn)
        others = {who: kept for who, kept in row.holders.items() if who != holder and kept[1] > now}
        free = total - sum(kept[0] for kept in others.values())
        allowed = int(max(min(_even_share([*others, holder], holder, total, now), free), 0))
        _change_limit(conn, name, holders=others | {holder: [max(in_flight, allowed), now + lease_s]})
    return allowed


def _even_share(holders: list[str], holder: str, total: int, now: float) -> int:
    """An even share; where there are fewer places than holders, the holders take turns."""
    share, more = divmod(total, len(holders))
    turn = int(now // _TURN_S) if share == 0 else 0
    return share + ((sorted(holders).index(holder) + turn) % len(holders) < more)


def give_up(db: Database, name: str, holder: str) -> None:
    """Give the places back at once, when a worker ends in an orderly way."""
    with db.write() as conn:
        row = _lock_limit(conn, name)
        _change_limit(conn, name, holders={who: kept for who, kept in row.holders.items() if who != holder})


def _lock_limit(conn: Connection, name: str) -> Any:
    """The limit's row, locked until the transaction ends."""
    query = select(call_limits.c.next_at, call_limits.c.holders).where(call_limits.c.name == name).with_for_update()
    if (row := conn.execute(query).first()) is None:
        insert_once(conn, call_limits, {"name": name, "next_at": 0.0, "holders": {}})
        row = conn.execute(query).one()
    return row


def _now(conn: Connection) -> float:
    return shared_now(conn, datetime.now(UTC)).timestamp()


def _change_limit(conn: Connection, name: str, **values: object) -> None:
    conn.execute(update(call_limits).where(call_limits.c.name == name).values(**values))
