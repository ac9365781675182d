"""A command's batch, screened where its database is: by this process, beside other workers, or by the one there is."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial
from time import monotonic
from typing import Any

from jobs.agents import Agents
from jobs.model_health import Breaker, ModelHealth
from jobs.overnight import OvernightRunner
from jobs.patience import retry_in_thread
from jobs.process import system_clock, worker_name
from jobs.procrastinate import ProcrastinateRunner
from jobs.runner import AlreadyRunning, LocalRunner, Runner, only_worker
from jobs.screening_job import ScreeningJob
from jobs.shared_limit import limited_agents
from screening.settings import Settings
from storage.batches.batch_state import ACTIVE
from storage.batches.batches import batch_state
from storage.batches.overnight import is_overnight
from storage.database import Database

PATIENCE_S = 120.0
"""How long a command waits for a service that answers nobody, before it ends and says what is pending."""
TELL_EVERY_S, SAID_EVERY_S = 2.0, 4.0
WAITING = "a worker is at work on this database: waiting for it to screen this batch"


def settings_with(**given: Any) -> Settings:
    """The site's settings with what the command line says instead."""
    return Settings(**{name: value for name, value in given.items() if value is not None})


def every_few_seconds(words: Callable[..., str]) -> Callable[..., None]:
    """Prints what these words say of a number of things done, unless that was done a moment ago."""
    last = monotonic()

    def tell(*done: int) -> None:
        nonlocal last
        if monotonic() - last > SAID_EVERY_S:
            last = monotonic()
            print(words(*done), file=sys.stderr, flush=True)

    return tell


async def screen_batch(
    db: Database,
    settings: Settings,
    take_in: Callable[[Agents], str],
    *,
    tell: Callable[[str], None] | None = None,
    patience_s: float = PATIENCE_S,
) -> str:
    """Take a batch in and return its id when nothing more happens to it by itself. ``tell`` is called with the id every
    few seconds meanwhile; a service that answers nobody is waited for up to ``patience_s``.

    No case is screened twice and no limit exceeded, whatever other workers there are.
    """
    name = worker_name("command line ")
    async with limited_agents(settings, db, name) as agents:
        batch_id = take_in(agents)
        telling = asyncio.create_task(_tell(tell, batch_id))
        health = ModelHealth(db=db, agents=agents, clock=system_clock, breaker=Breaker(patience_s=patience_s))
        job = ScreeningJob(db=db, agents=agents, clock=system_clock, worker=name, health=health)
        overnight = OvernightRunner(
            db=db, agents=agents, clock=system_clock, worker=name, poll_s=settings.overnight_poll_s, health=health
        )
        try:
            if is_overnight(db, batch_id):
                await _alone(partial(overnight.until_over, batch_id), db, batch_id)
            elif db.kind == "postgresql":
                await _beside_others(ProcrastinateRunner(job, settings.cases_in_flight), db, batch_id)
            else:
                await _alone(LocalRunner(job, settings.cases_in_flight, until_done=True).run, db, batch_id)
        finally:
            telling.cancel()
            await asyncio.gather(telling, return_exceptions=True)
    return batch_id


async def _alone(work: Callable[[], Awaitable[None]], db: Database, batch_id: str) -> None:
    """Work by this process or, where a worker is at work on an embedded database, by that one."""
    try:
        with nullcontext() if db.kind == "postgresql" else only_worker(db.lock_file):
            await work()
    except AlreadyRunning:
        print(WAITING, file=sys.stderr)
        await _over(db, batch_id)


async def _beside_others(runner: Runner, db: Database, batch_id: str) -> None:
    work, over = asyncio.create_task(runner.run()), asyncio.create_task(_over(db, batch_id))
    await asyncio.wait([work, over], return_when=asyncio.FIRST_COMPLETED)
    over.cancel()
    runner.stop()
    await work


async def _tell(tell: Callable[[str], None] | None, batch_id: str) -> None:
    while tell is not None:
        await asyncio.sleep(TELL_EVERY_S)
        await retry_in_thread(tell, batch_id)


async def _over(db: Database, batch_id: str) -> None:
    """Returns when nothing more happens to the batch by itself."""
    while batch_state(db, batch_id) in ACTIVE:  # noqa: ASYNC110 - others work on it
        await asyncio.sleep(0.5)
