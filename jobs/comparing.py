"""Screens the cases of comparisons with their second pipeline, a few at a time, beside the work that decides."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from jobs.agents import Agents
from jobs.patience import to_the_end
from screening.engine.draws import SamplerError
from screening.engine.guard import guard_for
from screening.engine.screen import screen
from screening.review.actors import SYSTEM
from storage.batches.screenings import CaseForScreening
from storage.database import Database
from storage.research.comparisons import cases_to_compare, end_comparison, keep_compared
from storage.site import duties

AT_ONCE = 4
LOOK_EVERY_S = 5.0
"""Between two looks for something to compare: nobody waits for the first case."""
DUTY = "comparing"
DUTY_LASTS = timedelta(minutes=5)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparing:
    """One worker at a time compares; another takes over when it ends or dies."""

    db: Database
    agents: Agents
    clock: Callable[[], datetime]
    worker: str

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
        """Screen the next few cases; how many were kept, 0 when there is nothing to do or another worker does it."""
        due = await to_the_end(cases_to_compare, self.db, AT_ONCE)
        if not due or not await to_the_end(duties.take, self.db, DUTY, self.worker, self.clock(), DUTY_LASTS):
            return 0
        return sum(await asyncio.gather(*(self._compare(comparison, case) for comparison, case in due)))

    async def _compare(self, comparison_id: str, case: CaseForScreening) -> int:
        begun = time.monotonic()
        try:
            sampler = self.agents.sampler(case.configuration, case.seed)
            found = await screen(case.text, guard_for(case.flags), case.configuration.pipeline, sampler)
        except SamplerError as error:
            if error.stops_batch:
                await to_the_end(end_comparison, self.db, SYSTEM, comparison_id, error.kind, self.clock())
            return 0
        costs = [self.agents.cost_usd(case.configuration, run.usage, run.node) for run in found.runs]
        cost = None if None in costs else sum(one or 0.0 for one in costs)
        kept = (comparison_id, case.case_id, found, cost, time.monotonic() - begun, self.clock())
        return int(await to_the_end(keep_compared, self.db, *kept))
