"""Try each configuration before use: one that failed screens no text unless an administrator allows it in writing."""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

from jobs.agents import Agents
from jobs.patience import to_the_end
from jobs.port import Clock
from screening.engine.draws import Draw, SamplerError
from screening.samplers.probes import other_names, probe
from storage.batches import preflights
from storage.batches.configurations import Configuration
from storage.database import Database

RECENT = timedelta(hours=1)
"""A worker that starts again so soon does not try again: a crash loop would pay for it each time."""

log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Preflights:
    """Tries each configuration once a process start, unless it passed before; one at a time."""

    db: Database
    agents: Agents
    clock: Clock
    _allowed: set[str] = field(default_factory=set)
    _doubted: set[tuple[str, str]] = field(default_factory=set)
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def require(self, configuration: Configuration, seed: int) -> None:
        """Returns when the configuration may be screened with. SamplerError that pauses the batch where it failed;
        the service's own error where it cannot be asked, which is no failure and comes again by itself.
        """
        version = preflights.preflight_key(configuration)
        if version in self._allowed or configuration.sampler.get("sampler") == "simulated":
            return
        async with self._one:
            if version in self._allowed:
                return
            found = await to_the_end(preflights.latest, self.db, version)
            if found is None:
                await self.try_configuration(configuration, seed)
                found = await to_the_end(preflights.latest, self.db, version)
        if found is None or not found.allows:
            told = found.message if found else "It was not tried."
            raise SamplerError(
                "preflight_failed", f"{told} An administrator can allow it in writing (Settings).", stops_batch=True
            )
        self._allowed.add(version)

    async def doubt(self, configuration: Configuration, seed: int, draws: Iterable[Draw]) -> None:
        """Try the model again where these draws came under another name than it is asked for, once for each name:
        behind the address is another model than the one that was tried. SamplerError as `require` raises it.
        """
        version = preflights.preflight_key(configuration)
        async with self._one:
            fresh = {(version, name) for name in other_names(draws)} - self._doubted
            if not fresh:
                return
            log.warning("a model answered under another name than it is asked for: it is tried again")
            self._allowed.discard(version)
            await self.try_configuration(configuration, seed)
            self._doubted |= fresh
        await self.require(configuration, seed)

    async def try_configuration(self, configuration: Configuration, seed: int) -> bool:
        """Try it now and keep what came of it; whether it passed. SamplerError when it cannot be asked."""
        found = await probe(self.agents.sampler(configuration, seed), configuration.pipeline)
        await to_the_end(preflights.keep, self.db, preflights.preflight_key(configuration), found, self.clock())
        log.log(logging.INFO if found.passed else logging.ERROR, "preflight: %s", found.message)
        return found.passed

    async def at_start(self, configuration: Configuration, seed: int) -> bool:
        """Try what texts are screened with now, also where it passed before: the server behind it may have changed.
        Whether texts may be screened with it. SamplerError while it cannot be asked.
        """
        if configuration.sampler.get("sampler") == "simulated":
            return True
        version = preflights.preflight_key(configuration)
        async with self._one:
            known = await to_the_end(preflights.latest, self.db, version)
            if known is None or (known.overridden_by is None and self.clock() - known.at > RECENT):
                await self.try_configuration(configuration, seed)
                known = await to_the_end(preflights.latest, self.db, version)
        return known is not None and known.allows
