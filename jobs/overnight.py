"""Batches by message batches: in rounds, each asking once for the next draws of all open cases, at half the price.

The tables are the truth: every round is recorded before it is sent, each answer counts once, and a case is decided by
the very steps that decide it live, which look at the same moments and see the same draws by number.
"""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from jobs.process import held, retry_in_thread
from jobs.screening_job import ScreeningJob
from screening.models.wire import SeenIds
from screening.pipeline.cost import sum_costs
from screening.pipeline.draws import TOO_LONG, Draw, DrawRequest, SamplerError, Usage
from screening.pipeline.engine import NodeRun, Reason, guard_for, screen, to_a_human
from screening.pipeline.errors import error_kind
from storage.batches import batch_state, batches, overnight, screenings
from storage.batches.configurations import Configuration, load_configuration
from storage.batches.counts import Totals
from storage.batches.overnight import DrawWanted, HandedIn, OpenCase
from storage.batches.pending import pause_for_fault, record_error
from storage.batches.screenings import CaseForScreening, EndedRun
from storage.database import Database, passing_fault
from storage.settings_store import is_stopped

if TYPE_CHECKING:
    from screening.models.anthropic import MessageBatch, MessageBatches

POLL_S = 30.0
DUTY = "overnight"
HALF = 0.5
"""The share of its list price that the service charges."""
MOST_TRIES = 3
"""Failures of one request after which the case waits for a person."""
CLOCKS_DIFFER = timedelta(minutes=10)

log = logging.getLogger(__name__)
T = TypeVar("T")


