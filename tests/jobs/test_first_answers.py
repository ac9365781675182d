"""A batch whose first cases bring no usable answer is paused with that reason; one usable answer ends the question."""

import asyncio

import pytest

from jobs.agents import Agents
from jobs.local import LocalRunner
from jobs.model_health import FIRST_CASES, FirstAnswers
from jobs.port import system_clock
from jobs.screening_job import ScreeningJob
from screening.labels import Label, Outcome
from screening.pipeline.draws import SamplerError, decode_draws
from screening.pipeline.engine import NodeRun, Reason, Screening
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from screening.stopping.rules import Ended, Verdict
from storage.batches.batch_state import BatchState
from storage.batches.batches import Progress, progress, resume
from storage.database import Database
from tests.jobs.running import batch, until
from tests.stub_server import StubPlan, StubServer

BAD, WELL = StubPlan(weights={"I cannot help with that": 1.0}), StubPlan(weights={"safe": 1.0})


def result(codes: str, reason: Reason) -> Screening:
    verdict = Verdict(label=Label.ESCALATE, ended=Ended.NO_ANSWER, calls=len(codes))
    run = NodeRun(node="worker", variant="main", draws=decode_draws(codes), verdict=verdict)
    return Screening(outcome=Outcome.HUMAN_REVIEW, node="worker", reason=reason, runs=(run,), delta=None)


def test_the_first_cases_without_a_usable_answer_pause_the_batch() -> None:
    first = FirstAnswers()
    for _ in range(FIRST_CASES - 1):
        first.look_at("b", result("??????", Reason.NO_ANSWER))
    first.look_at("another", result("??????", Reason.NO_ANSWER))
    with pytest.raises(SamplerError) as error:
        first.look_at("b", result("~~~~~~", Reason.NO_ANSWER))
    assert (error.value.kind, error.value.stops_batch) == ("no_usable_answer", True)


def test_one_usable_answer_is_enough_to_go_on() -> None:
    first = FirstAnswers()
    first.look_at("b", result("?????E", Reason.NO_ANSWER))
    for _ in range(2 * FIRST_CASES):
        first.look_at("b", result("??????", Reason.NO_ANSWER))


def test_a_batch_that_goes_on_has_as_many_cases_again() -> None:
    first = FirstAnswers()
    for _ in range(2):
        for _ in range(FIRST_CASES - 1):
            first.look_at("b", result("??????", Reason.NO_ANSWER))
        with pytest.raises(SamplerError):
            first.look_at("b", result("??????", Reason.NO_ANSWER))


async def test_a_paused_batch_goes_on_with_the_next_case_once_the_model_is_well(sqlite_url: str) -> None:
    """The cases it paused for are with a person, and are not what it begins with again."""
    db = Database(sqlite_url)
    db.prepare()
    async with StubServer(BAD) as stub:
        site = Settings(_env_file=None, sampler="anthropic", anthropic_base_url=stub.url, anthropic_api_key="k")
        agents = Agents(site)
        batch_id = batch(db, 8, made_of=agents)
        job = ScreeningJob(db=db, agents=agents, clock=system_clock, worker="w")
        for pauses in (1, 2):
            found = await _paused(db, job, batch_id)
            assert (found.why, found.human_review) == ("no_usable_answer", pauses * FIRST_CASES)
            resume(db, LOCAL_USER.at(system_clock()), batch_id)
        stub.plan = WELL
        await LocalRunner(job, 1, until_done=True).run()
        await agents.aclose()
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
