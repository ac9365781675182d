"""worker.py, whose model kills the process on a certain text."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import worker
from jobs.agents import Agents, limited_agents
from screening.pipeline.draws import Draw, DrawRequest, DrawSource
from screening.settings import Settings
from storage.batches.configurations import Configuration
from storage.database import Database

DEADLY = "deadly to workers"


class Killing:
    """Kills its process on the deadly text, and else draws as the sampler it stands before."""

    def __init__(self, inner: DrawSource) -> None:
        self._inner = inner

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        if DEADLY in request.text.text:
            await asyncio.sleep(0.05)  # so that others are in flight when it strikes
            os.kill(os.getpid(), signal.SIGKILL)
        return await self._inner.draw(request)


@asynccontextmanager
async def deadly_agents(settings: Settings, db: Database, name: str) -> AsyncIterator[Agents]:
    """The worker's agents, made deadly."""
    async with limited_agents(settings, db, name) as agents:
        usual = agents.sampler

        def sampler(configuration: Configuration, seed: int) -> DrawSource:
            return Killing(usual(configuration, seed))

        agents.sampler = sampler  # type: ignore[method-assign]
        yield agents


if __name__ == "__main__":
    worker.limited_agents = deadly_agents
    sys.exit(worker.main())