class OvernightRunner:
    """Runs overnight batches, in one process at a time."""

    def __init__(self, job: ScreeningJob, poll_s: float = POLL_S) -> None:
        self.db, self.agents, self.clock, self.health = job.db, job.agents, job.clock, job.health
        self._worker, self._poll_s = job.worker, poll_s

    async def run(self) -> None:
        """Until cancelled. A fault waits for the next look; nothing is lost by it."""
        while True:
            await self._guarded_round()
            await asyncio.sleep(self._poll_s)

    async def until_over(self, batch_id: str) -> None:
        """Work until nothing more happens to this batch by itself."""
        while await self._do(batches.batch_state, batch_id) in batch_state.ACTIVE:
            if not await self._guarded_round():
                await asyncio.sleep(self._poll_s)

    async def _do(self, work: Callable[..., T], *args: Any) -> T:
        return await retry_in_thread(work, self.db, *args)

    async def _guarded_round(self) -> bool:
        try:
            return await self.round()
        except Exception as error:  # nothing is decided by a failed round
            log.error("overnight: %s", type(error).__name__)
            return False

    async def round(self) -> bool:
        """Bring every overnight batch as far as it goes now; whether another step may follow at once."""
        due = await self._do(overnight.overnight_batches)
        if not due:
            return False
        async with held(self.db, DUTY, self._worker, self.clock) as mine:
            return any([await self._advance(batch_id, version) for batch_id, version in due.items()]) if mine else False

    async def _advance(self, batch_id: str, version: str) -> bool:
        """Advance one batch; whether it made a step. A fault that does not pass by itself pauses it, and no other."""
        try:
            return await self._step(batch_id, version)
        except SamplerError as error:
            log.warning("overnight batch %s: %s", batch_id, error)
            if not error_kind(error.kind).passes:
                await self._do(pause_for_fault, batch_id, error.kind, self.clock())
        except Exception as error:  # a bug, or what this version can no longer read
            if passing_fault(error) is not None:
                raise
            log.error("overnight batch %s: %s", batch_id, type(error).__name__)
            await self._do(pause_for_fault, batch_id, "internal_error", self.clock())
        return False

    async def _step(self, batch_id: str, version: str) -> bool:
        """Count what came back, then ask for the next round; whether anything was sent."""
        standing = await self._do(screenings.batch_standing, batch_id)
        if standing.allows_calls and await self._do(is_stopped):
            for waiting in await self._do(overnight.open_cases, batch_id):
                await self._decide(waiting, stopped=True)
            await self._do(overnight.lose_unused, batch_id, self.clock())
        opened = await self._do(overnight.open_message_batches, batch_id)
        made = await self._do(load_configuration, version)
        async with self.agents.message_batches(made) as service:
            if not all([await self._settle(service, made, sent) for sent in opened]):
                return False
            if not await self._do(_may_send, batch_id):
                return False
            await self.health.require(made, 0)
            return await self._next_round(service, made, batch_id)

    async def _settle(self, service: "MessageBatches", made: Configuration, sent: HandedIn) -> bool:
        """Send it, look after it, count what came back; whether that is done. What nobody waits for any more is not
        sent, and cancelled at the service: what it has answered by then is paid, and counts.
        """
        needed = await self._do(overnight.is_needed, sent)
        service_id = sent.service_id
        if service_id is None:
            may_be_this = await self._find_sent(service, sent)
            service_id = next((found.id for found in may_be_this if found.processing_status == "ended"), None)
            if service_id is None and may_be_this:
                return False  # until it has ended
            if service_id is None and needed:
                await self._send(service, made, sent)
                return False
            if service_id is None:
                await self._do(overnight.keep_results, sent, {}, self.clock())
                return True
            await self._do(overnight.note, sent.id, {"service_id": service_id})
        found = await service.find(service_id)
        await self._do(overnight.note, sent.id, {"processed": _processed(found)})
        if found.processing_status == "ended":
            await self._count(service, made, sent, service_id)
            return True
        if not needed and found.processing_status != "canceling":
            await service.cancel(service_id)
        return False

    async def _find_sent(self, service: "MessageBatches", sent: HandedIn) -> list["MessageBatch"]:
        """What of the account may be this message batch, of which no id came back: those of its size that have not
        ended, and the one whose results bear the ids that were recorded before it was sent.
        """
        ours = await self._do(overnight.service_ids)
        found: list[MessageBatch] = []
        for listed in await service.list_since(sent.created_at - CLOCKS_DIFFER):
            if listed.id in ours or _processed(listed) + listed.request_counts.processing != sent.requests:
                continue
            if listed.processing_status != "ended" or await self._bears_ids_of(service, listed.id, sent.id):
                found.append(listed)
        return found

    async def _bears_ids_of(self, service: "MessageBatches", service_id: str, message_batch: str) -> bool:
        try:
            results = await service.results(service_id)
        except SamplerError as error:
            if error_kind(error.kind).passes:
                raise
            return False  # its results are gone
        return any(custom_id.startswith(f"{message_batch}-") for custom_id, _ in results)

    async def _send(self, service: "MessageBatches", made: Configuration, sent: HandedIn) -> None:
        """Hand it in, unless its batch may send nothing now."""
        if await self._do(_may_send, sent.batch_id):
            requests = await self._do(_requests, made, sent.id)
            service_id = await service.create(sent.seed, requests)
            await self._do(overnight.note, sent.id, {"service_id": service_id})

    async def _count(self, service: "MessageBatches", made: Configuration, sent: HandedIn, service_id: str) -> None:
        """Every result of ours that has no answer yet, by the same checks as a live reply; the first of each counts."""
        results = await service.results(service_id)

        def read(db: Database) -> dict[str, tuple[Draw | None, str]]:
            wanted, seen = _requests(db, made, sent.id), SeenIds()
            for reply_id in overnight.reply_ids(db, sent.batch_id):
                seen.remember(reply_id)
            found: dict[str, tuple[Draw | None, str]] = {}
            for custom_id, result in results:
                if (request := wanted.pop(custom_id, None)) is not None:
                    found[custom_id] = service.read(sent.seed, custom_id, request, result, seen)
            return found

        await self._do(overnight.keep_results, sent, await self._do(read), self.clock())

    async def _next_round(self, service: "MessageBatches", made: Configuration, batch_id: str) -> bool:
        """Decide what can be decided, and ask for what the other cases need; whether anything was sent."""
        wanted: list[DrawWanted] = []
        for waiting in await self._do(overnight.open_cases, batch_id):
            wanted += await self._decide(waiting)
        if not wanted:
            return False
        if (cap := await self._do(self._cap_in_the_way, service, made, batch_id, wanted)) is not None:
            await self._do(pause_for_fault, batch_id, cap, self.clock())
            return False
        for planned in await self._do(overnight.plan, batch_id, wanted, self.clock()):
            await self._send(service, made, planned)
        return True

    def _cap_in_the_way(
        self, db: Database, service: "MessageBatches", made: Configuration, batch_id: str, wanted: Sequence[DrawWanted]
    ) -> str | None:
        """The cap that this round would exceed, counting all that was bought; an unknown cost exceeds every cap."""
        bought = overnight.overnight_progress(db, batch_id)
        calls = bought.answers + bought.waiting + len(wanted)
        nodes = [made.pipeline.node(name) for name in {draw.node for draw in wanted}]
        usage = bought.mean_usage or service.usual_usage(nodes, overnight.mean_characters(db, batch_id))
        price = self.agents.cost_usd(made, usage)
        # One call less: a cap is reached by what uses all of it, and this round may.
        spent = Totals(calls=calls - 1, unpriced_calls=int(price is None), cost_usd=HALF * (price or 0.0) * (calls - 1))
        return screenings.batch_standing(db, batch_id).caps.reached_cap(spent)

    async def _decide(self, waiting: OpenCase, *, stopped: bool = False) -> list[DrawWanted]:
        """Bring the case as far as its answers lead: what it needs next, nothing where it came to its end or failed and
        was set aside; with ``stopped`` it is left to a person. SamplerError where the batch should stop; faults of the
        database that pass by themselves are raised.
        """
        try:
            case = await self._do(screenings.case_for_screening, waiting.case_id)
            return [] if case is None else await self._screen(case, waiting, stopped=stopped)
        except SamplerError as error:
            if error.stops_batch:
                raise
            kind, message = error.kind, str(error)
        except Exception as error:  # a bug must leave the case pending and visible, never decided
            if passing_fault(error) is not None:
                raise
            log.error("case %s failed: %s", waiting.case_id, type(error).__name__)
            kind, message = "internal_error", type(error).__name__
        await self._do(record_error, waiting.case_id, kind, message, self.clock())
        return []

    async def _screen(self, case: CaseForScreening, waiting: OpenCase, *, stopped: bool) -> list[DrawWanted]:
        runs = await self._do(screenings.committed_runs, case.case_id)
        answers = Answers(await self._do(overnight.requests_of, case.case_id), waiting.parked)
        position = len(runs)

        async def commit(run: NodeRun) -> None:
            nonlocal position
            cost, now = self._cost_usd(case, run, answers), self.clock()
            ended = EndedRun(position=position, run=run, cost_usd=cost, started_at=now, ended_at=now)
            if not await self._do(screenings.commit_run, case.case_id, ended):
                raise SamplerError("run_lost", "Another start was first.")
            position += 1

        if stopped:
            found = to_a_human(Reason.STOPPED, runs)
        elif not waiting.labelled:
            raise SamplerError("no_reference", "It has no reference label: it is not sent this way.")
        else:
            guard = guard_for(case.flags)
            try:
                found = await screen(case.text, guard, case.pipeline, answers, committed=runs, commit=commit)
            except _DrawsMissing as missing:
                return _next_draws(case, answers, missing.request)
        cost = sum_costs([self._cost_usd(case, run, answers) for run in found.runs])
        version = case.configuration.version
        await self._do(screenings.commit_end, case.case_id, found, cost, version, self.clock())
        if not stopped:
            self.health.look_at(case.batch_id, found)  # the case has its outcome: what is wrong is wrong with the batch
        return []

    def _cost_usd(self, case: CaseForScreening, run: NodeRun, answers: "Answers") -> float | None:
        """What all answers bought for a run cost, needed or not."""
        bought = answers.draws[run.node, run.variant].values()
        cost = self.agents.cost_usd(case.configuration, sum((draw.usage for draw in bought), Usage()), run.node)
        return None if cost is None else HALF * cost


