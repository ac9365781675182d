"""A batch whose agents ask a named server is finished by that server alone, whatever the name stands for later."""

from contextlib import aclosing

import pytest
from sqlalchemy import select

from jobs.agents import Agents
from jobs.intake import configuration
from jobs.model_health import ModelHealth
from jobs.process import system_clock
from pages.site.model_panel import facts
from screening.evaluation.audit import model_words
from screening.pipeline.config import PipelineConfig, preset
from screening.pipeline.draws import SamplerError
from screening.settings import Settings
from storage.batches.batches import progress
from storage.batches.configurations import Configuration, load_configuration, save_configuration
from storage.database import Database
from storage.schema import cases, preflights, screenings
from tests.jobs.files import SENTENCES
from tests.jobs.running import batch, count, job_of
from tests.stub_server import StubPlan, StubServer

UNSAFE, SAFE = StubPlan(weights={"unsafe": 1.0}), StubPlan(weights={"safe": 1.0}, fails_probes=True)
SECRET = "hunter2"


def settings_of(url: str, protocol: str = "messages", **more: object) -> Settings:
    """The ward's server at this address; the site's own model has another, which nothing asks."""
    ward = {"url": url, "protocol": protocol}
    return Settings(  # type: ignore[arg-type]
        _env_file=None, sampler="anthropic", anthropic_api_key="k", servers={"ward": ward}, **more
    )


def at_the_ward() -> PipelineConfig:
    usual = preset("recommended")
    nodes = tuple(node.model_copy(update={"server": "ward", "model": "m"}) for node in usual.nodes)
    return PipelineConfig(name="ward", nodes=nodes)


def made_with(settings: Settings) -> Configuration:
    return configuration(settings, Agents(settings), at_the_ward())


def batch_of_two(db: Database, made: Configuration) -> tuple[str, list[str]]:
    batch_id = batch(db, [f"{SENTENCES[1]}, day {row}." for row in (1, 2)], configured=made)
    return batch_id, db.values(select(cases.c.id).order_by(cases.c.row))


async def screen(db: Database, settings: Settings, case_id: str) -> None:
    """By a worker that starts with these settings."""
    async with aclosing(Agents(settings)) as agents:
        health = ModelHealth(db=db, agents=agents, clock=system_clock)
        await job_of(db, agents, health).screen_case(case_id)


@pytest.mark.parametrize("protocol", ["messages", "chat"])
async def test_a_name_that_stands_for_another_server_pauses_the_batch(db: Database, protocol: str) -> None:
    """Another address, or another protocol at the same one."""
    async with StubServer(UNSAFE) as first, StubServer(SAFE) as second:
        began = settings_of(first.url)
        batch_id, (one, two) = batch_of_two(db, made_with(began))
        await screen(db, began, one)
        now = settings_of(second.url if protocol == "messages" else first.url, protocol)
        await screen(db, now, two)
        assert second.counters.requests == 0
        assert progress(db, batch_id).why == "configuration_changed" and count(db, screenings) == 1
        assert made_with(now).preflight_key != made_with(began).preflight_key
        await screen(db, settings_of("http://127.0.0.1:1", model="another"), two)
    assert count(db, screenings) == 1


async def test_a_batch_that_began_before_servers_were_recorded_is_finished(db: Database) -> None:
    async with StubServer(UNSAFE) as ward:
        settings = settings_of(ward.url)
        agents = Agents(settings)
        before = Configuration(pipeline=at_the_ward(), sampler=agents.describe(0))
        batch_id, ids = batch_of_two(db, before)
        for case_id in ids:
            await screen(db, settings, case_id)
    assert count(db, screenings) == 2 and progress(db, batch_id).why is None
    assert count(db, preflights) == 1


def test_two_models_behind_one_host_are_told_apart_by_a_mark_of_their_paths() -> None:
    first, second, plain = (settings_of(f"http://10.0.0.5:8080{path}") for path in ("/gpu-1", "/gpu-2/v1", "/v1/"))
    began = made_with(first)
    assert "gpu" not in repr(began) and "path" not in made_with(plain).sampler["servers"]["ward"]
    assert len({made_with(one).preflight_key for one in (first, second, plain)}) == 3
    Agents(first).sampler(began, 0)
    for other in (second, plain):
        with pytest.raises(SamplerError, match="other agents"):
            Agents(other).sampler(began, 0)
    Agents(first).sampler(made_with(plain), 0)  # kept without a path, as all were before there were marks
    assert "servers" not in configuration(first, Agents(first), preset("recommended")).sampler, "it asks none"


def test_the_record_names_host_and_protocol_and_no_secret(db: Database) -> None:
    settings = settings_of(f"http://look:{SECRET}@10.0.0.5:8080", "chat")
    made = made_with(settings)
    assert made.sampler["servers"] == {"ward": {"host": "10.0.0.5:8080", "protocol": "chat"}}
    version = save_configuration(db, made, system_clock())
    assert load_configuration(db, version) == made and made.version == version
    assert SECRET not in repr(made)
    assert dict(facts(made, settings))["Further servers"] == "ward: 10.0.0.5:8080 (chat)"
    assert "servers (ward (host 10.0.0.5:8080, protocol chat))" in model_words(made.body)
