"""A draw batch to a server that bills nothing ends as soon as its first answers leave nothing to be identified."""

import asyncio
import time
from collections.abc import Sequence

import pytest

from jobs.agents import model_settings, settings_for
from screening.labels import Outcome
from screening.models.http import breaks_off
from screening.pipeline.config import chain
from screening.pipeline.draws import Draw, DrawRequest, NodeAgent, decode_draws, encode_draws
from screening.pipeline.engine import Guard, Reason, screen
from screening.settings import Settings
from screening.stopping.rules import PairwiseMixture
from tests.models.asking import TEXT, asked, draw_batch
from tests.stub_server import Fault, StubPlan

SIX = chain("six", PairwiseMixture.symmetric(0.05, 6), "human_review")
"""A label takes six draws of six, so two different answers settle that nothing can be said."""


async def test_calls_under_way_are_broken_off_and_those_behind_them_are_not_made() -> None:
    """One call at a time; safe and unsafe come before the calls that would hang for a minute."""
    plan = StubPlan(weights={"safe": 1.0, "unsafe": 1.0}, seed=4, script=(None, None, None, *[Fault.HANG] * 9))
    async with asked(plan, protocol="chat", model="m", concurrency=1, breaks_off=True) as (stub, sampler):
        begun = time.monotonic()
        result = await asyncio.wait_for(screen(TEXT, Guard(), SIX, sampler), timeout=20)
        requests = stub.counters.requests
    assert (result.outcome, result.reason) == (Outcome.HUMAN_REVIEW, Reason.FUTILITY)
    assert 2 <= result.calls <= 3 and requests <= 4 and time.monotonic() - begun < 20
    assert {"S", "U"} <= set(encode_draws(result.runs[0].draws))


def test_a_draw_batch_of_a_service_is_left_to_finish_because_it_bills_what_was_asked() -> None:
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


def test_each_further_server_says_for_itself_whether_it_bills() -> None:
    """The usual server bills nothing; that says nothing of the others."""
    near, ward = "http://127.0.0.1:8000", "http://10.0.0.5:8080"
    servers = {"paid": "https://paid.example.org", "gateway": {"url": ward, "cancel_on_futility": False}, "ward": ward}
    settings = Settings(anthropic_base_url=near, servers=servers, _env_file=None)
    found = {name: settings_for(settings, NodeAgent(server=name)).breaks_off for name in servers}
    assert found == {"paid": False, "gateway": False, "ward": True}


class _Short:
    """Gives so many draws of every draw batch."""

    def __init__(self, codes: str) -> None:
        self.codes = codes

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        return decode_draws(self.codes)[: request.count]


async def test_a_short_draw_batch_is_taken_only_where_nothing_is_left_to_be_identified() -> None:
    assert (await screen(TEXT, Guard(), SIX, _Short("SU"))).calls == 2
    with pytest.raises(ValueError, match="the first that are enough"):
        await screen(TEXT, Guard(), SIX, _Short("SSS"))
