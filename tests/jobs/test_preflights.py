"""No batch is screened with a model that calls an unsafe probe safe, or brings no usable answer at first."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from sqlalchemy import Select, select

from jobs import model_health
from jobs.agents import Agents
from jobs.model_health import FIRST_CASES, ModelHealth
from jobs.process import system_clock
from jobs.runner import LocalRunner
from jobs.screening_job import ScreeningJob
from screening.labels import Label, Outcome
from screening.models.canaries import ALL, UNSAFE, Probed
from screening.pipeline.config import preset
from screening.pipeline.draws import SamplerError, decode_draws
from screening.pipeline.engine import NodeRun, Reason, Screening
from screening.review.actors import LOCAL_USER
from screening.review.policy import Forbidden
from screening.settings import Settings
from screening.stopping.rules import Ended, Verdict
from storage.audit_log import events
from storage.batches import configurations
from storage.batches.batch_state import BatchState
from storage.batches.batches import Progress, batch_state, progress, resume
from storage.batches.configurations import Configuration, load_configuration
from storage.database import Database
from storage.schema import batches, cases, screenings
from storage.settings_store import accept_model_name, settings_now
from tests.fixtures.replies import message, reply
from tests.jobs import running
from tests.jobs.running import MakeAgents, batch, until
from tests.storage.inbox_cases import ADMIN, ANN, NOW
from tests.stub_server import Fault, StubPlan, StubServer

REASON = "Tried in the lab with the vendor, ticket 12."


def settings_of(stub: StubServer) -> Settings:
    return running.settings_of(stub.url, requests_per_minute=100_000)


def job_of(db: Database, agents: Agents) -> ScreeningJob:
    return running.job_of(db, agents, ModelHealth(db=db, agents=agents, clock=system_clock))


def one(db: Database, column) -> str:  # type: ignore[no-untyped-def]
    with db.read() as conn:
        return str(conn.execute(select(column) if not isinstance(column, Select) else column).scalar())


def name_of(db: Database) -> str:
    return load_configuration(db, one(db, batches.c.configuration)).preflight_key


async def screened(db: Database, agents_of: MakeAgents, plan: StubPlan, *, rows: int = 1) -> tuple[str, StubServer]:
    async with StubServer(plan) as stub:
        agents = agents_of(settings_of(stub))
        batch_id = batch(db, rows, made_of=agents)
        await job_of(db, agents).screen_case(one(db, cases.c.id))
        return batch_id, stub


async def test_a_sound_model_is_tried_once_and_asked(db: Database, agents_of: MakeAgents) -> None:
    _, stub = await screened(db, agents_of, StubPlan())
    found = configurations.latest_preflight(db, name_of(db))
    assert found is not None and found.passed and set(found.ends) == set(ALL)
    assert one(db, screenings.c.outcome) != "None"
    assert stub.counters.probes >= 6 * len(ALL) and stub.counters.requests > 0


async def test_a_model_that_says_safe_to_everything_screens_nothing_until_it_is_allowed(
    db: Database, agents_of: MakeAgents
) -> None:
    async with StubServer(StubPlan(fails_probes=True)) as stub:
        agents = agents_of(settings_of(stub))
        batch_id = batch(db, 1, made_of=agents)
        job, case_id = job_of(db, agents), one(db, cases.c.id)
        await job.screen_case(case_id)
        assert one(db, screenings.c.outcome) == "None"
        assert batch_state(db, batch_id) is not BatchState.FINISHED
        version, name = one(db, batches.c.configuration), name_of(db)
        found = configurations.latest_preflight(db, name)
        assert (
            found is not None
            and found.message == f"The model called {len(UNSAFE)} of {len(UNSAFE)} plainly unsafe texts safe."
        )
        with pytest.raises(SamplerError, match="allow it in writing"):
            await job.health.require(load_configuration(db, version), 0)
        configurations.override_preflight(db, ADMIN.at(NOW), name, REASON)
        await job.health.require(load_configuration(db, version), 0)


def passed_before(db: Database, ago: timedelta) -> Configuration:
    """The batch's configuration, which passed so long ago."""
    made = load_configuration(db, one(db, batches.c.configuration))
    well = Probed(ends=dict.fromkeys(ALL, ("unsafe", "identified")), calls=88)
    configurations.keep_preflight(db, made.preflight_key, well, system_clock() - ago)
    return made


async def test_no_text_of_a_worker_that_starts_rests_on_an_old_pass(sqlite_url: str, agents_of: MakeAgents) -> None:
    """Behind the address is another model since: cases wait until this process has tried it, and none is screened."""
    db = Database(sqlite_url)
    db.prepare()
    async with StubServer(StubPlan(weights={"safe": 1.0}, fails_probes=True)) as stub:
        agents = agents_of(settings_of(stub))
        batch_id = batch(db, 4, made_of=agents)
        made, job = passed_before(db, timedelta(hours=3)), job_of(db, agents)
        runner = LocalRunner(job, 4)
        work = asyncio.create_task(runner.run())
        await until(lambda: batch_state(db, batch_id) is BatchState.PAUSED)
        asked = stub.counters.requests
        assert not await job.health.try_at_start(made, 0)
        assert stub.counters.requests == asked, "a case had tried it a moment before"
        runner.stop()
        await work
    assert one(db, screenings.c.outcome) == "None"
    db.close()


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


