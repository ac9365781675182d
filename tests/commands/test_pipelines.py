"""Pipelines on the command line: listed, checked, exported, imported, and screened with."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select

from commands.__main__ import main
from jobs.agents import settings_for
from screening.pipeline.config import PipelineConfig, preset
from screening.pipeline.draws import SamplerError
from screening.pipeline.files import read_pipeline, shipped_pipelines, write_pipeline
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from storage.batches.configurations import activate, keep_version
from storage.database import Database
from storage.schema import configurations
from tests.storage.batch_of import NOW
from tests.stub_server.plan import StubPlan


def test_a_pipeline_goes_out_and_comes_in(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept, file = ["--database", f"sqlite:///{tmp_path / 'site.db'}"], tmp_path / "ours.toml"
    assert main(["pipelines", "export", "recommended", *kept]) == 0
    ours = read_pipeline(capsys.readouterr().out).model_copy(update={"name": "ours"})
    file.write_text(write_pipeline(ours))
    assert main(["pipelines", "import", str(file), *kept]) == 0 and "ours/1: kept" in capsys.readouterr().err
    assert main(["pipelines", "import", str(file), *kept]) == 0 and "ours/1: nothing differs" in capsys.readouterr().err
    assert main(["pipelines", "list", *kept]) == 0
    listed = capsys.readouterr().out.splitlines()
    shipped = ["certified", "four_agents", "paper", "recommended"]
    assert [line.split()[0] for line in listed] == [*shipped, "ours/1"]
    assert main(["pipelines", "export", "ours/1", *kept]) == 0 and read_pipeline(capsys.readouterr().out) == ours


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"nodes:\n - worker\n", "bad.toml: not TOML"),
        (b"\xff\xfe", "bad.toml: not UTF-8"),
        (write_pipeline(preset("paper")).replace('escalate = "risk"', 'escalate = "worker"').encode(), "node worker: "),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_one_sentence(
    content: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bad.toml").write_bytes(content)
    assert main(["pipelines", "check", str(tmp_path / "bad.toml")]) == 2
    said = capsys.readouterr().err
    assert words in said and said.count("\n") == 1


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
    capsys: pytest.CaptureFixture[str],
    sampler: str,
    wrong: dict[str, str],
    mended: tuple[str, str],
) -> None:
    """A model that the paid service does not have; a server that the settings do not name."""
    monkeypatch.setenv("SECOND_LOOK_SAMPLER", sampler)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    worker, risk, legal = preset("recommended").nodes
    nodes = (worker, risk.model_copy(update=wrong), legal)
    file, url = tmp_path / "ours.toml", f"sqlite:///{tmp_path / 'site.db'}"
    file.write_text(write_pipeline(preset("recommended").model_copy(update={"nodes": nodes})))
    (tmp_path / "rows.csv").write_text("id,text\n1,We walked the dog by the river.\n")
    check = ["pipelines", "check", str(file)]
    used = ["screen", str(tmp_path / "rows.csv"), "--out", str(tmp_path / "out.jsonl"), "--pipeline", str(file)]
    ((field, value),) = wrong.items()
    for refused in (check, ["pipelines", "import", str(file), "--database", url], used, [*used, "--database", url]):
        assert main(refused) == 2
        said = capsys.readouterr().err
        assert f"ours.toml: node risk, {field}: '{value}' is an unknown {field}" in said and said.count("\n") == 1
    assert main(["pipelines", "--database", url]) == 0 and "recommended/1" not in capsys.readouterr().out
    assert not (tmp_path / "out.jsonl").exists()
    monkeypatch.setenv(*mended)  # a server of one's own may serve any name
    assert main(check) == 0


def _screen(tmp_path: Path, *options: str) -> int:
    rows = tmp_path / "rows.csv"
    rows.write_text("id,text\n1,We walked the dog by the river.\n")
    return main(["screen", str(rows), "--out", str(tmp_path / "results.jsonl"), *options])


def _answered(tmp_path: Path, pipeline: PipelineConfig) -> dict[str, str]:
    """What becomes of a text that this pipeline's file screens."""
    file = tmp_path / "ours.toml"
    file.write_text(write_pipeline(pipeline))
    assert _screen(tmp_path, "--pipeline", str(file)) == 0
    (row,) = map(json.loads, (tmp_path / "results.jsonl").read_text().splitlines())
    return dict(row)


def test_each_node_asks_its_own_model_with_its_own_prompt(tmp_path: Path, stub) -> None:
    server = stub(StubPlan(weights={"escalate": 1.0}))
    first, *others = shipped_pipelines()["four_agents"].nodes
    nodes = (first, *(node.model_copy(update={"model": f"model-of-{node.name}"}) for node in others))
    row = _answered(tmp_path, shipped_pipelines()["four_agents"].model_copy(update={"nodes": nodes}))
    assert (row["outcome"], row["node"]) == ("human_review", "legal")
    asked = {body["model"]: body["system"][0]["text"].splitlines()[0] for body in server.counters.bodies}
    assert asked == {
        "claude-sonnet-4-6": "# Worker",
        "model-of-risk": "# Risk",
        "model-of-cultural_context": "# Cultural context",
        "model-of-legal": "# Legal",
    }


def test_a_node_on_another_server_is_asked_there_without_the_sites_key(
    tmp_path: Path, stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    ward = stub(StubPlan(weights={"safe": 1.0}))
    monkeypatch.setenv("SECOND_LOOK_SERVERS", json.dumps({"ward": ward.url}))
    usual = stub(StubPlan(weights={"escalate": 1.0}))
    worker, risk, legal = preset("recommended").nodes
    nodes = (worker, risk.model_copy(update={"server": "ward"}), legal)
    _answered(tmp_path, preset("recommended").model_copy(update={"nodes": nodes}))
    assert ward.counters.bodies and usual.counters.bodies
    assert not any("test-key" in str(headers) for headers in ward.counters.headers)
    monkeypatch.delenv("SECOND_LOOK_SERVERS")  # a server that went away after the pipeline was put in force
    with pytest.raises(SamplerError, match="name no server 'ward'"):
        settings_for(Settings(), nodes[1].agent)


def test_without_a_pipeline_the_one_in_force_in_the_database_screens(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path / 'site.db'}"
    with closing(Database(url)) as db:
        db.prepare()
        ours = shipped_pipelines()["recommended"].model_copy(update={"name": "ours"})
        by = LOCAL_USER.at(NOW)
        activate(db, by, "ours", keep_version(db, by, ours, "a copy", 0).number, "tried in the lab")
        for options in ((), ("--pipeline", "certified")):
            assert _screen(tmp_path, "--database", url, *options) == 0
        used = db.values(select(configurations.c.body).order_by(configurations.c.created_at))
        assert [one["pipeline"]["name"] for one in used] == ["ours", "certified"]
    assert _screen(tmp_path, "--pipeline", "nobody") == 2
    assert "there is no file and no pipeline 'nobody'" in capsys.readouterr().err
