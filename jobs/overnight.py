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
from jobs.screening_job import ScreeningJob, kind_and_words
from screening.models.wire import SeenIds
from screening.pipeline.draws import TOO_LONG, Draw, DrawRequest, SamplerError, Usage, sum_costs
from screening.pipeline.engine import NodeRun, Reason, guard_for, screen, to_a_human
from screening.pipeline.files import error_kind
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

DUTY = "overnight"
HALF = 0.5
"""The share of its list price that the service charges."""
MOST_TRIES = 3
"""Failures of one request after which the case waits for a person."""
CLOCKS_DIFFER = timedelta(minutes=10)

log = logging.getLogger(__name__)
T = TypeVar("T")


class OvernightRunner:
    """Runs overnight batches, in one process at a time, with so many seconds between two looks."""

    def __init__(self, job: ScreeningJob, poll_s: float) -> None:
        self.db, self.agents, self.clock, self.health = job.db, job.agents, job.clock, job.health
        self._worker, self._poll_s = job.worker, poll_s

    async def run(self) -> None:
        """Until cancelled. A fault waits for the next look; nothing is lost by it."""
        while True:
            await self.round()
            await asyncio.sleep(self._poll_s)

    async def until_over(self, batch_id: str) -> None:
        """Work until nothing more happens to this batch by itself."""
        while await self._do(batches.batch_state, batch_id) in batch_state.ACTIVE:
            if not await self.round():
                await asyncio.sleep(self._poll_s)

    async def _do(self, work: Callable[..., T], *args: Any) -> T:
        return await retry_in_thread(work, self.db, *args)

    async def round(self) -> bool:
        """Bring every overnight batch as far as it goes now; whether another step may follow at once."""
        try:
            if not (due := await self._do(overnight.overnight_batches)):
                return False
            async with held(self.db, DUTY, self._worker, self.clock) as mine:
                steps = [await self._advance(batch_id, due[batch_id]) for batch_id in (due if mine else ())]
                return any(steps)
        except Exception as error:  # nothing is decided by a failed round
            log.error("overnight: %s", type(error).__name__)
            return False

    async def _advance(self, batch_id: str, version: str) -> bool:
        """Advance one batch; whether it made a step. A fault that does not pass by itself pauses it, and no other."""
        try:
            return await self._step(batch_id, version)
        except Exception as error:  # also a bug, or what this version can no longer read
            if passing_fault(error) is not None:
                raise
            kind, message = kind_and_words(error)
            level = logging.WARNING if isinstance(error, SamplerError) else logging.ERROR
            log.log(level, "overnight batch %s: %s", batch_id, message)
            if not error_kind(kind).passes:
                await self._do(pause_for_fault, batch_id, kind, self.clock())
            return False

    async def _step(self, batch_id: str, version: str) -> bool:
        """Count what came back, then decide what can be decided, and ask for what the other cases need; whether
        anything was sent.
        """
        standing = await self._do(batch_state.standing, batch_id)
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

    async def _settle(self, service: "MessageBatches", made: Configuration, sent: HandedIn) -> bool:
        """Send it, look after it, count what came back; whether that is done. What nobody waits for any more is not
        sent, and cancelled at the service: what it has answered by then is paid, and counts.
        """
        needed, service_id = await self._do(overnight.is_needed, sent), sent.service_id
        if service_id is None:
            service_id, unclear = await self._find_sent(service, sent)
            if unclear:
                return False
            if service_id is None and needed:
                await self._send(service, made, sent)
                return False
            if service_id is None:
                await self._do(overnight.keep_results, sent, {}, self.clock())
                return True
        found = await service.find(service_id)
        await self._do(overnight.note, sent.id, {"service_id": service_id, "processed": _processed(found)})
        if found.processing_status == "ended":
            await self._count(service, made, sent, service_id)
            return True
        if not needed and found.processing_status != "canceling":
            await service.cancel(service_id)
        return False

    async def _find_sent(self, service: "MessageBatches", sent: HandedIn) -> tuple[str | None, bool]:
        """The service's id of a message batch of which none came back, where one of the account has its size and
        results with the ids that were recorded before it was sent; and whether one that has not ended may be it.
        """
        ours, unclear = await self._do(overnight.service_ids), False
        for listed in await service.list_since(sent.created_at - CLOCKS_DIFFER):
            if listed.id in ours or _processed(listed) + listed.request_counts.processing != sent.requests:
                continue
            if listed.processing_status != "ended":
                unclear = True
                continue
            try:
                results = await service.results(listed.id)
            except SamplerError as error:
                if error_kind(error.kind).passes:
                    raise
                continue  # its results are gone
            if any(custom_id.startswith(f"{sent.id}-") for custom_id, _ in results):
                return listed.id, False
        return None, unclear

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

    def _cap_in_the_way(
        self, db: Database, service: "MessageBatches", made: Configuration, batch_id: str, wanted: Sequence[DrawWanted]
    ) -> str | None:
        """The cap that this round would exceed, counting all that was bought; an unknown cost exceeds every cap."""
        bought = overnight.overnight_progress(db, batch_id)
        nodes = [made.pipeline.node(name) for name in {draw.node for draw in wanted}]
        usage = bought.mean_usage or service.usual_usage(nodes, overnight.mean_characters(db, batch_id))
        price = self.agents.cost_usd(made, usage)
        calls = bought.answers + bought.waiting + len(wanted) - 1  # what uses all of a cap reaches it, and this may
        spent = Totals(calls=calls, unpriced_calls=int(price is None), cost_usd=HALF * (price or 0.0) * calls)
        return batch_state.standing(db, batch_id).caps.reached_cap(spent)

    async def _decide(self, waiting: OpenCase, *, stopped: bool = False) -> list[DrawWanted]:
        """Bring the case as far as its answers lead: what it needs next, nothing where it came to its end, or failed
        and waits; with ``stopped`` it is escalated. Raises what concerns the whole batch.
        """
        try:
            case = await self._do(screenings.case_for_screening, waiting.case_id)
            return [] if case.decided else await self._screen(case, waiting, stopped=stopped)
        except Exception as error:  # a bug must leave the case pending and visible, never decided
            if passing_fault(error) is not None or (isinstance(error, SamplerError) and error.stops_batch):
                raise
            kind, message = kind_and_words(error)
            if not isinstance(error, SamplerError):
                log.error("case %s failed: %s", waiting.case_id, message)
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
                budget = case.pipeline.node(missing.request.node).rule.budget
                return answers.next_wanted(case.case_id, missing.request, budget)
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
        self._most = MOST_TRIES * (1 + parked)
        for row in requests:
            if row.code is not None:
                self.draws[row.node, row.variant][row.number] = overnight.draw_of(row)
            elif row.error is not None:
                self._failures[row.node, row.variant][row.number].append(row.error)

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        """These draws, as a sampler gives them; what is missing is asked for in the next round."""
        known = self.draws[request.node, request.variant]
        numbers = range(request.first, request.first + request.count)
        if all(number in known for number in range(numbers.stop)):
            return [known[number] for number in numbers]
        failed = list(self._failures[request.node, request.variant].values())
        if any(TOO_LONG in kinds for kinds in failed):
            raise SamplerError(TOO_LONG, "The text is too long for the model.")
        worst = max(failed, key=len, default=[])
        if len(worst) >= self._most:
            raise SamplerError(worst[-1], f"A request failed {MOST_TRIES} times in message batches.")
        raise _DrawsMissing(request)

    def next_wanted(self, case_id: str, request: DrawRequest, budget: int) -> list[DrawWanted]:
        """What to ask for next where a further round may take hours: half as many again as there are, so that rounds
        stay few whatever a text needs; at least what is asked for, at most what the budget leaves. The cheapest plan by
        the stopping times of earlier batches was no better: 2,899 answers in 18 rounds on the stub, 2,814 in 19 so.
        """
        known, have = self.draws[request.node, request.variant], 0
        while have in known:
            have += 1
        end = max(request.first + request.count, have + min(have // 2, budget - have))
        return [
            DrawWanted(case_id, request.node, request.variant, number)
            for number in range(have, end)
            if number not in known
        ]


def _may_send(db: Database, batch_id: str) -> bool:
    return batch_state.standing(db, batch_id).allows_calls and not is_stopped(db)


def _requests(db: Database, made: Configuration, message_batch: str) -> dict[str, DrawRequest]:
    """What has no answer yet, by custom id."""
    wanted, found = overnight.unanswered(db, message_batch), dict[str, DrawRequest]()
    texts = {case_id: screenings.case_for_screening(db, case_id).text for case_id in {row.case_id for row in wanted}}
    for row in wanted:
        agent, text = made.pipeline.node(row.node).agent, texts[row.case_id]
        found[row.custom_id] = DrawRequest(
            node=row.node, text=text, first=row.number, count=1, variant=row.variant, agent=agent
        )
    return found


def _processed(found: "MessageBatch") -> int:
    counts = found.request_counts
    return counts.succeeded + counts.errored + counts.canceled + counts.expired
