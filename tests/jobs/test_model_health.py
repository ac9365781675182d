"""Whether the model works: tried before it is used, left alone while silent, and who is to blame."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select

from jobs import model_health
from jobs.agents import Agents, describe_agents
from jobs.intake import configuration
from jobs.model_health import (
    FIRST_CASES,
    FIRST_PAUSE_S,
    LASTS_S,
    LONGEST_PAUSE_S,
    MOST_FAILURES,
    OPENS_AFTER,
    WATCHED_FAILURES,
    Breaker,
    ModelHealth,
)
from jobs.process import system_clock
from jobs.runner import LocalRunner
from jobs.screening_job import ScreeningJob
from pages.site.model_panel import facts
from screening.evaluation.audit import configuration_words
from screening.models.canaries import ALL, UNSAFE, Probed
from screening.pipeline.config import PipelineConfig, preset
from screening.pipeline.draws import SamplerError
from screening.review.policy import Forbidden
from screening.settings import Settings
from storage.audit_log import events
from storage.batches import configurations
from storage.batches.batch_state import BatchState
from storage.batches.batches import batch_state, progress, resume
from storage.batches.configurations import Configuration, activate, keep_version, load_configuration
from storage.batches.pending import LONGEST_PUT_OFF
from storage.database import Database
from storage.schema import batches, cases, screenings, site_faults
from storage.schema import preflights as tried
from storage.settings_store import accept_model_name, settings_now
from storage.site import health
from storage.site.health import Fault as Down
from tests.databases import write
from tests.fixtures.replies import message, reply
from tests.jobs import running
from tests.jobs.running import batch, until
from tests.processes import free_port
from tests.storage.people import ADMIN, ANN, NOW
from tests.stub_server import Fault, StubPlan, StubServer

REASON = "Tried in the lab with the vendor, ticket 12."


def outcomes(db: Database) -> list[str]:
    return db.values(select(screenings.c.outcome))


def made_of(db: Database) -> Configuration:
    return load_configuration(db, db.value(select(batches.c.configuration).limit(1)))


def probed(outcome: str) -> Probed:
    return Probed(ends=dict.fromkeys(ALL, (outcome, "identified")), calls=88)


class Asked:
    """A stub under a plan, and a batch of so many posts whose agents ask it, which passed so long ago."""

    def __init__(self, db: Database, stub: StubServer, agents: Agents, rows: int, passed: timedelta | None) -> None:
        self.db, self.stub, self.agents = db, stub, agents
        self.batch_id = batch(db, rows, made_of=agents)
        self.made, self.health = made_of(db), self.another()
        self.job = running.job_of(db, agents, self.health)
        self.ids = db.values(select(cases.c.id).order_by(cases.c.row))
        if passed is not None:
            configurations.keep_preflight(db, self.made.preflight_key, probed("unsafe"), system_clock() - passed)

    def another(self) -> ModelHealth:
        return ModelHealth(db=self.db, agents=self.agents, clock=system_clock)

    def tried(self) -> configurations.Preflight | None:
        return configurations.latest_preflight(self.db, self.made.preflight_key)


@asynccontextmanager
async def asked(
    db: Database, plan: StubPlan, rows: int = 1, *, passed: timedelta | None = None, **settings: object
) -> AsyncIterator[Asked]:
    async with StubServer(plan) as stub, aclosing(Agents(running.settings_of(stub.url, **settings))) as agents:
        yield Asked(db, stub, agents, rows, passed)


async def test_a_model_that_says_safe_to_everything_screens_nothing_until_it_is_allowed(db: Database) -> None:
    async with asked(db, StubPlan(fails_probes=True)) as site:
        await site.job.screen_case(site.ids[0])
        assert outcomes(db) == [] and batch_state(db, site.batch_id) is not BatchState.FINISHED
        found = site.tried()
        assert found is not None and not found.passed and set(found.ends) == set(ALL)
        assert f"{len(UNSAFE)} of {len(UNSAFE)} plainly unsafe texts" in str(found.message)
        with pytest.raises(SamplerError, match="allow it in writing"):
            await site.health.require(site.made, 0)
        configurations.override_preflight(db, ADMIN.at(NOW), site.made.preflight_key, REASON)
        await site.health.require(site.made, 0)


async def test_no_text_of_a_worker_that_starts_rests_on_an_old_pass(db: Database) -> None:
    """Behind the address is another model since: cases wait until this process has tried it, and none is screened."""
    plan = StubPlan(weights={"safe": 1.0}, fails_probes=True)
    async with asked(db, plan, 4, passed=timedelta(hours=3)) as site:
        await until_paused(site.job, site.batch_id)
        before = site.stub.counters.requests
        assert not await site.health.try_at_start(site.made, 0)
        assert site.stub.counters.requests == before, "a case had tried it a moment before"
    assert outcomes(db) == []


async def test_a_recent_pass_is_not_tried_again_and_a_failure_is_noticed_whoever_saw_it(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asked(db, StubPlan(), passed=timedelta(minutes=10)) as site:
        tries, others, made = site.health, site.another(), site.made
        await tries.require(made, 0)
        assert site.stub.counters.requests == 0
        site.stub.plan = StubPlan(fails_probes=True)
        assert not await others.try_configuration(made, 0)
        await tries.require(made, 0)  # relied on for some seconds more
        monkeypatch.setattr(model_health, "LOOK_AGAIN_S", 0.0)
        for _ in range(2):
            with pytest.raises(SamplerError, match="allow it in writing"):
                await tries.require(made, 0)
        site.stub.plan = StubPlan()
        assert await others.try_configuration(made, 0)
        await tries.require(made, 0)
        monkeypatch.undo()
        site.stub.plan = StubPlan(fails_probes=True)
        assert not await tries.try_configuration(made, 0)
        with pytest.raises(SamplerError, match="allow it in writing"):  # at once: a pass ends with another try
            await tries.require(made, 0)


@pytest.mark.usefixtures("short_pauses")
async def test_a_model_that_cannot_be_asked_has_not_failed(db: Database) -> None:
    async with asked(db, StubPlan(fails_probes=True, faults={Fault.OVERLOADED: 1.0})) as site:
        with pytest.raises(SamplerError) as error:
            await asyncio.wait_for(site.health.require(site.made, 0), 60)
    assert error.value.kind == "overloaded" and not error.value.stops_batch and site.tried() is None


def test_an_override_needs_an_administrator_a_reason_and_a_failure(db: Database) -> None:
    configurations.keep_preflight(db, "c1", probed("safe"), NOW)
    with pytest.raises(Forbidden):
        configurations.override_preflight(db, ANN.at(NOW), "c1", REASON)
    with pytest.raises(ValueError, match="at least"):
        configurations.override_preflight(db, ADMIN.at(NOW), "c1", "because")
    configurations.override_preflight(db, ADMIN.at(NOW), "c1", REASON)
    found = configurations.latest_preflight(db, "c1")
    assert found is not None and found.allows and not found.passed and found.reason == REASON
    assert "preflight_overridden" in [event.action for event in events(db, ADMIN)]
    with pytest.raises(configurations.NothingToOverride):
        configurations.override_preflight(db, ADMIN.at(NOW), "c1", REASON)
    configurations.keep_preflight(db, "c1", probed("unsafe"), NOW)
    found = configurations.latest_preflight(db, "c1")
    assert found is not None and found.passed and found.overridden_by is None
    assert configurations.latest_preflight(db, "another") is None


def test_presets_that_ask_alike_are_tried_once_and_another_model_anew() -> None:
    sampler = {"sampler": "anthropic", "model": "m", "prompts": "p"}
    first = Configuration(pipeline=preset("recommended"), sampler=sampler)
    assert first.preflight_key == replace(first, pipeline=preset("recommended", budget=50)).preflight_key
    for changed in ({"model": "n"}, {"prompts": "q"}):
        assert first.preflight_key != replace(first, sampler=sampler | changed).preflight_key
    nodes = tuple(node.model_copy(update={"protocol": "logprobs"}) for node in first.pipeline.nodes)
    assert first.preflight_key != replace(first, pipeline=PipelineConfig(name="p", nodes=nodes)).preflight_key


async def test_another_name_has_the_model_tried_again_and_pauses_the_batch_until_it_is_accepted(db: Database) -> None:
    """A gateway begins to answer with another model; its answers never count, also not those before it was noticed."""
    said = message(model="another-1", content=[{"type": "text", "text": "unsafe"}])
    async with asked(db, StubPlan(), 2) as site:
        first, second = site.ids
        await site.job.screen_case(first)
        site.stub.plan = StubPlan(fails_probes=True, raw=reply(said))
        await site.job.screen_case(second)
        assert db.values(select(screenings.c.case_id)) == [first]
        assert batch_state(db, site.batch_id) is BatchState.PAUSED
        found = site.tried()
        assert found is not None and not found.passed and found.other_names == ["another-1"]
        with pytest.raises(Forbidden):
            accept_model_name(db, ANN.at(NOW), "another-1")
        accepted = [accept_model_name(db, ADMIN.at(NOW), "another-1").settings for _ in range(2)]
        assert accepted[0] == accepted[1]
        assert [event.action for event in events(db, ADMIN)].count("model_name_accepted") == 1
        async with aclosing(Agents(settings_now(db, running.settings_of(site.stub.url)))) as made_now:
            again = batch(db, 1, made_of=made_now)
            assert "another-1" in describe_agents(made_now.settings, preset("recommended"))["answers_as"]
        (third,) = db.values(select(cases.c.id).where(cases.c.batch_id == again))
        await site.job.screen_case(third)  # by a worker that began before it was accepted
        assert progress(db, again).unsafe == 1


async def test_a_paused_batch_goes_on_with_the_next_case_once_the_model_is_well(db: Database) -> None:
    """The cases it paused for are with a person, and are not what it begins with again."""
    async with asked(db, StubPlan(weights={"I cannot help with that": 1.0}), 8) as site:
        job = running.job_of(db, site.agents)
        for pauses in (1, 2):
            await until_paused(job, site.batch_id)
            found = progress(db, site.batch_id)
            assert (found.why, found.human_review) == ("no_usable_answer", pauses * FIRST_CASES)
            resume(db, running.me(), site.batch_id)
        site.stub.plan = StubPlan(weights={"safe": 1.0})
        await LocalRunner(job, 1).until_done()
        found = progress(db, site.batch_id)
    assert (found.state, found.human_review, found.safe) == (BatchState.FINISHED, 2 * FIRST_CASES, 2)


async def until_paused(job: ScreeningJob, batch_id: str) -> None:
    runner = LocalRunner(job, 1)
    work = asyncio.create_task(runner.run())
    await until(lambda: batch_state(job.db, batch_id) is BatchState.PAUSED)
    runner.stop()
    await work


# A worker asks its models when it starts.


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asks again, and tells, sooner than a site waits for it."""
    monkeypatch.setattr(model_health, "START_PAUSE_S", 0.2)
    monkeypatch.setattr(model_health, "LONGEST_PAUSE_S", 0.4)
    monkeypatch.setattr(model_health, "TOLD_AFTER_S", 0.6)


