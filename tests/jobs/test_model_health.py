"""Whether the model works: no batch is screened with one that calls an unsafe probe safe, or brings no usable answer at
first; a worker asks it when it starts, until it answers; and the breaker leaves a silent service alone, tries it with
one case at a time, and blames a case only alone.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import select

from jobs import model_health
from jobs.agents import Agents
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
from screening.labels import Label, Outcome
from screening.models.canaries import ALL, UNSAFE, Probed
from screening.pipeline.config import PipelineConfig, preset
from screening.pipeline.draws import SamplerError, decode_draws
from screening.pipeline.engine import NodeRun, Reason, Screening
from screening.review.actors import LOCAL_USER
from screening.review.policy import Forbidden
from screening.settings import Settings
from screening.stopping.rules import Ended, Verdict
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
from tests.fixtures.replies import message, reply
from tests.free_port import free_port
from tests.jobs import running
from tests.jobs.running import MakeAgents, batch, until
from tests.storage.people import ADMIN, ANN, NOW
from tests.stub_server import Fault, StubPlan, StubServer

REASON = "Tried in the lab with the vendor, ticket 12."


def settings_of(stub: StubServer, **more: object) -> Settings:
    return running.settings_of(stub.url, requests_per_minute=100_000, **more)


def job_of(db: Database, agents: Agents) -> ScreeningJob:
    return running.job_of(db, agents, ModelHealth(db=db, agents=agents, clock=system_clock))


def only(db: Database) -> str:
    """The one case."""
    return str(db.value(select(cases.c.id)))


def outcomes(db: Database) -> list[str]:
    return db.values(select(screenings.c.outcome))


def made_of(db: Database) -> Configuration:
    """The one configuration."""
    return load_configuration(db, db.value(select(batches.c.configuration).limit(1)))


def probed(outcome: str) -> Probed:
    return Probed(ends=dict.fromkeys(ALL, (outcome, "identified")), calls=88)


async def test_a_model_that_says_safe_to_everything_screens_nothing_until_it_is_allowed(
    db: Database, agents_of: MakeAgents
) -> None:
    async with StubServer(StubPlan(fails_probes=True)) as stub:
        agents = agents_of(settings_of(stub))
        batch_id = batch(db, 1, made_of=agents)
        job, made = job_of(db, agents), made_of(db)
        await job.screen_case(only(db))
        assert outcomes(db) == [] and batch_state(db, batch_id) is not BatchState.FINISHED
        found = configurations.latest_preflight(db, made.preflight_key)
        assert found is not None and not found.passed and set(found.ends) == set(ALL)
        assert f"{len(UNSAFE)} of {len(UNSAFE)} plainly unsafe texts" in str(found.message)
        with pytest.raises(SamplerError, match="allow it in writing"):
            await job.health.require(made, 0)
        configurations.override_preflight(db, ADMIN.at(NOW), made.preflight_key, REASON)
        await job.health.require(made, 0)


def passed_before(db: Database, ago: timedelta) -> Configuration:
    """The batch's configuration, which passed so long ago."""
    made = made_of(db)
    configurations.keep_preflight(db, made.preflight_key, probed("unsafe"), system_clock() - ago)
    return made


async def test_no_text_of_a_worker_that_starts_rests_on_an_old_pass(db: Database, agents_of: MakeAgents) -> None:
    """Behind the address is another model since: cases wait until this process has tried it, and none is screened."""
    async with StubServer(StubPlan(weights={"safe": 1.0}, fails_probes=True)) as stub:
        agents = agents_of(settings_of(stub))
        batch_id = batch(db, 4, made_of=agents)
        made, job = passed_before(db, timedelta(hours=3)), job_of(db, agents)
        await until_paused(job, batch_id)
        asked = stub.counters.requests
        assert not await job.health.try_at_start(made, 0)
        assert stub.counters.requests == asked, "a case had tried it a moment before"
    assert outcomes(db) == []


