"""One case's job: go on from the first node without a committed run, and commit what it ends as.

It may be started twice, on any machine, after any crash: runs and outcomes are idempotent inserts.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from jobs.agents import Agents, limited_agents
from jobs.model_health import Breaker, ModelHealth
from jobs.process import Clock, held, retry_in_thread, system_clock
from jobs.spend_guard import Account, CaseSpend, Metered, Withdrawn
from screening.models.retries import pause_after
from screening.pipeline.draws import (
    Bill,
    Draw,
    DrawRequest,
    SamplerError,
    encode_draws,
    sum_costs,
)
from screening.pipeline.engine import NodeRun, Reason, Screening, guard_for, screen, to_a_human
from screening.pipeline.files import error_kind
from screening.review.policy import SYSTEM
from screening.settings import Settings
from storage.batches import pending, screenings, single_texts
from storage.batches.batch_state import BatchState, Caps, Standing
from storage.batches.counts import Totals
from storage.batches.pending import record_error
from storage.batches.screenings import CaseForScreening, End, EndedRun, Suspect, give_back, start_case
from storage.database import Database, is_lost_connection
from storage.research.comparisons import end_comparison, keep_compared, lose_calls, next_due
from storage.settings_store import is_stopped

MOST_STARTS = 3
"""Starts without an end after which a case goes to a human instead of killing another worker."""
ALONE_AFTER = 2
"""Starts without an end after which a case runs alone: a case that kills workers then takes no others with it, and
cases that were merely in flight at the time are not blamed again."""
UNWATCHED_AFTER, UNWATCHED_EVERY_S = timedelta(seconds=20), 1.0
"""When nobody has watched a single text for so long it is let go of: an open page reports every two seconds; on a busy
machine or a bad line ten seconds without a report were seen.
"""
LOOK_EVERY_S = 0.5
"""How often a running draw batch checks whether its batch was cancelled: a limit on calls may delay the draw batch for
minutes."""

log = logging.getLogger(__name__)
T = TypeVar("T")


def kind_and_words(error: Exception) -> tuple[str, str]:
    """The kind of an error, and what may be said of it: a bug's own words may quote a text."""
    if isinstance(error, SamplerError):
        return error.kind, str(error)
    return "internal_error", type(error).__name__