def is_told(db: Database) -> bool:
    return any(one.fault == Down.MODEL for one in health.open_faults(db))


@asynccontextmanager
async def asking(db: Database, settings: Settings) -> AsyncIterator[asyncio.Task[None]]:
    """A worker's part in it, from its start on."""
    async with aclosing(Agents(settings)) as agents:
        health = ModelHealth(db=db, agents=agents, clock=system_clock)
        task = asyncio.create_task(health.until_it_answers(settings))
        yield task
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def over_with(db: Database, settings: Settings) -> None:
    async with asking(db, settings) as task:
        await asyncio.wait_for(task, 20)
    assert not is_told(db)


@pytest.mark.usefixtures("soon")
async def test_a_model_that_nobody_reaches_is_told_before_a_text_waits_and_is_over_by_itself(db: Database) -> None:
    port = free_port()
    async with asking(db, running.settings_of(f"http://127.0.0.1:{port}")) as task:
        await until(lambda: is_told(db))
        assert [one.cause for one in health.open_faults(db)] == ["connection"]
        async with StubServer(StubPlan(), port=port):
            await asyncio.wait_for(task, 20)
    assert not is_told(db)


@pytest.mark.usefixtures("soon")
async def test_what_passes_at_the_second_try_is_told_to_nobody_and_what_fails_its_probes_until_it_is_allowed(
    db: Database,
) -> None:
    async with StubServer(StubPlan(script=(Fault.OVERLOADED,) * 2)) as stub:
        await over_with(db, running.settings_of(stub.url))
        assert stub.counters.requests >= 3 and "model" not in db.values(select(site_faults.c.name))
    write(db, tried.delete())
    async with StubServer(StubPlan(fails_probes=True)) as stub, asking(db, running.settings_of(stub.url)) as task:
        await until(lambda: is_told(db))
        (version,) = db.values(select(tried.c.configuration))
        configurations.override_preflight(db, ADMIN.at(system_clock()), version, REASON)
        await asyncio.wait_for(task, 20)
    assert not is_told(db)


