"""The embedded runner: one process, one loop, what is pending in the tables; nothing is kept in memory alone."""

import asyncio
import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from jobs.screening_job import ScreeningJob
from storage import live, screenings

POLL_S = 0.2
INTERACTIVE_PLACES = 4
"""Places kept free for a person who waits, so that a batch never fills the loop."""
UNWATCHED_AFTER = timedelta(seconds=10)

log = logging.getLogger(__name__)


class AlreadyRunning(RuntimeError):
    """Another worker holds this database."""


@contextmanager
def only_worker(lock_file: Path) -> Iterator[None]:
    """Hold the lock of an embedded database; AlreadyRunning when another process has it.

    The operating system releases it when the process dies, however it dies.
    """
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise AlreadyRunning(f"another worker already works on this database ({lock_file.name})") from None
        yield


class LocalRunner:
    """Takes pending cases, interactive ones first, with at most ``places`` in flight.

    With ``until_done`` it ends when nothing is pending (the command line); else it runs until `stop`.
    """

    def __init__(self, job: ScreeningJob, places: int, *, until_done: bool = False) -> None:
        self._job = job
        self._places = places
        self._until_done = until_done
        self._stopping = asyncio.Event()
        self._running: dict[str, asyncio.Task[None]] = {}

    def stop(self) -> None:
        """Ask `run` to end; cases in flight are interrupted and stay pending."""
        self._stopping.set()

    async def run(self) -> None:
        """Work until told to stop."""
        try:
            while not self._stopping.is_set():
                started = await self._start_pending()
                if self._until_done and not started and not self._running:
                    return
                await self._wait(POLL_S)
                await self._withdraw_unwatched()
        finally:
            for task in self._running.values():
                task.cancel()
            await asyncio.gather(*self._running.values(), return_exceptions=True)

    async def _start_pending(self) -> int:
        free = self._places - len(self._running)
        only_interactive = free <= 0
        limit = free if free > 0 else self._places + INTERACTIVE_PLACES - len(self._running)
        if limit <= 0:
            return 0
        pending = await asyncio.to_thread(
            screenings.pending_cases,
            self._job.db,
            limit,
            excluding=tuple(self._running),
            only_interactive=only_interactive,
            now=self._job.clock(),
        )
        for case_id in pending:
            self._running[case_id] = asyncio.create_task(self._job.screen_case(case_id))
        return len(pending)

    async def _wait(self, seconds: float) -> None:
        """Until a case ends, the pause is over, or the runner is told to stop."""
        stopping = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait(
                [stopping, *self._running.values()], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            stopping.cancel()
        for case_id, task in list(self._running.items()):
            if task.done():
                del self._running[case_id]
                if error := task.exception():
                    log.error("the job of case %s broke: %s", case_id, type(error).__name__)

    async def _withdraw_unwatched(self) -> None:
        before = self._job.clock() - UNWATCHED_AFTER
        for case_id in await asyncio.to_thread(live.unwatched, self._job.db, before):
            if task := self._running.get(case_id):
                task.cancel()
            await asyncio.to_thread(live.withdraw, self._job.db, case_id, self._job.clock())
