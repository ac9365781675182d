"""The runner for PostgreSQL: procrastinate hands the cases to any number of workers on any number of machines.

Our tables are the truth. The engine's own hold nothing that could not be written again: they lie in a schema named
after the library's version, so an upgrade simply begins with an empty one, and a feeder in every worker keeps them
filled from `pending_cases`, one worker at a time.
"""

import asyncio
import logging
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import procrastinate
from procrastinate.jobs import Job, Status
from psycopg import AsyncConnection
from psycopg.sql import SQL, Identifier

from jobs.process import retry_in_thread
from jobs.runner import INTERACTIVE_PLACES, WorkerEnded
from jobs.screening_job import ScreeningJob
from storage.batches import pending
from storage.schema import NEW_WORK

INTERACTIVE, BATCH = "interactive", "batch"
FEED_EVERY_S = 0.25
IDLE_EVERY_S = {INTERACTIVE: 0.4, BATCH: 2.0}
"""Between two rounds of a feeder that found nothing to give out, while something put off comes due by itself."""
QUIET_EVERY_S = 10.0
"""The same while nothing does: the database tells of what is new (`storage.database.Changes`). A worker whose
connection for this breaks ends and is started again; this is for what another worker put off before it died."""
LEAST_WAITING = 100
"""Cases kept waiting in the engine; more where more are in work, because each round then takes more."""
DEAD_AFTER_S = 20.0
"""A worker that shows no sign of life for so long is taken for dead and its cases are given out again."""
_CREATE_LOCK = 7_041_330_201
_FEED_LOCKS = {INTERACTIVE: 7_041_330_202, BATCH: 7_041_330_203}
"""PostgreSQL's advisory locks of this module: arbitrary numbers of their own."""
_TASK = "screen_case"
_ALIVE: dict[str, Any] = {"keepalives_idle": 20, "keepalives_interval": 5, "keepalives_count": 3}
"""A connection that only listens notices within so many seconds that nobody is there any more."""

log = logging.getLogger(__name__)


