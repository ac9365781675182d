"""One rate limit and one concurrency limit for all workers on a database: the account they use is one."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field

from jobs.agents import Agents, model_settings
from jobs.patience import retry_in_thread
from screening.models.http import default_gate
from screening.models.limits import RateGate
from screening.settings import Settings
from storage.batches import call_limits
from storage.batches.call_limits import Pace
from storage.database import Database

RATE, PLACES = "calls per minute", "calls in flight"
BLOCK_S = 0.1
"""Leave is taken for so many seconds of calls at once: ten short transactions a second and worker at most."""
LAPSES_S = 1.0
"""Leave not used within so long is lost, so that it cannot pile up onto later calls."""
UNDER_WAY_S = 1.0
"""The longest a call is expected to be on its way to the service after its leave; the pace allows for it."""
BURST_SHARE, LATE_SHARE = 50, 100
LEASE_S, RENEW_EVERY_S = 10.0, 1.0
UNRENEWED_S = 5.0
"""A worker that could not renew its share for so long begins no call: what is under way has the lease's rest to end."""

log = logging.getLogger(__name__)


def pace_of(per_minute: int) -> Pace:
    """The pace that lets at most ``per_minute`` calls arrive in *any* minute.

    Calls that arrive within 60 s were given leave within 60 s + `LAPSES_S` + `UNDER_WAY_S`, which is at most
    burst + pace * that time; but for one call a worker, which `SharedLimiter` makes however late its leave came: 1 %
    and one are kept back for these. ValueError where not even one call is allowed.

    >>> pace = pace_of(1000)
    >>> pace.burst, round(pace.per_second * 60), pace.burst + pace.per_second * 62 + 11 <= 1000
    (20, 938, True)
    """
    if per_minute < 1:
        raise ValueError("at least one call a minute must be allowed")
    burst = max(1, per_minute // BURST_SHARE)
    late = 1 + per_minute // LATE_SHARE
    # A single call a minute cannot leave room for a burst: it comes every 62 s.
    return Pace(per_second=max(per_minute - burst - late, 1) / (60 + LAPSES_S + UNDER_WAY_S), burst=burst)


@dataclass(slots=True, kw_only=True)
class SharedLimiter:
    """Leave for one call at a time, taken from the database in blocks. Belongs to one event loop.

    Leave that took longer than ``lapses_s`` to come is good for one call. A worker asks again only when that is
    made, so a window holds at most one call a worker whose leave was given before it: where the database is slow,
    calls are few, but neither none nor too many.
    """

    db: Database
    pace: Pace
    lapses_s: float = LAPSES_S
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _left: int = 0
    _until: float = 0.0
    _late: bool = False

    async def acquire(self) -> None:
        """Returns when one more call may be made; first come, first served within the process."""
        async with self._turn:
            if self._left < 1 or time.monotonic() > self._until:
                await self._take()
            self._left -= 1

    async def _take(self) -> None:
        """A block of leave, which may be used at once; only as much as can be used where the last came late."""
        while True:
            block = 1 if self._late else max(1, round(self.pace.per_second * BLOCK_S))
            grant = await retry_in_thread(call_limits.take, self.db, RATE, self.pace, block)
            self._left, self._until = grant.count, grant.since + self.lapses_s
            self._late = time.monotonic() > self._until
            if grant.count > 0:
                return
            await asyncio.sleep(grant.wait_s)


async def share_places(db: Database, gate: RateGate, total: int, worker: str, every_s: float = RENEW_EVERY_S) -> None:
    """Keep the gate at this worker's share of ``total`` calls in flight until cancelled; then give the share back.

    A worker that cannot renew its share in time makes no further calls until it can.
    """
    loop = asyncio.get_running_loop()
    closing = loop.call_later(UNRENEWED_S, gate.resize, 0)
    try:
        while True:
            asked_at = loop.time()
            try:
                most = gate.in_use + gate.free  # the gate's size, or what is under way since it was larger
                allowed = await retry_in_thread(call_limits.hold, db, PLACES, worker, most, total, LEASE_S)
            except Exception as error:
                log.warning("the share of calls in flight was not renewed: %s", type(error).__name__)
            else:
                gate.resize(allowed)
                closing.cancel()
                closing = loop.call_at(asked_at + UNRENEWED_S, gate.resize, 0)
            await asyncio.sleep(every_s)
    finally:
        closing.cancel()
        gate.resize(0)
        await retry_in_thread(call_limits.give_up, db, PLACES, worker)


@asynccontextmanager
async def limited_agents(settings: Settings, db: Database, worker: str) -> AsyncIterator[Agents]:
    """The agents of one process; where there may be other workers, under the limits that all share."""
    if db.kind == "sqlite" or settings.simulated:
        async with aclosing(Agents(settings)) as agents:
            yield agents
        return
    gate = default_gate(model_settings(settings), SharedLimiter(db=db, pace=pace_of(settings.requests_per_minute)))
    gate.resize(0)
    share = asyncio.create_task(share_places(db, gate, settings.concurrency, worker))
    try:
        async with aclosing(Agents(settings, gate)) as agents:
            yield agents
    finally:
        share.cancel()
        with suppress(asyncio.CancelledError):
            await share
