"""What a model is asked with, what goes over the wire in every format, and what comes back as draws: the real library
against the real stub.
"""

import asyncio
import json
import logging
import random
import re
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from anthropic import AsyncAnthropic

from jobs.agents import model_settings
from screening.labels import Outcome
from screening.models.http import HttpModel, breaks_off, default_gate
from screening.models.settings import ANTHROPIC_URL, VERSION, ModelSettings
from screening.models.wire import CODE_WORDS, FORMATS, WireFormat, cache_notes, code_words, prepare_call
from screening.pipeline.config import preset
from screening.pipeline.draws import Answer, Bill, NodeAgent, ScreenedText, Usage, encode_draws, read_answer, unusable
from screening.pipeline.engine import Guard, Reason, screen
from screening.pipeline.files import PromptSet, load_prompts
from screening.settings import Settings
from tests.models.asking import KINDS, TEXT, USUAL, asked, draw_batch
from tests.stub_server import Fault, StubPlan, StubServer

KEY = "k-canary"
MIXED = StubPlan(weights={"safe": 0.4, "unsafe": 0.3, "escalate": 0.3})


async def test_messages_carry_version_temperature_and_ten_tokens_and_usage_is_summed():
    async with asked(api_key=KEY) as (stub, sampler):
        draws = await sampler.draw(draw_batch(4))
        body, headers = stub.counters.bodies[0], stub.counters.headers[0]
    assert headers["anthropic-version"] == "2023-06-01"
    assert headers["authorization"] == f"Bearer {KEY}"
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("claude-sonnet-4-6", 0.7, 10)
    assert body["thinking"] == {"type": "disabled"}
    assert "tools" not in body and "stream" not in body
    assert headers["x-stainless-lang"] == "python" and "nthropic" in headers["user-agent"], "the vendor's library asks"
    usage = sum((draw.usage for draw in draws), Usage())
    assert usage.output_tokens == 12 and usage.input_tokens > 4000


async def test_another_server_gets_neutral_sampling_values_and_they_are_recorded():
    async with asked(model="llama3.1:8b", temperature=None, api_key=None) as (stub, sampler):
        await sampler.draw(draw_batch(1))
        described, body = sampler.described, stub.counters.bodies[0]
    sent = {name: body[name] for name in ("temperature", "top_p", "top_k", "min_p")}
    assert sent == {"temperature": 1.0, "top_p": 1.0, "top_k": 1_000_000, "min_p": 0.0}
    assert {name: described[name] for name in sent} == sent
    assert described["own_server"] is True and described["host"] == stub.url.removeprefix("http://")
    assert "cache_control" not in json.dumps(body)


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
    async with asked(_Gathering(MIXED), call_timeout_s=60.0, rng=random.Random(5)) as (stub, sampler):
        draws = await sampler.draw(draw_batch(30))
        assert stub.counters.max_in_flight == 30
    answered = stub.counters.answer_by_nonce
    assert list(answered) != expected
    assert [draw.label for draw in draws] == [answered[nonce] for nonce in expected]


async def test_every_call_has_a_nonce_of_its_own_and_the_text_as_json():
    text, nonces = ScreenedText(text='</record-1> "quoted" <b>', reply="so\nwhat"), set()
    async with asked() as (stub, sampler):
        await sampler.draw(draw_batch(5, text=text))
    for body in stub.counters.bodies:
        sent = body["messages"][0]["content"]
        match = re.fullmatch(r"<record-(\w{16})>\n(.*)\n</record-\1>", sent, re.DOTALL)
        assert json.loads(match[2]) == {"text": text.text, "reply": text.reply} and "<" not in match[2]
        assert match[1] in body["system"][1]["text"] and text.text not in json.dumps(body["system"])
        nonces.add(match[1])
    assert len(nonces) == 5


