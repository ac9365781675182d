"""A duty that only one worker at a time may do, held on to for as long as a piece of it takes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import timedelta

from jobs.patience import retry_in_thread
from jobs.port import Clock
from storage.database import Database
from storage.site import duties

LASTS = timedelta(seconds=20)
"""After a process that died over it, another takes it up so much later."""


@asynccontextmanager
async def held(db: Database, duty: str, worker: str, clock: Clock) -> AsyncIterator[bool]:
    """Whether this worker does it; then nobody else does until the end, and for `LASTS` after it."""

    async def take() -> bool:
        return await retry_in_thread(duties.take, db, duty, worker, clock(), LASTS)

    async def hold() -> None:
        while True:
            await asyncio.sleep(LASTS.total_seconds() / 4)
            await take()

    if not await take():
        yield False
        return
    holding = asyncio.create_task(hold())
    try:
        yield True
    finally:
        holding.cancel()
        with suppress(asyncio.CancelledError):
            await holding