@pytest.mark.usefixtures("soon")
async def test_every_model_of_the_site_s_own_pipeline_is_asked_and_no_other(db: Database) -> None:
    first, *rest = preset("recommended").nodes
    nodes = (first.model_copy(update={"server": "gone"}), *rest)
    by = ADMIN.at(system_clock())
    made = keep_version(db, by, PipelineConfig(name="own", nodes=nodes), "one agent on a server of its own", 0)
    activate(db, by, "own", made.number, REASON)
    async with StubServer(StubPlan()) as stub:
        gone = {"gone": {"url": f"http://127.0.0.1:{free_port()}"}}
        async with asking(db, running.settings_of(stub.url, servers=gone)):
            await until(lambda: is_told(db))
        await over_with(db, running.settings_of(stub.url, servers={"gone": {"url": stub.url}}))


# A batch whose agents ask a named server is finished by that server alone, whatever the name stands for later.

UNSAFE_ONE, SAFE_ONE = StubPlan(weights={"unsafe": 1.0}), StubPlan(weights={"safe": 1.0}, fails_probes=True)
SECRET = "hunter2"


def ward_at(url: str, protocol: str = "messages", **more: object) -> Settings:
    """The ward's server at this address; the site's own model has another, which nothing asks."""
    ward = {"url": url, "protocol": protocol}
    return Settings(_env_file=None, sampler="anthropic", anthropic_api_key="k", servers={"ward": ward}, **more)  # type: ignore[arg-type]


