"""What identifies a configuration: everything that changes the distribution, nothing that does not."""

from dataclasses import replace

import pytest

from screening.models.http import HttpModel, default_gate
from screening.models.settings import ModelSettings
from screening.pipeline.files import PromptSet, load_prompts
from tests.stub_server import StubPlan, StubServer

OWN = ModelSettings(base_url="http://models.example.org", api_key="k")


async def described(settings: ModelSettings, prompts: PromptSet | None = None) -> dict[str, object]:
    async with HttpModel(settings, prompts or load_prompts()) as sampler:
        return sampler.describe()


@pytest.mark.parametrize(
    "changes",
    [
        {"model": "claude-sonnet-4-5"},
        {"temperature": 0.3},
        {"base_url": "http://other.example.org"},
        {"api_version": "2026-10-21"},
        {"max_output_tokens": 12},
    ],
)
async def test_what_changes_the_distribution_changes_the_description(changes):
    assert await described(OWN) != await described(replace(OWN, **changes))


@pytest.mark.parametrize(
    "changes", [{"api_key": "another"}, {"concurrency": 1}, {"requests_per_minute": None}, {"call_timeout_s": 9.0}]
)
async def test_what_only_changes_the_pace_does_not(changes):
    assert await described(OWN) == await described(replace(OWN, **changes))


async def test_an_edited_prompt_changes_the_description():
    prompts = load_prompts()
    edited = PromptSet(dict(prompts.files) | {"risk": prompts.files["risk"] + " One word more."})
    assert await described(OWN, prompts) != await described(OWN, edited)


async def test_the_version_recorded_is_the_one_on_the_wire():
    newer = ModelSettings(model="claude-sonnet-5", temperature=None)
    assert (await described(newer))["api_version"] == "2026-10-21"
    assert (await described(ModelSettings()))["api_version"] == "2023-06-01"


async def test_a_preflight_of_its_own_closes_what_it_opened():
    async with (
        StubServer(StubPlan()) as stub,
        HttpModel(ModelSettings(base_url=stub.url, api_key="k"), load_prompts()) as model,
    ):
        assert (await model.preflight()).ok


async def test_a_shared_limiter_replaces_the_own_bucket():
    class Shared:
        asked = 0

        async def acquire(self) -> None:
            self.asked += 1

    shared = Shared()
    gate = default_gate(ModelSettings(requests_per_minute=1), shared)
    for _ in range(3):
        async with gate.slot():
            pass
    assert shared.asked == 3


@pytest.mark.parametrize(
    "changes",
    [
        {"model": " "},
        {"temperature": 2.5},
        {"concurrency": 0},
        {"requests_per_minute": -1},
        {"call_timeout_s": 0.0},
        {"base_url": "models.example.org"},
    ],
)
def test_settings_that_cannot_work_are_refused(changes):
    with pytest.raises(ValueError):
        ModelSettings(**changes)
