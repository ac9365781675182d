"""Batches: begun, paused, resumed, cancelled, retried; what state they are in and how far they are."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import Connection, Row, func, select, update

from screening.review.policy import SYSTEM, Acting, Action, Actor, require
from screening.review.triage import Reach
from storage import audit_log
from storage.batches.batch_state import (
    ACTIVE,
    CAP_REACHED,
    BatchCancelled,
    BatchState,
    Caps,
    Standing,
    batch_row,
    change,
    pause_in,
    standing,
    standings,
)
from storage.batches.overnight import lose_unused
from storage.database import Database, insert_once, record
from storage.schema import batches, pending_cases, screenings
from storage.schema.columns import new_id

RATE_WINDOW = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    """What whoever begins a batch says of it. ``intake`` is what was announced before the first call: file, mapping,
    provenance; ``reach`` is what becomes of texts that are labeled unsafe. ``submission`` is the key of the press that
    begins it, ``overnight`` that it is screened by message batches. ``research_order`` declares that the texts have no
    living authors: they are reviewed in random order, and none comes first for what it says. A cap of None is no cap.
    """

    name: str
    kind: Literal["batch", "interactive"] = "batch"
    max_calls: int | None = None
    max_cost_usd: float | None = None
    reach: Reach = Reach.READ
    overnight: bool = False
    research_order: bool = False
    intake: Mapping[str, Any] = field(default_factory=dict)
    submission: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a batch is: rows_in = accepted + rejected; accepted = safe + unsafe + human_review + pending. ``failed``
    are those of ``pending`` that wait for a retry request. ``calls`` are all made, with the ``lost_calls`` whose draws
    did not count; ``cost_usd`` is None where part of it is unknown. ``rate`` is outcomes per second over the last
    minute of work; None before any. ``rows_missing`` is the code of why no more rows are taken in of a file that has
    more.
    """

    state: BatchState
    why: str | None
    rows_in: int
    accepted: int
    rejected: int
    safe: int
    unsafe: int
    human_review: int
    pending: int
    failed: int
    calls: int
    lost_calls: int
    cost_usd: float | None
    caps: Caps
    started_at: datetime
    finished_at: datetime | None
    rate: float | None
    rows_missing: str | None = None

    @property
    def seconds_left(self) -> float | None:
        """Seconds left at the recent rate; None without a rate, or while nothing is being screened."""
        if self.state not in ACTIVE or not self.rate:
            return None
        return (self.pending - self.failed) / self.rate

    @property
    def at_cap(self) -> bool:
        """Whether other caps are what it needs to go on; one that is sent overnight is paused before it passes them."""
        return self.why in CAP_REACHED


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSummary:
    """One line of the list of batches."""

    id: str
    name: str
    kind: str
    configuration_version: str
    created_by: str
    created_at: datetime
    intake: Mapping[str, Any]
    reach: Reach
    overnight: bool
    research_order: bool
    progress: Progress


def create_batch(
    db: Database, by: Acting, new: NewBatch, configuration: str, *, seed: int, audit_rate: float = 0.0
) -> str:
    """Begin a batch that takes in rows, screened with this version of a configuration; its id, or that of the batch
    that was begun with the same submission.
    """
    require(by.actor, Action.SCREEN_TEXT if new.kind == "interactive" else Action.CREATE_BATCH)
    batch_id = new_id(by.now)
    row = asdict(new) | {"id": batch_id, "reach": new.reach.value, "intake": dict(new.intake)}
    row |= {"configuration": configuration, "seed": seed, "audit_rate": audit_rate}
    row |= {"created_by": by.id, "created_at": by.now}
    with db.write() as conn:
        if not insert_once(conn, batches, row):  # on PostgreSQL a second press waits here for the first
            pressed = (batches.c.created_by == by.id, batches.c.kind == new.kind)
            known = select(batches.c.id).where(*pressed, batches.c.submission == new.submission)
            return str(conn.execute(known).scalar_one())
        detail = {name: row[name] for name in ("kind", "configuration", "audit_rate", "reach")}
        if new.research_order:
            detail["research_order"] = True
        audit_log.append(conn, by, "batch_created", batch_id, detail, batches)
    return batch_id


def pause(db: Database, by: Acting, batch_id: str, why: str | None = None) -> None:
    """Make no further calls for this batch; a case under way stops after the node it is at."""
    with db.write() as conn:
        _require_control(conn, by, batch_id)
        pause_in(conn, by, batch_id, why)


def resume(db: Database, by: Acting, batch_id: str) -> None:
    """Go on with a paused batch. A cap is lifted by `change_caps`, not by this."""
    with db.write() as conn:
        _require_control(conn, by, batch_id)
        change(conn, by, batch_id, "batch_resumed", paused=False, paused_why=None)


