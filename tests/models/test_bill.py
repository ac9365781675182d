"""What a draw batch that fails or is broken off has cost is on its bill: real library, real stub."""

import asyncio
import contextlib

import pytest

from screening.models.http import HttpModel
from screening.models.settings import ModelSettings
from screening.pipeline.draws import Bill, DrawRequest, SamplerError, ScreenedText
from screening.pipeline.files import load_prompts
from tests.stub_server import Fault, StubPlan, StubServer


def _sampler(stub: StubServer, **changes: object) -> HttpModel:
    base = {"requests_per_minute": None, "call_timeout_s": 20.0, "node_deadline_s": 60.0, "max_retries": 0}
    return HttpModel(ModelSettings(base_url=stub.url, api_key="k", **(base | changes)), load_prompts())


def _draw_batch(bill: Bill, count: int = 3) -> DrawRequest:
    return DrawRequest(node="worker", text=ScreenedText(text="A plain text."), first=0, count=count, bill=bill)


@pytest.mark.parametrize(
    ("fault", "charged"),
    [
        (Fault.RATE_LIMITED, 2), (Fault.OVERLOADED, 2), (Fault.SERVER_ERROR, 2), (Fault.DROPPED, 2),
        (Fault.MALFORMED, 3), (Fault.WRONG_SHAPE, 3), (Fault.HANG, 3),
    ],
)  # fmt: skip
async def test_a_failed_draw_batch_is_billed_for_what_was_answered_or_may_have_been_worked_on(
    fault: Fault, charged: int
) -> None:
    """Of three calls two are answered; the third was refused, never got through, or nobody knows."""
    bill, timeout = Bill(), 1.0 if fault is Fault.HANG else 20.0
    async with (
        StubServer(StubPlan(script=(None, fault, None))) as stub,
        _sampler(stub, call_timeout_s=timeout) as sampler,
    ):
        with pytest.raises(SamplerError):
            await sampler.draw(_draw_batch(bill))
    assert bill.requests == charged


async def test_every_attempt_that_may_be_charged_is_billed() -> None:
    bill, plan = Bill(), StubPlan(faults={Fault.MALFORMED: 1.0})
    async with StubServer(plan) as stub, _sampler(stub, max_retries=2) as sampler:
        with pytest.raises(SamplerError):
            await sampler.draw(_draw_batch(bill, 1))
        assert bill.requests == stub.counters.requests == 3


async def test_a_draw_batch_whose_draws_arrive_is_billed_one_request_a_draw() -> None:
    bill, plan = Bill(), StubPlan(script=(Fault.RATE_LIMITED,))
    async with StubServer(plan) as stub, _sampler(stub, max_retries=1) as sampler:
        await sampler.draw(_draw_batch(bill, 5))
        assert (bill.requests, stub.counters.requests) == (5, 6)


async def test_at_the_deadline_what_is_under_way_is_billed_too() -> None:
    bill, plan = Bill(), StubPlan(script=(None, Fault.HANG, None))
    async with StubServer(plan) as stub, _sampler(stub, node_deadline_s=1.0) as sampler:
        with pytest.raises(SamplerError, match="within 1 seconds"):
            await sampler.draw(_draw_batch(bill))
    assert bill.requests == 3


async def test_of_a_draw_batch_broken_off_only_what_went_out_is_billed() -> None:
    """One place, so that the first call hangs and the others wait for their turn."""
    bill = Bill()
    async with StubServer(StubPlan(faults={Fault.HANG: 1.0})) as stub, _sampler(stub, concurrency=1) as sampler:
        draw_batch = asyncio.ensure_future(sampler.draw(_draw_batch(bill)))
        while stub.counters.requests == 0:  # noqa: ASYNC110 - the stub only counts
            await asyncio.sleep(0.01)
        draw_batch.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await draw_batch
        assert (bill.requests, stub.counters.requests) == (1, 1)
