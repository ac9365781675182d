"""Log probabilities: one call, a distribution, the exact label; what is unknown counts against every label."""

import math
import random
from functools import partial
from typing import Any

import pytest

from screening.labels import LABELS, Label, Outcome
from screening.models.http import HttpModel
from screening.models.wire import distribution
from screening.pipeline.config import PipelineConfig, preset
from screening.pipeline.draws import LabelDistribution, encode_draws
from screening.pipeline.engine import Guard, Reason, Screening, screen
from screening.stopping.rules import Ended
from tests.fixtures import tables
from tests.fixtures.replies import MODEL, completion, reply
from tests.models.asking import TEXT, asked, draw_batch
from tests.stub_server import StubPlan

WORDS = {label.value: label for label in Label}
logprobs = partial(
    asked, protocol="logprobs", model=MODEL, temperature=None, most_unknown=0.1, rng=random.Random(1), max_retries=0
)


async def told(sampler: HttpModel) -> LabelDistribution:
    asking = sampler.distribution(draw_batch(1))
    assert asking is not None
    return await asking


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
    if rng.random() < 0.25:
        parts[1] = parts[0] * rng.uniform(0.8, 1.2)  # two that are close
    unknown = rng.choice((0.0, rng.uniform(0.0, 0.1), rng.uniform(0.0, 0.1), rng.uniform(0.0, 0.4)))
    labels = {label.value: (1 - unknown) * part / sum(parts) for label, part in zip(LABELS, parts, strict=True)}
    return labels | ({"well": unknown} if unknown else {})


async def test_random_distributions_give_the_right_label_with_one_call_a_node():
    """Settled in one call wherever the lead exceeds what is unknown, never with another label than the mode; between
    that and the limit on what is unknown nothing is settled; above it answers are drawn.
    """
    rng = random.Random(20)
    given = [random_shares(rng) for _ in range(120)]
    ends: dict[str, int] = {"settled": 0, "too close": 0, "drawn": 0}
    given.sort(key=lambda shares: shares.get("well", 0.0) > 0.1)  # what is broken off may be counted late
    async with logprobs() as (stub, sampler):
        for shares in given:
            stub.plan, before = StubPlan(weights=shares), stub.counters.requests
            found = await screen(TEXT, Guard(), one_node(), sampler)
            ends[_checked(found, shares, stub.counters.requests - before)] += 1
    assert min(ends.values()) > 5, ends


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


async def test_a_pipeline_takes_one_call_a_node_and_claims_no_error_level_and_the_second_look_is_drawn():
    async with logprobs(StubPlan(weights={"escalate": 0.9, "safe": 0.1})) as (stub, sampler):
        found = await screen(TEXT, Guard(), preset("recommended"), sampler)
        assert stub.counters.requests == found.calls == len(found.runs) == 3
        assert (found.outcome, found.reason, found.delta) == (Outcome.HUMAN_REVIEW, Reason.ESCALATED, None)
        assert all(run.read_off and run.usage.input_tokens > 0 for run in found.runs)
        stub.plan = StubPlan(weights={"safe": 1.0})
        found = await screen(TEXT, Guard(second_look=True), preset("recommended"), sampler)
        assert encode_draws(await sampler.draw(draw_batch(3))) == "SSS"
        assert "logprobs" not in stub.counters.bodies[-1]
        assert sampler.described["most_unknown"] == 0.1
    assert [(run.variant, run.read_off) for run in found.runs] == [("main", True), ("second_look", False)]
    assert found.outcome is Outcome.SAFE and found.calls == 12


@pytest.mark.parametrize(
    ("tokens", "temperature", "shares"),
    [
        ({"safe": 0.4, "un": 0.3}, 1.0, (0.4, 0.3, 0.0)),
        ({"sa": 0.6, "s": 0.2, "esc": 0.2}, 1.0, (0.0, 0.0, 0.2)),
        # 0.6 : 0.2 at temperature ½ is 0.36 : 0.04, so 0.9 and 0.1 of the known 0.8.
        ({"safe": 0.6, "un": 0.2}, 0.5, (0.72, 0.08, 0.0)),
        ({}, 1.0, (0.0, 0.0, 0.0)),
    ],
    ids=["unknown may hide the mode", "what only begins like safe", "a lower temperature", "no tokens"],
)
def test_what_first_tokens_say_of_the_labels(tokens, temperature, shares):
    found = distribution([(token, math.log(share)) for token, share in tokens.items()], WORDS, temperature)
    assert [found.labels[label] for label in LABELS] == pytest.approx(shares)
    assert found.unknown == pytest.approx(1 - sum(shares))
    assert found.mode() is (Label.SAFE if temperature < 1 else None)


SURE = ({"token": "safe", "logprob": -0.001},)


def tells(content: str = "safe", first: str = "safe", tokens: Any = SURE, **choice: Any) -> dict[str, Any]:
    """A completion that tells these probabilities."""
    known = {"content": [{"token": first, "logprob": -0.1, "top_logprobs": tokens}]}
    return completion({"content": content}, {"logprobs": known} | choice)


@pytest.mark.parametrize(("choice", "changes"), tables(__file__)["unlike"])
async def test_nothing_is_known_of_a_reply_that_is_not_what_was_asked(choice, changes):
    async with logprobs(StubPlan(raw=reply(tells(**choice) | changes))) as (stub, sampler):
        found = await told(sampler)
        stub.plan = StubPlan(raw=reply(tells("Safe.", "Safe")))
        right = await told(sampler)
    assert found.unknown > 0.99 and found.verdict() is None
    assert right.mode() is Label.SAFE and right.unknown < 0.01
