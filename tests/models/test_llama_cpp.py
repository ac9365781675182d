"""Log probabilities of a real llama.cpp server, held against what it answers. Only where one is named: the small models
that a test can run call unsafe texts safe, and nothing of them is wanted by default.

    SECOND_LOOK_TEST_LLAMA_CPP=http://127.0.0.1:8080 python -m pytest -n 0 -s tests/models/test_llama_cpp.py
"""

import os
import random
from math import sqrt
from statistics import mean

import httpx
import pytest

from screening.labels import LABELS
from screening.models.http import HttpModel
from screening.models.settings import ModelSettings
from screening.pipeline.draws import Answer, DrawRequest, ScreenedText
from screening.pipeline.engine import Guard, screen
from screening.pipeline.files import CRITERIA, POLICY, PromptSet, load_prompts
from tests.models.test_logprobs import one_node

SERVER = os.environ.get("SECOND_LOOK_TEST_LLAMA_CPP", "")
pytestmark = [
    pytest.mark.skipif(not SERVER, reason="no llama.cpp server is named in SECOND_LOOK_TEST_LLAMA_CPP"),
    pytest.mark.timeout(1_200),
]
SHORT = PromptSet(
    load_prompts().files
    | {"worker": "Label the record. Answer with one word: safe, unsafe or escalate.", CRITERIA: "-", POLICY: "-"}
)
TEXT = ScreenedText(text="We made soup and it was safe to eat.")
TOLD, DRAWN = 6, 30


def sampler(prompts: PromptSet) -> HttpModel:
    name = httpx.get(f"{SERVER}/v1/models", timeout=60).json()["data"][0]["id"]
    settings = ModelSettings(
        base_url=SERVER, model=name, temperature=1.0, requests_per_minute=None, call_timeout_s=300, most_unknown=0.05,
        node_deadline_s=1_000,
    )  # fmt: skip
    return HttpModel(settings, prompts, rng=random.Random(1))


def draw_batch(count: int) -> DrawRequest:
    return DrawRequest(node="worker", text=TEXT, first=0, count=count)


async def test_no_label_is_answered_more_often_than_the_server_says() -> None:
    """A label's share is that of the tokens that begin its word, so its word is answered at most as often: over 30
    answers by no more than four standard errors. What is told adds up to one.
    """
    async with sampler(SHORT) as asked:
        told = [await asked.distribution(draw_batch(1)) for _ in range(TOLD)]  # type: ignore[misc]
        draws = await asked.draw(draw_batch(DRAWN))
    for label in LABELS:
        share = mean(each.labels[label] for each in told)
        answered = sum(draw.answer is Answer.LABEL and draw.label is label for draw in draws) / DRAWN
        print(f"{label}: the server says {share:.3f}, {DRAWN} answers say {answered:.3f}")
        assert answered <= share + 4 * sqrt(max(share * (1 - share), 1 / DRAWN) / DRAWN)
    print(f"unknown: {mean(each.unknown for each in told):.3f}")
    assert all(sum(each.labels.values()) + each.unknown == pytest.approx(1) for each in told)


async def test_one_call_settles_it_or_answers_are_drawn_where_too_much_is_unknown() -> None:
    async with sampler(SHORT) as asked:
        found = await screen(TEXT, Guard(), one_node(), asked)
    (run,) = found.runs
    assert run.distribution is not None
    print(f"unknown {run.distribution.unknown:.3f}, {run.calls} calls, {found.outcome}: {found.reason}")
    assert run.read_off is (run.distribution.unknown <= 0.05)
    assert run.calls == (1 if run.read_off else len(run.draws) + 1)
    assert found.delta is None or not run.read_off
