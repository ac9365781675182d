"""Screens the cases of comparisons with their second pipeline, a few at a time, beside the work that
decides."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from jobs.agents import Agents
from jobs.model_health import ModelHealth
from jobs.patience import held, retry_in_thread
from jobs.spend_guard import CaseSpend, Metered
from screening.pipeline.cost import sum_costs
from screening.pipeline.draws import SamplerError
from screening.pipeline.engine import guard_for, screen
from screening.review.actors import SYSTEM
from storage.batches.batch_state import Caps
from storage.batches.counts import Totals
from storage.batches.screenings import CaseForScreening
from storage.clock import pause_after
from storage.database import Database
from storage.research.comparisons import end_comparison, keep_compared, lose_calls, next_due
from storage.settings_store import is_stopped

AT_ONCE = 4
LOOK_EVERY_S = 10.0
"""Seconds between two looks for something to compare: nobody waits for the first case."""
AGAIN_AFTER_S = 60.0
"""Seconds until a failed case is tried again, doubled each further time."""
DUTY = "comparing"

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class ComparisonRunner:
    """Runs comparisons, in one worker at a time; another takes over when that ends or dies."""

    db: Database
    agents: Agents
    clock: Callable[[], datetime]
    worker: str
    health: ModelHealth
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
        if (reached := purse.reached_cap()) is not None:
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
        spend = CaseSpend(all_requests=True)
        purse.spends.append(spend)
        try:
            return int(await self._screen(comparison_id, case, purse, spend))
        except SamplerError as error:
            self._put_off(case.case_id)
            if error.stops_batch:
                await retry_in_thread(end_comparison, self.db, SYSTEM.at(self.clock()), comparison_id, error.kind)
        except Exception as error:
            log.error("comparing case %s failed: %s", case.case_id, type(error).__name__)
            self._put_off(case.case_id)
        finally:
            spend.asked = 0  # of what was under way, only the requests that were made count
            if (lost := spend.lost_calls - spend.stored) > 0:
                await retry_in_thread(lose_calls, self.db, comparison_id, lost)
        return 0

    async def _screen(self, comparison_id: str, case: CaseForScreening, purse: "_Purse", spend: CaseSpend) -> bool:
        begun = time.monotonic()
        await self.health.require(case.configuration, case.seed)
        sampler = self.agents.sampler(case.configuration, case.seed)
        metered = _Compared(agents=self.agents, case=case, sampler=sampler, spend=spend, purse=purse)
        found = await screen(case.text, guard_for(case.flags), case.pipeline, metered)
        cost = sum_costs([self.agents.cost_usd(case.configuration, run.usage, run.node) for run in found.runs])
        seconds = time.monotonic() - begun

        def keep() -> bool:
            now = self.clock()
            kept = keep_compared(self.db, comparison_id, case.case_id, found, now, cost_usd=cost, seconds=seconds)
            spend.stored = found.calls  # they are in the tables, whoever stops waiting for this
            return kept

        return await retry_in_thread(keep)

    def _put_off(self, case_id: str) -> None:
        times = self._failed.get(case_id, (0, 0.0))[0]
        self._failed[case_id] = times + 1, time.monotonic() + pause_after(times, AGAIN_AFTER_S, 64 * AGAIN_AFTER_S)


@dataclass(slots=True, kw_only=True)
class _Purse:
    """What a comparison has used so far, what its cases under way have drawn and asked for included."""

    caps: Caps
    totals: Totals
    spends: list[CaseSpend] = field(default_factory=list)

    def reached_cap(self) -> str | None:
        """The cap that is reached, if one is."""
        known = sum((spend.drawn for spend in self.spends), self.totals)
        under_way = sum(max(spend.asked, spend.bill.requests) for spend in self.spends)
        return self.caps.reached_cap(replace(known, lost_calls=known.lost_calls + under_way))


@dataclass(slots=True, kw_only=True)
class _Compared(Metered):
    """The agents of a case, which may ask for as much as the comparison has left."""

    purse: _Purse

    async def permit(self, calls: int) -> None:
        if (reached := self.purse.reached_cap()) is not None:
            raise SamplerError(reached, "The comparison has used up what it may.", stops_batch=True)
