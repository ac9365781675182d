"""Both runners: everything pending is screened, who waits comes first and sees draws, what was told to stop stops."""

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import pytest
from sqlalchemy import func, select, text

from commands.evaluate import record_as_batch
from jobs.agents import Agents
from jobs.process import system_clock
from jobs.procrastinate import engine_schema
from jobs.runner import only_worker
from screening.evaluation.public_datasets import load_evaluation
from screening.labels import Label
from screening.pipeline.draws import Draw, DrawRequest, DrawSource, encode_draws
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from storage.batches import single_texts
from storage.batches.batch_state import BatchState
from storage.batches.batches import batch_state, cancel, pause, progress, resume
from storage.batches.configurations import Configuration
from storage.database import Database
from storage.schema import case_errors, cases, live_runs, node_runs, pending_cases, screenings
from tests.databases import write
from tests.jobs.files import settings, write_posts
from tests.jobs.running import PLACES, agents, batch, count, running, unended, until


def _done(db: Database, batch_id: str) -> bool:
    return progress(db, batch_id).finished_at is not None


async def test_all_is_screened_once_also_where_a_runner_was_stopped_and_no_start_is_left_open(db: Database) -> None:
    batch_id = batch(db, 30)
    async with running(db, agents(0.1)):
        await until(lambda: count(db, screenings) > 3)
    assert progress(db, batch_id).pending > 0 and unended(db) == 0, "an orderly end is no death"
    async with running(db, agents()):
        await until(lambda: _done(db, batch_id))
    found = progress(db, batch_id)
    assert found.safe + found.unsafe + found.human_review == 30 == count(db, screenings)
    assert found.safe and found.unsafe and unended(db) == 0


async def test_a_live_text_is_screened_while_a_long_batch_runs(db: Database) -> None:
    long = batch(db, 80)
    async with running(db, agents(0.2)):
        await until(lambda: count(db, screenings) > PLACES)
        for _ in range(2):
            single = batch(db, 1, kind="interactive")
            await until(lambda single=single: _done(db, single))  # type: ignore[misc]
        assert progress(db, long).pending > 20, "the live texts did not wait for it"


def _started(db: Database, case_id: str) -> bool:
    untouched = select(pending_cases.c.case_id).where(pending_cases.c.case_id == case_id)
    return not db.values(untouched.where(pending_cases.c.worker.is_(None)))


async def test_pause_resume_and_cancel(db: Database) -> None:
    batch_id = batch(db, 60)
    async with running(db, agents(0.1)):
        await until(lambda: count(db, screenings) > 3)
        pause(db, LOCAL_USER.at(system_clock()), batch_id)
        await until(lambda: unended(db) == 0)
        held = count(db, node_runs)
        await until(lambda: batch_state(db, batch_id) is BatchState.PAUSED)
        other = batch(db, 4)
        await until(lambda: _done(db, other))
        assert count(db, node_runs) - _count_of(db, other) == held, "a paused batch asks nothing"
        resume(db, LOCAL_USER.at(system_clock()), batch_id)
        await until(lambda: count(db, node_runs) - _count_of(db, other) > held + 5)
        cancel(db, LOCAL_USER.at(system_clock()), batch_id)
        await until(lambda: unended(db) == 0)
    assert batch_state(db, batch_id) is BatchState.CANCELLED and progress(db, batch_id).pending > 0


def _count_of(db: Database, batch_id: str) -> int:
    query = select(func.count()).select_from(node_runs).join(cases).where(cases.c.batch_id == batch_id)
    return db.value(query)


async def test_a_text_that_nobody_watches_is_let_go_of_in_the_middle_of_a_draw_batch(db: Database) -> None:
    single = batch(db, 1, kind="interactive")
    case_id = db.value(select(cases.c.id).where(cases.c.batch_id == single))
    async with running(db, agents(60)):
        await until(lambda: _started(db, case_id))
        single_texts.record_viewer(db, case_id, system_clock(), watches=False)
        took = await until(lambda: unended(db) == 0 and single_texts.look(db, LOCAL_USER, case_id).error is not None)
    assert single_texts.look(db, LOCAL_USER, case_id).error == "unwatched" and took < 30
    assert count(db, case_errors) == 1 and count(db, live_runs) == 0


