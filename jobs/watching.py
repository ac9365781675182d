"""Stops the screening of single texts that nobody watches any more, in mid-wave where they run in this process."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from jobs.patience import retry_in_thread
from jobs.screening_job import ScreeningJob
from storage.batches import live

UNWATCHED_AFTER = timedelta(seconds=20)
"""An open page reports every two seconds; on a busy machine or a bad line ten seconds without a report were seen."""
LOOK_EVERY_S = 1.0


async def withdraw_unwatched(job: ScreeningJob, running: Mapping[str, "asyncio.Task[Any]"]) -> None:
    """Withdraw single texts that nobody watches; another process that runs one notices after its next wave."""
    for case_id in await retry_in_thread(live.find_unwatched, job.db, job.clock(), UNWATCHED_AFTER):
        await retry_in_thread(live.withdraw, job.db, case_id, job.clock())
        if task := running.get(case_id):
            task.cancel()
