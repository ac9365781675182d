"""`evaluate --database`: beside workers it screens no case that one of them is at, and keeps their limits."""

import asyncio
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text

from commands.evaluate import record_as_batch
from jobs.agents import PLACES, RATE
from jobs.runner import only_worker
from screening.evaluation.public_datasets import EvaluationData, load_evaluation
from screening.settings import Settings
from storage.database import Database
from storage.schema import call_limits, case_errors
from tests.databases import write
from tests.jobs.files import settings, write_posts
from tests.jobs.processes import NotingStub
from tests.jobs.running import agents, batch, running
from tests.stub_server import StubPlan

TEXTS = 6
NEVER_TWO_STARTS = {
    "sqlite": "CREATE TRIGGER never BEFORE UPDATE OF starts ON pending_cases WHEN NEW.starts > 1 "
    "BEGIN SELECT RAISE(ABORT, 'a second start'); END",
    "postgresql": "ALTER TABLE pending_cases ADD CONSTRAINT never CHECK (starts <= 1)",
}
"""The database itself refuses that a case is begun while an earlier start has not ended."""


def _data(folder: Path) -> EvaluationData:
    write_posts(folder / "posts.csv", TEXTS)
    return load_evaluation([folder / "posts.csv"], "csv")


async def _recorded(db: Database, url: str, data: EvaluationData, chosen: Settings) -> int:
    """Draws of the batch, while a worker screens another one."""
    with only_worker(db.lock_file) if db.kind == "sqlite" else nullcontext():
        async with running(db, agents(0.05), worker="the worker"):
            batch(db, 20)
            await asyncio.sleep(0.5)
            book = await asyncio.wait_for(record_as_batch(url, data, chosen), 90)
    return book.draws


async def test_no_case_is_screened_twice_at_a_time(
    db: Database, database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = settings(database_url, {"sampler": "simulated", "simulated_latency_s": 0.05})
    write(db, text(NEVER_TWO_STARTS[db.kind]))
    assert await _recorded(db, database_url, _data(tmp_path), chosen) >= TEXTS * 72
    kinds = db.values(select(case_errors.c.kind))
    assert "internal_error" not in kinds, "what a start that is refused ends with"
    told = capsys.readouterr().err
    assert ", 0 texts pending" in told
    assert ("a worker is at work on this database: waiting" in told) == (db.kind == "sqlite")


async def test_its_calls_are_under_the_limits_that_all_workers_share(
    postgresql_db: Database, postgresql_url: str, stub: Callable[[StubPlan], NotingStub], tmp_path: Path
) -> None:
    service = stub(StubPlan())
    options: dict[str, Any] = {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "k", "concurrency": 3}
    chosen = settings(postgresql_url, options | {"requests_per_minute": 100_000})
    assert (await record_as_batch(postgresql_url, _data(tmp_path), chosen)).draws >= TEXTS * 72
    assert set(postgresql_db.values(select(call_limits.c.name))) == {PLACES, RATE}
    assert service.counters.max_in_flight <= 3