class _DrawsMissing(Exception):
    def __init__(self, request: DrawRequest) -> None:
        super().__init__(request.node)
        self.request = request


class Answers:
    """What came back for one case: draws by node, variant and number, and failures, each with how often it failed.
    ``parked`` is how often the case was set aside for what failed.
    """

    def __init__(self, requests: Iterable[Any], parked: int) -> None:
        self.draws: dict[tuple[str, str], dict[int, Draw]] = defaultdict(dict)
        self._failures: dict[tuple[str, str], dict[int, list[str]]] = defaultdict(lambda: defaultdict(list))
        self._parked = parked
        for row in requests:
            if row.code is not None:
                self.draws[row.node, row.variant][row.number] = overnight.draw_of(row)
            elif row.error is not None:
                self._failures[row.node, row.variant][row.number].append(row.error)

    def in_order(self, node: str, variant: str) -> list[Draw]:
        """The first draws of a node, up to the first that is not there."""
        known, found = self.draws[node, variant], list[Draw]()
        while (draw := known.get(len(found))) is not None:
            found.append(draw)
        return found

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        """These draws, as a sampler gives them; what is missing is asked for in the next round."""
        draw_batch = self.in_order(request.node, request.variant)[request.first : request.first + request.count]
        if len(draw_batch) == request.count:
            return draw_batch
        failed = list(self._failures[request.node, request.variant].values())
        if any(TOO_LONG in kinds for kinds in failed):
            raise SamplerError(TOO_LONG, "The text is too long for the model.")
        if failed and max(map(len, failed)) >= MOST_TRIES * (1 + self._parked):
            kind = max(failed, key=len)[-1]
            raise SamplerError(kind, f"A request failed {MOST_TRIES} times in message batches.")
        raise _DrawsMissing(request)


