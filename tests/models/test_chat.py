"""The same port over OpenAI-compatible chat completions: limits, bill and retries around it, strict reading within."""

import base64
import json
from functools import partial
from typing import Any

import pytest

from screening.labels import Outcome
from screening.models.http import HttpModel
from screening.models.settings import ModelSettings
from screening.pipeline.config import preset
from screening.pipeline.draws import Bill, SamplerError, encode_draws
from screening.pipeline.engine import Guard, screen
from screening.pipeline.files import load_prompts
from tests.models.asking import TEXT, asked, draw_batch
from tests.stub_server import Fault, RawReply, StubPlan

MODEL = "llama3.1:8b"


chat = partial(asked, protocol="chat", model=MODEL)


def completion(**changes: Any) -> dict[str, Any]:
    """A whole completion that says safe, with changes to its choice or itself."""
    choice = {"index": 0, "message": {"role": "assistant", "content": "safe"}, "finish_reason": "stop"}
    whole = {"id": "{id}", "object": "chat.completion", "model": MODEL, "choices": [choice], "usage": {}}
    return whole | changes


def reply(body: dict[str, Any]) -> RawReply:
    return RawReply(base64=base64.b64encode(json.dumps(body).encode()).decode())


async def drawn(sent: dict[str, Any], count: int = 2) -> str:
    async with chat(StubPlan(raw=reply(sent))) as (_, sampler):
        return encode_draws(await sampler.draw(draw_batch(count)))


async def test_a_redirect_is_not_followed():
    async with chat(StubPlan(script=(Fault.REDIRECT,))) as (stub, sampler):
        with pytest.raises(SamplerError) as error:
            await sampler.draw(draw_batch(1))
        assert stub.counters.requests == 1
    assert (error.value.kind, error.value.stops_batch) == ("redirected", True)


async def test_a_text_is_screened_over_chat_completions():
    async with chat() as (stub, sampler):
        result = await screen(TEXT, Guard(), preset("recommended"), sampler)
        body = stub.counters.bodies[0]
    assert (result.outcome, result.calls) == (Outcome.SAFE, 11)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert (body["max_tokens"], body["top_p"], body["min_p"]) == (10, 1.0, 0.0)
    assert sampler.describe()["sampler"] == "chat"


@pytest.mark.parametrize("fault", [Fault.RATE_LIMITED, Fault.OVERLOADED, Fault.DROPPED, Fault.MALFORMED, Fault.HTML])
async def test_limits_bill_and_retries_stand_around_it(fault):
    bill = Bill()
    async with chat(StubPlan(script=(fault,))) as (stub, sampler):
        assert encode_draws(await sampler.draw(draw_batch(1, bill=bill))) == "S"
        assert (stub.counters.requests, stub.counters.retries) == (2, 1)
    assert bill.requests == (2 if fault in {Fault.MALFORMED, Fault.HTML} else 1)


def choice(**changes: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "safe"} | changes.pop("message", {})
    return completion(choices=[{"index": 0, "message": message, "finish_reason": "stop"} | changes])


@pytest.mark.parametrize(
    ("sent", "codes"),
    [
        (completion(model=[MODEL]), "##"),
        (completion(), "SS"),
        (completion(model="another"), "@@"),
        (completion(id=""), "##"),
        (completion(object="chat.completion.chunk"), "##"),
        (completion(choices=[]), "##"),
        (choice(message={"role": "user"}), "##"),
        (choice(message={"content": None}), "__"),
        (choice(message={"content": ["safe"]}), "##"),
        (choice(message={"tool_calls": [{"id": "t"}]}), "##"),
        (choice(message={"refusal": "no"}), "!!"),
        (choice(message={"reasoning_content": "hm"}), "##"),
        (choice(message={"content": "safe?"}), "??"),
        (choice(finish_reason="length"), "~~"),
        (choice(finish_reason="tool_calls"), "??"),
        (choice(finish_reason=None), "??"),
    ],
)
async def test_a_completion_counts_only_if_it_is_what_was_asked(sent, codes):
    found = await drawn(sent)
    assert found == codes


async def test_a_replayed_completion_is_one_draw():
    assert sorted(await drawn(completion(id="chatcmpl-1"), 4)) == sorted("S###")


async def test_a_server_that_is_not_there_is_an_error():
    settings = ModelSettings(protocol="chat", base_url="http://127.0.0.1:9", model=MODEL, max_retries=0)
    async with HttpModel(settings, load_prompts()) as sampler:
        with pytest.raises(SamplerError) as error:
            await sampler.draw(draw_batch(1))
    assert error.value.kind == "connection"
    with pytest.raises(ValueError, match="base URL"):
        HttpModel(ModelSettings(protocol="chat"), load_prompts())
