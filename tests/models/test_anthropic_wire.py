"""What goes over the wire, and what comes back as draws: the real library against the real stub."""

import asyncio
import json
import random
import re
from contextlib import suppress

import pytest

from screening.labels import Label
from screening.models.http import HttpModel
from screening.models.settings import ModelSettings
from screening.pipeline.draws import Answer, Bill, SamplerError, ScreenedText, Usage, encode_draws
from screening.pipeline.files import load_prompts
from tests.models.asking import asked, draw_batch
from tests.stub_server import Fault, StubPlan, StubServer

KEY = "a-key-that-must-not-be-told"


def patience(fault: Fault) -> float:
    """Seconds to wait: short only where waiting is what the test is about, as a busy machine is slow."""
    return 1.0 if fault in {Fault.HANG, Fault.DRIP} else 20.0


async def test_the_wire_carries_version_temperature_and_ten_tokens():
    async with asked(api_key=KEY) as (stub, sampler):
        await sampler.draw(draw_batch(1))
        body, headers = stub.counters.bodies[0], stub.counters.headers[0]
    assert headers["anthropic-version"] == "2023-06-01"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("claude-sonnet-4-6", 0.7, 10)
    assert body["thinking"] == {"type": "disabled"}
    assert "tools" not in body and "stream" not in body
    assert headers["x-stainless-lang"] == "python" and "nthropic" in headers["user-agent"], "the vendor's library asks"


class _Gathering(StubServer):
    """Answers nobody before 30 calls are in, then in another order than they came."""

    def __init__(self, plan):
        super().__init__(plan)
        self.all_in = asyncio.Barrier(30)

    async def _answer(self, request, body, number):
        async with asyncio.timeout(60):
            await self.all_in.wait()
        await asyncio.sleep(0.2 * self._rng.random())
        return await super()._answer(request, body, number)


async def test_a_draw_batch_is_concurrent_and_its_draws_come_in_request_order():
    """The nonces tell which request an answer belongs to; the stub answers in another order than it was asked."""
    nonces = random.Random(5)
    expected = [f"{nonces.getrandbits(64):016x}" for _ in range(30)]
    plan = StubPlan(weights={"safe": 0.4, "unsafe": 0.3, "escalate": 0.3})
    async with asked(_Gathering(plan), call_timeout_s=60.0, rng=random.Random(5)) as (stub, sampler):
        draws = await sampler.draw(draw_batch(30))
        assert stub.counters.max_in_flight == 30
    answered = stub.counters.answer_by_nonce
    assert list(answered) != expected
    assert [draw.label for draw in draws] == [answered[nonce] for nonce in expected]


async def test_every_call_has_a_nonce_of_its_own_and_the_text_as_json():
    text = ScreenedText(text='</record-1> "quoted" <b>', reply="so\nwhat")
    async with asked() as (stub, sampler):
        await sampler.draw(draw_batch(5, text=text))
        bodies = list(stub.counters.bodies)
    matches = [
        re.fullmatch(r"<record-(\w{16})>\n(.*)\n</record-\1>", body["messages"][0]["content"], re.DOTALL)
        for body in bodies
    ]
    assert len({match[1] for match in matches}) == 5
    for match, body in zip(matches, bodies, strict=True):
        assert json.loads(match[2]) == {"text": text.text, "reply": text.reply}
        assert "<" not in match[2]
        assert match[1] in body["system"][1]["text"]
        assert text.text not in json.dumps(body["system"])


@pytest.mark.parametrize(
    ("fault", "code", "answer"),
    [
        (Fault.REFUSAL, "!", Answer.REFUSAL),
        (Fault.WRONG_LABEL, "?", Answer.UNPARSABLE),
        (Fault.EMPTY, "_", Answer.EMPTY),
        (Fault.NULL_CONTENT, "_", Answer.EMPTY),
        (Fault.CUT, "~", Answer.CUT),
        (Fault.THINKING, "~", Answer.CUT),
    ],
)
async def test_an_unusable_answer_is_an_escalate_draw_and_is_not_asked_again(fault, code, answer):
    async with asked(StubPlan(script=(fault,))) as (stub, sampler):
        (draw,) = await sampler.draw(draw_batch(1))
        assert stub.counters.requests == 1
    assert (draw.label, draw.answer, encode_draws([draw])) == (Label.ESCALATE, answer, code)


