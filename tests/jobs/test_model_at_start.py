"""A worker asks its models when it starts, until they answer: the log says so, and people are told until they do."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from datetime import timedelta

import pytest
from sqlalchemy import insert, select, update

from jobs import model_health
from jobs.agents import Agents
from jobs.model_health import ModelHealth
from jobs.process import system_clock
from screening.pipeline.config import PipelineConfig, preset
from screening.settings import Settings
from storage.batches import configurations
from storage.batches.configurations import activate, keep_version
from storage.database import Database
from storage.schema import case_errors, cases, pipeline_versions, site_faults
from storage.schema import preflights as tried
from storage.settings_store import accept_model_name
from storage.site import health, outbox
from storage.site.health import Fault as Down
from tests.databases import write
from tests.fixtures.replies import message, reply
from tests.free_port import free_port
from tests.jobs.processes import NotingStub, Workers, wait_for
from tests.jobs.running import batch, running, settings_of, until
from tests.storage.inbox_cases import ADMIN
from tests.stub_server import Fault, StubPlan, StubServer

REASON = "Tried in the lab with the vendor, ticket 12."


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks again, and tells, sooner than a site waits for it."""
    monkeypatch.setattr(model_health, "START_PAUSE_S", 0.2)
    monkeypatch.setattr(model_health, "LONGEST_PAUSE_S", 0.4)
    monkeypatch.setattr(model_health, "TOLD_AFTER_S", 1.0)


def is_told(db: Database) -> bool:
    return any(one.fault is Down.MODEL for one in health.open_faults(db))


def was_told(db: Database) -> bool:
    with db.read() as conn:
        return conn.execute(select(site_faults.c.id).where(site_faults.c.name == "model")).first() is not None


@asynccontextmanager
async def asking(db: Database, settings: Settings) -> AsyncIterator[asyncio.Task[None]]:
    """A worker's part in it, from its start on."""
    agents = Agents(settings)
    health = ModelHealth(db=db, agents=agents, clock=system_clock)
    task = asyncio.create_task(health.until_it_answers(settings))
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        await agents.aclose()


@pytest.mark.slow
def test_the_log_says_at_start_that_the_model_does_not_answer(
    sqlite_url: str, workers: Workers, stub: Callable[[StubPlan], NotingStub]
) -> None:
    service = stub(StubPlan(api_key="another"))
    number = workers.start(sqlite_url, {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "k"})
    workers.up(number)
    wait_for(lambda: "ERROR preflight: The service did not accept the API key" in workers.log_of(number), 30)
    assert not workers.dead(number)
    with closing(Database(sqlite_url)) as db:
        wait_for(lambda: is_told(db), 10)


async def test_simulated_agents_are_not_asked_and_what_a_real_model_left_is_over(db: Database) -> None:
    outbox.keep_fault(db, Down.MODEL, system_clock(), down=True)
    async with asking(db, Settings(_env_file=None, sampler="simulated")) as task:
        await asyncio.wait_for(task, 20)
    assert not is_told(db)


async def test_a_model_that_nobody_reaches_is_told_before_a_text_waits_and_is_over_by_itself(db: Database) -> None:
    port = free_port()
    async with asking(db, settings_of(f"http://127.0.0.1:{port}")) as task:
        await until(lambda: is_told(db))
        assert [one.cause for one in health.open_faults(db)] == ["connection"]
        async with StubServer(StubPlan(), port=port):
            await asyncio.wait_for(task, 20)
    assert not is_told(db)


async def test_what_passes_at_the_second_try_is_told_to_nobody(db: Database) -> None:
    async with StubServer(StubPlan(script=(Fault.OVERLOADED,) * 2)) as stub, asking(db, settings_of(stub.url)) as task:
        await asyncio.wait_for(task, 20)
        assert stub.counters.requests >= 3
    assert not was_told(db)


