"""A process that works an overnight batch and may be killed at any moment: forked from one that has imported all."""

import asyncio
import multiprocessing
from multiprocessing.process import BaseProcess

from jobs.agents import Agents
from jobs.overnight import OvernightRunner
from jobs.port import system_clock
from screening.settings import Settings
from storage.database import Database

POLL_S = 0.05


def start(database_url: str, stub_url: str, batch_id: str) -> BaseProcess:
    """One that goes on with the batch, as soon as it runs."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    made = context.Process(target=_work, args=(database_url, stub_url, batch_id), daemon=True)
    made.start()
    return made


def _work(database_url: str, stub_url: str, batch_id: str) -> None:
    settings = Settings(
        _env_file=None, anthropic_base_url=stub_url, anthropic_api_key="k", sampler="anthropic",
        overnight_poll_s=POLL_S,
    )  # fmt: skip
    work = OvernightRunner(
        db=Database(database_url), agents=Agents(settings), clock=system_clock, worker="w1", poll_s=POLL_S
    )
    asyncio.run(work.until_over(batch_id))