async def test_a_recent_pass_is_not_tried_again_and_a_failure_is_noticed_whoever_saw_it(
    db: Database, agents_of: MakeAgents, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with StubServer(StubPlan()) as stub:
        agents = agents_of(settings_of(stub))
        batch(db, 1, made_of=agents)
        made = passed_before(db, timedelta(minutes=10))
        tries, others = (ModelHealth(db=db, agents=agents, clock=system_clock) for _ in range(2))
        await tries.require(made, 0)
        assert stub.counters.requests == 0
        stub.plan = StubPlan(fails_probes=True)
        assert not await others.try_configuration(made, 0)
        await tries.require(made, 0)  # relied on for some seconds more
        monkeypatch.setattr(model_health, "LOOK_AGAIN_S", 0.0)
        for _ in range(2):
            with pytest.raises(SamplerError, match="allow it in writing"):
                await tries.require(made, 0)
        stub.plan = StubPlan()
        assert await others.try_configuration(made, 0)
        await tries.require(made, 0)
        monkeypatch.undo()
        stub.plan = StubPlan(fails_probes=True)
        assert not await tries.try_configuration(made, 0)
        with pytest.raises(SamplerError, match="allow it in writing"):  # at once: a pass ends with another try
            await tries.require(made, 0)


@pytest.mark.usefixtures("short_pauses")
async def test_a_model_that_cannot_be_asked_has_not_failed(db: Database, agents_of: MakeAgents) -> None:
    async with StubServer(StubPlan(fails_probes=True, faults={Fault.OVERLOADED: 1.0})) as stub:
        agents = agents_of(settings_of(stub))
        batch(db, 1, made_of=agents)
        made = made_of(db)
        with pytest.raises(SamplerError) as error:
            async with asyncio.timeout(60):
                await ModelHealth(db=db, agents=agents, clock=system_clock).require(made, 0)
    assert error.value.kind == "overloaded" and not error.value.stops_batch
    assert configurations.latest_preflight(db, made.preflight_key) is None


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


async def test_another_name_has_the_model_tried_again_and_pauses_the_batch_until_it_is_accepted(
    db: Database, agents_of: MakeAgents
) -> None:
    """A gateway begins to answer with another model; its answers never count, also not those before it was noticed."""
    said = message(model="another-1", content=[{"type": "text", "text": "unsafe"}])
    async with StubServer(StubPlan()) as stub:
        agents = agents_of(settings_of(stub))
        batch_id, job = batch(db, 2, made_of=agents), job_of(db, agents)
        first, second = db.values(select(cases.c.id).order_by(cases.c.row))
        await job.screen_case(first)
        stub.plan = StubPlan(fails_probes=True, raw=reply(said))
        await job.screen_case(second)
        assert db.values(select(screenings.c.case_id)) == [first] and batch_state(db, batch_id) is BatchState.PAUSED
        found = configurations.latest_preflight(db, made_of(db).preflight_key)
        assert found is not None and not found.passed and found.other_names == ("another-1",)
        with pytest.raises(Forbidden):
            accept_model_name(db, ANN.at(NOW), "another-1")
        site = accept_model_name(db, ADMIN.at(NOW), "another-1").settings
        assert accept_model_name(db, ADMIN.at(NOW), "another-1").settings == site
        assert [event.action for event in events(db, ADMIN)].count("model_name_accepted") == 1
        made_now = agents_of(settings_now(db, settings_of(stub)))
        again = batch(db, 1, made_of=made_now)
        assert "another-1" in made_now.describe(0)["answers_as"]
        (third,) = db.values(select(cases.c.id).where(cases.c.batch_id == again))
        await job.screen_case(third)  # by a worker that began before it was accepted
        assert progress(db, again).unsafe == 1


def no_answer(codes: str) -> Screening:
    verdict = Verdict(label=Label.ESCALATE, ended=Ended.NO_ANSWER, calls=len(codes))
    run = NodeRun(node="worker", variant="main", draws=decode_draws(codes), verdict=verdict)
    return Screening(outcome=Outcome.HUMAN_REVIEW, node="worker", reason=Reason.NO_ANSWER, runs=(run,), delta=None)


def test_the_first_cases_without_a_usable_answer_pause_the_batch_each_time_it_goes_on(db: Database) -> None:
    first = ModelHealth(db=db, agents=Agents(Settings(_env_file=None)), clock=system_clock)
    first.look_at("another", no_answer("??????"))
    for codes in ("??????", "~~~~~~"):
        for _ in range(FIRST_CASES - 1):
            first.look_at("b", no_answer("??????"))
        with pytest.raises(SamplerError) as error:
            first.look_at("b", no_answer(codes))
        assert (error.value.kind, error.value.stops_batch) == ("no_usable_answer", True)
    first.look_at("b", no_answer("?????E"))  # one usable answer is enough to go on
    for _ in range(2 * FIRST_CASES):
        first.look_at("b", no_answer("??????"))


async def test_a_paused_batch_goes_on_with_the_next_case_once_the_model_is_well(
    db: Database, agents_of: MakeAgents
) -> None:
    """The cases it paused for are with a person, and are not what it begins with again."""
    async with StubServer(StubPlan(weights={"I cannot help with that": 1.0})) as stub:
        agents = agents_of(running.settings_of(stub.url))
        batch_id, job = batch(db, 8, made_of=agents), running.job_of(db, agents)
        for pauses in (1, 2):
            await until_paused(job, batch_id)
            found = progress(db, batch_id)
            assert (found.why, found.human_review) == ("no_usable_answer", pauses * FIRST_CASES)
            resume(db, LOCAL_USER.at(system_clock()), batch_id)
        stub.plan = StubPlan(weights={"safe": 1.0})
        await LocalRunner(job, 1, until_done=True).run()
    found = progress(db, batch_id)
    assert (found.state, found.human_review, found.safe) == (BatchState.FINISHED, 2 * FIRST_CASES, 2)


async def until_paused(job: ScreeningJob, batch_id: str) -> None:
    """The batch has paused by itself, and nothing is under way."""
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
    return any(one.fault is Down.MODEL for one in health.open_faults(db))


def was_told(db: Database) -> bool:
    return "model" in db.values(select(site_faults.c.name))


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


async def told_until(db: Database, settings: Settings) -> None:
    """The model is told to be down while a worker asks it with these settings."""
    async with asking(db, settings):
        await until(lambda: is_told(db))


async def over_with(db: Database, settings: Settings) -> None:
    """A worker that asks it finds it well, and that is told."""
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
async def test_what_passes_at_the_second_try_is_told_to_nobody(db: Database) -> None:
    async with StubServer(StubPlan(script=(Fault.OVERLOADED,) * 2)) as stub:
        await over_with(db, running.settings_of(stub.url))
        assert stub.counters.requests >= 3 and not was_told(db)


@pytest.mark.usefixtures("soon")
async def test_a_model_that_fails_its_probes_is_told_until_it_is_allowed(db: Database) -> None:
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
        await told_until(db, running.settings_of(stub.url, servers=gone))
        await over_with(db, running.settings_of(stub.url, servers={"gone": {"url": stub.url}}))


# The breaker.


class Clock:
    """A time that the test turns."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


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


async def test_one_case_tries_and_the_others_wait_for_its_answer() -> None:
    clock = Clock()
    breaker, begun, answer = Breaker(clock), list[int](), asyncio.Event()

    async def case(number: int) -> None:
        async with breaker.turn():
            begun.append(number)
            await answer.wait()
            breaker.record_answer(str(number))

    _opened(breaker)
    clock.now += FIRST_PAUSE_S
    cases = [asyncio.create_task(case(number)) for number in range(5)]
    await asyncio.sleep(0.05)
    assert begun == [0]
    answer.set()
    await asyncio.wait_for(asyncio.gather(*cases), 5)
    assert sorted(begun) == [0, 1, 2, 3, 4]


async def test_a_try_that_fails_doubles_the_pause_up_to_its_longest() -> None:
    clock = Clock()
    breaker = Breaker(clock)
    _opened(breaker)
    pauses = []
    for _ in range(9):
        began = clock.now
        while not await _let_in(breaker):
            clock.now += 0.5
        pauses.append(clock.now - began)
    assert pauses == [1, 2, 4, 8, 16, *[LONGEST_PAUSE_S] * 4]
    assert LONGEST_PUT_OFF.total_seconds() >= LONGEST_PAUSE_S, "a case that was put off so long would be due at once"


async def _let_in(breaker: Breaker) -> bool:
    try:
        async with asyncio.timeout(0.002), breaker.turn():
            breaker.record_failure("tries")
    except TimeoutError:
        return False
    return True


async def test_a_case_is_to_blame_only_when_others_are_answered_and_it_lasts() -> None:
    clock = Clock()
    down, alone = Breaker(clock), Breaker(clock)
    for _ in range(10 * MOST_FAILURES):
        clock.now += LASTS_S
        assert down.record_failure("a") is not None, "everybody waits"
    waits = []
    for _ in range(MOST_FAILURES - 1):
        clock.now += LASTS_S
        waits.append(alone.record_failure("a"))
        alone.record_answer("b")
    assert waits == [1, 2, 4, 8, 16, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    assert alone.record_failure("a") is None


async def test_who_watches_is_told_soon_and_who_sits_at_the_terminal_in_the_end() -> None:
    clock = Clock()
    watched, terminal = Breaker(clock), Breaker(clock, patience_s=120)
    told = [watched.record_failure("a", watched=True) is None for _ in range(WATCHED_FAILURES)]
    assert told == [*[False] * (WATCHED_FAILURES - 1), True]
    assert terminal.record_failure("a") is not None
    clock.now += 121
    assert terminal.record_failure("b") is None
