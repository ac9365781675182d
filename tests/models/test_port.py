"""Every protocol alike: what a model says of itself, its bill, its limits."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from screening.models.http import HttpModel
from screening.models.limits import RateGate
from screening.models.settings import ModelSettings
from screening.pipeline.draws import Bill, DrawRequest, ScreenedText
from screening.pipeline.files import load_prompts
from tests.stub_server import StubPlan, StubServer

TEXT = ScreenedText(text="We walked the dog by the river.")
KINDS = ("messages", "chat", "logprobs")


def gate(concurrency: int) -> RateGate:
    return RateGate(concurrency=concurrency, limiter=None, pause_cap_s=1.0)


@asynccontextmanager
async def sampler(kind: str, limits: RateGate) -> AsyncIterator[HttpModel]:
    """One of this kind, under these limits."""
    async with StubServer(StubPlan(latency_s=0.02)) as stub:
        settings = ModelSettings(base_url=stub.url, model="m", requests_per_minute=None, protocol=kind)  # type: ignore[arg-type]
        async with HttpModel(settings, load_prompts(), gate=limits) as own:
            yield own


def draw_batch(count: int, *, urgent: bool = False, bill: Bill | None = None) -> DrawRequest:
    return DrawRequest(node="worker", text=TEXT, first=0, count=count, urgent=urgent, bill=bill)


@pytest.mark.parametrize("kind", KINDS)
async def test_every_protocol_fills_the_whole_port(kind):
    bill = Bill()
    async with sampler(kind, gate(8)) as one:
        draws = await one.draw(draw_batch(5, bill=bill))
        assert (await one.preflight()).ok
        assert isinstance(one.describe()["sampler"], str)
    assert bill.in_order() == list(draws) and len(draws) == 5


@pytest.mark.parametrize("kind", KINDS)
async def test_limits_and_urgency_hold_whatever_stands_behind_it(kind):
    """One place: while it is held nothing comes; then what somebody waits for comes first, although asked for last."""
    limits, patient, hurried = gate(1), Bill(), Bill()
    async with sampler(kind, limits) as one:
        async with limits.slot():
            draw_batches = [asyncio.ensure_future(one.draw(draw_batch(6, bill=patient)))]
            await asyncio.sleep(0.05)
            draw_batches.append(asyncio.ensure_future(one.draw(draw_batch(3, urgent=True, bill=hurried))))
            await asyncio.sleep(0.05)
            assert not patient.answers and not hurried.answers
        await draw_batches[1]
        assert len(patient.answers) < 6
        assert len(await draw_batches[0]) == 6
