"""Replaying recorded draws: the same draws, by number, and none made up."""

import pytest

from screening.engine.draws import Answer, DrawRequest, SamplerError, ScreenedText, encode_draws
from screening.samplers.recorded import RecordedSampler, Recording

TEXT = ScreenedText(text="Sunday lunch again.")


def request(first: int, count: int, variant: str = "main") -> DrawRequest:
    return DrawRequest(node="worker", text=TEXT, first=first, count=count, variant=variant)


async def test_draws_come_back_by_number_however_the_waves_fall():
    sampler = RecordedSampler({Recording(node="worker", text=TEXT): "SSU?!S"})
    whole = await sampler.draw(request(0, 6))
    parts = [*await sampler.draw(request(0, 2)), *await sampler.draw(request(2, 4))]
    assert encode_draws(whole) == encode_draws(parts) == "SSU?!S"
    assert whole[4].answer is Answer.REFUSAL


@pytest.mark.parametrize(("first", "count", "variant"), [(0, 7, "main"), (6, 1, "main"), (0, 1, "second_look")])
async def test_what_was_not_recorded_is_an_error_and_no_draw(first, count, variant):
    sampler = RecordedSampler({Recording(node="worker", text=TEXT): "SSSSSS"})
    with pytest.raises(SamplerError) as missing:
        await sampler.draw(request(first, count, variant))
    assert missing.value.kind == "not_recorded"
    assert TEXT.text not in str(missing.value)