def made_with(settings: Settings) -> Configuration:
    ward = {"server": "ward", "model": "m"}
    nodes = tuple(node.model_copy(update=ward) for node in preset("recommended").nodes)
    return configuration(settings, PipelineConfig(name="ward", nodes=nodes))


@pytest.mark.parametrize("protocol", ["messages", "chat"])
async def test_a_name_that_stands_for_another_server_pauses_the_batch(db: Database, protocol: str) -> None:
    """Another address, or another protocol at the same one."""

    async def screen(settings: Settings, case_id: str) -> None:
        async with aclosing(Agents(settings)) as agents:
            of_its_own = ModelHealth(db=db, agents=agents, clock=system_clock)
            await running.job_of(db, agents, of_its_own).screen_case(case_id)

    async with StubServer(UNSAFE_ONE) as first, StubServer(SAFE_ONE) as second:
        began = ward_at(first.url)
        batch_id = batch(db, ["I want to die, day 1.", "I want to die, day 2."], configured=made_with(began))
        one, two = db.values(select(cases.c.id).order_by(cases.c.row))
        await screen(began, one)
        now = ward_at(second.url if protocol == "messages" else first.url, protocol)
        await screen(now, two)
        assert second.counters.requests == 0
        assert progress(db, batch_id).why == "configuration_changed" and outcomes(db) == ["unsafe"]
        assert made_with(now).preflight_key != made_with(began).preflight_key
        await screen(ward_at("http://127.0.0.1:1", model="another"), two)
    assert outcomes(db) == ["unsafe"]


def test_two_models_behind_one_host_are_told_apart_by_a_mark_of_their_paths() -> None:
    first, second, plain = (ward_at(f"http://10.0.0.5:8080{path}") for path in ("/gpu-1", "/gpu-2/v1", "/v1/"))
    began = made_with(first)
    assert "gpu" not in repr(began) and "path" not in made_with(plain).sampler["servers"]["ward"]
    assert len({made_with(one).preflight_key for one in (first, second, plain)}) == 3
    Agents(first).sampler(began, 0)
    for other in (second, plain):
        with pytest.raises(SamplerError, match="other agents"):
            Agents(other).sampler(began, 0)
    assert "servers" not in configuration(first, preset("recommended")).sampler, "it asks none"
    simulated = made_with(Settings(_env_file=None, sampler="simulated", servers=first.servers))
    assert simulated.sampler["sampler"] == "simulated" and Agents(first).sampler(simulated, 0), "whatever is set by now"
    of_a_model = configuration(first, preset("recommended"))
    with pytest.raises(SamplerError, match="other agents"):  # nobody pays for what is to be simulated
        Agents(Settings(_env_file=None, sampler="simulated", servers=first.servers)).sampler(of_a_model, 0)


