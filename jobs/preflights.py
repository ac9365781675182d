"""Try each configuration before use: one that failed screens no text unless an administrator allows it in writing."""

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from jobs.agents import Agents
from jobs.patience import retry_in_thread
from jobs.port import Clock
from screening.models.canaries import other_names, probe
from screening.pipeline.draws import Draw, SamplerError
from storage.batches import preflights
from storage.batches.configurations import Configuration
from storage.batches.preflights import Preflight
from storage.database import Database

RECENT = timedelta(hours=1)
"""A worker that starts within this time of the last try does not try again: a crash loop would pay for each try."""
LOOK_AGAIN_S = 15.0
"""How long a pass counts before the tables are read again: another worker may have seen the model fail meanwhile."""

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Preflights:
    """Tries each configuration once a process, unless somebody did so a moment before its start; one at a time."""

    db: Database
    agents: Agents
    clock: Clock
    _allowed: dict[str, float] = field(default_factory=dict)  # what may be used, and when the tables said so
    _settled: set[str] = field(default_factory=set)  # what needs no further try by this process
    _doubted: set[tuple[str, str]] = field(default_factory=set)
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def require(self, configuration: Configuration, seed: int) -> None:
        """Returns when the configuration may be screened with: this process tried it, or it was tried a moment before.
        SamplerError that pauses the batch where it failed; the service's own error where it cannot be asked, which is
        no failure and comes again by itself.
        """
        version = configuration.preflight_key
        if configuration.sampler.get("sampler") == "simulated" or await self._is_allowed(version):
            return
        async with self._one:
            if version in self._allowed:
                return
            found = await self._newest(configuration, seed, anew=version not in self._settled)
            if not found.allows:
                told = f"{found.message} An administrator can allow it in writing (Settings)."
                raise SamplerError("preflight_failed", told, stops_batch=True)
            self._allowed[version] = time.monotonic()

    async def _is_allowed(self, version: str) -> bool:
        """Whether it is known to be allowed, which one case in a while looks up again for all."""
        if version in self._allowed and time.monotonic() - self._allowed[version] > LOOK_AGAIN_S:
            self._allowed[version] = time.monotonic()
            found = await retry_in_thread(preflights.latest, self.db, version)
            if found is None or not found.allows:
                self._allowed.pop(version, None)
        return version in self._allowed

    async def doubt(self, configuration: Configuration, seed: int, draws: Iterable[Draw]) -> None:
        """Try the model again where these draws came under another name than it is asked for, once for each name:
        behind the address is another model than the one that was tried. SamplerError as `require` raises it.
        """
        version = configuration.preflight_key
        async with self._one:
            fresh = {(version, name) for name in other_names(draws)} - self._doubted
            if not fresh:
                return
            log.warning("a model answered under another name than it is asked for: it is tried again")
            await self.try_configuration(configuration, seed)
            self._doubted |= fresh
        await self.require(configuration, seed)

    async def try_configuration(self, configuration: Configuration, seed: int) -> bool:
        """Try it now and keep what came of it; whether it passed. SamplerError when it cannot be asked. Nothing that
        was known of it before counts from the first probe on.
        """
        version = configuration.preflight_key
        self._allowed.pop(version, None)
        self._settled.discard(version)
        found = await probe(self.agents.sampler(configuration, seed), configuration.pipeline)
        await retry_in_thread(preflights.keep, self.db, version, found, self.clock())
        log.log(logging.INFO if found.passed else logging.ERROR, "preflight: %s", found.message)
        return found.passed

    async def at_start(self, configuration: Configuration, seed: int) -> bool:
        """Try what texts are screened with now, also where it passed before: the server behind it may have changed.
        Whether texts may be screened with it. SamplerError while it cannot be asked.
        """
        async with self._one:
            return (await self._newest(configuration, seed, anew=True)).allows

    async def _newest(self, configuration: Configuration, seed: int, *, anew: bool) -> Preflight:
        """The latest try; it is made now where there was none and, with ``anew``, where the last one is old.
        SamplerError when it cannot be asked.
        """
        key = configuration.preflight_key
        while (found := await retry_in_thread(preflights.latest, self.db, key)) is None or (
            anew and self._is_old(found)
        ):
            await self.try_configuration(configuration, seed)
            anew = False
        self._settled.add(key)
        return found

    def _is_old(self, found: Preflight) -> bool:
        """Whether the try is too old to tell which model answers now; an administrator's permission does not age."""
        return found.overridden_by is None and abs(self.clock() - found.at) > RECENT