async def test_a_model_that_cannot_be_asked_has_not_failed(db: Database, agents_of: MakeAgents) -> None:
    async with StubServer(StubPlan(fails_probes=True, faults={Fault.OVERLOADED: 1.0})) as stub:
        agents = agents_of(settings_of(stub))
        batch(db, 1, made_of=agents)
        version, name = one(db, batches.c.configuration), name_of(db)
        tries = ModelHealth(db=db, agents=agents, clock=system_clock)
        with pytest.raises(SamplerError) as error:
            async with asyncio.timeout(60):
                await tries.require(load_configuration(db, version), 0)
    assert error.value.kind == "overloaded" and not error.value.stops_batch
    assert configurations.latest_preflight(db, name) is None


def test_an_override_needs_an_administrator_a_reason_and_a_failure(db: Database) -> None:
    def probed(outcome: str) -> Probed:
        return Probed(ends=dict.fromkeys(ALL, (outcome, "identified")), calls=88)

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


async def test_another_name_has_the_model_tried_again_and_pauses_the_batch_until_it_is_accepted(
    db: Database, agents_of: MakeAgents
) -> None:
    """A gateway begins to answer with another model; its answers never count, also not those before it was noticed."""
    said = message(model="another-1", content=[{"type": "text", "text": "unsafe"}])
    other = StubPlan(fails_probes=True, raw=reply(said))
    async with StubServer(StubPlan()) as stub:
        agents = agents_of(settings_of(stub))
        batch_id, (first, second) = batch(db, 2, made_of=agents), ids(db)
        job = job_of(db, agents)
        await job.screen_case(first)
        stub.plan = other
        await job.screen_case(second)
        assert one(db, select(screenings.c.case_id).where(screenings.c.case_id == second)) == "None"
        assert batch_state(db, batch_id) is BatchState.PAUSED
        found = configurations.latest_preflight(db, name_of(db))
        assert found is not None and not found.passed and found.other_names == ("another-1",)
        with pytest.raises(Forbidden):
            accept_model_name(db, ANN.at(NOW), "another-1")
        site = accept_model_name(db, ADMIN.at(NOW), "another-1").settings
        assert accept_model_name(db, ADMIN.at(NOW), "another-1").settings == site
        assert [event.action for event in events(db, ADMIN)].count("model_name_accepted") == 1
        made_now = agents_of(settings_now(db, settings_of(stub)))
        again = batch(db, 1, made_of=made_now)
        assert "another-1" in made_now.describe(0)["answers_as"]
        (third,) = set(ids(db)) - {first, second}
        await job.screen_case(third)  # by a worker that began before it was accepted
        assert progress(db, again).unsafe == 1


def ids(db: Database) -> list[str]:
    return db.values(select(cases.c.id).order_by(cases.c.batch_id, cases.c.row))


BAD, WELL = StubPlan(weights={"I cannot help with that": 1.0}), StubPlan(weights={"safe": 1.0})


def result(codes: str, reason: Reason) -> Screening:
    verdict = Verdict(label=Label.ESCALATE, ended=Ended.NO_ANSWER, calls=len(codes))
    run = NodeRun(node="worker", variant="main", draws=decode_draws(codes), verdict=verdict)
    return Screening(outcome=Outcome.HUMAN_REVIEW, node="worker", reason=reason, runs=(run,), delta=None)


def health() -> ModelHealth:
    return ModelHealth(db=Database("sqlite:///unused.db"), agents=Agents(Settings(_env_file=None)), clock=system_clock)


def test_the_first_cases_without_a_usable_answer_pause_the_batch_each_time_it_goes_on() -> None:
    first = health()
    first.look_at("another", result("??????", Reason.NO_ANSWER))
    for codes in ("??????", "~~~~~~"):
        for _ in range(FIRST_CASES - 1):
            first.look_at("b", result("??????", Reason.NO_ANSWER))
        with pytest.raises(SamplerError) as error:
            first.look_at("b", result(codes, Reason.NO_ANSWER))
        assert (error.value.kind, error.value.stops_batch) == ("no_usable_answer", True)
    first.look_at("b", result("?????E", Reason.NO_ANSWER))  # one usable answer is enough to go on
    for _ in range(2 * FIRST_CASES):
        first.look_at("b", result("??????", Reason.NO_ANSWER))


async def test_a_paused_batch_goes_on_with_the_next_case_once_the_model_is_well(
    sqlite_url: str, agents_of: MakeAgents
) -> None:
    """The cases it paused for are with a person, and are not what it begins with again."""
    db = Database(sqlite_url)
    db.prepare()
    async with StubServer(BAD) as stub:
        site = running.settings_of(stub.url)
        agents = agents_of(site)
        batch_id = batch(db, 8, made_of=agents)
        job = running.job_of(db, agents)
        for pauses in (1, 2):
            found = await _paused(db, job, batch_id)
            assert (found.why, found.human_review) == ("no_usable_answer", pauses * FIRST_CASES)
            resume(db, LOCAL_USER.at(system_clock()), batch_id)
        stub.plan = WELL
        await LocalRunner(job, 1, until_done=True).run()
    found = progress(db, batch_id)
    assert (found.state, found.human_review, found.safe) == (BatchState.FINISHED, 2 * FIRST_CASES, 2)
    db.close()


async def _paused(db: Database, job: ScreeningJob, batch_id: str) -> Progress:
    """Where the batch stands once it has paused by itself and nothing is under way."""
    runner = LocalRunner(job, 1)
    work = asyncio.create_task(runner.run())
    await until(lambda: progress(db, batch_id).state is BatchState.PAUSED)
    runner.stop()
    await work
    return progress(db, batch_id)
