"""Batches by message batches: in rounds, each asking once for the next draws of all open cases, at half the price.

The tables are the truth: every round is recorded before it is sent, each answer counts once, and a case is decided by
the very steps that decide it live, which look at the same moments and see the same draws by number.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta

from jobs.agents import Agents
from jobs.breaker import PASSING
from jobs.overnight_cases import OvernightCases
from jobs.patience import to_the_end
from jobs.port import Clock
from jobs.preflights import Preflights
from screening.engine.draws import DrawRequest, SamplerError, ScreenedText
from screening.review.actors import SYSTEM
from screening.samplers.message_batches import Asked, MessageBatches, ServiceBatch
from screening.samplers.replies import SeenIds
from storage.batches import batch_state, batches, overnight, screenings
from storage.batches.configurations import Configuration, load_configuration
from storage.batches.overnight import Answered, DrawWanted, HandedIn
from storage.database import Database, passing_fault
from storage.site import duties

POLL_S = 30.0
DUTY, DUTY_LASTS = "overnight", timedelta(seconds=20)
LINES_AT_ONCE = 200
CLOCKS_DIFFER = timedelta(minutes=10)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overnight:
    """One process's work at overnight batches; one process at a time does it."""

    db: Database
    agents: Agents
    clock: Clock
    worker: str
    poll_s: float = POLL_S
    preflights: Preflights | None = None
    reconciled: set[str] = field(default_factory=set)
    cases: OvernightCases = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cases", OvernightCases(db=self.db, agents=self.agents, clock=self.clock))

    async def run(self) -> None:
        """Until cancelled. A fault waits for the next look; nothing is lost by it."""
        while True:
            await self._guarded_round()
            await asyncio.sleep(self.poll_s)

    async def until_over(self, batch_id: str) -> None:
        """Work until nothing more happens to this batch by itself."""
        while await to_the_end(batches.batch_state, self.db, batch_id) in batch_state.ACTIVE:
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
        due = await to_the_end(overnight.overnight_batches, self.db)
        if not due:
            return False
        async with self._alone() as mine:
            return any([await self._advance(batch_id) for batch_id in due]) if mine else False

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[bool]:
        """Whether this process does it; held on to meanwhile, and free soon after a process that died over it."""
        if self.db.kind == "sqlite":  # whose only worker holds a lock on the file
            yield True
            return
        if not await self._take():
            yield False
            return
        holding = asyncio.create_task(self._hold())
        try:
            yield True
        finally:
            holding.cancel()
            with suppress(asyncio.CancelledError):
                await holding
            await to_the_end(duties.leave, self.db, DUTY, self.worker, self.clock())

    async def _take(self) -> bool:
        return await to_the_end(duties.take, self.db, DUTY, self.worker, self.clock(), DUTY_LASTS)

    async def _hold(self) -> None:
        while True:
            await asyncio.sleep(DUTY_LASTS.total_seconds() / 4)
            await self._take()

    async def _advance(self, batch_id: str) -> bool:
        """Advance one batch; whether it made a step. A fault that does not pass by itself pauses it, and no other."""
        try:
            version = await to_the_end(overnight.configuration_of, self.db, batch_id)
            return await self._step(batch_id, await to_the_end(load_configuration, self.db, version))
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
        if await to_the_end(overnight.allows_sending, self.db, batch_id):
            await to_the_end(batches.pause, self.db, SYSTEM.at(self.clock()), batch_id, why)

    async def _step(self, batch_id: str, made: Configuration) -> bool:
        over = await to_the_end(overnight.is_cancelled, self.db, batch_id)
        if over and not await to_the_end(overnight.open_ones, self.db, batch_id):
            return False
        async with self.agents.message_batches(made) as service:
            listed = await self._reconcile(service, batch_id)
            for one in await to_the_end(overnight.open_ones, self.db, batch_id):
                if over:
                    await self._withdraw(service, one)
                elif not await self._settle(service, one, made, listed):
                    return False
            if over or not await to_the_end(overnight.allows_sending, self.db, batch_id):
                return False
            if self.preflights is not None:
                await self.preflights.require(made, 0)
            return await self._next_round(service, batch_id, made)

    async def _withdraw(self, service: MessageBatches, one: HandedIn) -> None:
        """Cancel a cancelled batch's requests at the service; none of their answers is counted any more."""
        if one.service_id is not None:
            await service.cancel(one.service_id)
        await to_the_end(overnight.end_message_batch, self.db, one.id, self.clock())

    async def _reconcile(self, service: MessageBatches, batch_id: str) -> list[ServiceBatch]:
        """After a start, and while it is not known whether something was sent: what the account has is matched by the
        ids that were recorded before sending. Returns what the account had, where it was asked.
        """
        unsent = [one for one in await to_the_end(overnight.open_ones, self.db, batch_id) if one.service_id is None]
        if batch_id in self.reconciled and not unsent:
            return []
        known = await to_the_end(overnight.known_ids, self.db)
        listed = await service.list_batches()
        for found in listed:
            if found.ended and found.id not in known:
                await self._match(service, found)
        self.reconciled.add(batch_id)
        return listed

    async def _match(self, service: MessageBatches, listed: ServiceBatch) -> None:
        custom_ids = [custom_id async for custom_id, _ in service.results(listed.id)]
        await to_the_end(overnight.record_match, self.db, listed.id, custom_ids)

    async def _settle(
        self, service: MessageBatches, one: HandedIn, made: Configuration, listed: Sequence[ServiceBatch]
    ) -> bool:
        """Send it, look after it, count what came back; whether that is done."""
        if one.service_id is None:
            if not await self._may_send(one, listed):
                return False
            await self._send(service, one, made)
            return False
        found = await service.find(one.service_id)
        await to_the_end(overnight.record_progress, self.db, one.id, found.processed)
        if found.ended:
            await self._count(service, one, made)
        return found.ended

    async def _may_send(self, one: HandedIn, listed: Sequence[ServiceBatch]) -> bool:
        """Not while the service works at a batch that may be this one: it is known by its results alone. Those that had
        ended in the same list are matched already; a newer list could name as ended one that nobody has looked into.
        """
        if not await to_the_end(overnight.allows_sending, self.db, one.batch_id):
            return False
        known = await to_the_end(overnight.known_ids, self.db)
        since = (one.created_at - CLOCKS_DIFFER).strftime("%Y-%m-%dT%H:%M:%S")
        return not any(
            not found.ended and found.id not in known and found.total == one.requests and found.created_at >= since
            for found in listed
        )

    async def _send(self, service: MessageBatches, one: HandedIn, made: Configuration) -> None:
        wanted = await to_the_end(overnight.wanted_draws, self.db, one.id)
        texts = await self._texts(wanted.values())
        asked = [_asked_draw(one, custom_id, draw, texts, made) for custom_id, draw in wanted.items()]
        service_id = await service.create(asked)
        await to_the_end(overnight.record_sent, self.db, one.id, service_id)

    async def _texts(self, wanted: Iterable[DrawWanted]) -> dict[str, ScreenedText]:
        """The text of each case, which leaves by this way only where it has a reference label."""
        found: dict[str, ScreenedText] = {}
        for case_id in {draw.case_id for draw in wanted}:
            if not await to_the_end(overnight.has_reference, self.db, case_id):
                raise SamplerError("no_reference", "A text without a reference label is not sent by message batch.")
            found[case_id] = await to_the_end(screenings.text_for_agents, self.db, case_id)
        return found

    async def _count(self, service: MessageBatches, one: HandedIn, made: Configuration) -> None:
        """Every result of ours that has no answer yet, by the same checks as a live reply."""
        wanted = await to_the_end(overnight.wanted_draws, self.db, one.id)
        texts, seen = await self._texts(wanted.values()), SeenIds()
        for reply_id in await to_the_end(overnight.reply_ids, self.db, one.batch_id):
            seen.is_new(reply_id)
        found: list[Answered] = []
        async for custom_id, result in service.results(str(one.service_id)):
            if (draw := wanted.pop(custom_id, None)) is None:
                continue
            line = service.read(_asked_draw(one, custom_id, draw, texts, made), result, seen)
            found.append(Answered(custom_id=custom_id, draw=line.draw, reply_id=line.reply_id, error=line.error))
            if len(found) >= LINES_AT_ONCE:
                await to_the_end(overnight.keep_answers, self.db, found)
                found = []
        await to_the_end(overnight.keep_answers, self.db, found)
        await to_the_end(overnight.end_message_batch, self.db, one.id, self.clock())

    async def _next_round(self, service: MessageBatches, batch_id: str, made: Configuration) -> bool:
        """Decide what can be decided, and ask for what the other cases need; whether anything was sent."""
        times = await to_the_end(overnight.stopping_times, self.db, batch_id)
        wanted: list[DrawWanted] = []
        most: int | None = 0
        for case_id in await to_the_end(overnight.open_cases, self.db, batch_id):
            if (needed := await self.cases.decide(case_id)) is not None:
                draws, left = needed.next_draws(times.get(needed.request.node, ()))
                most = None if most is None or left is None else max(most, left)
                wanted += draws
        return await self._hand_in(service, batch_id, wanted, most, made)

    async def _hand_in(
        self, service: MessageBatches, batch_id: str, wanted: list[DrawWanted], left: int | None, made: Configuration
    ) -> bool:
        allowed = await to_the_end(overnight.calls_left, self.db, batch_id)
        if allowed is not None and len(wanted) > allowed:
            await self._pause(batch_id, "max_calls")
            return False
        for one in await to_the_end(overnight.plan, self.db, batch_id, wanted, left, self.clock()):
            await self._send(service, one, made)
        return bool(wanted)


def _asked_draw(
    one: HandedIn, custom_id: str, wanted: DrawWanted, texts: Mapping[str, ScreenedText], made: Configuration
) -> Asked:
    request = DrawRequest(
        node=wanted.node,
        text=texts[wanted.case_id],
        first=wanted.number,
        count=1,
        variant=wanted.variant,
        agent=made.pipeline.node(wanted.node).agent,
    )
    return Asked(custom_id=custom_id, seed=one.seed, request=request)
