"""The experiment with log probabilities: one call, a distribution, and no label where it says too little."""

import math
import random

import pytest

from screening.engine.draws import Answer, DrawRequest, SamplerError, ScreenedText, Usage, encode_draws
from screening.engine.prompting import load_prompts
from screening.labels import Label
from screening.samplers.logprobs import LogprobsSampler, distribution
from screening.samplers.model_settings import ModelSettings
from tests.stub_server import Fault, StubPlan, StubServer

WORDS = {label.value: label for label in Label}
TEXT = ScreenedText(text="The tram was late again.")


def sampler_for(stub: StubServer, patience_s: float = 20.0) -> LogprobsSampler:
    settings = ModelSettings(base_url=stub.url, model="llama3.1:8b", temperature=None, call_timeout_s=patience_s)
    return LogprobsSampler(settings, load_prompts(), random.Random(1))


def wave(count: int, variant: str = "main") -> DrawRequest:
    return DrawRequest(node="worker", text=TEXT, first=0, count=count, variant=variant)


@pytest.mark.parametrize("variant", ["main", "second_look"])
async def test_one_call_gives_the_distribution_that_the_stub_samples_from(variant):
    plan = StubPlan(weights={"safe": 0.7, "unsafe": 0.2, "escalate": 0.04, "I think": 0.06})
    async with StubServer(plan) as stub, sampler_for(stub) as sampler:
        found = await sampler.distribution(wave(1, variant))
        draws = await sampler.draw(wave(400, variant))
        assert stub.counters.requests == 2
    expected = {Label.SAFE: 0.7, Label.UNSAFE: 0.2, Label.ESCALATE: 0.04}
    assert found.labels == pytest.approx(expected) and found.unknown == pytest.approx(0.06)
    assert found.mode() is Label.SAFE
    codes = encode_draws(draws)
    assert 0.6 < codes.count("S") / 400 < 0.8 and "?" in codes
    assert draws[0].usage.input_tokens > 0 and draws[1].usage.input_tokens == 0


def test_the_unknown_part_can_hide_the_mode():
    from_tokens = [("safe", math.log(0.4)), ("un", math.log(0.3))]
    found = distribution(from_tokens, WORDS, 1.0, usage=Usage())
    assert found.unknown == pytest.approx(0.3)
    assert found.mode() is None


def test_a_lower_temperature_sharpens_what_is_known():
    # 0.6 : 0.2 at temperature ½ is 0.36 : 0.04, so 0.9 and 0.1 of the known 0.8.
    found = distribution([("safe", math.log(0.6)), ("un", math.log(0.2))], WORDS, 0.5, usage=Usage())
    assert found.labels[Label.SAFE] == pytest.approx(0.72)
    assert found.labels[Label.UNSAFE] == pytest.approx(0.08)
    assert found.unknown == pytest.approx(0.2)


def test_no_tokens_are_no_label():
    found = distribution([], WORDS, 1.0, usage=Usage())
    assert found.unknown == 1.0 and found.mode() is None


async def test_an_answer_outside_the_labels_is_an_unparsable_draw():
    async with StubServer(StubPlan(weights={"Well": 1.0})) as stub, sampler_for(stub) as sampler:
        (draw,) = await sampler.draw(wave(1))
    assert (draw.label, draw.answer) == (Label.ESCALATE, Answer.UNPARSABLE)


@pytest.mark.parametrize("fault", [Fault.OVERLOADED, Fault.DROPPED, Fault.HANG, Fault.MALFORMED, Fault.WRONG_SHAPE])
async def test_a_fault_is_an_error_and_no_draw(fault):
    async with StubServer(StubPlan(script=(fault,), hang_s=60.0)) as stub, sampler_for(stub, 2.0) as sampler:
        with pytest.raises(SamplerError) as error:
            await sampler.draw(wave(2))
    assert TEXT.text not in str(error.value)


def test_the_service_itself_offers_no_log_probabilities():
    with pytest.raises(ValueError, match="base URL"):
        LogprobsSampler(ModelSettings(), load_prompts(), random.Random(1))
