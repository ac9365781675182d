"""The engine's own bookkeeping in fewer transactions: jobs that ended leave with the next that are fetched."""

import time
from collections import defaultdict, deque
from collections.abc import Iterable
from typing import Any, TypeVar

from procrastinate.connector import BaseAsyncConnector
from procrastinate.jobs import Job, Status
from procrastinate.manager import JobManager
from psycopg import AsyncConnection
from psycopg.abc import PQGen
from psycopg_pool import AsyncConnectionPool

_FETCH = """WITH ended AS (DELETE FROM procrastinate_jobs WHERE id = ANY(%(ended)s) AND status = 'doing')
SELECT id, status, task_name, priority, lock, queueing_lock, args, scheduled_at, queue_name, attempts, worker_id
FROM generate_series(1, %(most)s) AS turn, procrastinate_fetch_job_v2(%(queues)s::varchar[], %(worker_id)s + 0 * turn)
"""
"""The function is asked anew for each turn because its argument names the turn."""
_FORGET = "DELETE FROM procrastinate_jobs WHERE id = ANY(%s) AND status = 'doing'"

SURELY_THERE_S = 1.0
"""A connection that has answered within so many seconds is not asked whether it is still there."""

T = TypeVar("T")


class PatientConnection(AsyncConnection[Any]):
    """Sleeps until its socket has something. The library looks ten times a second for a Ctrl-C, which an event loop
    hears of by itself: two connections that only listen took half of what an idle worker took.
    """

    answered_at = float("-inf")

    async def wait(self, gen: PQGen[T], interval: float = 60.0, timeout: float | None = None) -> T:  # noqa: ASYNC109
        """Wait as the library's method does."""
        found = await super().wait(gen, interval=interval, timeout=timeout)
        self.answered_at = time.monotonic()
        return found


def pool_of_statements(**given: Any) -> AsyncConnectionPool[Any]:
    """The engine's pool. What it does is one statement at a time, each a transaction by itself: a fetch is one round
    trip and not four. Who needs more begins a transaction.
    """
    return AsyncConnectionPool(**given | {"configure": _one_by_one, "check": _check_unless_heard_of})


async def _one_by_one(connection: PatientConnection) -> None:
    await connection.set_autocommit(True)


async def _check_unless_heard_of(connection: PatientConnection) -> None:
    """Ask a connection whether it is still there, unless it has answered a moment ago."""
    if time.monotonic() - connection.answered_at > SURELY_THERE_S:
        await AsyncConnectionPool.check_connection(connection)


class EndedJobs(JobManager):
    """Keeps in mind what has ended until the next job of its queue is fetched, or until `forget`. As many are fetched
    at once as have ended: their places are free.

    A process that dies meanwhile leaves jobs in work behind, as any dead worker does; a case that has its outcome by
    then is not given out again.
    """

    def __init__(self, connector: BaseAsyncConnector) -> None:
        super().__init__(connector)
        self._ended = defaultdict[str, list[int]](list)
        self._fetched = defaultdict[str, deque[Job]](deque)

    async def finish_job(self, job: Job, status: Status, delete_job: bool) -> None:
        """Like the library's method, but a job that succeeded and is to be deleted is only noted."""
        if status is Status.SUCCEEDED and delete_job and job.id is not None:
            self._ended[job.queue].append(job.id)
        else:
            await super().finish_job(job, status, delete_job)

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """The next job of this queue, if there is one. ValueError for a worker of more queues than one."""
        (queue,) = queues or ()
        if not self._fetched[queue]:
            self._fetched[queue] += await self._fetch(queue, worker_id)
        return self._fetched[queue].popleft() if self._fetched[queue] else None

    async def _fetch(self, queue: str, worker_id: int) -> list[Job]:
        ended = self._ended.pop(queue, [])
        try:
            rows = await self.connector.execute_query_all_async(
                query=_FETCH, queues=[queue], worker_id=worker_id, ended=ended, most=max(1, len(ended))
            )
        except BaseException:
            self._ended[queue] += ended
            raise
        return [Job.from_row(row) for row in rows if row["id"] is not None]

    async def forget(self, connection: "AsyncConnection[Any]", queue: str) -> bool:
        """Delete what has ended, in the caller's transaction; whether there was any."""
        ended = self._ended.pop(queue, [])
        if not ended:
            return False
        try:
            await connection.execute(_FORGET, (ended,))
        except BaseException:
            self._ended[queue] += ended
            raise
        return True

    async def close(self, connection: "AsyncConnection[Any]", queue: str) -> None:
        """Leave nothing of this process behind: what was fetched and not begun is given out again."""
        self._ended[queue] += [job.id for job in self._fetched.pop(queue, ()) if job.id is not None]
        await self.forget(connection, queue)
