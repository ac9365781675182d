"""Numbers of the whole site for a monitor: no text, no id of a case or a person, nothing of a single case."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, select

from screening.review.triage import Tier
from storage.database import Database
from storage.review.shift import TierShift, tier_shifts
from storage.schema import Moment, batch_tallies, case_errors, inbox_entries, pending_cases
from storage.site import duties, faults, heartbeats
from storage.site.heartbeats import Process

_entry = inbox_entries.c
DAY = timedelta(days=1)
SETTLED_AFTER_S = 60.0
"""No transaction that keeps an error lasts so long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One moment. ``oldest_due`` is the earliest deadline of an open case; ``first_looks`` covers the last day."""

    open: Mapping[Tier, int]
    overdue: Mapping[Tier, int]
    oldest_due: Mapping[Tier, datetime]
    waiting: int
    parked: int
    calls: int
    lost_calls: int
    unpriced_calls: int
    cost_usd: float
    errors: Mapping[str, int]
    processes: tuple[Process, ...]
    faults: frozenset[str]
    first_looks: tuple[TierShift, ...]


class ErrorCounts:
    """Errors by kind, counted further from where the last question ended. Errors are never deleted, but one may be
    committed after another with a higher number: what is newer than a minute is counted anew. Threads may share it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._settled: Counter[str] = Counter()
        self._through = 0
        self._seen: tuple[float, int] | None = None

    def counts(self, conn: Connection) -> Mapping[str, int]:
        """Errors by kind, up to now."""
        newest = int(conn.execute(select(func.max(case_errors.c.id))).scalar() or 0)
        with self._lock:
            if self._seen is not None and self._clock() - self._seen[0] >= SETTLED_AFTER_S:
                self._settled += _errors(conn, self._through, self._seen[1])
                self._through, self._seen = self._seen[1], None
            self._seen = self._seen or (self._clock(), newest)
            return self._settled + _errors(conn, self._through, newest)


def _errors(conn: Connection, after: int, through: int) -> Counter[str]:
    """Errors with numbers above ``after`` and up to ``through``, counted by kind."""
    query = select(case_errors.c.kind, func.count()).where(case_errors.c.id > after, case_errors.c.id <= through)
    return Counter({row[0]: row[1] for row in conn.execute(query.group_by(case_errors.c.kind))})


def figures(db: Database, now: datetime, errors: ErrorCounts) -> Figures:
    """The figures at ``now``, from one snapshot of the database."""
    with db.read() as conn:
        open_cases = _entry.closed_at.is_(None)
        late = select(_entry.tier, func.count()).where(open_cases, _entry.due_at <= now).group_by(_entry.tier)
        due = select(_entry.tier, func.min(_entry.due_at, type_=Moment)).where(open_cases).group_by(_entry.tier)
        sums = conn.execute(select(*(func.sum(batch_tallies.c[name]) for name in _SUMS))).one()
        return Figures(
            open=_by_tier(conn, select(_entry.tier, func.count()).where(open_cases).group_by(_entry.tier)),
            overdue=_by_tier(conn, late),
            oldest_due={Tier(row[0]): row[1] for row in conn.execute(due)},
            waiting=_count(conn, pending_cases.c.ready_at.is_not(None)),
            parked=_count(conn, pending_cases.c.ready_at.is_(None)),
            calls=int(sums[0] or 0),
            lost_calls=int(sums[1] or 0),
            unpriced_calls=int(sums[2] or 0),
            cost_usd=float(sums[3] or 0),
            errors=errors.counts(conn),
            processes=tuple(heartbeats.processes(conn, now)),
            faults=frozenset(one.fault.value for one in faults.open_faults_in(conn)),
            first_looks=tier_shifts(conn, now - DAY, now),
        )


_SUMS = ("calls", "lost_calls", "unpriced_calls", "cost_usd")


def require_ready(db: Database, now: datetime) -> None:
    """Return where the database answers, has its tables, and keeps what is written to it. Raises whatever is wrong."""
    with db.read() as conn:
        conn.execute(select(pending_cases.c.case_id).limit(1)).first()
    duties.take(db, "ready", "whoever asks", now, timedelta())


def _by_tier(conn: Connection, query: Select[Any]) -> dict[Tier, int]:
    return {Tier(row[0]): row[1] for row in conn.execute(query)}


def _count(conn: Connection, which: ColumnElement[bool]) -> int:
    found = select(func.count()).select_from(pending_cases).where(which)
    return int(conn.execute(found).scalar_one())