class ScreeningJob:
    """Everything a case's job needs; ``worker`` names the process in the records. Belongs to one event loop."""

    def __init__(
        self, *, db: Database, agents: Agents, clock: Clock, worker: str, health: ModelHealth | None = None
    ) -> None:
        self.db, self.agents, self.clock, self.worker = db, agents, clock, worker
        self.health = health or ModelHealth(db=db, agents=agents, clock=clock, probes=False)
        self._accounts = WeakValueDictionary[str, Account]()  # of batches with cases under way
        self._alone = asyncio.Lock()
        self._due_again = 0.0

    async def screen_case(self, case_id: str) -> None:
        """Bring one case to its outcome, or leave it pending with its error. Never raises for a case's own fault."""
        async with self.health.breaker.turn():
            try:
                await self._screen_case(case_id, suspect_after=ALONE_AFTER)
                return
            except Suspect:
                pass
        async with self._alone, self.health.breaker.turn():
            await self._screen_case(case_id, suspect_after=None)

    async def _screen_case(self, case_id: str, suspect_after: int | None) -> None:
        try:
            case = await self._start_case(case_id, suspect_after)
        except asyncio.CancelledError:
            await retry_in_thread(pending.end_starts, self.db, case_id)
            raise
        if case is not None:
            with self._accounts.setdefault(case.batch_id, Account()).spend() as spend:
                await self._keep_errors(case, spend)

    async def _start_case(self, case_id: str, suspect_after: int | None) -> CaseForScreening | None:
        """Start the case. None where it has its outcome, or where starting it failed and that is recorded."""
        try:
            return await retry_in_thread(start_case, self.db, case_id, self.worker, suspect_after=suspect_after)
        except Suspect:
            raise
        except Exception as error:  # it would fail at every start: it must neither come again at once nor be lost
            log.error("case %s could not be begun: %s", case_id, type(error).__name__)
            if not is_lost_connection(error):  # else it stays ready, and starts of dead workers keep counting
                await retry_in_thread(record_error, self.db, case_id, *kind_and_words(error), self.clock())
            return None

    async def _keep_errors(self, case: CaseForScreening, spend: CaseSpend) -> None:
        try:
            await self._screen(case, spend)
        except (Withdrawn, asyncio.CancelledError) as left:
            await retry_in_thread(give_back, self.db, case, self.clock(), calls=spend.lost_calls)
            if isinstance(left, asyncio.CancelledError):
                raise
        except Exception as error:  # a bug must leave the case pending and visible, never decided
            more: dict[str, Any] = {"calls": spend.lost_calls}
            if isinstance(error, SamplerError):
                more |= {"stops_batch": error.stops_batch, "again_in": self._again_in(case, error)}
            else:
                log.error("case %s failed: %s", case.case_id, type(error).__name__)
            if is_lost_connection(error):  # it stays ready, and its start without an end
                lost = "connection_lost", "the database went away", spend.lost_calls
                await retry_in_thread(pending.keep_error, self.db, case.case_id, *lost, self.clock())
            else:
                await retry_in_thread(record_error, self.db, case.case_id, *kind_and_words(error), self.clock(), **more)

    async def _screen(self, case: CaseForScreening, spend: CaseSpend) -> None:
        if case.starts > MOST_STARTS or case.stopped:
            why = Reason.REPEATED_FAILURE if case.starts > MOST_STARTS else Reason.STOPPED
            await retry_in_thread(self._conclude, case, to_a_human(why, case.runs))
            return
        await self.health.require(case.configuration, case.seed)
        progress = _NodeProgress(
            job=self,
            agents=self.agents,
            case=case,
            sampler=self.agents.sampler(case.configuration, case.seed),
            position=len(case.runs),
            started_at=self.clock(),
            spend=spend,
            urgent=case.interactive,
        )
        result = await screen(
            case.text,
            guard_for(case.flags),
            case.pipeline,
            progress,
            committed=case.runs,
            commit=progress.commit,
            progress=progress.draw_batch,
        )
        if await retry_in_thread(self._conclude, case, result, progress) is End.RUN_LOST:
            raise Withdrawn
        try:
            self.health.look_at(case.batch_id, result)
        except SamplerError as error:  # the case has its outcome: what is wrong is wrong with the batch
            await retry_in_thread(pending.pause_for_fault, self.db, case.batch_id, error.kind, self.clock())

    def _conclude(self, case: CaseForScreening, result: Screening, progress: "_NodeProgress | None" = None) -> End:
        costs = [self.agents.cost_usd(case.configuration, run.usage, run.node) for run in result.runs]
        last = None if progress is None else progress.last
        version = case.configuration.version
        end = screenings.commit_end(self.db, case.case_id, result, sum_costs(costs), version, self.clock(), last)
        if progress is not None:
            progress.mark_stored()
        return end

    def _again_in(self, case: CaseForScreening, error: SamplerError) -> timedelta | None:
        """When the case is retried automatically; None where a person must ask for it."""
        if error.stops_batch or not error_kind(error.kind).passes:
            return None
        seconds = self.health.breaker.record_failure(case.case_id, watched=case.interactive)
        if seconds is None:
            return None
        self._due_again = max(self._due_again, time.monotonic() + seconds + 1)
        return timedelta(seconds=seconds)

    async def withdraw_unwatched(self, running: "Mapping[str, asyncio.Task[Any]]", busy: Callable[[], bool]) -> None:
        """Until cancelled, withdraw single texts that nobody watches, while there may be any: while one is running
        or ``busy``. Another process that runs one notices after its next draw batch.
        """
        while True:
            await asyncio.sleep(UNWATCHED_EVERY_S)
            if not (running or busy()):
                continue
            for case_id in await retry_in_thread(single_texts.find_unwatched, self.db, self.clock(), UNWATCHED_AFTER):
                await retry_in_thread(single_texts.withdraw, self.db, case_id, self.clock())
                if task := running.get(case_id):
                    task.cancel()

    @property
    def retries_soon(self) -> bool:
        """Whether a case that was put off is soon due again, of which no write to the database will tell."""
        return time.monotonic() < self._due_again