def cancel(db: Database, by: Acting, batch_id: str) -> None:
    """End a batch for good: pending cases stay pending and are shown as pending."""
    with db.write() as conn:
        _require_control(conn, by, batch_id)
        conn.execute(update(batches).where(batches.c.id == batch_id).values(cancelled_at=by.now))
        lose_unused(conn, batch_id, by.now)
        change(conn, by, batch_id, "batch_cancelled", rows_missing=None)  # last: it locks the log


def retry_failed(db: Database, by: Acting, batch_id: str) -> int:
    """Take up again the cases whose last attempt failed; returns how many. Raises BatchCancelled."""
    with db.write() as conn:
        batch = _require_control(conn, by, batch_id)
        if batch.cancelled_at is not None:
            raise BatchCancelled(f"batch {batch_id} was cancelled: nothing of it is taken up again")
        failed = update(pending_cases).where(pending_cases.c.batch_id == batch_id, pending_cases.c.ready_at.is_(None))
        count = conn.execute(failed.values(ready_at=by.now, not_before=None)).rowcount
        change(conn, by, batch_id, "batch_retried", {"cases": count})
    return count


def change_caps(db: Database, by: Acting, batch_id: str, caps: Caps) -> None:
    """Set other caps; a batch that they stopped, or that was paused for them, goes on where the new ones leave room."""
    with db.write() as conn:
        _require_control(conn, by, batch_id)
        before = standing(conn, batch_id)
        change(conn, by, batch_id, "batch_caps", asdict(caps), **asdict(caps))
        if before.state is BatchState.PAUSED and before.why in CAP_REACHED:
            change(conn, by, batch_id, "batch_resumed", paused=False, paused_why=None)


def batch_state(db: Database, batch_id: str) -> BatchState:
    """The state, derived now. Raises UnknownBatch."""
    return standing(db, batch_id, count_failed=True).state


def progress(db: Database, batch_id: str, now: datetime | None = None) -> Progress:
    """How far the batch is, whatever its size. The rate is taken up to ``now``, or the last outcome. Raises
    UnknownBatch.
    """
    with db.read() as conn:
        return _progress(conn, batch_row(conn, batch_id), standing(conn, batch_id, count_failed=True), now)


def list_batches(
    db: Database, actor: Actor, limit: int = 50, offset: int = 0, *, now: datetime | None = None
) -> tuple[BatchSummary, ...]:
    """The newest first, each with its `progress`, without single texts."""
    require(actor, Action.VIEW_BATCHES)
    query = select(batches).where(batches.c.kind == "batch")
    newest = query.order_by(batches.c.created_at.desc(), batches.c.id.desc()).limit(limit).offset(offset)
    with db.read() as conn:
        rows = conn.execute(newest).all()
        found = standings(conn, [row.id for row in rows], count_failed=True)
        return tuple(_summary(row, _progress(conn, row, found[row.id], now)) for row in rows)


def find_batch(db: Database, actor: Actor, batch_id: str, *, now: datetime | None = None) -> BatchSummary:
    """One batch as the list shows it. Raises UnknownBatch, Forbidden."""
    require(actor, Action.VIEW_BATCHES)
    with db.read() as conn:
        row = batch_row(conn, batch_id)
        return _summary(row, _progress(conn, row, standing(conn, batch_id, count_failed=True), now))


def _require_control(conn: Connection, by: Acting, batch_id: str) -> Row[Any]:
    """The batch. Raises Forbidden, UnknownBatch."""
    batch = batch_row(conn, batch_id)
    if by.actor != SYSTEM:
        require(by.actor, Action.CONTROL_BATCH, batch.created_by)
    return batch


def _summary(row: Row[Any], progress: Progress) -> BatchSummary:
    return record(BatchSummary, row, reach=Reach(row.reach), configuration_version=row.configuration, progress=progress)


def _progress(conn: Connection, batch: Row[Any], found: Standing, now: datetime | None) -> Progress:
    sums = found.totals
    same = ("accepted", "rejected", "safe", "unsafe", "human_review", "pending", "lost_calls")
    stands = ("state", "why", "failed", "caps", "rows_missing")
    return Progress(
        **{name: getattr(sums, name) for name in same},
        **{name: getattr(found, name) for name in stands},
        rows_in=sums.accepted + sums.rejected,
        calls=sums.calls + sums.lost_calls,
        cost_usd=sums.known_cost_usd,
        started_at=batch.created_at,
        finished_at=sums.last_completed_at if found.state is BatchState.FINISHED else None,
        rate=_rate(conn, batch, now or sums.last_completed_at),
    )


def _rate(conn: Connection, batch: Row[Any], until: datetime | None) -> float | None:
    if until is None or until <= batch.created_at:
        return None
    since, done = max(batch.created_at, until - RATE_WINDOW), screenings.c.completed_at
    recent = select(func.count()).where(screenings.c.batch_id == batch.id, done > since, done <= until)
    count = conn.execute(recent).scalar_one()
    return float(count / (until - since).total_seconds())