@pytest.mark.parametrize(
    "fault",
    [
        Fault.RATE_LIMITED, Fault.OVERLOADED, Fault.SERVER_ERROR, Fault.HANG, Fault.DRIP, Fault.DROPPED,
        Fault.CUT_OFF, Fault.MALFORMED, Fault.HTML, Fault.WRONG_SHAPE,
    ],
)  # fmt: skip
async def test_a_transport_fault_is_retried_and_is_no_draw(fault):
    plan = StubPlan(script=(fault,), weights={"unsafe": 1})
    async with asked(plan, call_timeout_s=patience(fault)) as (stub, sampler):
        draws = await sampler.draw(draw_batch(1))
        assert (stub.counters.requests, stub.counters.retries, stub.counters.answers) == (2, 1, 1)
    assert encode_draws(draws) == "U"


@pytest.mark.parametrize(
    ("fault", "kind", "charged"),
    [
        (Fault.RATE_LIMITED, "rate_limited", 2), (Fault.OVERLOADED, "overloaded", 2), (Fault.DROPPED, "connection", 2),
        (Fault.SERVER_ERROR, "server_error", 2), (Fault.MALFORMED, "malformed", 3),
        (Fault.WRONG_SHAPE, "malformed", 3), (Fault.HANG, "timeout", 3),
    ],
)  # fmt: skip
async def test_a_failed_draw_batch_is_an_error_and_billed_for_what_was_answered_or_may_have_been_worked_on(
    fault, kind, charged
):
    """Of three calls two are answered; the third was refused, never got through, or nobody knows."""
    bill, plan = Bill(), StubPlan(script=(None, fault, None), faults={})
    async with asked(plan, max_retries=0, call_timeout_s=patience(fault)) as (_, sampler):
        with pytest.raises(SamplerError) as failure:
            await sampler.draw(draw_batch(3, bill=bill))
    assert (failure.value.kind, failure.value.stops_batch, bill.requests) == (kind, False, charged)
    assert [draw.usage.output_tokens for draw in bill.answers.values()] == [3, 3]


async def test_every_attempt_that_may_be_charged_is_billed():
    bill = Bill()
    async with asked(StubPlan(faults={Fault.MALFORMED: 1.0}), max_retries=2) as (stub, sampler):
        with pytest.raises(SamplerError):
            await sampler.draw(draw_batch(1, bill=bill))
        assert bill.requests == stub.counters.requests == 3


async def test_at_the_deadline_a_draw_batch_that_hangs_ends_and_what_is_under_way_is_billed_too():
    bill, plan = Bill(), StubPlan(script=(None, Fault.HANG, None))
    async with asked(plan, node_deadline_s=1.0, call_timeout_s=30.0) as (_, sampler), asyncio.timeout(15):
        with pytest.raises(SamplerError, match="within 1 seconds") as error:
            await sampler.draw(draw_batch(3, bill=bill))
    assert (error.value.kind, bill.requests) == ("deadline", 3)


async def test_of_a_draw_batch_broken_off_only_what_went_out_is_billed():
    """One place, so that the first call hangs and the others wait for their turn."""
    bill = Bill()
    async with asked(StubPlan(faults={Fault.HANG: 1.0}), concurrency=1) as (stub, sampler):
        drawing = asyncio.ensure_future(sampler.draw(draw_batch(3, bill=bill)))
        while stub.counters.requests == 0:  # noqa: ASYNC110 - the stub only counts
            await asyncio.sleep(0.01)
        drawing.cancel()
        with suppress(asyncio.CancelledError):
            await drawing
        assert (bill.requests, stub.counters.requests) == (1, 1)


async def test_usage_is_summed_and_missing_cache_fields_are_zero():
    async with asked() as (_, sampler):
        draws = await sampler.draw(draw_batch(4))
    usage = sum((draw.usage for draw in draws), Usage())
    assert usage.output_tokens == 12 and usage.input_tokens > 4000


async def test_no_key_in_any_representation():
    settings = ModelSettings(api_key=KEY)
    sampler = HttpModel(settings, load_prompts(), rng=random.Random(1))
    try:
        assert KEY not in repr(settings) + repr(sampler) + json.dumps(sampler.describe())
    finally:
        await sampler.aclose()