@asynccontextmanager
async def open_job(
    settings: Settings, db: Database, worker: str, *, patience_s: float | None = None
) -> AsyncIterator[ScreeningJob]:
    """A process's job, its agents under the limits that all workers share. ``patience_s`` as the `Breaker` has it."""
    async with limited_agents(settings, db, worker) as agents:
        health = ModelHealth(db=db, agents=agents, clock=system_clock, breaker=Breaker(patience_s=patience_s))
        yield ScreeningJob(db=db, agents=agents, clock=system_clock, worker=worker, health=health)


@dataclass(slots=True, kw_only=True)
class _NodeProgress(Metered):
    """Keeps what a case has done so far: the live view as answers come, the run when its node ends.

    It stands before the sampler: a draw batch is asked for only while the batch allows it, and broken off when the
    batch is cancelled. What needs no further call is concluded even then.
    """

    job: ScreeningJob
    position: int
    started_at: datetime
    codes: str = ""
    shown: str = ""
    last: EndedRun | None = None

    async def permit(self, calls: int) -> None:
        await self.keep_last()
        while True:
            await self._look()
            if self.spend.account.admits(self.spend):
                return
            await asyncio.sleep(LOOK_EVERY_S)

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        draws = await Metered.draw(self, request)
        await self.job.health.doubt(self.case.configuration, self.case.seed, draws)
        return draws

    async def wait_for(self, request: DrawRequest, work: Awaitable[T], bill: Bill) -> T:
        """The result of this work, while its batch allows it; draws that came in are shown meanwhile."""
        draw_batch = asyncio.ensure_future(work)
        try:
            while not (await asyncio.wait([draw_batch], timeout=LOOK_EVERY_S))[0]:
                await self._look()
                if self.spend.account.standing.state is BatchState.CANCELLED:
                    raise Withdrawn
                await self._show(request, bill.in_order())
            found = draw_batch.result()
            self.job.health.breaker.record_answer(self.case.case_id)
            return found
        finally:
            draw_batch.cancel()
            await asyncio.gather(draw_batch, return_exceptions=True)

    async def _look(self) -> None:
        if self.spend.account.must_look():
            await retry_in_thread(self.spend.account.look, self.job.db, self.case.batch_id)

    async def draw_batch(self, request: DrawRequest, draws: Sequence[Draw]) -> None:
        await self._show(request, draws)
        self.codes = self.shown

    async def _show(self, request: DrawRequest, draws: Sequence[Draw]) -> None:
        """What the node has drawn so far, these of its draw batch included, for whoever watches; once."""
        codes = ("" if request.first == 0 else self.codes) + encode_draws(draws)
        if codes == self.shown or not draws:
            return
        self.shown = codes
        if not self.case.interactive:
            return
        where = (self.case.case_id, request.node, request.variant)
        if not await retry_in_thread(single_texts.update_live, self.job.db, *where, codes, self.job.clock()):
            raise Withdrawn  # nobody watches any more

    async def commit(self, run: NodeRun) -> None:
        """The run is kept with whatever comes next: before another draw, or in one transaction with the outcome."""
        await self.keep_last()
        now = self.job.clock()
        cost = self.job.agents.cost_usd(self.case.configuration, run.usage, run.node)
        self.last = EndedRun(
            position=self.position,
            run=run,
            cost_usd=cost,
            started_at=self.started_at,
            ended_at=now,
            lost_calls=self.spend.drawn.lost_calls,
        )
        self.position, self.started_at = self.position + 1, now

    async def keep_last(self) -> None:
        """Keep the last run by itself. Withdrawn where another start was first with a different one."""
        if self.last is not None and not await retry_in_thread(self._keep, self.last):
            raise Withdrawn

    def _keep(self, ended: EndedRun) -> bool:
        ours = screenings.commit_run(self.job.db, self.case.case_id, ended)
        self.mark_stored()
        return ours

    def mark_stored(self) -> None:
        self.spend.account.settle(self.spend)
        self.last = None


AT_ONCE = 4
COMPARE_EVERY_S = 10.0
"""Seconds between two looks for something to compare: nobody waits for the first case."""
AGAIN_AFTER_S = 60.0
"""Seconds until a failed case is tried again, doubled each further time."""
DUTY = "comparing"


