"""Asks the models when a worker starts, and again until they answer; people are told while they do not.

Nothing need wait for that: who hands in the first text of a night should not be the one who finds out.
"""

import asyncio
import logging
import time
from contextlib import aclosing
from dataclasses import dataclass, field

from jobs.agents import Agents
from jobs.breaker import PASSING
from jobs.intake import configuration, usual_pipeline
from jobs.patience import retry_in_thread
from jobs.port import Clock
from jobs.preflights import Preflights
from screening.pipeline.draws import SamplerError
from screening.settings import Settings
from storage.batches.configurations import Configuration
from storage.database import Database
from storage.settings_store import settings_now
from storage.site import faults, notices
from storage.site.faults import Fault

FIRST_PAUSE_S, LONGEST_PAUSE_S = 5.0, 30.0
TOLD_AFTER_S = 12.0
"""A fault that may pass by itself has so long to do so: most are over at the second try."""
NO_LABEL, FAILED_PROBES, UNFORESEEN = "no_usable_answer", "preflight_failed", "internal_error"

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class ModelAtStart:
    """One worker's part in it: what it finds is the site's fault `Fault.MODEL`, which ended nodes end as well."""

    settings: Settings
    db: Database
    agents: Agents
    preflights: Preflights
    clock: Clock
    _said: set[str] = field(default_factory=set)

    async def until_it_answers(self) -> None:
        """Returns when texts can be screened: the models answer here, or cases say so."""
        began, pause_s, told = time.monotonic(), FIRST_PAUSE_S, False
        while (problem := await self._problem()) is not None:
            if told and not await retry_in_thread(faults.lasts, self.db, Fault.MODEL):
                return
            may_pass = problem in PASSING or problem == NO_LABEL
            soon = may_pass and time.monotonic() - began < TOLD_AFTER_S
            if not (told or soon or problem in faults.NOT_THE_MODEL):
                await retry_in_thread(self._keep, down=True)
                told = True
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        await retry_in_thread(self._keep, down=False)

    async def _problem(self) -> str | None:
        """What keeps texts from being screened, as a kind of error; None where nothing does."""
        if self.settings.simulated:
            return None
        try:
            asked = await self._configuration()
            for found in await self.agents.preflight(asked):
                self._log(found.message, well=found.ok)
                if not found.ok:
                    return found.kind or NO_LABEL
            return None if await self.preflights.at_start(asked, self.settings.seed) else FAILED_PROBES
        except SamplerError as error:
            self._log(str(error), well=False)
            return error.kind
        except Exception as error:  # what is not foreseen must not end this in silence
            self._log(f"{type(error).__name__}, which no code foresees", well=False)
            return UNFORESEEN

    async def _configuration(self) -> Configuration:
        """What texts are screened with now."""
        pipeline = await retry_in_thread(usual_pipeline, self.db, self.settings)
        known = await retry_in_thread(settings_now, self.db, self.settings)
        async with aclosing(Agents(known)) as described:
            return configuration(known, described, pipeline)

    def _log(self, message: str, *, well: bool) -> None:
        """Once for each message: while a service is away it is asked every half minute."""
        if message not in self._said:
            log.log(logging.INFO if well else logging.ERROR, "preflight: %s", message)
            self._said.add(message)

    def _keep(self, *, down: bool) -> None:
        notices.keep_fault(self.db, Fault.MODEL, self.clock(), down=down)
