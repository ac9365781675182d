"""Start the runner for the configured database; nothing else."""

import asyncio
import logging
import os
import signal
import socket
import sys

from jobs.agents import Agents
from jobs.local import AlreadyRunning, LocalRunner, only_worker
from jobs.port import Runner, system_clock
from jobs.screening_job import ScreeningJob
from screening.settings import Settings
from storage.database import Database

log = logging.getLogger("worker")


async def _run(runner: Runner) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, runner.stop)
    await runner.run()


async def work(settings: Settings, db: Database) -> None:
    """Screen what is pending until a signal asks to end."""
    agents = Agents(settings)
    name = f"{socket.gethostname()}-{os.getpid()}"[:64]
    job = ScreeningJob(db=db, agents=agents, clock=system_clock, worker=name)
    try:
        await _run(LocalRunner(job, settings.cases_in_flight))
    finally:
        await agents.aclose()


def main() -> int:
    """Prepare the database and work; 1 when another worker already does."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    settings = Settings()
    db = Database(settings.database_url)
    try:
        db.prepare()
        with only_worker(db.lock_file):
            asyncio.run(work(settings, db))
    except AlreadyRunning as refusal:
        log.error("%s", refusal)
        return 1
    finally:
        db.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