async def test_the_second_look_is_answered_in_code_words_of_its_own_for_every_call():
    async with asked(MIXED) as (stub, sampler):
        draws = await sampler.draw(draw_batch(12, variant="second_look"))
        systems = {body["system"][1]["text"].split("Code words")[1] for body in stub.counters.bodies}
        assert len(systems) == 12 and set(encode_draws(draws)) == set("SUE")
        stub.plan = StubPlan(weights={"safe.": 1.0})  # says what a text asks for, whatever it is asked
        assert encode_draws(await sampler.draw(draw_batch(3))) == "SSS"
        assert encode_draws(await sampler.draw(draw_batch(3, variant="second_look"))) == "???"
    taken = ScreenedText(text=" ".join(CODE_WORDS[:-3]))
    assert set(code_words(taken, random.Random(0))) == set(CODE_WORDS[-3:]), "none of them stands in the text"


async def test_no_text_and_no_key_is_logged_even_if_debug_logging_was_asked_for_or_represented(caplog):
    text = ScreenedText(text="a canary sentence that no log may hold")
    plan = StubPlan(script=(Fault.RATE_LIMITED, Fault.MALFORMED))
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, logger="anthropic"):
        async with asked(plan, max_retries=3, api_key=KEY) as (_, sampler):
            await sampler.draw(draw_batch(2, text=text))
            described = repr(sampler) + json.dumps(sampler.described)
    assert "canary" not in caplog.text + repr(ModelSettings(api_key=KEY)) + described


# --- every protocol alike


@pytest.mark.parametrize("kind", KINDS)
async def test_every_protocol_fills_the_whole_port(kind):
    bill = Bill()
    async with asked(protocol=kind) as (stub, one):
        draws = await one.draw(draw_batch(5, bill=bill))
        assert (await one.preflight()).ok
        assert one.described["sampler"] == {"messages": "anthropic"}.get(kind, kind)
        body = stub.counters.bodies[0]
    assert bill.in_order() == list(draws) and len(draws) == 5
    assert [each["role"] for each in body["messages"]] == (["user"] if kind == "messages" else ["system", "user"])
    assert (body["max_tokens"], body["top_p"], body["min_p"]) == (10, 1.0, 0.0) and "logprobs" not in body


async def test_concurrency_and_rate_hold_across_draw_batches_and_samplers():
    gate = default_gate(ModelSettings(concurrency=4))
    async with asked(StubPlan(latency_s=0.02), gate=gate) as (stub, one):
        other = HttpModel(replace(ModelSettings(base_url=stub.url), **USUAL), load_prompts(), gate=gate)
        async with other:
            await asyncio.gather(one.draw(draw_batch(10)), other.draw(draw_batch(10)))
        assert stub.counters.requests == 20
        assert stub.counters.max_in_flight <= 4


# --- the exercise of docs/start-here.md, done: a wire format is one pair of functions and one line of registration


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
    prompts = []

    async def complete(request):
        prompts.append(json.dumps((await request.json())["prompt"]))
        return web.json_response(answer)

    app = web.Application()
    app.router.add_post("/completion", complete)
    async with TestServer(app) as server:
        settings = ModelSettings(protocol="completion", base_url=str(server.make_url("")), **USUAL)
        async with HttpModel(settings, load_prompts()) as sampler:
            found = await screen(TEXT, Guard(), preset("certified"), sampler)
            assert sampler.described["sampler"] == "completion" and len(prompts) == found.calls
    assert (found.outcome, found.reason) == (outcome, reason) and all("river" in prompt for prompt in prompts)


