"""Pipelines on the command line: listed, checked, exported, imported, and screened with."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from jobs.agents import settings_for
from screening.pipeline.config import PipelineConfig, preset
from screening.pipeline.draws import SamplerError
from screening.pipeline.files import read_pipeline, shipped_pipelines, write_pipeline
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from storage.batches.configurations import activate, keep_version
from storage.database import Database
from storage.schema import configurations
from tests.commands.conftest import Run, Said, StartStub
from tests.storage.batch_of import NOW
from tests.stub_server import StubPlan


def test_a_pipeline_goes_out_and_comes_in(tmp_path: Path, run: Run) -> None:
    kept, file = ["--database", f"sqlite:///{tmp_path / 'site.db'}"], tmp_path / "ours.toml"
    ours = read_pipeline(run("pipelines", "export", "recommended", *kept).out).model_copy(update={"name": "ours"})
    file.write_text(write_pipeline(ours))
    for words in ("ours/1: kept", "ours/1: nothing differs"):
        said = run("pipelines", "import", file, *kept)
        assert said.code == 0 and words in said.err
    listed = [line.split()[0] for line in run("pipelines", "list", *kept).out.splitlines()]
    assert listed == ["certified", "four_agents", "paper", "recommended", "ours/1"]
    assert read_pipeline(run("pipelines", "export", "ours/1", *kept).out) == ours


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"nodes:\n - worker\n", "bad.toml: not TOML"),
        (b"\xff\xfe", "bad.toml: not UTF-8"),
        (write_pipeline(preset("paper")).replace('escalate = "risk"', 'escalate = "worker"').encode(), "node worker: "),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(
    content: bytes, words: str, tmp_path: Path, run: Run
) -> None:
    (tmp_path / "bad.toml").write_bytes(content)
    said = run("pipelines", "check", tmp_path / "bad.toml")
    assert said.code == 2 and words in said.err and said.err.count("\n") == 1


def _with_nodes(name: str, **changes: dict[str, str]) -> PipelineConfig:
    """The shipped pipeline of this name with changes to its nodes."""
    pipeline = shipped_pipelines()[name]
    nodes = tuple(node.model_copy(update=changes.get(node.name, {})) for node in pipeline.nodes)
    return pipeline.model_copy(update={"name": "ours", "nodes": nodes})


def _screened(run: Run, folder: Path, *options: object, pipeline: PipelineConfig | None = None) -> Said:
    (folder / "rows.csv").write_text("id,text\n1,We walked the dog by the river.\n")
    if pipeline is not None:
        (folder / "ours.toml").write_text(write_pipeline(pipeline))
        options = (*options, "--pipeline", folder / "ours.toml")
    return run("screen", folder / "rows.csv", "--out", folder / "results.jsonl", *options)


@pytest.mark.parametrize(
    ("sampler", "wrong", "mended"),
    [
        ("anthropic", {"model": "claude-hiaku-4-5"}, ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")),
        ("simulated", {"server": "ward"}, ("SECOND_LOOK_SERVERS", '{"ward": "http://127.0.0.1:9"}')),
    ],
)
def test_what_a_node_names_and_there_is_not_is_refused_by_every_command_that_takes_a_pipeline(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
    sampler: str,
    wrong: dict[str, str],
    mended: tuple[str, str],
) -> None:
    """A model that the paid service does not have; a server that the settings do not name."""
    monkeypatch.setenv("SECOND_LOOK_SAMPLER", sampler)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    file, kept = tmp_path / "ours.toml", ("--database", f"sqlite:///{tmp_path / 'site.db'}")
    ours = _with_nodes("recommended", risk=wrong)
    ((field, value),) = wrong.items()
    for said in (
        _screened(run, tmp_path, pipeline=ours),
        _screened(run, tmp_path, *kept, pipeline=ours),
        run("pipelines", "check", file),
        run("pipelines", "import", file, *kept),
    ):
        assert said.code == 2 and said.err.count("\n") == 1
        assert f"ours.toml: node risk, {field}: '{value}' is an unknown {field}" in said.err
    assert "recommended/1" not in run("pipelines", *kept).out
    assert not (tmp_path / "results.jsonl").exists()
    monkeypatch.setenv(*mended)  # a server of one's own may serve any name
    assert run("pipelines", "check", file).code == 0


def test_each_node_asks_its_own_model_with_its_own_prompt_and_another_server_without_the_sites_key(
    tmp_path: Path, stub: StartStub, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ward = stub(StubPlan(weights={"escalate": 1.0}))
    monkeypatch.setenv("SECOND_LOOK_SERVERS", json.dumps({"ward": ward.url}))
    usual, changes = (
        stub(StubPlan(weights={"escalate": 1.0})),
        {"risk": {"server": "ward"}, "legal": {"model": "other"}},
    )
    ours = _with_nodes("recommended", **changes)
    assert _screened(run, tmp_path, pipeline=ours).code == 0
    row = json.loads((tmp_path / "results.jsonl").read_text())
    assert (row["outcome"], row["node"]) == ("human_review", "legal")
    asked = [{(body["model"], _first_line(body)) for body in each.counters.bodies} for each in (usual, ward)]
    assert asked == [{("claude-sonnet-4-6", "# Worker"), ("other", "# Legal")}, {("claude-sonnet-4-6", "# Risk")}]
    assert not any("test-key" in str(headers) for headers in ward.counters.headers)
    monkeypatch.delenv("SECOND_LOOK_SERVERS")  # a server that went away after the pipeline was put in force
    with pytest.raises(SamplerError, match="name no server 'ward'"):
        settings_for(Settings(), ours.nodes[1].agent)


def _first_line(body: dict[str, Any]) -> str:
    return str(body["system"][0]["text"].splitlines()[0])


def test_without_a_pipeline_the_one_in_force_in_the_database_screens(tmp_path: Path, run: Run) -> None:
    url = f"sqlite:///{tmp_path / 'site.db'}"
    with closing(Database(url)) as db:
        db.prepare()
        ours, by = _with_nodes("recommended"), LOCAL_USER.at(NOW)
        activate(db, by, "ours", keep_version(db, by, ours, "a copy", 0).number, "tried in the lab")
        for options in ((), ("--pipeline", "certified")):
            assert _screened(run, tmp_path, "--database", url, *options).code == 0
        used = db.values(select(configurations.c.body).order_by(configurations.c.created_at))
        assert [one["pipeline"]["name"] for one in used] == ["ours", "certified"]
    said = _screened(run, tmp_path, "--pipeline", "nobody")
    assert said.code == 2 and "there is no file and no pipeline 'nobody'" in said.err
