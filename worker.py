"""Start the runner for the configured database; nothing else."""

import asyncio
import gc
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from jobs import garbage, logs
from jobs.agents import Agents
from jobs.comparing import ComparisonRunner
from jobs.local import AlreadyRunning, LocalRunner, only_worker
from jobs.model_health import ModelAtStart, Preflights
from jobs.notifications import Notifier
from jobs.overnight import OvernightRunner
from jobs.patience import DATABASE_THREADS
from jobs.port import Runner, WorkerEnded, system_clock, worker_name
from jobs.screening_job import ScreeningJob
from jobs.shared_limit import limited_agents
from screening.settings import Settings
from storage.database import Database, passing_fault
from storage.site.processes import processes

STOPS_WITHIN_S = 8.0

log = logging.getLogger("worker")


async def work(settings: Settings, db: Database) -> None:
    """Screen what is pending until a signal asks to end."""
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(DATABASE_THREADS, "database"))
    name, clock = worker_name(), system_clock
    async with limited_agents(settings, db, name) as agents:
        preflights = Preflights(db=db, agents=agents, clock=clock)
        job = ScreeningJob(db=db, agents=agents, clock=clock, worker=name, preflights=preflights)
        comparisons = ComparisonRunner(db=db, agents=agents, clock=clock, worker=name, preflights=preflights)
        overnight = OvernightRunner(
            db=db, agents=agents, clock=clock, worker=name, poll_s=settings.overnight_poll_s, preflights=preflights
        )
        notifier = Notifier(db=db, settings=settings, name=name, kind="worker", clock=clock)
        runner = runner_for(db, job, settings.cases_in_flight)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _stop, runner)
        beside = (try_the_model(settings, db, agents, preflights), overnight.run(), comparisons.run())
        tasks = [asyncio.create_task(one) for one in beside]
        notifier.start()
        try:
            await runner.run()
        finally:
            notifier.stop()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


def runner_for(db: Database, job: ScreeningJob, places: int) -> Runner:
    """The runner of this kind of database; the other's library is not even imported."""
    if db.kind == "sqlite":
        return LocalRunner(job, places)
    from jobs.procrastinate import ProcrastinateRunner

    return ProcrastinateRunner(job, places)


def _stop(runner: Runner) -> None:
    """Ask the runner to end; what hangs then, a thread or a connection, ends with the process: nothing that was
    committed depends on it.
    """
    runner.stop()
    last = threading.Timer(STOPS_WITHIN_S, os._exit, [0])
    last.daemon = True
    last.start()


async def try_the_model(settings: Settings, db: Database, agents: Agents, preflights: Preflights) -> None:
    """Ask the models until they answer."""
    await ModelAtStart(
        settings=settings, db=db, agents=agents, preflights=preflights, clock=system_clock
    ).until_it_answers()
    gc.collect()  # nothing of the tries is kept
    garbage.spare_loaded_objects()


@contextmanager
def _alone_if_embedded(db: Database) -> Iterator[None]:
    if db.kind == "sqlite":
        with only_worker(db.lock_file):
            yield
    else:
        yield


def main() -> int:
    """Prepare the database and work; 1 when another worker already does, or the database went away."""
    garbage.spare_loaded_objects()
    settings = Settings()
    logs.set_up(settings.log_format)
    db = Database(settings.database_url, repeatable=True)
    try:
        db.prepare()
        with _alone_if_embedded(db):
            log.info("screening what is pending (%s, %s agents)", db.kind, settings.agents)
            asyncio.run(work(settings, db))
    except (AlreadyRunning, WorkerEnded) as refusal:
        log.error("%s", refusal)
        return 1
    except Exception as error:
        if (fault := passing_fault(error)) is None:
            raise
        log.error("the database is %s", fault.value)
        return 1
    finally:
        db.close()
    return 0


def alive() -> int:
    """0 when a worker of this host has said within half a minute that it lives: for a container's health check. 1 also
    where the database cannot be asked.
    """
    db = Database(Settings().database_url)
    host = worker_name().rsplit("-", 2)[0]
    try:
        with db.read() as conn:
            found = processes(conn, system_clock())
    except Exception as error:
        if passing_fault(error) is None:
            raise
        return 1
    finally:
        db.close()
    return 0 if any(one.alive and one.name.rsplit("-", 2)[0] == host for one in found) else 1


if __name__ == "__main__":
    sys.exit(alive() if sys.argv[1:] == ["--alive"] else main())
