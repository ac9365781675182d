"""What state a batch is in: derived from its own row, which `change` alone writes, and from its sums."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, and_, bindparam, exists, func, select, update

from screening.review.policy import Acting
from storage import audit_log
from storage.batches.counts import SUMS, Totals, totals_of
from storage.database import Source, reading, record
from storage.schema import batch_counts, batches, pending_cases


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


STOPPED = frozenset({BatchState.CANCELLED, BatchState.PAUSED, BatchState.CAPPED})
"""States in which no further call is made."""

ACTIVE = frozenset({BatchState.RUNNING, BatchState.TAKING_IN, BatchState.ROWS_MISSING})
"""States in which the cases that are in are screened."""

ENDED = frozenset({BatchState.FINISHED, BatchState.CANCELLED})
"""States after which nothing changes: even a paused batch may still take rows in."""


CAP_REACHED = frozenset({"max_calls", "max_cost", "cost_unknown"})
"""Which cap stops a batch, or that its cost is unknown: what `Caps.reached_cap` says."""


class UnknownBatch(LookupError):
    """There is no batch of this id."""


class BatchCancelled(ValueError):
    """The batch was cancelled for good and cannot be resumed."""


def batch_row(conn: Connection, batch_id: str, *, lock: bool = False) -> Row[Any]:
    """The batch; with ``lock`` no other process adds to it, closes it or sends of it until the transaction ends. Raises
    UnknownBatch.
    """
    query = select(batches).where(batches.c.id == batch_id)
    found = conn.execute(query.with_for_update(key_share=True) if lock else query).first()
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
    """A batch's state with what it follows from. ``changed_at`` is when something was last done to it, ``why`` a short
    code where the state needs one, ``rows_missing`` that of why no more rows are taken in, in any state.
    """

    state: BatchState
    totals: Totals
    failed: int
    caps: Caps
    changed_at: datetime | None
    why: str | None = None
    rows_missing: str | None = None

    @property
    def allows_calls(self) -> bool:
        """Whether another call may be made."""
        return self.state not in STOPPED


def standings(conn: Connection, batch_ids: Sequence[str], *, count_failed: bool = False) -> dict[str, Standing]:
    """Where each of these batches stands. Counting what failed is linear in that; without it ``failed`` is 0 and a
    batch that needs a retry seems to be running: `allows_calls` does not depend on it.
    """
    if not batch_ids:
        return {}
    failed, waits = dict[str, int](), pending_cases.c
    if count_failed:
        parked = select(waits.batch_id, func.count()).where(waits.batch_id.in_(batch_ids), waits.ready_at.is_(None))
        failed = {row[0]: row[1] for row in conn.execute(parked.group_by(waits.batch_id))}
    rows = conn.execute(_ROWS, {"wanted": list(batch_ids)})
    return {row.id: _standing(row, totals_of(row), failed.get(row.id, 0)) for row in rows}


_NAMES = ("id", "max_calls", "max_cost_usd", "closed_at", "cancelled_at", "changed_at", "paused", "paused_why")
_ROWS = (
    select(*(batches.c[name] for name in (*_NAMES, "rows_missing")), *(sum_.label(name) for name, sum_ in SUMS.items()))
    .outerjoin(batch_counts)
    .where(batches.c.id.in_(bindparam("wanted", expanding=True)))
    .group_by(batches.c.id)
)
"""Written once: workers and watching pages ask it several times a second."""


def standing(db: Source, batch_id: str, *, count_failed: bool = False) -> Standing:
    """Where one batch stands, as `standings` has it: without ``count_failed`` never that it needs a retry. UnknownBatch
    when there is none.
    """
    with reading(db) as conn:
        found = standings(conn, [batch_id], count_failed=count_failed)
    if batch_id not in found:
        raise UnknownBatch(batch_id)
    return found[batch_id]


def change(
    conn: Connection,
    by: Acting,
    batch_id: str,
    action: str,
    details: Mapping[str, Any] | None = None,
    *,
    of_file: bool = False,
    **columns: Any,
) -> None:
    """Set a batch's state and record what was done to it; ``of_file``: to the reading of its file, not to its cases."""
    changed = columns if of_file else {**columns, "changed_at": by.now}
    conn.execute(update(batches).where(batches.c.id == batch_id).values(changed))
    audit_log.append(conn, by, action, batch_id, details or {})


def pause_in(conn: Connection, by: Acting, batch_id: str, why: str | None = None) -> None:
    """Pause the batch, for this reason where no person did, in the caller's transaction."""
    change(conn, by, batch_id, "batch_paused", {"why": why} if why else {}, paused=True, paused_why=why)


TAKES_ROWS = and_(batches.c.closed_at.is_(None), batches.c.cancelled_at.is_(None))
"""The condition on a batch that rows may still come in."""


def is_cancelled(batch_id: ColumnElement[str]) -> ColumnElement[bool]:
    """Whether somebody ended the batch of this column for good."""
    its = batches.alias().c
    return exists().where(its.id == batch_id, its.cancelled_at.is_not(None))


def _standing(row: Row[Any], sums: Totals, failed: int) -> Standing:
    caps, closed, why = record(Caps, row), row.closed_at is not None, None
    cap = caps.reached_cap(sums)
    if closed and sums.pending == 0:
        state = BatchState.FINISHED
    elif row.cancelled_at is not None:
        state = BatchState.CANCELLED
    elif row.paused:
        state, why = BatchState.PAUSED, row.paused_why
    elif cap is not None:
        state, why = BatchState.CAPPED, cap
    elif row.rows_missing is not None:
        state, why = BatchState.ROWS_MISSING, row.rows_missing
    elif not closed:
        state = BatchState.TAKING_IN
    else:
        state = BatchState.NEEDS_RETRY if failed >= sums.pending else BatchState.RUNNING
    return record(Standing, row, state=state, totals=sums, failed=failed, caps=caps, why=why)
