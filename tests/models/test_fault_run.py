"""A batch against a service that fails in every way it can: every case accounted for, none safe by a fault."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from screening.labels import Outcome
from screening.models.http import HttpModel
from screening.models.retries import SILENT_AFTER
from screening.models.settings import ModelSettings
from screening.pipeline.config import preset
from screening.pipeline.draws import Answer, Bill, Draw, DrawRequest, SamplerError, ScreenedText
from screening.pipeline.engine import Guard, NodeRun, screen
from screening.pipeline.files import load_prompts
from tests.stub_server import Fault, StubPlan, StubServer, TextRule

FAULTS = {
    Fault.RATE_LIMITED: 0.05,
    Fault.OVERLOADED: 0.015,
    Fault.SERVER_ERROR: 0.015,
    Fault.HANG: 0.02,
    Fault.DROPPED: 0.01,
    Fault.MALFORMED: 0.01,
    Fault.REFUSAL: 0.01,
}


class Billed:
    """Hands every draw batch on with a bill of its own, and keeps the bills."""

    def __init__(self, model: HttpModel) -> None:
        self.model = model
        self.bills: list[Bill] = []

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        self.bills.append(Bill())
        return await self.model.draw(replace(request, bill=self.bills[-1]))

    @property
    def requests(self) -> int:
        return sum(bill.requests for bill in self.bills)

    @property
    def answers(self) -> list[Draw]:
        return [draw for bill in self.bills for draw in bill.answers.values()]


def cases(count: int) -> dict[int, ScreenedText]:
    """Every fifth text is one on which the stub always answers unsafe."""
    return {
        number: ScreenedText(text=f"{'storm' if number % 5 == 0 else 'calm'} weather report number {number}")
        for number in range(count)
    }


async def run_batch(stub: StubServer, count: int, **changes: object):
    """Outcomes by case (None: pending with an error), all ended node runs, and what was billed."""
    settings = ModelSettings(
        base_url=stub.url, api_key="k", requests_per_minute=None, concurrency=128, **({"call_timeout_s": 3.0} | changes)
    )
    outcomes: dict[int, Outcome | None] = {}
    runs: list[NodeRun] = []
    errors: Counter[str] = Counter()
    at_once = asyncio.Semaphore(120)

    async def keep(run: NodeRun) -> None:
        runs.append(run)

    async with HttpModel(settings, load_prompts()) as model:
        sampler = Billed(model)

        async def one(number: int, text: ScreenedText) -> None:
            async with at_once:
                try:
                    result = await screen(text, Guard(), preset("recommended"), sampler, commit=keep)
                except SamplerError as error:
                    outcomes[number], errors[error.kind] = None, errors[error.kind] + 1
                else:
                    outcomes[number] = result.outcome

        await asyncio.gather(*(one(number, text) for number, text in cases(count).items()))
    return outcomes, runs, sampler, errors


@pytest.mark.slow
@pytest.mark.usefixtures("short_pauses")
async def test_two_hundred_cases_through_a_failing_service():
    plan = StubPlan(
        seed=4,
        faults=FAULTS,
        hang_s=60.0,
        retry_after="0.01",
        texts=(TextRule(contains="storm", weights={"unsafe": 1}),),
    )
    async with StubServer(plan) as stub:
        outcomes, runs, billed, errors = await run_batch(stub, 200)
        seen = stub.counters

    pending = {number for number, outcome in outcomes.items() if outcome is None}
    assert set(outcomes) == set(range(200))
    assert len(pending) == sum(errors.values()) <= 3
    for number, outcome in outcomes.items():
        assert outcome is not Outcome.SAFE or number % 5 != 0, "an unsafe text became safe"
    assert sum(outcome is Outcome.UNSAFE for outcome in outcomes.values()) >= 38

    kept = sum(len(run.draws) for run in runs)
    refusals = sum(draw.answer is Answer.REFUSAL for run in runs for draw in run.draws)
    answered = len(billed.answers)
    assert kept <= answered and (pending or kept == answered)
    assert sum(draw.usage.output_tokens for draw in billed.answers) == 3 * answered
    # Both sides keep the same books: nothing lost, nothing counted twice. Only an answer that a busy machine
    # delivered after the client's time limit may stand in the stub's books alone.
    late = billed.requests - answered - seen.faults[Fault.HANG] - seen.faults[Fault.MALFORMED]
    assert 0 <= seen.answers - answered <= late
    assert late > 0 or pending or refusals == seen.faults[Fault.REFUSAL]
    print(f"\nrequests {seen.requests}, billed {billed.requests}, retries {seen.retries}, pending {dict(errors)}")


async def test_without_retries_failed_cases_stay_pending_and_none_is_safe_by_a_fault():
    plan = StubPlan(seed=1, faults={Fault.SERVER_ERROR: 0.1}, weights={"unsafe": 1})
    async with StubServer(plan) as stub:
        outcomes, runs, billed, errors = await run_batch(stub, 40, max_retries=0, call_timeout_s=60.0)
    tally = Counter(outcomes.values())
    assert tally[None] == errors["server_error"] > 0
    assert tally[None] + tally[Outcome.UNSAFE] == 40
    seen = stub.counters
    assert seen.retries == 0
    assert sum(len(run.draws) for run in runs) <= len(billed.answers) == billed.requests
    assert billed.requests == seen.requests - seen.faults[Fault.SERVER_ERROR]


@pytest.mark.parametrize("fault", [Fault.REFUSAL, Fault.WRONG_LABEL, Fault.EMPTY, Fault.CUT, Fault.NULL_CONTENT])
async def test_a_service_that_only_answers_nonsense_sends_every_case_to_a_human(fault):
    async with StubServer(StubPlan(faults={fault: 1.0})) as stub:
        outcomes, _, _, _ = await run_batch(stub, 5)
    assert set(outcomes.values()) == {Outcome.HUMAN_REVIEW}


@pytest.mark.parametrize(
    "fault",
    [Fault.RATE_LIMITED, Fault.OVERLOADED, Fault.DROPPED, Fault.MALFORMED, Fault.HTML, Fault.HANG, Fault.SPEND_CAP],
)
async def test_a_service_that_only_fails_leaves_every_case_pending(fault):
    async with StubServer(StubPlan(faults={fault: 1.0}, hang_s=60.0)) as stub:
        outcomes, runs, _, _ = await run_batch(stub, 3, max_retries=1, call_timeout_s=0.5)
    assert set(outcomes.values()) == {None} and runs == []


async def test_a_service_that_refuses_everything_is_soon_asked_one_thing_at_a_time():
    draw_batches, count = 30, 10
    async with StubServer(StubPlan(faults={Fault.OVERLOADED: 1.0})) as stub:
        settings = ModelSettings(base_url=stub.url, api_key="k", requests_per_minute=None, concurrency=16)
        async with HttpModel(settings, load_prompts()) as sampler:
            node = load_prompts().nodes[0]

            async def ask() -> None:
                with pytest.raises(SamplerError):
                    await sampler.draw(DrawRequest(node=node, text=ScreenedText(text="calm"), first=0, count=count))

            await asyncio.gather(*(ask() for _ in range(4)))
            before = stub.counters.requests
            for _ in range(draw_batches):
                await ask()
            assert before <= 4 * count + SILENT_AFTER
            assert stub.counters.requests - before <= 2 * draw_batches, (
                "of ten calls of a draw batch, sent again and again"
            )
            stub.plan = StubPlan()
            draws = await sampler.draw(DrawRequest(node=node, text=ScreenedText(text="calm"), first=0, count=count))
    assert len(draws) == count