async def test_a_model_that_fails_its_probes_is_told_until_it_is_allowed(db: Database) -> None:
    async with StubServer(StubPlan(fails_probes=True)) as stub, asking(db, settings_of(stub.url)) as task:
        await until(lambda: is_told(db))
        (version,) = db.values(select(tried.c.configuration))
        configurations.override_preflight(db, ADMIN.at(system_clock()), version, REASON)
        await asyncio.wait_for(task, 20)
    assert not is_told(db)


async def test_a_case_that_is_screened_ends_it_too(db: Database) -> None:
    """Another worker reaches the model: this one asks no longer."""
    async with asking(db, settings_of(f"http://127.0.0.1:{free_port()}")) as task:
        await until(lambda: is_told(db))
        made_of = Agents(Settings(_env_file=None, sampler="simulated"))
        batch(db, 1)
        async with running(db, made_of):
            await until(lambda: bool(outbox.collect(db, system_clock())) or not is_told(db))
        await asyncio.wait_for(task, 20)
    assert not is_told(db)


async def test_an_answer_under_a_name_that_was_accepted_counts(db: Database) -> None:
    said = message(model="another-1", content=[{"type": "text", "text": "unsafe"}])
    async with StubServer(StubPlan(raw=reply(said), fails_probes=True)) as stub:
        async with asking(db, settings_of(stub.url)):
            await until(lambda: is_told(db))
        accept_model_name(db, ADMIN.at(system_clock()), "another-1")
        async with asking(db, settings_of(stub.url)) as task:
            await asyncio.wait_for(task, 20)
    assert not is_told(db)


async def test_every_model_of_the_site_s_own_pipeline_is_asked_and_no_other(db: Database) -> None:
    first, *rest = preset("recommended").nodes
    nodes = (first.model_copy(update={"server": "gone"}), *rest)
    by = ADMIN.at(system_clock())
    made = keep_version(db, by, PipelineConfig(name="own", nodes=nodes), "one agent on a server of its own", 0)
    activate(db, by, "own", made.number, REASON)
    async with StubServer(StubPlan()) as stub:
        gone = {"gone": {"url": f"http://127.0.0.1:{free_port()}"}}
        async with asking(db, settings_of(stub.url, servers=gone)):
            await until(lambda: is_told(db))
        async with asking(db, settings_of(stub.url, servers={"gone": {"url": stub.url}})) as task:
            await asyncio.wait_for(task, 20)
    assert not is_told(db)


async def test_what_no_code_foresees_is_logged_tells_nothing_of_the_model_and_is_tried_again(
    db: Database, caplog: pytest.LogCaptureFixture
) -> None:
    by, own = ADMIN.at(system_clock()), preset("recommended").model_copy(update={"name": "own"})
    made = keep_version(db, by, own, "a copy", 0)
    activate(db, by, "own", made.number, REASON)
    table = pipeline_versions
    with db.write() as conn:
        body = conn.execute(select(table.c.body)).scalar_one()
        conn.execute(update(table).values(body={"nodes": "damaged"}))
    async with StubServer(StubPlan()) as stub, asking(db, settings_of(stub.url)) as task:
        await until(lambda: "UnreadablePipeline" in caplog.text)
        assert not was_told(db) and stub.counters.requests == 0
        write(db, update(table).values(body=body))
        await asyncio.wait_for(task, 20)
        assert stub.counters.requests > 0
    assert not was_told(db)


def test_errors_from_before_a_worker_found_the_model_well_are_not_told_again(db: Database) -> None:
    now = system_clock()
    batch(db, 3)
    with db.write() as conn:
        ids = conn.execute(select(cases.c.id)).scalars().all()
        rows = [{"case_id": one, "kind": "connection", "message": "gone", "calls": 0, "at": now} for one in ids]
        conn.execute(insert(case_errors), rows)
    outbox.collect(db, now)
    assert [(one.fault, one.cause) for one in health.open_faults(db)] == [(Down.MODEL, "connection")]
    outbox.keep_fault(db, Down.MODEL, now + timedelta(seconds=1), down=False)
    outbox.collect(db, now + timedelta(seconds=2))
    assert not is_told(db)
