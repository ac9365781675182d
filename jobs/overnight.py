"""Batches by message batches: in rounds, each asking once for the next draws of all open cases, at half the price.

The tables are the truth: every round is recorded before it is sent, each answer counts once, and a case is decided by
the very steps that decide it live, which look at the same moments and see the same draws by number.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING

from jobs.agents import Agents
from jobs.model_health import ModelHealth
from jobs.patience import held, retry_in_thread
from jobs.process import Clock
from screening.models.wire import SeenIds
from screening.pipeline.cost import sum_costs
from screening.pipeline.draws import TOO_LONG, Draw, DrawRequest, SamplerError, Usage
from screening.pipeline.engine import NodeRun, Reason, Screening, guard_for, screen, to_a_human
from screening.pipeline.errors import error_kind
from screening.review.actors import SYSTEM
from storage.batches import batch_state, batches, overnight, screenings
from storage.batches.configurations import Configuration, load_configuration
from storage.batches.overnight import CaseAnswers, DrawWanted, HandedIn
from storage.batches.pending import record_error
from storage.batches.runs import EndedRun
from storage.batches.screenings import CaseForScreening
from storage.database import Database, passing_fault
from storage.settings_store import is_stopped

if TYPE_CHECKING:
    from screening.models.batches import MessageBatch, MessageBatches

POLL_S = 30.0
DUTY = "overnight"
HALF = 0.5
"""The share of its list price that the service charges."""
MOST_TRIES = 3
"""Failures of one request after which the case waits for a person."""
CLOCKS_DIFFER = timedelta(minutes=10)

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class OvernightRunner:
    """Runs overnight batches, in one process at a time. ``foreign`` are message batches of others on the account."""

    db: Database
    agents: Agents
    clock: Clock
    worker: str
    poll_s: float = POLL_S
    health: ModelHealth
    foreign: set[str] = field(default_factory=set)

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
        async with held(self.db, DUTY, self.worker, self.clock) as mine:
            return any([await self._advance(batch_id) for batch_id in due]) if mine else False

    async def _advance(self, batch_id: str) -> bool:
        """Advance one batch; whether it made a step. A fault that does not pass by itself pauses it, and no other."""
        try:
            return await self._step(batch_id)
        except SamplerError as error:
            log.warning("overnight batch %s: %s", batch_id, error)
            if not error_kind(error.kind).passes:
                await self._pause(batch_id, error.kind)
        except Exception as error:  # a bug, or what this version can no longer read
            if passing_fault(error) is not None:
                raise
            log.error("overnight batch %s: %s", batch_id, type(error).__name__)
            await self._pause(batch_id, "internal_error")
        return False

    async def _pause(self, batch_id: str, why: str) -> None:
        if (await retry_in_thread(screenings.batch_standing, self.db, batch_id)).allows_calls:
            await retry_in_thread(batches.pause, self.db, SYSTEM.at(self.clock()), batch_id, why)

    async def _may_send(self, batch_id: str) -> bool:
        standing = await retry_in_thread(screenings.batch_standing, self.db, batch_id)
        return standing.allows_calls and not await retry_in_thread(is_stopped, self.db)

    async def _step(self, batch_id: str) -> bool:
        """Count what came back, then ask for the next round; whether anything was sent."""
        standing = await retry_in_thread(screenings.batch_standing, self.db, batch_id)
        if standing.allows_calls and await retry_in_thread(is_stopped, self.db):
            for case_id in await retry_in_thread(overnight.open_cases, self.db, batch_id):
                await self._decide(case_id, {}, stopped=True)
            await retry_in_thread(self._lose_unused, batch_id)
        opened = await retry_in_thread(overnight.open_message_batches, self.db, batch_id)
        version = await retry_in_thread(overnight.configuration_of, self.db, batch_id)
        made = await retry_in_thread(load_configuration, self.db, version)
        async with self.agents.message_batches(made) as service:
            if not all([await self._settle(service, made, one) for one in opened]):
                return False
            if not await self._may_send(batch_id):
                return False
            await self.health.require(made, 0)
            return await self._next_round(service, made, batch_id)

    def _lose_unused(self, batch_id: str) -> None:
        with self.db.write() as conn:
            overnight.lose_unused(conn, batch_id, self.clock())

    async def _settle(self, service: "MessageBatches", made: Configuration, one: HandedIn) -> bool:
        """Send it, look after it, count what came back; whether that is done. What nobody waits for any more is not
        sent, and cancelled at the service: what it has answered by then is paid, and counts.
        """
        needed = await retry_in_thread(overnight.is_needed, self.db, one.id)
        service_id = one.service_id
        if service_id is None:
            may_be_this = await self._find_sent(service, one)
            service_id = next((found.id for found in may_be_this if found.processing_status == "ended"), None)
            if service_id is None and may_be_this:
                return False  # until it has ended
            if service_id is None and needed:
                await self._send(service, made, one)
                return False
            if service_id is None:
                await retry_in_thread(overnight.keep_results, self.db, one, {}, self.clock())
                return True
            await retry_in_thread(overnight.record_sent, self.db, one.id, service_id)
        found = await service.find(service_id)
        await retry_in_thread(overnight.record_progress, self.db, one.id, _processed(found))
        if found.processing_status == "ended":
            await self._count(service, made, one, service_id)
            return True
        if not needed and found.processing_status != "canceling":
            await service.cancel(service_id)
        return False

    async def _find_sent(self, service: "MessageBatches", one: HandedIn) -> list["MessageBatch"]:
        """What of the account may be this message batch, of which no id came back: those of its size that have not
        ended, and the one whose results bear the ids that were recorded before it was sent.
        """
        others = await retry_in_thread(overnight.service_ids, self.db)
        found: list[MessageBatch] = []
        for listed in await service.list_since(one.created_at - CLOCKS_DIFFER):
            if (
                listed.id in others | self.foreign
                or _processed(listed) + listed.request_counts.processing != one.requests
            ):
                continue
            if listed.processing_status != "ended" or await self._bears_ids_of(service, listed.id, one.id):
                found.append(listed)
            else:
                self.foreign.add(listed.id)
        return found

    async def _bears_ids_of(self, service: "MessageBatches", service_id: str, message_batch: str) -> bool:
        try:
            results = await service.results(service_id)
        except SamplerError as error:
            if error_kind(error.kind).passes:
                raise
            return False  # its results are gone
        return any(custom_id.startswith(f"{message_batch}-") for custom_id, _ in results)

    async def _send(self, service: "MessageBatches", made: Configuration, one: HandedIn) -> None:
        """Hand it in, unless its batch may send nothing now."""
        if await self._may_send(one.batch_id):
            requests = await retry_in_thread(self._requests, made, one)
            service_id = await service.create(one.seed, requests)
            await retry_in_thread(overnight.record_sent, self.db, one.id, service_id)

    def _requests(self, made: Configuration, one: HandedIn) -> dict[str, DrawRequest]:
        """Its requests without an answer, by custom id. A text leaves by this way only where it has a reference label:
        SamplerError.
        """
        wanted = overnight.unanswered(self.db, one.id)
        if not all(row.labelled for row in wanted):
            raise SamplerError("no_reference", "A text without a reference label is not sent by message batch.")
        texts = {case_id: screenings.text_for_agents(self.db, case_id) for case_id in {row.case_id for row in wanted}}
        return {
            row.custom_id: DrawRequest(
                node=row.node,
                text=texts[row.case_id],
                first=row.number,
                count=1,
                variant=row.variant,
                agent=made.pipeline.node(row.node).agent,
            )
            for row in wanted
        }

    async def _count(self, service: "MessageBatches", made: Configuration, one: HandedIn, service_id: str) -> None:
        """Every result of ours that has no answer yet, by the same checks as a live reply; the first of each counts."""
        results = await service.results(service_id)

        def read() -> dict[str, tuple[Draw, str] | tuple[None, str]]:
            wanted, seen = self._requests(made, one), SeenIds()
            for reply_id in overnight.reply_ids(self.db, one.batch_id):
                seen.remember(reply_id)
            found: dict[str, tuple[Draw, str] | tuple[None, str]] = {}
            for custom_id, result in results:
                if (request := wanted.pop(custom_id, None)) is not None:
                    found[custom_id] = service.read(service.prepare(one.seed, custom_id, request), result, seen)
            return found

        await retry_in_thread(overnight.keep_results, self.db, one, await retry_in_thread(read), self.clock())

    async def _next_round(self, service: "MessageBatches", made: Configuration, batch_id: str) -> bool:
        """Decide what can be decided, and ask for what the other cases need; whether anything was sent."""
        times = await retry_in_thread(overnight.stopping_times, self.db, batch_id)
        wanted: list[DrawWanted] = []
        for case_id in await retry_in_thread(overnight.open_cases, self.db, batch_id):
            wanted += await self._decide(case_id, times)
        if not wanted:
            return False
        if (cap := await retry_in_thread(self._cap_in_the_way, service, made, batch_id, wanted)) is not None:
            await self._pause(batch_id, cap)
            return False
        for one in await retry_in_thread(overnight.plan, self.db, batch_id, wanted, self.clock()):
            await self._send(service, made, one)
        return True

    def _cap_in_the_way(
        self, service: "MessageBatches", made: Configuration, batch_id: str, wanted: Sequence[DrawWanted]
    ) -> str | None:
        """The cap that this round would exceed, counting all that was bought; an unknown cost exceeds every cap."""
        caps = screenings.batch_standing(self.db, batch_id).caps
        bought = overnight.overnight_progress(self.db, batch_id)
        calls = bought.answers + bought.waiting + len(wanted)
        if caps.max_calls is not None and calls > caps.max_calls:
            return "max_calls"
        if caps.max_cost_usd is None:
            return None
        nodes = [made.pipeline.node(name) for name in {draw.node for draw in wanted}]
        usage = bought.mean_usage or service.usual_usage(nodes, overnight.mean_characters(self.db, batch_id))
        price = self.agents.cost_usd(made, usage)
        if price is None:
            return "cost_unknown"
        return "max_cost" if HALF * price * calls > caps.max_cost_usd else None

    async def _decide(
        self, case_id: str, times: Mapping[str, Sequence[int]], *, stopped: bool = False
    ) -> list[DrawWanted]:
        """Bring the case as far as its answers lead: what it needs next, nothing where it came to its end or failed and
        was set aside; with ``stopped`` it is left to a person. SamplerError where the batch should stop; faults of the
        database that pass by themselves are raised.
        """
        try:
            case = await retry_in_thread(screenings.case_for_screening, self.db, case_id)
            return [] if case is None else await self._screen(case, times, stopped=stopped)
        except SamplerError as error:
            if error.stops_batch:
                raise
            kind, message = error.kind, str(error)
        except Exception as error:  # a bug must leave the case pending and visible, never decided
            if passing_fault(error) is not None:
                raise
            log.error("case %s failed: %s", case_id, type(error).__name__)
            kind, message = "internal_error", type(error).__name__
        await retry_in_thread(record_error, self.db, case_id, kind, message, self.clock())
        return []

    async def _screen(
        self, case: CaseForScreening, times: Mapping[str, Sequence[int]], *, stopped: bool
    ) -> list[DrawWanted]:
        runs = await retry_in_thread(screenings.committed_runs, self.db, case.case_id)
        if stopped:
            await retry_in_thread(self._conclude, case, to_a_human(Reason.STOPPED, runs))
            return []
        answers = await retry_in_thread(overnight.answers_of, self.db, case.case_id)
        if not answers.labelled:
            raise SamplerError("no_reference", "It has no reference label: it is not sent this way.")
        position = len(runs)

        async def commit(run: NodeRun) -> None:
            nonlocal position
            if not await retry_in_thread(self._commit, case, run, position, answers):
                raise SamplerError("run_lost", "Another start was first.")
            position += 1

        known = _KnownDraws(answers)
        try:
            found = await screen(case.text, guard_for(case.flags), case.pipeline, known, committed=runs, commit=commit)
        except _DrawsMissing as missing:
            return _next_draws(case, answers, missing.request, times.get(missing.request.node, ()))
        await retry_in_thread(self._conclude, case, found)
        self.health.look_at(case.batch_id, found)  # the case has its outcome: what is wrong is wrong with the batch
        return []

    def _commit(self, case: CaseForScreening, run: NodeRun, position: int, answers: CaseAnswers) -> bool:
        """Keep a run; it costs what all answers bought for it cost, needed or not."""
        bought = answers.draws.get((run.node, run.variant), {}).values()
        cost = self.agents.cost_usd(case.configuration, sum((draw.usage for draw in bought), Usage()), run.node)
        half, now = None if cost is None else HALF * cost, self.clock()
        ended = EndedRun(position=position, run=run, cost_usd=half, started_at=now, ended_at=now)
        return screenings.commit_run(self.db, case.case_id, ended)

    def _conclude(self, case: CaseForScreening, found: Screening) -> None:
        kept = overnight.costs_of(self.db, case.case_id)
        screenings.commit_outcome(
            self.db, case.case_id, found, sum_costs(kept), case.configuration.version, self.clock()
        )


class _DrawsMissing(Exception):
    """Raised when a case needs draws that have not come back yet."""

    def __init__(self, request: DrawRequest) -> None:
        super().__init__(request.node)
        self.request = request


@dataclass(frozen=True, slots=True)
class _KnownDraws:
    """The draws that came back, by number; what is missing is asked for in the next round."""

    answers: CaseAnswers

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        known = self.answers.in_order(request.node, request.variant)
        draw_batch = known[request.first : request.first + request.count]
        if len(draw_batch) == request.count:
            return draw_batch
        failed = list(self.answers.failures.get((request.node, request.variant), {}).values())
        if any(TOO_LONG in kinds for kinds in failed):
            raise SamplerError(TOO_LONG, "The text is too long for the model.")
        if failed and max(map(len, failed)) >= MOST_TRIES * (1 + self.answers.parked):
            kind = max(failed, key=len)[-1]
            raise SamplerError(kind, f"A request failed {MOST_TRIES} times in message batches.")
        raise _DrawsMissing(request)


def _processed(found: "MessageBatch") -> int:
    counts = found.request_counts
    return counts.succeeded + counts.errored + counts.canceled + counts.expired


def _next_draws(
    case: CaseForScreening, answers: CaseAnswers, request: DrawRequest, times: Sequence[int]
) -> list[DrawWanted]:
    node, variant = request.node, request.variant
    have, known = len(answers.in_order(node, variant)), answers.draws.get((node, variant), {})
    draw_batch = next_batch_size(
        times, have, request.first + request.count - have, case.pipeline.node(node).rule.budget
    )
    return [DrawWanted(case.case_id, node, variant, at) for at in range(have, have + draw_batch) if at not in known]


# How many answers to buy at once where each further round costs hours: the cheapest plan for known stopping times.

ROUND_PRICE = 2.0
"""What one further round of a case is worth, in calls."""
FEWEST_TIMES = 20
"""Stopping times below which nothing is guessed from them."""
FEWEST_DRAWN = 10
"""Answers up to which a node that nothing is known of asks for no more than the earliest decision takes."""


def next_batch_size(times: Sequence[int], drawn: int, least: int, budget: int, round_price: float = ROUND_PRICE) -> int:
    """How many answers to ask for now, after ``drawn``: at least ``least``, at most what the budget leaves.

    The plan c₁ < c₂ < … of totals that minimises E[calls bought + round_price · rounds], where the number of calls
    that a node needs is one of ``times`` above ``drawn``, all alike probable. Where these are too few: half as many
    again as there are, so that rounds stay few whatever a text needs.

    >>> next_batch_size([], 0, 5, 100), next_batch_size([], 16, 1, 100)
    (5, 8)
    >>> next_batch_size([5] * 10 + [11] * 90, 0, 5, 100), next_batch_size([5] * 90 + [40] * 10, 0, 5, 100)
    (11, 5)
    """
    needed = tuple(sorted(time for time in times if time > drawn))
    if len(needed) < FEWEST_TIMES:
        draw_batch = max(least, drawn // 2 if drawn >= FEWEST_DRAWN else 0)
    else:
        draw_batch = max(_plan(needed, drawn, least, round_price)[0] - drawn, least)
    return min(draw_batch, max(budget - drawn, least))


@lru_cache(maxsize=4096)
def _plan(needed: tuple[int, ...], drawn: int, least: int, round_price: float) -> tuple[int, float]:
    """The total to buy up to next, of equally cheap ones the smallest, and the expected price from here on."""
    prices = {}
    for total in sorted({max(drawn + least, time) for time in needed}):
        later = tuple(time for time in needed if time > total)
        rest = len(later) / len(needed) * _plan(later, total, 1, round_price)[1] if later else 0.0
        prices[total] = round(total - drawn + round_price + rest, 9)
    return min(prices.items(), key=itemgetter(1))