class ProcrastinateRunner:
    """Works at up to ``places`` cases of batches and a few more that somebody waits for."""

    def __init__(self, job: ScreeningJob, places: int) -> None:
        self._job = job
        self._places = places
        self._stopping = asyncio.Event()
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._busy: set[str] = set()
        self._told = {queue: asyncio.Event() for queue in _FEED_LOCKS}
        self._connector = procrastinate.PsycopgConnector(
            conninfo=job.db.conninfo,
            kwargs=_options(),
            min_size=2,
            max_size=10,
            configure=_commit_each,
        )
        self.app = procrastinate.App(connector=self._connector)
        self.app.task(name=_TASK)(self._screen_case)

    def stop(self) -> None:
        """Ask `run` to end; cases in flight are interrupted and stay pending."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until told to stop. WorkerEnded when a part of the engine gave up, for example with the database."""
        await create_engine_tables(self._job.db.conninfo)
        async with self.app.open_async():
            parts = [asyncio.create_task(part) for part in self._parts()]
            stopping = asyncio.create_task(self._stopping.wait())
            try:
                await asyncio.wait([stopping, *parts], return_when=asyncio.FIRST_COMPLETED)
            finally:
                for part in [stopping, *parts]:
                    part.cancel()
                ended = await asyncio.gather(*parts, return_exceptions=True)
        if not self._stopping.is_set():
            broken = next((end for end in ended if isinstance(end, Exception)), None)
            raise WorkerEnded("the worker ended by itself") from broken

    def _parts(self) -> list[Any]:
        queues = ((INTERACTIVE, INTERACTIVE_PLACES), (BATCH, self._places))
        workers = [
            self.app.run_worker_async(
                queues=[queue],
                name=queue,
                concurrency=places,
                fetch_job_polling_interval=QUIET_EVERY_S,  # what is given out is told by NOTIFY
                shutdown_graceful_timeout=0,
                delete_jobs="always",
                install_signal_handlers=False,
                update_heartbeat_interval=DEAD_AFTER_S / 4,
                stalled_worker_timeout=DEAD_AFTER_S,
            )
            for queue, places in queues
        ]
        feeders = map(self._feed, _FEED_LOCKS)
        watching = self._job.withdraw_unwatched(self._running, lambda: bool(self._busy or self._job.retries_soon))
        return [*workers, self._listen(), *feeders, self._drop_dead_jobs(), watching]

    async def _listen(self) -> None:
        """Wakes the feeders when the database tells of new work; the library's own waiting looks ten times a second."""
        loop = asyncio.get_running_loop()
        async with await AsyncConnection.connect(self._job.db.conninfo, autocommit=True, **_ALIVE) as connection:
            await connection.execute(SQL("LISTEN {}").format(Identifier(NEW_WORK)))
            while True:
                self._wake()
                told = asyncio.Event()
                loop.add_reader(connection.fileno(), told.set)
                try:
                    await told.wait()
                finally:
                    loop.remove_reader(connection.fileno())
                await connection.execute("SELECT 1")  # takes in what was told, and fails where nobody is there any more

    def _wake(self) -> None:
        for told in self._told.values():
            told.set()

    async def _screen_case(self, case_id: str) -> None:
        task = asyncio.current_task()
        if task is None or case_id in self._running:
            return
        self._running[case_id] = task
        try:
            await self._job.screen_case(case_id)
        finally:
            del self._running[case_id]

    async def _feed(self, queue: str) -> None:
        """Each queue has a feeder of its own, so that who waits never waits for a long list of a batch's cases."""
        while True:
            self._told[queue].clear()
            busy = await self._round(queue)
            (self._busy.add if busy else self._busy.discard)(queue)
            if busy or self._job.retries_soon:
                await asyncio.sleep(FEED_EVERY_S if busy else IDLE_EVERY_S[queue])
                continue
            with suppress(TimeoutError):  # until the database tells of work
                async with asyncio.timeout(QUIET_EVERY_S):
                    await self._told[queue].wait()

    async def _round(self, queue: str) -> bool:
        """Give out what may be started now, unless another worker is at it; whether there is work."""
        async with self._connector.pool.connection() as connection, connection.transaction():
            if not await _mine(connection, _FEED_LOCKS[queue]):
                return True  # it may give up its turn before it has seen what is new
            found = list(await self.app.job_manager.list_jobs_async(queue=queue))
            waiting = sum(job.status == Status.TODO.value for job in found)
            most = max(LEAST_WAITING, len(found) - waiting)
            if queue == BATCH and 2 * waiting > most:
                return True  # enough for now: many at a time cost less
            case_ids = await retry_in_thread(
                pending.pending_cases,
                self._job.db,
                most - waiting,
                self._job.clock(),
                excluding=[str(job.lock) for job in found],
                interactive=queue == INTERACTIVE,
            )
            if case_ids:
                await self.app.job_manager.batch_defer_jobs_async([_job(case_id, queue) for case_id in case_ids])
        return bool(found or case_ids)

    async def _drop_dead_jobs(self) -> None:
        """Delete the jobs of dead workers: their cases are still pending, so the feeder hands them out again."""
        while True:
            manager = self.app.job_manager
            for job in await manager.get_stalled_jobs(seconds_since_heartbeat=DEAD_AFTER_S):
                log.warning("a worker died over case %s: given out again", job.lock)
                with suppress(procrastinate.exceptions.ConnectorException):  # it had ended meanwhile
                    await manager.finish_job(job, status=Status.ABORTED, delete_job=True)
            await manager.prune_stalled_workers(DEAD_AFTER_S)
            await asyncio.sleep(DEAD_AFTER_S / 2)


def engine_schema() -> str:
    """The schema of this version's tables: no upgrade ever meets tables of another version."""
    return "procrastinate_" + version("procrastinate").replace(".", "_")


async def create_engine_tables(conninfo: str) -> None:
    """Make the engine's schema and tables unless they are there; safe when several workers start at once."""
    schema = engine_schema()
    async with await AsyncConnection.connect(conninfo, **_options()) as connection:
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", (_CREATE_LOCK,))
        found = await connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,))
        if await found.fetchone() is None:
            await connection.execute(SQL("CREATE SCHEMA {}").format(Identifier(schema)))
            await connection.execute(procrastinate.schema.SchemaManager.get_schema())


def _options() -> dict[str, Any]:
    return {"options": f"-c search_path={engine_schema()}", **_ALIVE}


async def _commit_each(connection: "AsyncConnection[Any]") -> None:
    """Fetching and ending a job is one statement each: neither needs a transaction around it."""
    await connection.set_autocommit(True)


async def _mine(connection: "AsyncConnection[Any]", lock: int) -> bool:
    """Whether no other worker feeds this queue just now; held until the transaction ends."""
    row = await (await connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (lock,))).fetchone()
    return bool(row and row[0])


def _job(case_id: str, queue: str) -> Job:
    return Job(queue=queue, lock=case_id, queueing_lock=case_id, task_name=_TASK, task_kwargs={"case_id": case_id})