def test_the_record_names_host_and_protocol_and_no_secret(db: Database) -> None:
    settings = ward_at(f"http://look:{SECRET}@10.0.0.5:8080", "chat")
    made = made_with(settings)
    assert made.sampler["servers"] == {"ward": {"host": "10.0.0.5:8080", "protocol": "chat"}}
    version = configurations.save_configuration(db, made, system_clock())
    assert load_configuration(db, version) == made and made.version == version
    assert SECRET not in repr(made)
    assert dict(facts(made, settings))["Further servers"] == "ward: 10.0.0.5:8080 (chat)"
    assert "servers (ward (host 10.0.0.5:8080, protocol chat))" in configuration_words(made.body)["model"]


# The breaker.


@pytest.fixture
def now() -> list[float]:
    """A time that the test turns."""
    return [100.0]


def _opened(breaker: Breaker) -> None:
    for number in range(OPENS_AFTER):
        breaker.record_failure(f"case {number}")


def test_it_opens_after_failures_in_a_row_and_an_answer_closes_it() -> None:
    breaker = Breaker()
    for _ in range(5):
        breaker.record_failure("a")
        breaker.record_failure("b")
        breaker.record_answer("c")
        assert not breaker.open
    _opened(breaker)
    assert breaker.open
    breaker.record_answer("c")
    assert not breaker.open


async def test_one_case_tries_and_the_others_wait_for_its_answer(now: list[float]) -> None:
    breaker, begun, answer = Breaker(lambda: now[0]), list[int](), asyncio.Event()

    async def case(number: int) -> None:
        async with breaker.turn():
            begun.append(number)
            await answer.wait()
            breaker.record_answer(str(number))

    _opened(breaker)
    now[0] += FIRST_PAUSE_S
    cases = [asyncio.create_task(case(number)) for number in range(5)]
    await asyncio.sleep(0.05)
    assert begun == [0]
    answer.set()
    await asyncio.wait_for(asyncio.gather(*cases), 5)
    assert sorted(begun) == [0, 1, 2, 3, 4]


async def test_a_try_that_fails_doubles_the_pause_up_to_its_longest(now: list[float]) -> None:
    breaker = Breaker(lambda: now[0])
    _opened(breaker)
    pauses = []
    for _ in range(9):
        began = now[0]
        while not await _let_in(breaker):
            now[0] += 0.5
        pauses.append(now[0] - began)
    assert pauses == [1, 2, 4, 8, 16, *[LONGEST_PAUSE_S] * 4]
    assert LONGEST_PUT_OFF.total_seconds() >= LONGEST_PAUSE_S, "a case that was put off so long would be due at once"


async def _let_in(breaker: Breaker) -> bool:
    try:
        async with asyncio.timeout(0.002), breaker.turn():
            breaker.record_failure("tries")
    except TimeoutError:
        return False
    return True


async def test_a_case_is_to_blame_only_when_others_are_answered_and_it_lasts_or_one_waits(now: list[float]) -> None:
    down, alone, watched = (Breaker(lambda: now[0]) for _ in range(3))
    for _ in range(10 * MOST_FAILURES):
        now[0] += LASTS_S
        assert down.record_failure("a") is not None, "everybody waits"
    waits = []
    for _ in range(MOST_FAILURES - 1):
        now[0] += LASTS_S
        waits.append(alone.record_failure("a"))
        alone.record_answer("b")
    assert waits == [1, 2, 4, 8, 16, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    assert alone.record_failure("a") is None
    terminal = Breaker(lambda: now[0], patience_s=120)
    told = [watched.record_failure("a", watched=True) is None for _ in range(WATCHED_FAILURES)]
    assert told == [*[False] * (WATCHED_FAILURES - 1), True]
    assert terminal.record_failure("a") is not None
    now[0] += 121
    assert terminal.record_failure("b") is None
