"""Start the runner for the configured database; nothing else."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress

from jobs.agents import Agents, model_settings
from jobs.local import AlreadyRunning, LocalRunner, only_worker
from jobs.port import Runner, system_clock
from jobs.procrastinate import ProcrastinateRunner, WorkerEnded
from jobs.screening_job import ScreeningJob
from jobs.shared_limit import SharedLimiter, pace_of, share_places
from screening.samplers.anthropic import default_gate
from screening.settings import Settings
from storage.database import Database

DATABASE_THREADS = 8
"""Commits of different cases wait for the disk side by side; more would only wait for each other."""

log = logging.getLogger("worker")


async def work(settings: Settings, db: Database) -> None:
    """Screen what is pending until a signal asks to end."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(DATABASE_THREADS, "database"))
    name = f"{socket.gethostname()}-{os.getpid()}"[:64]
    async with _agents(settings, db, name) as agents:
        job = ScreeningJob(db=db, agents=agents, clock=system_clock, worker=name)
        runner: Runner = (LocalRunner if db.kind == "sqlite" else ProcrastinateRunner)(job, settings.cases_in_flight)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, runner.stop)
        await runner.run()


@asynccontextmanager
async def _agents(settings: Settings, db: Database, worker: str) -> AsyncIterator[Agents]:
    """The agents; where there may be other workers, under limits that all share."""
    shares = db.kind == "postgresql" and not settings.simulated
    gate = None
    if shares:
        gate = default_gate(model_settings(settings), SharedLimiter(db=db, pace=pace_of(settings.requests_per_minute)))
        gate.resize(0)
    agents = Agents(settings, gate)
    share = asyncio.create_task(share_places(db, gate, settings.concurrency, worker)) if gate else None
    try:
        yield agents
    finally:
        await agents.aclose()
        if share is not None:
            share.cancel()
            with suppress(asyncio.CancelledError):
                await share


@contextmanager
def _alone_if_embedded(db: Database) -> Iterator[None]:
    if db.kind == "sqlite":
        with only_worker(db.lock_file):
            yield
    else:
        yield


def main() -> int:
    """Prepare the database and work; 1 when another worker already does, or the database went away."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    logging.getLogger("procrastinate").setLevel(logging.WARNING)  # it tells of every job
    settings = Settings()
    db = Database(settings.database_url, repeatable=True)
    try:
        db.prepare()
        with _alone_if_embedded(db):
            log.info("screening what is pending (%s, %s agents)", db.kind, settings.agents)
            asyncio.run(work(settings, db))
    except (AlreadyRunning, WorkerEnded) as refusal:
        log.error("%s", refusal)
        return 1
    finally:
        db.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