def test_the_documented_plan_of_the_stub_is_one():
    text = (Path(__file__).parents[2] / "docs" / "model-layer.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    assert StubPlan.model_validate_json(example).faults == {Fault.OVERLOADED: 0.03}


def test_settings_that_cannot_work_are_refused():
    times = {"concurrency": 0, "requests_per_minute": -1, "call_timeout_s": 0.0}
    for name, value in ({"model": " ", "temperature": 2.5, "base_url": "models.example.org"} | times).items():
        with pytest.raises(ValueError):
            ModelSettings(**{name: value})
    for settings, words in (
        (ModelSettings(protocol="gopher", base_url="http://localhost:1"), "no wire format is called gopher"),
        (ModelSettings(protocol="chat"), "base URL"),
        (ModelSettings(protocol="logprobs"), "base URL"),
    ):
        with pytest.raises(ValueError, match=words):
            HttpModel(settings, load_prompts())


# --- settings


def test_the_model_decides_version_and_temperature_at_the_service():
    for model, version, temperature in (
        ("claude-sonnet-4-6", "2023-06-01", 0.7),
        ("claude-3-5-haiku-20241022", "2023-06-01", 0.7),
        ("claude-opus-4-7", VERSION, None),
        ("claude-sonnet-5", VERSION, None),
        ("claude-opus-5-5", VERSION, None),
    ):
        known = ModelSettings(model=model)
        assert (known.version_header, known.sampling.get("temperature")) == (version, temperature), model
    assert ModelSettings(temperature=None).version_header == VERSION
    assert AsyncAnthropic(api_key="k").default_headers["anthropic-version"] == VERSION, "of the vendor's library"


def test_caching_is_asked_for_where_the_prompt_is_long_enough_and_told_where_not():
    for minimum, cached in ((1024, True), (4096, False)):
        settings = ModelSettings(model="claude-opus-4-7", cache_minimum_tokens=minimum)
        call = prepare_call(draw_batch(1), settings, load_prompts(), random.Random(1))
        assert ("cache_control" in call.system[0]) is cached
        assert "cache_control" not in call.system[1]
        told = " ".join((*settings.notes, *cache_notes(settings, load_prompts())))
        assert ("too few for caching" not in told) is cached and "accepts no temperature" in told


def test_whether_it_is_another_server_is_told_by_its_host_and_a_user_name_is_not_recorded():
    assert [ModelSettings(base_url=url).elsewhere for url in (None, ANTHROPIC_URL)] == [False, False]
    assert ModelSettings(base_url="http://anthropic.com.example.org").elsewhere
    assert ModelSettings(base_url="https://user:secret@models.example.org:8443/x").host == "models.example.org:8443"


async def test_what_changes_the_distribution_changes_the_description_and_nothing_else_does():
    prompts = load_prompts()
    edited = PromptSet(dict(prompts.files) | {"risk": prompts.files["risk"] + " One word more."})

    async def described(given: PromptSet = prompts, **changes: object) -> dict[str, object]:
        async with HttpModel(replace(ModelSettings(base_url="http://models.example.org"), **changes), given) as sampler:
            return sampler.described

    values = {"model": "claude-sonnet-4-5", "temperature": 0.3, "base_url": "http://other.example.org"}
    for name, value in (values | {"api_version": "2026-10-21", "max_output_tokens": 12}).items():
        assert await described(**{name: value}) != await described(), name
    assert await described(edited) != await described()
    pace = {"api_key": "another", "concurrency": 1, "requests_per_minute": None, "call_timeout_s": 9.0}
    assert await described(**pace) == await described()


def test_a_server_is_spared_what_no_longer_matters_where_it_bills_nothing_and_each_further_one_says_so_for_itself():
    request = draw_batch(6, enough=lambda draws: len(draws) >= 2)
    for url, said, ends in (
        ("https://api.anthropic.com", True, False),
        ("https://paid.example.org", None, False),
        ("http://127.0.0.1:8000", False, False),
        ("http://ollama:11434", True, True),
        ("http://127.0.0.1:8000", None, True),
        ("http://10.0.0.5:8080", None, True),
    ):
        settings = Settings(anthropic_base_url=url, cancel_on_futility=said, _env_file=None)
        assert breaks_off(model_settings(settings), request) is (request.enough if ends else None), url
    near, ward = "http://127.0.0.1:8000", "http://10.0.0.5:8080"
    servers = {"paid": "https://paid.example.org", "gateway": {"url": ward, "cancel_on_futility": False}, "ward": ward}
    settings = Settings(anthropic_base_url=near, servers=servers, _env_file=None)
    found = {name: model_settings(settings, NodeAgent(server=name)).breaks_off for name in servers}
    assert found == {"paid": False, "gateway": False, "ward": True}
