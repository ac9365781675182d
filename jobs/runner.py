"""What takes pending cases, and the runner for SQLite: one process and one event loop. Pending work is in the tables
and never in memory alone.
"""

import asyncio
import fcntl
import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobs.process import retry_in_thread
from jobs.screening_job import ScreeningJob
from storage.batches import pending
from storage.database import Changes, Database

if TYPE_CHECKING:
    from jobs.procrastinate import ProcrastinateRunner

INTERACTIVE_PLACES = 4
"""Cases that somebody waits for which a worker takes beside the most it may of batches: no batch ever fills it."""
POLL_S = 0.4
"""Seconds between two looks for work: the longest wait of a single text."""
LOOK_ANYWAY_S = 5.0
"""Seconds between two looks of a runner with nothing to do while nobody writes to the database."""
AFTER_A_BREAK_S = 1.0
"""Pause after a case whose failure could not be recorded (a full disk): it is pending and would start again at once."""

log = logging.getLogger(__name__)


def runner_for(job: ScreeningJob, places: int) -> "LocalRunner | ProcrastinateRunner":
    """The runner of this kind of database; the other's library is not even imported. It works until told to stop;
    pause, resume and cancel are facts on the batch that it reads.
    """
    if job.db.kind == "sqlite":
        return LocalRunner(job, places)
    from jobs.procrastinate import ProcrastinateRunner

    return ProcrastinateRunner(job, places)


class WorkerEnded(RuntimeError):
    """The engine's worker ended without being asked to: the process should end and be started again."""


class AlreadyRunning(RuntimeError):
    """Another worker holds this database."""


@contextmanager
def only_worker(db: Database) -> Iterator[None]:
    """Hold the lock of an embedded database within the block, or until the process dies, however; AlreadyRunning when
    another has it. A database for several workers has none.
    """
    if db.kind != "sqlite":
        yield
        return
    db.lock_file.parent.mkdir(parents=True, exist_ok=True)
    with db.lock_file.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise AlreadyRunning(f"another worker already works on this database ({db.lock_file.name})") from None
        yield


class LocalRunner:
    """Takes up to ``places`` pending cases, interactive first."""

    def __init__(self, job: ScreeningJob, places: int) -> None:
        self._job = job
        self._places = places
        self._until_done = False
        self._stopping = asyncio.Event()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._next: deque[str] = deque()
        self._not_before = 0.0
        self._changes = Changes(job.db.file if job.db.kind == "sqlite" else None)
        self._quiet_until = 0.0

    def stop(self) -> None:
        """Ask `run` to end; cases in flight are interrupted and stay pending."""
        self._stopping.set()

    async def until_done(self) -> None:
        """Work until nothing is pending, what was put off included."""
        self._until_done = True
        await self.run()

    async def run(self) -> None:
        watching = self._job.withdraw_unwatched(self._running, self._looks_for_work)
        beside = [asyncio.create_task(one) for one in (self._stopping.wait(), self._interactive(), watching)]
        try:
            while not self._stopping.is_set():
                await self._start_pending()
                if self._until_done and not self._running and not await self._pending_ids(1, put_off=True):
                    return
                flying = [*beside, *self._running.values()]
                await asyncio.wait(flying, timeout=POLL_S, return_when=asyncio.FIRST_COMPLETED)
                for task in beside:
                    if task.done():
                        task.result()
                self._collect_ended()
        finally:
            tasks = [*beside, *self._running.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._changes.close()

    def _idle(self) -> bool:
        """Whether the last look found nothing, nothing was written since, and nothing comes due by itself."""
        if self._changes.poll() or self._running or self._next or self._job.retries_soon:
            self._quiet_until = 0.0
        return not self._looks_for_work()

    def _looks_for_work(self) -> bool:
        return asyncio.get_running_loop().time() >= self._quiet_until

    async def _start_pending(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._until_done and self._idle():
            return
        while len(self._running) < self._places and loop.time() >= self._not_before:
            if not self._next:
                self._next.extend(await self._pending_ids(self._places))
            if not self._next:
                self._not_before = loop.time() + POLL_S
                self._quiet_until = loop.time() + LOOK_ANYWAY_S
                return
            self._start(self._next.popleft())

    async def _interactive(self) -> None:
        """Start texts that somebody is waiting for at once, even while a batch uses all places."""
        while True:
            await asyncio.sleep(POLL_S)
            free = self._places + INTERACTIVE_PLACES - len(self._running)
            if free > 0 and self._running:  # with nothing in flight the other look finds them too
                for case_id in await self._pending_ids(free, interactive=True):
                    self._start(case_id)

    async def _pending_ids(self, limit: int, *, interactive: bool | None = None, put_off: bool = False) -> list[str]:
        return await retry_in_thread(
            pending.pending_cases,
            self._job.db,
            limit,
            None if put_off else self._job.clock(),
            excluding=tuple(self._running),
            interactive=interactive,
        )

    def _start(self, case_id: str) -> None:
        if case_id not in self._running:
            self._running[case_id] = asyncio.create_task(self._job.screen_case(case_id))

    def _collect_ended(self) -> None:
        for case_id, task in list(self._running.items()):
            if task.done():
                del self._running[case_id]
                if not task.cancelled() and (error := task.exception()):
                    log.error("the job of case %s broke: %s", case_id, type(error).__name__)
                    self._not_before = asyncio.get_running_loop().time() + AFTER_A_BREAK_S
