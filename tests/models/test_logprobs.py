"""Log probabilities: one call, a distribution, the exact label; what is unknown counts against every label."""

import base64
import json
import math
import random
from functools import partial
from typing import Any

import pytest

from screening.labels import LABELS, Label, Outcome
from screening.models.http import HttpModel
from screening.models.settings import ModelSettings
from screening.models.wire import distribution
from screening.pipeline.config import PipelineConfig, preset
from screening.pipeline.draws import Bill, LabelDistribution, SamplerError, encode_draws
from screening.pipeline.engine import Guard, Reason, Screening, screen
from screening.pipeline.files import load_prompts
from screening.stopping.rules import Ended
from tests.models.asking import TEXT, asked, draw_batch
from tests.stub_server import Fault, RawReply, StubPlan

WORDS = {label.value: label for label in Label}
MODEL = "llama3.1:8b"


logprobs = partial(asked, protocol="logprobs", model=MODEL, temperature=None, most_unknown=0.1, rng=random.Random(1))


async def told(sampler: HttpModel, bill: Bill | None = None) -> LabelDistribution:
    asked = sampler.distribution(draw_batch(1, bill=bill))
    assert asked is not None
    return await asked


def one_node() -> PipelineConfig:
    """The Worker alone, whose escalations go to a person."""
    chain = preset("recommended")
    worker = chain.nodes[0].model_copy(
        update={"routes": {Label.SAFE: "safe", Label.UNSAFE: "unsafe", Label.ESCALATE: "human_review"}}
    )
    return chain.model_copy(update={"nodes": (worker,)})


def random_shares(rng: random.Random) -> dict[str, float]:
    """Three labels and what is none, as a model may answer; the part that is none is often small and may be large."""
    parts = [rng.expovariate(1.0) for _ in LABELS]
    unknown = rng.choice((0.0, rng.uniform(0.0, 0.1), rng.uniform(0.0, 0.6)))
    labels = {label.value: (1 - unknown) * part / sum(parts) for label, part in zip(LABELS, parts, strict=True)}
    return labels | ({"well": unknown} if unknown else {})


async def test_500_random_distributions_give_the_right_label_with_one_call_a_node():
    """Settled in one call wherever the lead exceeds what is unknown, never with another label than the mode; between
    that and the limit on what is unknown nothing is settled; above it answers are drawn.
    """
    rng = random.Random(20)
    given = [random_shares(rng) for _ in range(500)]
    ends: dict[str, int] = {"settled": 0, "too close": 0, "drawn": 0}
    given.sort(
        key=lambda shares: shares.get("well", 0.0) > 0.1
    )  # answers of a draw batch broken off may be counted late
    async with logprobs() as (stub, sampler):
        for shares in given:
            stub.plan, before = StubPlan(weights=shares), stub.counters.requests
            found = await screen(TEXT, Guard(), one_node(), sampler)
            ends[_checked(found, shares, stub.counters.requests - before)] += 1
    assert min(ends.values()) > 10, ends


def _checked(found: Screening, shares: dict[str, float], calls: int) -> str:
    """How it ended, after holding it against what the stub was told to answer."""
    (run,) = found.runs
    second, first = sorted(shares[label] for label in LABELS)[1:]
    unknown, mode = shares.get("well", 0.0), max(LABELS, key=lambda label: shares[label])
    assert run.distribution is not None
    assert run.distribution.unknown == pytest.approx(unknown, abs=1e-9)
    if unknown > 0.1:
        assert run.calls == len(run.draws) + 1 and calls > 1 and not run.read_off
        return "drawn"
    assert calls == run.calls == 1 and found.delta is None and run.distribution.gap == pytest.approx(first - second)
    if first - second <= unknown:
        assert (run.verdict.label, found.reason, found.outcome) == (None, Reason.TOO_CLOSE, Outcome.HUMAN_REVIEW)
        return "too close"
    assert (run.verdict.label, run.verdict.ended) == (mode, Ended.IDENTIFIED)
    assert found.outcome == (Outcome.HUMAN_REVIEW if mode is Label.ESCALATE else Outcome(mode.value))
    return "settled"


async def test_a_pipeline_takes_one_call_a_node_and_claims_no_error_level():
    async with logprobs(StubPlan(weights={"escalate": 0.9, "safe": 0.1})) as (stub, sampler):
        found = await screen(TEXT, Guard(), preset("recommended"), sampler)
        assert stub.counters.requests == found.calls == len(found.runs) == 3
    assert (found.outcome, found.reason, found.delta) == (Outcome.HUMAN_REVIEW, Reason.ESCALATED, None)
    assert all(run.read_off and run.usage.input_tokens > 0 for run in found.runs)


async def test_the_second_look_is_always_drawn():
    async with logprobs(StubPlan(weights={"safe": 1.0})) as (_, sampler):
        found = await screen(TEXT, Guard(second_look=True), preset("recommended"), sampler)
    assert [(run.variant, run.read_off) for run in found.runs] == [("main", True), ("second_look", False)]
    assert found.outcome is Outcome.SAFE and found.calls == 12


