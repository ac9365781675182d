"""A worker whose model kills the process on a certain text: ``killing_worker.py DATABASE_URL``."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Sequence

from jobs.agents import Agents
from jobs.process import system_clock
from jobs.procrastinate import ProcrastinateRunner
from jobs.runner import LocalRunner, Runner, only_worker
from jobs.screening_job import ScreeningJob
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
        await asyncio.sleep(0.05)  # so that others are in flight when it strikes
        if DEADLY in request.text.text:
            os.kill(os.getpid(), signal.SIGKILL)
        return await self._inner.draw(request)


class KillingAgents(Agents):
    """The simulated agents, made deadly."""

    def sampler(self, configuration: Configuration, seed: int) -> DrawSource:
        return Killing(super().sampler(configuration, seed))


async def work(db: Database) -> None:
    """Work until killed or told to stop."""
    agents = KillingAgents(Settings(_env_file=None, sampler="simulated"))
    job = ScreeningJob(db=db, agents=agents, clock=system_clock, worker=f"w{os.getpid()}")
    runner: Runner = LocalRunner(job, 8) if db.kind == "sqlite" else ProcrastinateRunner(job, 8, dead_after_s=2.0)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, runner.stop)
    logging.getLogger().warning("screening what is pending")
    await runner.run()


if __name__ == "__main__":
    database = Database(sys.argv[1], repeatable=True)
    if database.kind == "sqlite":
        with only_worker(database.lock_file):
            asyncio.run(work(database))
    else:
        asyncio.run(work(database))
