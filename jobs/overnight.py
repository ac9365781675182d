"""Batches by message batches: in rounds, each asking once for the next draws of all open cases, at half the price.

The tables are the truth: every round is recorded before it is sent, each answer counts once, and a case is decided by
the very steps that decide it live, which look at the same moments and see the same draws by number.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from jobs.agents import Agents
from jobs.model_health import PASSING, Preflights
from jobs.overnight_cases import HALF, OvernightCases
from jobs.overnight_sending import Sending
from jobs.patience import held, retry_in_thread
from jobs.port import Clock
from screening.models.batches import ServiceBatch
from screening.pipeline.draws import SamplerError, Usage
from screening.review.actors import SYSTEM
from storage.batches import batch_state, batches, overnight
from storage.batches.configurations import Configuration, load_configuration
from storage.batches.overnight import DrawWanted, HandedIn
from storage.database import Database, passing_fault
from storage.settings_store import is_stopped
from storage.site import processes

POLL_S = 30.0
DUTY = "overnight"

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class OvernightRunner:
    """Runs overnight batches, in one process at a time."""

    db: Database
    agents: Agents
    clock: Clock
    worker: str
    poll_s: float = POLL_S
    preflights: Preflights | None = None
    reconciled: set[str] = field(default_factory=set)
    closed: set[str] = field(default_factory=set)
    cases: OvernightCases = field(init=False)

    def __post_init__(self) -> None:
        self.cases = OvernightCases(db=self.db, agents=self.agents, clock=self.clock)

    async def run(self) -> None:
        """Until cancelled. A fault waits for the next look; nothing is lost by it."""
        while True:
            await self._guarded_round()
            await asyncio.sleep(self.poll_s)

    async def until_over(self, batch_id: str) -> None:
        """Work until nothing more happens to this batch by itself."""
        while await retry_in_thread(batches.batch_state, self.db, batch_id) in batch_state.ACTIVE:
            if not await self._guarded_round():
                await asyncio.sleep(self.poll_s)

    async def _guarded_round(self) -> bool:
        try:
            return await self.round()
        except Exception as error:  # nothing is decided by a failed round
            log.error("overnight: %s", type(error).__name__)
            return False

    async def round(self) -> bool:
        """Bring every overnight batch as far as it goes now; whether another step may follow at once."""
        due = await retry_in_thread(overnight.overnight_batches, self.db)
        if not due:
            return False
        async with self._alone() as mine:
            return any([await self._advance(batch_id) for batch_id in due]) if mine else False

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[bool]:
        """Whether this process has the duty, renewed while the block runs; and free soon after a process dies."""
        if self.db.kind == "sqlite":  # whose only worker holds a lock on the file
            yield True
            return
        mine = False
        try:
            async with held(self.db, DUTY, self.worker, self.clock) as mine:
                yield mine
        finally:
            if mine:
                await retry_in_thread(processes.leave, self.db, DUTY, self.worker, self.clock())

    async def _advance(self, batch_id: str) -> bool:
        """Advance one batch; whether it made a step. A fault that does not pass by itself pauses it, and no other."""
        try:
            await self._heed_stop(batch_id)
            version = await retry_in_thread(overnight.configuration_of, self.db, batch_id)
            return await self._step(batch_id, await retry_in_thread(load_configuration, self.db, version))
        except SamplerError as error:
            log.warning("overnight batch %s: %s", batch_id, error)
            if error.kind not in PASSING:
                await self._pause(batch_id, error.kind)
        except Exception as error:  # a bug, or what this version can no longer read
            if passing_fault(error) is not None:
                raise
            log.error("overnight batch %s: %s", batch_id, type(error).__name__)
            await self._pause(batch_id, "internal_error")
        return False

    async def _pause(self, batch_id: str, why: str) -> None:
        if await retry_in_thread(overnight.allows_sending, self.db, batch_id):
            await retry_in_thread(batches.pause, self.db, SYSTEM.at(self.clock()), batch_id, why)

    async def _heed_stop(self, batch_id: str) -> None:
        """While the stop button is pressed, a person decides what is open."""
        if await retry_in_thread(is_stopped, self.db) and await retry_in_thread(
            overnight.allows_sending, self.db, batch_id
        ):
            for case_id in await retry_in_thread(overnight.open_cases, self.db, batch_id):
                await self.cases.give_to_a_person(case_id)
            await retry_in_thread(overnight.lose_unused, self.db, batch_id, self.clock())

    async def _step(self, batch_id: str, made: Configuration) -> bool:
        opened = await retry_in_thread(overnight.open_ones, self.db, batch_id)
        if not opened and await retry_in_thread(overnight.is_cancelled, self.db, batch_id):
            await self._close(batch_id)
            return False
        async with self.agents.message_batches(made) as service:
            sending = Sending(db=self.db, clock=self.clock, service=service, made=made)
            listed = await self._match(sending, batch_id, opened)
            opened = await retry_in_thread(overnight.open_ones, self.db, batch_id)
            if not all([await sending.settle(one, listed) for one in opened]):
                return False
            if not await retry_in_thread(overnight.may_send, self.db, batch_id):
                return False
            if self.preflights is not None:
                await self.preflights.require(made, 0)
            return await self._next_round(sending, batch_id)

    async def _close(self, batch_id: str) -> None:
        """Count what a cancelled batch bought for nothing, once a process."""
        if batch_id not in self.closed:
            await retry_in_thread(overnight.lose_unused, self.db, batch_id, self.clock())
            self.closed.add(batch_id)

    async def _match(self, sending: Sending, batch_id: str, opened: Sequence[HandedIn]) -> list[ServiceBatch]:
        """After a start, and while it is not known whether something was sent: what the account has, matched."""
        unsent = any(one.service_id is None for one in opened)
        listed = await sending.match(opened) if unsent or (opened and batch_id not in self.reconciled) else []
        self.reconciled.add(batch_id)
        return listed

    async def _next_round(self, sending: Sending, batch_id: str) -> bool:
        """Decide what can be decided, and ask for what the other cases need; whether anything was sent."""
        times = await retry_in_thread(overnight.stopping_times, self.db, batch_id)
        wanted: list[DrawWanted] = []
        most: int | None = 0
        for case_id in await retry_in_thread(overnight.open_cases, self.db, batch_id):
            if (needed := await self.cases.decide(case_id)) is not None:
                draws, left = needed.next_draws(times.get(needed.request.node, ()))
                most = None if most is None or left is None else max(most, left)
                wanted += draws
        if wanted and (cap := await self._cap_in_the_way(sending, batch_id, wanted)) is not None:
            await self._pause(batch_id, cap)
            return False
        for one in await retry_in_thread(overnight.plan, self.db, batch_id, wanted, most, self.clock()):
            await sending.send(one)
        return bool(wanted)

    async def _cap_in_the_way(self, sending: Sending, batch_id: str, wanted: Sequence[DrawWanted]) -> str | None:
        """The cap that this round would exceed, counting all that was bought; an unknown cost exceeds every cap."""
        spent = await retry_in_thread(overnight.spending, self.db, batch_id)
        if spent.caps.max_calls is not None and spent.asked + len(wanted) > spent.caps.max_calls:
            return "max_calls"
        if spent.caps.max_cost_usd is None:
            return None
        usage = spent.mean_usage or await self._usual_usage(sending, batch_id, wanted)
        price = self.agents.cost_usd(sending.made, usage)
        if price is None:
            return "cost_unknown"
        calls = spent.answers + spent.copies + len(wanted)
        return "max_cost" if HALF * price * calls > spent.caps.max_cost_usd else None

    async def _usual_usage(self, sending: Sending, batch_id: str, wanted: Sequence[DrawWanted]) -> Usage:
        """What one call takes, about, before there is an answer to go by."""
        nodes = [sending.made.pipeline.node(name) for name in {draw.node for draw in wanted}]
        characters = await retry_in_thread(overnight.mean_characters, self.db, batch_id)
        return sending.service.usual_usage(nodes, characters)