async def test_an_upgrade_of_the_engine_begins_with_empty_tables(postgresql_db: Database) -> None:
    batch_id = batch(postgresql_db, 20)
    async with running(postgresql_db, agents(0.1)):
        await until(lambda: count(postgresql_db, screenings) > 3)
    with postgresql_db.write() as conn:
        conn.exec_driver_sql(f"DROP SCHEMA {engine_schema()} CASCADE")
    async with running(postgresql_db, agents()):
        await until(lambda: _done(postgresql_db, batch_id))


class OneByOne(Agents):
    """Agents whose answers to a draw batch come when they are let, in whatever order."""

    def __init__(self) -> None:
        super().__init__(Settings(_env_file=None, sampler="simulated"))
        self.bills: asyncio.Queue[DrawRequest] = asyncio.Queue()
        self.go = asyncio.Event()

    def sampler(self, configuration: Configuration, seed: int) -> DrawSource:
        return self

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        await self.bills.put(request)
        await self.go.wait()
        return [Draw(label=Label.SAFE)] * request.count


async def test_the_finished_start_of_a_draw_batch_is_shown_before_the_draw_batch_ends(db: Database) -> None:
    agents = OneByOne()
    batch(db, 1, kind="interactive")
    case_id = db.value(select(cases.c.id))

    def shown() -> str:
        single_texts.record_viewer(db, case_id, system_clock())
        return "".join(single_texts.look(db, LOCAL_USER, case_id).draws.values())

    assert not single_texts.look(db, LOCAL_USER, case_id).started
    async with running(db, agents):
        request = await asyncio.wait_for(agents.bills.get(), 20)
        assert request.bill is not None and request.count >= 3
        assert single_texts.look(db, LOCAL_USER, case_id).started
        request.bill.answers[1] = Draw(label=Label.UNSAFE)  # the second comes first: nothing may be shown yet
        await asyncio.sleep(1.2)
        assert shown() == ""
        request.bill.answers[0] = Draw(label=Label.SAFE)
        await until(lambda: shown() == "SU", within_s=5)
        agents.go.set()
        await until(lambda: single_texts.look(db, LOCAL_USER, case_id).outcome is not None)
    assert encode_draws([Draw(label=Label.SAFE)]) * request.count == shown()[: request.count]


NEVER_TWO_STARTS = {
    "sqlite": "CREATE TRIGGER never BEFORE UPDATE OF starts ON pending_cases WHEN NEW.starts > 1 "
    "BEGIN SELECT RAISE(ABORT, 'a second start'); END",
    "postgresql": "ALTER TABLE pending_cases ADD CONSTRAINT never CHECK (starts <= 1)",
}
"""The database itself refuses that a case is begun while an earlier start has not ended."""


async def test_an_evaluation_beside_a_worker_screens_no_case_that_it_is_at(
    db: Database, database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_posts(tmp_path / "posts.csv", 6)
    data = load_evaluation([tmp_path / "posts.csv"], "csv")
    chosen = settings(database_url, {"sampler": "simulated", "simulated_latency_s": 0.05})
    write(db, text(NEVER_TWO_STARTS[db.kind]))
    with only_worker(db.lock_file) if db.kind == "sqlite" else nullcontext():
        async with running(db, agents(0.05), worker="the worker"):
            batch(db, 20)
            await until(lambda: unended(db) > 0)
            book = await asyncio.wait_for(record_as_batch(database_url, data, chosen), 90)
    assert book.draws >= 6 * 72
    assert "internal_error" not in db.values(select(case_errors.c.kind)), "what a start that is refused ends with"
    told = capsys.readouterr().err
    assert ", 0 texts pending" in told
    assert ("a worker is at work on this database: waiting" in told) == (db.kind == "sqlite")
