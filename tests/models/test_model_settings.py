"""What a model is asked with, what identifies it, and what its settings say or refuse."""

import random
from dataclasses import replace

import pytest
from anthropic import AsyncAnthropic

from jobs.agents import model_settings, settings_for
from screening.models.http import HttpModel, breaks_off
from screening.models.settings import ANTHROPIC_URL, VERSION, ModelSettings
from screening.models.wire import cache_notes, prepare_call
from screening.pipeline.draws import NodeAgent
from screening.pipeline.files import PromptSet, load_prompts
from screening.settings import Settings
from tests.models.asking import draw_batch

OWN = ModelSettings(base_url="http://models.example.org", api_key="k")


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
        async with HttpModel(replace(OWN, **changes), given) as sampler:
            return sampler.describe()

    for name, value in {
        "model": "claude-sonnet-4-5",
        "temperature": 0.3,
        "base_url": "http://other.example.org",
        "api_version": "2026-10-21",
        "max_output_tokens": 12,
    }.items():
        assert await described(**{name: value}) != await described(), name
    assert await described(edited) != await described()
    pace = {"api_key": "another", "concurrency": 1, "requests_per_minute": None, "call_timeout_s": 9.0}
    assert await described(**pace) == await described()


def test_settings_that_cannot_work_are_refused():
    for name, value in {
        "model": " ",
        "temperature": 2.5,
        "concurrency": 0,
        "requests_per_minute": -1,
        "call_timeout_s": 0.0,
        "base_url": "models.example.org",
    }.items():
        with pytest.raises(ValueError):
            ModelSettings(**{name: value})


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