def test_the_unknown_part_can_hide_the_mode():
    found = distribution([("safe", math.log(0.4)), ("un", math.log(0.3))], WORDS, 1.0)
    assert found.unknown == pytest.approx(0.3)
    assert found.mode() is None


def test_what_only_begins_like_safe_does_not_count_for_it():
    found = distribution([("sa", math.log(0.6)), ("s", math.log(0.2)), ("esc", math.log(0.2))], WORDS, 1.0)
    assert found.labels[Label.SAFE] == 0.0 and found.unknown == pytest.approx(0.8)


def test_a_lower_temperature_sharpens_what_is_known():
    # 0.6 : 0.2 at temperature ½ is 0.36 : 0.04, so 0.9 and 0.1 of the known 0.8.
    found = distribution([("safe", math.log(0.6)), ("un", math.log(0.2))], WORDS, 0.5)
    assert found.labels[Label.SAFE] == pytest.approx(0.72)
    assert found.labels[Label.UNSAFE] == pytest.approx(0.08)
    assert found.unknown == pytest.approx(0.2)


def test_no_tokens_are_no_label():
    found = distribution([], WORDS, 1.0)
    assert found.unknown == 1.0 and found.mode() is None


def completion(content: str, first: str, tokens: Any, **changes: Any) -> RawReply:
    """A completion of the stub's shape that tells these probabilities."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": content},
        "finish_reason": "stop",
        "logprobs": {"content": [{"token": first, "logprob": -0.1, "top_logprobs": tokens}]},
    } | changes.pop("choice", {})
    whole = {"id": "{id}", "object": "chat.completion", "model": MODEL, "choices": [choice], "usage": {}} | changes
    return RawReply(base64=base64.b64encode(json.dumps(whole).encode()).decode())


SURE = [{"token": "safe", "logprob": -0.001}]


@pytest.mark.parametrize(
    "reply",
    [
        completion("safe", "safe", SURE, model="another"),
        completion("safe", "safe", SURE, object="text_completion"),
        completion("safe", "safe", SURE, id=""),
        completion("safe", "safe", SURE, choice={"message": {"role": "assistant", "content": "safe", "refusal": "no"}}),
        completion("safety is at risk", "safe", SURE),
        completion("unsafe", "safe", SURE),
        completion("safe", "safe", SURE, choice={"finish_reason": "length"}),
        completion("safe", "safe", []),
        completion("safe", "safe", None),
        completion("safe", "safe", [{"token": "safe", "logprob": "-0.001"}]),
        completion("safe", "safe", [{"token": "safe", "logprob": 0.5}]),
        completion("safe", "safe", [*SURE, {"token": "un", "logprob": -0.001}]),
        completion("safe", "safe", SURE, choice={"logprobs": None}),
        completion("safe", "safe", SURE, choice={"logprobs": {"content": []}}),
    ],
)
async def test_nothing_is_known_of_a_reply_that_is_not_what_was_asked(reply):
    async with logprobs(StubPlan(raw=reply)) as (_, sampler):
        found = await told(sampler)
    assert found.unknown > 0.99 and found.verdict() is None


async def test_a_reply_that_is_what_was_asked_is_read_off():
    async with logprobs(StubPlan(raw=completion("Safe.", "Safe", SURE))) as (_, sampler):
        found = await told(sampler)
    assert found.mode() is Label.SAFE and found.unknown < 0.01


@pytest.mark.parametrize("fault", [Fault.RATE_LIMITED, Fault.OVERLOADED, Fault.DROPPED, Fault.MALFORMED, Fault.HTML])
async def test_limits_bill_and_retries_stand_around_the_one_call(fault):
    bill = Bill()
    async with logprobs(StubPlan(script=(fault,))) as (stub, sampler):
        assert (await told(sampler, bill)).mode() is Label.SAFE
        assert (stub.counters.requests, stub.counters.retries) == (2, 1)
    assert bill.requests == (2 if fault in {Fault.MALFORMED, Fault.HTML} else 1)


@pytest.mark.parametrize("fault", [Fault.OVERLOADED, Fault.DROPPED, Fault.HANG, Fault.MALFORMED, Fault.WRONG_SHAPE])
async def test_a_fault_that_stays_is_an_error_and_nothing_known(fault):
    plan = StubPlan(faults={fault: 1.0}, hang_s=60.0)
    async with logprobs(plan, max_retries=0, call_timeout_s=2.0) as (_, sampler):
        with pytest.raises(SamplerError) as error:
            await told(sampler)
    assert TEXT.text not in str(error.value)


async def test_draws_of_the_same_server_are_ordinary_ones():
    async with logprobs(StubPlan(weights={"unsafe": 1.0})) as (stub, sampler):
        assert encode_draws(await sampler.draw(draw_batch(3))) == "UUU"
        assert "logprobs" not in stub.counters.bodies[0]
    described = sampler.describe()
    assert described["sampler"] == "logprobs" and described["most_unknown"] == 0.1


def test_the_service_itself_offers_no_log_probabilities():
    with pytest.raises(ValueError, match="base URL"):
        HttpModel(ModelSettings(protocol="logprobs"), load_prompts())