class ComparisonRunner:
    """Screens the cases of comparisons with their second pipeline, in one worker at a time, a few at once."""

    def __init__(self, job: ScreeningJob) -> None:
        self.job, self.db = job, job.db
        self._failed: dict[str, tuple[int, float]] = {}  # how often, and until when it is put off

    async def run(self) -> None:
        """Until cancelled. A fault of any kind waits for the next look; nothing that decides depends on it."""
        while True:
            try:
                while await self.round():
                    pass
            except Exception as error:
                log.error("comparing failed: %s", type(error).__name__)
            await asyncio.sleep(COMPARE_EVERY_S)

    async def round(self) -> int:
        """Screen the next few cases; how many were kept, 0 for none, a stopped site, or another worker at it."""
        if await self._due() is None or await retry_in_thread(is_stopped, self.db):
            return 0
        async with held(self.db, DUTY, self.job.worker, self.job.clock) as mine:
            due = await self._due() if mine else None  # read again, now that no other worker can change it
            return 0 if due is None else await self._compare_all(*due)

    async def _due(self) -> tuple[str, Caps, Totals, tuple[CaseForScreening, ...]] | None:
        now = time.monotonic()
        put_off = [case for case, (_, until) in self._failed.items() if until > now]
        return await retry_in_thread(next_due, self.db, SYSTEM.at(self.job.clock()), AT_ONCE, put_off)

    async def _compare_all(
        self, comparison_id: str, caps: Caps, totals: Totals, cases: Sequence[CaseForScreening]
    ) -> int:
        account = Account(Standing(state=BatchState.RUNNING, totals=totals, failed=0, caps=caps, changed_at=None))
        if (reached := account.reached_cap()) is not None:
            await self._end(comparison_id, reached)
            return 0
        each = [self._compare(comparison_id, case, account) for case in cases]
        kept = await asyncio.gather(*each, return_exceptions=True)  # a shutdown waits until each has counted its calls
        for failed in (one for one in kept if isinstance(one, BaseException)):
            raise failed
        return kept.count(True)

    async def _end(self, comparison_id: str, why: str) -> None:
        await retry_in_thread(end_comparison, self.db, SYSTEM.at(self.job.clock()), comparison_id, why)

    async def _compare(self, comparison_id: str, case: CaseForScreening, account: Account) -> bool:
        """Screen one case; whether its result was kept. What was paid without a result counts as lost in the end."""
        with account.spend() as spend:
            try:
                return await self._screen(comparison_id, case, spend)
            except Exception as error:
                times = self._failed.get(case.case_id, (0, 0.0))[0]
                until = time.monotonic() + pause_after(times, AGAIN_AFTER_S, 64 * AGAIN_AFTER_S)
                self._failed[case.case_id] = times + 1, until
                if not isinstance(error, SamplerError):
                    log.error("comparing case %s failed: %s", case.case_id, type(error).__name__)
                elif error.stops_batch:
                    await self._end(comparison_id, error.kind)
                return False
            finally:
                spend.asked = 0  # of what was under way, only the requests that were made count
                if (lost := spend.lost_calls - spend.stored) > 0:
                    await retry_in_thread(lose_calls, self.db, comparison_id, lost)

    async def _screen(self, comparison_id: str, case: CaseForScreening, spend: CaseSpend) -> bool:
        begun, agents = time.monotonic(), self.job.agents
        await self.job.health.require(case.configuration, case.seed)
        sampler = agents.sampler(case.configuration, case.seed)
        metered = _Compared(agents=agents, case=case, sampler=sampler, spend=spend)
        found = await screen(case.text, guard_for(case.flags), case.pipeline, metered)
        cost = sum_costs([agents.cost_usd(case.configuration, run.usage, run.node) for run in found.runs])
        seconds = time.monotonic() - begun

        def keep() -> bool:
            now = self.job.clock()
            kept = keep_compared(self.db, comparison_id, case.case_id, found, now, cost_usd=cost, seconds=seconds)
            spend.stored = found.calls  # they are in the tables, whoever stops waiting for this
            return kept

        return await retry_in_thread(keep)


class _Compared(Metered):
    """The agents of a case, which may ask for as much as the comparison has left."""

    async def permit(self, calls: int) -> None:
        if (reached := self.spend.account.reached_cap()) is not None:
            raise SamplerError(reached, "The comparison has used up what it may.", stops_batch=True)
