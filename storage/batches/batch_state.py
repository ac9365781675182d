"""What state a batch is in: derived from its events, its caps and its sums, never stored."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Select, bindparam, exists, func, literal, select

from storage.batches.tallies import Totals, totals
from storage.schema import batch_events, batches, pending_cases


class BatchState(StrEnum):
    """Where a batch stands; the first that applies, in this order."""

    FINISHED = "finished"
    CANCELLED = "cancelled"
    PAUSED = "paused"
    CAPPED = "capped"
    NEEDS_RETRY = "needs_retry"  # all that is pending failed and waits for a retry request
    ROWS_MISSING = "rows_missing"  # not all rows came in, and nobody takes them in; those that came are screened
    TAKING_IN = "taking_in"  # rows still come in; those that came are screened meanwhile
    RUNNING = "running"


class BatchEvent(StrEnum):
    """What can happen to a batch after its creation."""

    INTAKE_CLOSED = "intake_closed"
    INTAKE_STOPPED = "intake_stopped"
    INTAKE_RESUMED = "intake_resumed"
    PAUSED = "paused"
    RESUMED = "resumed"
    CANCELLED = "cancelled"
    RETRIED = "retried"
    CAPS = "caps"


STOPPED = frozenset({BatchState.CANCELLED, BatchState.PAUSED, BatchState.CAPPED})
"""States in which no further call is made."""

ACTIVE = frozenset({BatchState.RUNNING, BatchState.TAKING_IN, BatchState.ROWS_MISSING})
"""States in which the cases that are in are screened."""


NO_MORE_ROWS = frozenset({BatchEvent.INTAKE_CLOSED, BatchEvent.CANCELLED})
"""After these no row comes in any more."""

CAP_REACHED = frozenset({"max_calls", "max_cost", "cost_unknown"})
"""Which cap stops a batch, or that its cost is unknown: what `Caps.reached_cap` says."""


class UnknownBatch(LookupError):
    """There is no batch of this id."""


class BatchCancelled(ValueError):
    """The batch was cancelled for good and cannot be resumed."""


def batch_row(conn: Connection, batch_id: str) -> Row[Any]:
    """The batch as it was begun. Raises UnknownBatch."""
    found = conn.execute(select(batches).where(batches.c.id == batch_id)).first()
    if found is None:
        raise UnknownBatch(batch_id)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The most a batch may use; None is no cap."""

    max_calls: int | None = None
    max_cost_usd: float | None = None

    def reached_cap(self, totals: Totals) -> str | None:
        """Which cap stops the batch, or None. A cost cap without a known cost stops it too: it fails closed.

        >>> Caps(max_calls=10).reached_cap(Totals(calls=10)), Caps(max_cost_usd=5).reached_cap(Totals(unpriced_calls=3))
        ('max_calls', 'cost_unknown')
        """
        if self.max_calls is not None and totals.calls + totals.lost_calls >= self.max_calls:
            return "max_calls"
        if self.max_cost_usd is None:
            return None
        if (cost := totals.cost_for_cap_usd) is None:
            return "cost_unknown"
        return "max_cost" if cost >= self.max_cost_usd else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A batch's state with what it follows from. ``why`` is a short code where the state needs one, and
    ``rows_missing`` the code of why no more rows are taken in of a file that has more, in any state.
    """

    state: BatchState
    totals: Totals
    failed: int
    caps: Caps
    why: str | None = None
    rows_missing: str | None = None

    @property
    def allows_calls(self) -> bool:
        """Whether another call may be made."""
        return self.state not in STOPPED


def standings(conn: Connection, batch_ids: Sequence[str], *, count_failed: bool = True) -> dict[str, Standing]:
    """Where each of these batches stands, in few queries whatever their number.

    Counting what failed is linear in that; without it (`allows_calls` does not depend on it) ``failed`` is 0.
    """
    if not batch_ids:
        return {}
    sums = totals(conn, batch_ids)
    failed = _count_failed(conn, batch_ids) if count_failed else {}
    return {
        batch_id: _standing(caps, sums.get(batch_id, Totals()), failed.get(batch_id, 0), events)
        for batch_id, (caps, events) in _caps_and_events(conn, batch_ids).items()
    }


def standing(conn: Connection, batch_id: str, *, count_failed: bool = True) -> Standing:
    """Where one batch stands. UnknownBatch when there is none."""
    try:
        return standings(conn, [batch_id], count_failed=count_failed)[batch_id]
    except KeyError:
        raise UnknownBatch(batch_id) from None


def still_takes_rows(batch_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether rows may still come into the batch of this column: it was neither closed nor cancelled."""
    table = batch_events.c
    return ~exists().where(table.batch_id == batch_id, table.event.in_(NO_MORE_ROWS))


