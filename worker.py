"""Start the runner for the configured database; nothing else."""

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

from jobs.model_health import ModelHealth
from jobs.notify import Notifier
from jobs.overnight import OvernightRunner
from jobs.process import DATABASE_THREADS, begin, exit_without_database, spare_loaded_objects, system_clock, worker_name
from jobs.runner import AlreadyRunning, WorkerEnded, only_worker, runner_for
from jobs.screening_job import ComparisonRunner, open_job
from screening.settings import Settings
from storage.database import Database
from storage.site.health import processes

STOPS_WITHIN_S = 8.0

log = logging.getLogger("worker")


async def work(settings: Settings, db: Database) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(DATABASE_THREADS, "database"))
    async with open_job(settings, db, worker_name()) as job:
        notifier = Notifier(db=db, settings=settings, name=job.worker, kind="worker", clock=system_clock)
        runner = runner_for(job, settings.cases_in_flight)

        def stop() -> None:
            """Ask the runner to end; what hangs then ends with the process, and nothing committed depends on it."""
            runner.stop()
            last = threading.Timer(STOPS_WITHIN_S, os._exit, [0])
            last.daemon = True
            last.start()

        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop)
        overnight = OvernightRunner(job, settings.overnight_poll_s)
        beside = (_try_the_model(job.health, settings), overnight.run(), ComparisonRunner(job).run())
        tasks = [asyncio.create_task(one) for one in beside]
        notifier.start()
        try:
            await runner.run()
        finally:
            notifier.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def _try_the_model(health: ModelHealth, settings: Settings) -> None:
    await health.until_it_answers(settings)
    gc.collect()  # else what the tries left over would be spared too
    spare_loaded_objects()


def main() -> int:
    """Prepare the database and work; 1 when another worker already does, or the database went away."""
    settings = begin()
    with exit_without_database(log), closing(Database(settings.database_url, repeatable=True)) as db:
        db.prepare()
        try:
            with only_worker(db):
                log.info("screening what is pending (%s, %s agents)", db.kind, settings.agents)
                asyncio.run(work(settings, db))
        except (AlreadyRunning, WorkerEnded) as refusal:
            log.error("%s", refusal)
            return 1
    return 0


def alive() -> int:
    """0 when a worker of this host lately said that it lives: a container's health check; 1 without a database too."""
    host = worker_name().rsplit("-", 2)[0]
    with exit_without_database(log), closing(Database(Settings().database_url)) as db, db.read() as conn:
        found = processes(conn, system_clock())
    return 0 if any(one.alive and one.name.rsplit("-", 2)[0] == host for one in found) else 1


if __name__ == "__main__":
    sys.exit(alive() if sys.argv[1:] == ["--alive"] else main())
