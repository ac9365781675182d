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
from jobs.first_answers import FirstAnswers
from jobs.patience import to_the_end
from jobs.port import Clock
from jobs.preflights import Preflights
from screening.engine.draws import TOO_LONG, Draw, DrawRequest, SamplerError, ScreenedText, Usage
from screening.engine.guard import guard_for
from screening.engine.screen import NodeRun, Screening, screen
from screening.review.actors import SYSTEM
from screening.samplers.message_batches import Asked, MessageBatches, ServiceBatch
from screening.samplers.replies import SeenIds
from screening.statistics.rounds import next_wave, rounds_left
from storage.batches import batch_state, batches, overnight, screenings
from storage.batches.configurations import Configuration, load_configuration
from storage.batches.overnight import Answered, CaseAnswers, DrawWanted, HandedIn
from storage.batches.pending import record_error
from storage.batches.screenings import CaseForScreening, case_for_screening, committed_runs
from storage.database import Database
from storage.site import duties

POLL_S = 30.0
DUTY, DUTY_LASTS = "overnight", timedelta(seconds=20)
MOST_TRIES = 3
"""Failures of one request after which the case waits for a person."""
LINES_AT_ONCE = 200
CLOCKS_DIFFER = timedelta(minutes=10)
HALF = 0.5
"""The share of its list price that the service charges."""

log = logging.getLogger(__name__)


class _More(Exception):
    """Raised when a case needs draws that have not come back yet."""

    def __init__(self, request: DrawRequest) -> None:
        super().__init__(request.node)
        self.request = request


@dataclass(frozen=True, slots=True)
class _Known:
    """The draws that came back, by number; what is missing is asked for in the next round."""

    answers: CaseAnswers

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        known = self.answers.in_order(request.node, request.variant)
        wave = known[request.first : request.first + request.count]
        if len(wave) == request.count:
            return wave
        failed = [kinds for key, kinds in self.answers.failures.items() if key[:2] == (request.node, request.variant)]
        if any(TOO_LONG in kinds for kinds in failed):
            raise SamplerError(TOO_LONG, "The text is too long for the model.")
        if failed and max(map(len, failed)) >= MOST_TRIES * (1 + self.answers.parked):
            kind = max(failed, key=len)[-1]
            raise SamplerError(kind, f"A request failed {MOST_TRIES} times in message batches.")
        raise _More(request)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overnight:
    """One process's work at overnight batches; one process at a time does it."""

    db: Database
    agents: Agents
    clock: Clock
    worker: str
    poll_s: float = POLL_S
    preflights: Preflights | None = None
    first: FirstAnswers = field(default_factory=FirstAnswers)
    reconciled: set[str] = field(default_factory=set)

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
        """Advance one batch; whether it made a step. What the service refuses for good pauses it."""
        version = await to_the_end(overnight.configuration_of, self.db, batch_id)
        made = await to_the_end(load_configuration, self.db, version)
        try:
            return await self._step(batch_id, made)
        except SamplerError as error:
            log.warning("overnight batch %s: %s", batch_id, error)
            if error.kind not in PASSING and await to_the_end(overnight.allows_sending, self.db, batch_id):
                await to_the_end(batches.pause, self.db, SYSTEM.at(self.clock()), batch_id, error.kind)
            return False

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
            needed = await self._decide(case_id, made)
            if needed is None:
                continue
            answers, request = needed
            have = len(answers.in_order(request.node, request.variant))
            missing, left = _wave_size(request, have, times.get(request.node, ()), made)
            known = answers.draws.get((request.node, request.variant), {})
            most = None if most is None or left is None else max(most, left)
            wanted += [
                DrawWanted(case_id=case_id, node=request.node, variant=request.variant, number=number)
                for number in range(have, request.first + missing)
                if number not in known
            ]
        return await self._hand_in(service, batch_id, wanted, most, made)

    async def _hand_in(
        self, service: MessageBatches, batch_id: str, wanted: list[DrawWanted], left: int | None, made: Configuration
    ) -> bool:
        allowed = await to_the_end(overnight.calls_left, self.db, batch_id)
        if allowed is not None and len(wanted) > allowed:
            await to_the_end(batches.pause, self.db, SYSTEM.at(self.clock()), batch_id, "max_calls")
            return False
        for one in await to_the_end(overnight.plan, self.db, batch_id, wanted, left, self.clock()):
            await self._send(service, one, made)
        return bool(wanted)

    async def _decide(self, case_id: str, made: Configuration) -> tuple[CaseAnswers, DrawRequest] | None:
        """The case as far as its answers lead: None when it has come to its end, else what it needs next."""
        case = await to_the_end(case_for_screening, self.db, case_id)
        if case is None:
            return None
        if not await to_the_end(overnight.has_reference, self.db, case_id):
            await self._leave(case, SamplerError("no_reference", "It has no reference label: it is not sent this way."))
            return None
        answers = await to_the_end(overnight.answers_of, self.db, case_id)
        runs = await to_the_end(committed_runs, self.db, case_id)
        keeping = _Keeping(job=self, case=case, answers=answers, position=len(runs))
        try:
            found = await screen(
                case.text, guard_for(case.flags), made.pipeline, _Known(answers), committed=runs, commit=keeping.commit
            )
        except _More as more:
            return answers, more.request
        except SamplerError as error:
            await self._leave(case, error)
            return None
        self.first.look_at(case.batch_id, found)
        await to_the_end(self._conclude, case, found)
        return None

    async def _leave(self, case: CaseForScreening, error: SamplerError) -> None:
        """Set the case aside with what failed, until somebody asks for a retry."""
        await to_the_end(record_error, self.db, case.case_id, error.kind, str(error), self.clock())

    def _conclude(self, case: CaseForScreening, found: Screening) -> None:
        kept = overnight.costs_of(self.db, case.case_id)
        cost = None if None in kept else sum(one or 0.0 for one in kept)
        screenings.commit_outcome(self.db, case.case_id, found, cost, case.configuration.version, self.clock())

    def cost_of(self, case: CaseForScreening, usage: Usage, node: str) -> float | None:
        """The cost at half the list price."""
        cost = self.agents.cost_usd(case.configuration, usage, node)
        return None if cost is None else HALF * cost


@dataclass(slots=True, kw_only=True)
class _Keeping:
    """Commits a case's runs; a run costs what all answers bought for it cost, needed or not."""

    job: Overnight
    case: CaseForScreening
    answers: CaseAnswers
    position: int

    async def commit(self, run: NodeRun) -> None:
        bought = self.answers.draws.get((run.node, run.variant), {}).values()
        cost = self.job.cost_of(self.case, sum((draw.usage for draw in bought), Usage()), run.node)
        now = self.job.clock()
        ours = await to_the_end(
            screenings.commit_run, self.job.db, self.case.case_id, self.position, run, cost, now, now
        )
        if not ours:
            raise SamplerError("run_lost", "Another start was first.")
        self.position += 1


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


def _wave_size(request: DrawRequest, have: int, times: Sequence[int], made: Configuration) -> tuple[int, int | None]:
    """How many draws to have in all beyond the request's first, and rounds left after that, about."""
    budget = made.pipeline.node(request.node).rule.rule().budget
    least = request.first + request.count - have
    wave = next_wave(times, have, least, budget)
    left = rounds_left(times, have, least)
    return have + wave - request.first, None if left is None else left - 1
