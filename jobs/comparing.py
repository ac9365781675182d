"""Screens the cases of comparisons with their second pipeline, a few at a time, beside the work that
decides."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from jobs.agents import Agents
from jobs.model_health import Preflights
from jobs.patience import held, pause_after, retry_in_thread
from screening.pipeline.draws import Bill, Draw, DrawRequest, DrawSource, LabelDistribution, SamplerError, Usage
from screening.pipeline.engine import DistributionSource, guard_for, screen
from screening.review.actors import SYSTEM
from storage.batches.batch_state import Caps
from storage.batches.counts import Totals
from storage.batches.screenings import CaseForScreening
from storage.database import Database
from storage.research.comparisons import end_comparison, keep_compared, lose_calls, next_due
from storage.settings_store import is_stopped

AT_ONCE = 4
LOOK_EVERY_S = 10.0
"""Seconds between two looks for something to compare: nobody waits for the first case."""
AGAIN_AFTER_S = 60.0
"""Seconds until a failed case is tried again, doubled each further time."""
DUTY = "comparing"

T = TypeVar("T")

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class ComparisonRunner:
    """Runs comparisons, in one worker at a time; another takes over when that ends or dies."""

    db: Database
    agents: Agents
    clock: Callable[[], datetime]
    worker: str
    preflights: Preflights | None = None
    _failed: dict[str, tuple[int, float]] = field(default_factory=dict)  # how often, and until when it is put off

    async def run(self) -> None:
        """Until cancelled. A fault of any kind waits for the next look; nothing that decides depends on it."""
        while True:
            try:
                while await self.round():
                    pass
            except Exception as error:
                log.error("comparing failed: %s", type(error).__name__)
            await asyncio.sleep(LOOK_EVERY_S)

    async def round(self) -> int:
        """Screen the next few cases; how many were kept, 0 when there is nothing to do, the site is stopped or another
        worker does it.
        """
        if await self._due() is None or await retry_in_thread(is_stopped, self.db):
            return 0
        async with held(self.db, DUTY, self.worker, self.clock) as mine:
            due = await self._due() if mine else None  # read again, now that no other worker can change it
            return 0 if due is None else await self._compare_all(*due)

    async def _due(self) -> tuple[str, Caps, Totals, tuple[CaseForScreening, ...]] | None:
        now = time.monotonic()
        put_off = [case for case, (_, until) in self._failed.items() if until > now]
        return await retry_in_thread(next_due, self.db, SYSTEM.at(self.clock()), AT_ONCE, put_off)

    async def _compare_all(
        self, comparison_id: str, caps: Caps, totals: Totals, cases: Sequence[CaseForScreening]
    ) -> int:
        purse = _Purse(caps=caps, totals=totals)
        if (reached := caps.reached_cap(totals)) is not None:
            await retry_in_thread(end_comparison, self.db, SYSTEM.at(self.clock()), comparison_id, reached)
            return 0
        each = (self._compare(comparison_id, case, purse) for case in cases)
        kept = await asyncio.gather(*each, return_exceptions=True)  # a shutdown waits until each has counted its calls
        for failed in (one for one in kept if isinstance(one, BaseException)):
            raise failed
        return sum(one for one in kept if isinstance(one, int))

    async def _compare(self, comparison_id: str, case: CaseForScreening, purse: "_Purse") -> int:
        """Screen one case; whether its result was kept. Else it is tried again later, or the comparison ends; what was
        paid without a result is counted as lost, however it ends.
        """
        metered = _Metered(self.agents, case, purse)
        try:
            return int(await self._screen(comparison_id, case, metered))
        except SamplerError as error:
            self._put_off(case.case_id)
            if error.stops_batch:
                await retry_in_thread(end_comparison, self.db, SYSTEM.at(self.clock()), comparison_id, error.kind)
        except Exception as error:
            log.error("comparing case %s failed: %s", case.case_id, type(error).__name__)
            self._put_off(case.case_id)
        finally:
            if metered.unkept:
                await retry_in_thread(lose_calls, self.db, comparison_id, metered.unkept)
        return 0

    async def _screen(self, comparison_id: str, case: CaseForScreening, metered: "_Metered") -> bool:
        begun = time.monotonic()
        if self.preflights is not None:
            await self.preflights.require(case.configuration, case.seed)
        found = await screen(case.text, guard_for(case.flags), case.pipeline, metered)
        costs = [self.agents.cost_usd(case.configuration, run.usage, run.node) for run in found.runs]
        cost = None if None in costs else sum(one or 0.0 for one in costs)
        seconds = time.monotonic() - begun

        def keep() -> bool:
            now = self.clock()
            kept = keep_compared(self.db, comparison_id, case.case_id, found, now, cost_usd=cost, seconds=seconds)
            metered.unkept -= found.calls  # they are in the tables, whoever stops waiting for this
            return kept

        return await retry_in_thread(keep)

    def _put_off(self, case_id: str) -> None:
        times = self._failed.get(case_id, (0, 0.0))[0]
        self._failed[case_id] = times + 1, time.monotonic() + pause_after(times, AGAIN_AFTER_S, 64 * AGAIN_AFTER_S)


@dataclass(slots=True, kw_only=True)
class _Purse:
    """The cost of a comparison so far, including what its cases under way have drawn and have asked for."""

    caps: Caps
    totals: Totals

    def take(self, calls: int) -> None:
        """Permit a wave. SamplerError, which ends the comparison, once a cap is reached."""
        if (reached := self.caps.reached_cap(self.totals)) is not None:
            raise SamplerError(reached, "The comparison has used up what it may.", stops_batch=True)
        self.totals = replace(self.totals, lost_calls=self.totals.lost_calls + calls)

    def pay(self, asked: int, made: int, cost_usd: float | None, lost: int = 0) -> None:
        """Record a wave that brought its draws, and ``lost`` requests that brought none."""
        known = self.totals
        self.totals = replace(
            known,
            lost_calls=known.lost_calls - asked + lost,
            calls=known.calls + made,
            cost_usd=known.cost_usd + (cost_usd or 0.0),
            unpriced_calls=known.unpriced_calls + (made if cost_usd is None else 0),
        )


@dataclass(slots=True)
class _Metered:
    """The agents of one case; ``unkept`` counts what was paid for and is in no table yet."""

    agents: Agents
    case: CaseForScreening
    purse: _Purse
    unkept: int = 0

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        """A wave, if the purse allows it."""
        sampler, bill = self._sampler(), Bill()
        self.purse.take(request.count)
        draws = await self._pay_on_failure(sampler.draw(replace(request, bill=bill)), request.count, bill)
        self._pay(request, len(draws), sum((draw.usage for draw in draws), Usage()), bill)
        return draws

    def distribution(self, request: DrawRequest) -> Awaitable[LabelDistribution] | None:
        """The node's whole distribution where its server gives one, as one call."""
        sampler, bill = self._sampler(), Bill()
        if not isinstance(sampler, DistributionSource):
            return None
        self.purse.take(1)
        found = sampler.distribution(replace(request, bill=bill))
        if found is None:
            self.purse.pay(1, 0, 0.0)
            return None
        return self._await_distribution(request, found, bill)

    async def _await_distribution(
        self, request: DrawRequest, found: Awaitable[LabelDistribution], bill: Bill
    ) -> LabelDistribution:
        told = await self._pay_on_failure(found, 1, bill)
        self._pay(replace(request, count=1), 1, told.usage, bill)
        return told

    def _sampler(self) -> DrawSource:
        return self.agents.sampler(self.case.configuration, self.case.seed)

    async def _pay_on_failure(self, work: Awaitable[T], asked: int, bill: Bill) -> T:
        try:
            return await work
        except BaseException:  # a shutdown too: what was under way is charged
            self.unkept += bill.requests
            self.purse.pay(asked, 0, 0.0, bill.requests)
            raise

    def _pay(self, request: DrawRequest, made: int, usage: Usage, bill: Bill) -> None:
        """A wave of ``made`` draws; attempts that had to be made again were charged beside them."""
        lost = max(0, bill.requests - made)
        self.unkept += made + lost
        cost = self.agents.cost_usd(self.case.configuration, usage, request.node)
        self.purse.pay(request.count, made, cost, lost)