def _may_send(db: Database, batch_id: str) -> bool:
    return screenings.batch_standing(db, batch_id).allows_calls and not is_stopped(db)


def _requests(db: Database, made: Configuration, message_batch: str) -> dict[str, DrawRequest]:
    wanted = overnight.unanswered(db, message_batch)
    texts = {case_id: screenings.text_for_agents(db, case_id) for case_id in {row.case_id for row in wanted}}
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


def _processed(found: "MessageBatch") -> int:
    counts = found.request_counts
    return counts.succeeded + counts.errored + counts.canceled + counts.expired


def _next_draws(case: CaseForScreening, answers: Answers, request: DrawRequest) -> list[DrawWanted]:
    node, variant = request.node, request.variant
    have, known = len(answers.in_order(node, variant)), answers.draws[node, variant]
    least, budget = request.first + request.count - have, case.pipeline.node(node).rule.budget
    return [
        DrawWanted(case.case_id, node, variant, at)
        for at in range(have, have + next_batch_size(have, least, budget))
        if at not in known
    ]


def next_batch_size(drawn: int, least: int, budget: int) -> int:
    """How many answers to ask for after ``drawn``, where a further round may take hours: half as many again, so that
    rounds stay few whatever a text needs; at least ``least``, at most what the budget leaves. The cheapest plan
    by the stopping times of earlier batches was no better: 2,899 answers in 18 rounds on the stub, 2,814 in 19 so.

    >>> [next_batch_size(drawn, 1, 100) for drawn in (0, 5, 16, 90)], next_batch_size(0, 5, 100)
    ([1, 2, 8, 10], 5)
    """
    return max(least, min(drawn // 2, budget - drawn))
