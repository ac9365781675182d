"""The exercise of docs/start-here.md, done: a wire format is one pair of functions and one line of registration."""

import json

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from screening.labels import Outcome
from screening.models.http import HttpModel
from screening.models.settings import ModelSettings
from screening.models.wire import FORMATS, WireFormat
from screening.pipeline.config import preset
from screening.pipeline.draws import Answer, ScreenedText, Usage, read_answer, unusable
from screening.pipeline.engine import Guard, Reason, screen
from screening.pipeline.files import load_prompts


def write(call, settings):
    return {"prompt": f"{call.system[0]['text']}\n\n{call.user}", "n_predict": settings.max_output_tokens}


def read(reply, expected):
    if set(reply) != {"content", "stop"} or not isinstance(reply["content"], str):
        return unusable(Answer.MISSHAPEN)
    return read_answer(reply["content"], "end_turn" if reply["stop"] is True else None, Usage(), expected.words)


@pytest.mark.parametrize(
    ("answer", "outcome", "reason"),
    [
        ({"content": " unsafe\n", "stop": True}, Outcome.UNSAFE, Reason.IDENTIFIED),
        ({"content": "safe", "stop": False}, Outcome.HUMAN_REVIEW, Reason.NO_ANSWER),
        ({"content": "safe", "stop": True, "more": 1}, Outcome.HUMAN_REVIEW, Reason.NO_ANSWER),
    ],
)
async def test_a_format_of_two_functions_screens_a_text_and_nothing_odd_is_safe(monkeypatch, answer, outcome, reason):
    monkeypatch.setitem(FORMATS, "completion", WireFormat(path="/completion", write=write, read=read))
    asked = []

    async def complete(request):
        asked.append(await request.json())
        return web.json_response(answer)

    app = web.Application()
    app.router.add_post("/completion", complete)
    async with TestServer(app) as server:
        settings = ModelSettings(
            protocol="completion", base_url=str(server.make_url("")), model="m", requests_per_minute=None, max_retries=0
        )
        async with HttpModel(settings, load_prompts()) as sampler:
            found = await screen(ScreenedText(text="We walked by the river."), Guard(), preset("certified"), sampler)
            assert sampler.describe()["sampler"] == "completion" and len(asked) == found.calls
    assert (found.outcome, found.reason) == (outcome, reason)
    assert all("river" in json.dumps(one["prompt"]) for one in asked)


def test_an_unknown_format_is_refused():
    with pytest.raises(ValueError, match="no wire format is called gopher"):
        HttpModel(ModelSettings(protocol="gopher", base_url="http://localhost:1"), load_prompts())
