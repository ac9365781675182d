"""What the worker process does, inside a test, until nothing is pending."""

import asyncio

from jobs.agents import Agents
from jobs.process import system_clock
from jobs.runner import LocalRunner
from jobs.screening_job import ScreeningJob
from screening.settings import Settings
from storage.database import Database


def work(db: Database) -> None:
    """Screen everything that is pending."""
    job = ScreeningJob(db=db, agents=Agents(Settings()), clock=system_clock, worker="test")
    asyncio.run(LocalRunner(job, 4, until_done=True).run())
