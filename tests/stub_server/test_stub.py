"""The stub as a program, and that its documentation is true."""

import json
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

import aiohttp

from tests.stub_server import Gullible, StubPlan, StubServer

DOCUMENT = Path(__file__).parents[2] / "docs" / "model-layer.md"


def test_the_documented_plan_is_a_plan():
    text = DOCUMENT.read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    assert StubPlan.model_validate_json(example).gullible is Gullible.LITERAL


def test_it_runs_as_a_program_and_tells_its_counters():
    command = [sys.executable, "-m", "tests.stub_server", "--port", "0", "--latency", "0", "--jitter", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=DOCUMENT.parents[1]) as stub:
        try:
            url = re.search(r"http://[\d.:]+", stub.stdout.readline())[0]
            body = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "I want to die"}]}
            ask = urllib.request.Request(f"{url}/v1/messages", json.dumps(body).encode(), {"x-api-key": "hidden"})
            with urllib.request.urlopen(ask, timeout=10) as answer:
                assert json.load(answer)["content"][0]["text"] in {"safe", "unsafe", "escalate"}
            with urllib.request.urlopen(f"{url}/stub/counters", timeout=10) as counters:
                told = counters.read().decode()
        finally:
            stub.terminate()
    assert json.loads(told)["requests"] == 1 and "hidden" not in told


async def test_plans_can_be_changed_and_counters_reset_while_it_runs():
    ask = {"model": "m", "max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]}
    async with StubServer(StubPlan(weights={"safe": 1})) as stub, aiohttp.ClientSession(stub.url) as client:
        for plan, expected in (({"weights": {"unsafe": 1}}, "unsafe"), ({"weights": {"escalate": 1}}, "escalate")):
            assert (await client.post("/stub/plan", json=plan)).status == 200
            answer = await (await client.post("/v1/messages", json=ask)).json()
            assert answer["content"][0]["text"] == expected
        assert (await client.post("/stub/plan", json={"latency": 1})).status == 400
        await client.post("/stub/reset")
        assert (await (await client.get("/stub/counters")).json())["requests"] == 0


async def test_answers_to_a_text_are_the_same_whatever_else_is_asked():
    plan = StubPlan(seed=3, weights={"safe": 0.5, "unsafe": 0.5})

    async def answers(others: int) -> list[str]:
        async with StubServer(plan) as stub, aiohttp.ClientSession(stub.url) as client:
            found = []
            for number in range(10):
                for text in ["mine"] + [f"other {number}"] * others:
                    body = {"model": "m", "messages": [{"role": "user", "content": text}]}
                    answer = await (await client.post("/v1/messages", json=body)).json()
                    if text == "mine":
                        found.append(answer["content"][0]["text"])
            return found

    alone = await answers(0)
    assert alone == await answers(2) and len(set(alone)) == 2


async def test_its_own_limit_answers_429_above_the_rate():
    ask = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
    async with StubServer(StubPlan(limit_per_minute=3)) as stub, aiohttp.ClientSession(stub.url) as client:
        statuses = [(await client.post("/v1/messages", json=ask)).status for _ in range(5)]
        assert stub.counters.busiest(60.0) == 5
    assert statuses == [200, 200, 200, 429, 429]