def is_cancelled(batch_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether somebody ended the batch of this column for good."""
    table = batch_events.c
    return exists().where(table.batch_id == batch_id, table.event == BatchEvent.CANCELLED.value)


def was_cancelled(conn: Connection, batch_id: str) -> bool:
    """Whether somebody ended this batch for good."""
    return bool(conn.execute(select(is_cancelled(literal(batch_id)))).scalar())


def require_going(conn: Connection, batch_id: str) -> None:
    """Raise BatchCancelled where no worker would ever take up anything of this batch again."""
    if was_cancelled(conn, batch_id):
        raise BatchCancelled(f"batch {batch_id} was cancelled: nothing of it is taken up again")


def _standing(caps: Caps, sums: Totals, failed: int, events: list[tuple[str, dict[str, Any]]]) -> Standing:
    happened = {event for event, _detail in events}
    paused, why, missing = False, None, None
    for event, detail in events:
        if event in (BatchEvent.PAUSED, BatchEvent.RESUMED):
            paused, why = event == BatchEvent.PAUSED, detail.get("why")
        if event in (BatchEvent.INTAKE_STOPPED, BatchEvent.INTAKE_RESUMED, *NO_MORE_ROWS):
            missing = detail.get("why") if event == BatchEvent.INTAKE_STOPPED else None
        if event == BatchEvent.CAPS:
            caps = Caps(**detail)
    cap = caps.reached_cap(sums)
    stops = {
        BatchState.PAUSED: paused,
        BatchState.CAPPED: cap is not None,
        BatchState.ROWS_MISSING: missing is not None,
    }
    state = _state(happened, stops, sums, failed)
    reasons = {BatchState.CAPPED: cap, BatchState.PAUSED: why, BatchState.ROWS_MISSING: missing}
    return Standing(state=state, totals=sums, failed=failed, caps=caps, why=reasons.get(state), rows_missing=missing)


def _state(happened: set[str], stops: Mapping[BatchState, bool], sums: Totals, failed: int) -> BatchState:
    closed = BatchEvent.INTAKE_CLOSED in happened
    if closed and sums.pending == 0:
        return BatchState.FINISHED
    if BatchEvent.CANCELLED in happened:
        return BatchState.CANCELLED
    if (stopped := next((state for state, applies in stops.items() if applies), None)) is not None:
        return stopped
    if not closed:
        return BatchState.TAKING_IN
    return BatchState.NEEDS_RETRY if failed >= sums.pending else BatchState.RUNNING


def _count_failed(conn: Connection, batch_ids: Sequence[str]) -> dict[str, int]:
    rows = conn.execute(
        select(pending_cases.c.batch_id, func.count().label("failed"))
        .where(pending_cases.c.batch_id.in_(batch_ids), pending_cases.c.ready_at.is_(None))
        .group_by(pending_cases.c.batch_id)
    )
    return {row.batch_id: row.failed for row in rows}


def _caps_and_events(
    conn: Connection, batch_ids: Sequence[str]
) -> dict[str, tuple[Caps, list[tuple[str, dict[str, Any]]]]]:
    """The caps that each batch began with, and what happened to it, in order."""
    one = len(batch_ids) == 1
    rows = conn.execute(_caps_query(one=one), {"wanted": batch_ids[0] if one else list(batch_ids)})
    found: dict[str, tuple[Caps, list[tuple[str, dict[str, Any]]]]] = {}
    for row in rows:
        caps = Caps(max_calls=row.max_calls, max_cost_usd=row.max_cost_usd)
        _caps, events = found.setdefault(row.id, (caps, []))
        if row.event is not None:
            events.append((row.event, row.detail))
    return found


@cache
def _caps_query(*, one: bool) -> Select[Any]:
    """The query, written once: workers and watching pages ask it several times a second, of a single batch."""
    batch, event = batches.c, batch_events.c
    query = select(batch.id, batch.max_calls, batch.max_cost_usd, event.event, event.detail)
    wanted = batch.id == bindparam("wanted") if one else batch.id.in_(bindparam("wanted", expanding=True))
    return query.outerjoin(batch_events, event.batch_id == batch.id).where(wanted).order_by(event.id)
