"""Commands of whoever runs a site: settings, erasure, retention, the audit log, pipelines; and a database away."""

import json
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import select, update

import worker
from jobs.agents import model_settings
from screening.pipeline.config import PipelineConfig, preset
from screening.pipeline.draws import SamplerError
from screening.pipeline.files import read_pipeline, shipped_pipelines, write_pipeline
from screening.review.policy import LOCAL_USER, Action
from screening.settings import Settings
from storage.audit_log import record_refusal
from storage.batches.configurations import activate, keep_version
from storage.database import Database
from storage.review.evidence import reveal_text
from storage.schema import ERASED, audit_events, configurations
from storage.settings_store import SiteSettings, change, start, stop
from tests.commands.conftest import Run, Said, StartStub
from tests.databases import write
from tests.storage.batch_of import NOW, batch, decide, waiting
from tests.stub_server import StubPlan

NOBODY = "postgresql://user:a-secret@127.0.0.1:1/second_look"


@pytest.fixture
def site(sqlite_url: str) -> tuple[str, str]:
    with closing(Database(sqlite_url)) as db:
        batch(db, ["one text"])
        (case_id,) = waiting(db)
        decide(db, case_id)
    return sqlite_url, case_id


def _set(url: str, settings: SiteSettings) -> None:
    with closing(Database(url)) as db:
        change(db, LOCAL_USER.at(NOW), settings, 0)


def _text(url: str, case_id: str) -> str:
    with closing(Database(url)) as db:
        return reveal_text(db, LOCAL_USER.at(NOW), case_id).text


def test_look_then_erase_by_one_name_alone(site: tuple[str, str], run: Run) -> None:
    erase = ("erase", "--database", site[0])
    for named in ([], ["--case", "a", "--group", "b"]):
        assert run(*erase, *named).code == 2 and _text(*site) == "one text"
    found = run(*erase, "--external-id", "p1", "--dry-run").report
    assert (found["erased"], found["cases"], _text(*site)) == (False, 1, "one text")
    said = run(*erase, "--external-id", "p1", "--reason", "letter")
    assert (said.code, said.report["erased"], said.report["backups_that_may_still_hold_it"]) == (0, True, [])
    assert _text(*site) == ERASED
    said = run(*erase, "--external-id", "p1", "--reason", "letter")
    assert said.code == 2 and "nothing of this name" in said.err


def test_two_people_means_exit_code_3(site: tuple[str, str], run: Run) -> None:
    _set(site[0], SiteSettings(erasure_by_two=True))
    said = run("erase", "--database", site[0], "--case", site[1], "--reason", "letter")
    assert (said.code, said.report["erased"], _text(*site)) == (3, False, "one text")
    said = run("erase", "--database", site[0], "--confirm", said.report["waits_for"])
    assert said.code == 2 and "somebody else" in said.err


def test_retention_says_what_goes_and_does_it(site: tuple[str, str], run: Run) -> None:
    retention = ("retention", "--database", site[0])
    assert run(*retention).report == {"dry_run": False, "gone": {}}
    _set(site[0], SiteSettings(keep_texts_days=1))
    assert (run(*retention, "--dry-run").report["gone"], _text(*site)) == ({"texts": 1}, "one text")
    assert (run(*retention).report["gone"], _text(*site)) == ({"texts": 1}, ERASED)


def test_a_whole_log_is_proven_by_an_anchor_alone_which_also_finds_a_cut_off_end_and_a_changed_event_is_named(
    sqlite_url: str, tmp_path: Path, run: Run
) -> None:
    verify, kept = ("verify-audit", "--database", sqlite_url), str(tmp_path / "anchor.json")
    with closing(Database(sqlite_url)) as db:
        for does in (stop, start, stop, start):
            does(db, LOCAL_USER.at(NOW))
        record_refusal(db, LOCAL_USER.at(NOW), Action.ERASE)  # names no row, so that nothing else tells of it
        code, *_ = said = run(*verify, "--write-anchor", kept)
        found = said.report
        assert (code, found["verdict"], found["events"], found["anchors"]) == (3, "not proven", 5, 0)
        assert run(*verify, "--anchor", kept).code == 0, "whole, and proven to be"
        write(db, audit_events.delete().where(audit_events.c.seq == 5))
        assert run(*verify).code == 3
        said = run(*verify, "--anchor", kept)
        assert said.code == 1 and "cut off" in said.report["problem"]
        write(db, update(audit_events).where(audit_events.c.seq == 2).values(details="{}"))
        said = run(*verify)
        assert (said.code, said.report["event"], said.report["problem"]) == (1, 2, "was changed")
    (tmp_path / "not.json").write_text("{}")
    assert run("verify-audit", "--anchor", tmp_path / "not.json").code == 2
    assert run("verify-audit", "--database", f"sqlite:///{tmp_path}/none.db").code == 2
    assert not (tmp_path / "none.db").exists(), "what is not there is not called whole"


def test_every_option_has_a_row_and_a_sentence_and_no_key_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret")
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:password@host/name")
    said = run("settings").out
    rows = [line.split(" | ") for line in said.splitlines()[2:]]
    assert len(rows) == len(Settings.model_fields) and all(len(row) == 4 and len(row[3]) > 10 for row in rows)
    assert {row[0] for row in rows if row[2].strip() == "yes"} >= {"| `ANTHROPIC_API_KEY`", "| `DATABASE_URL`"}
    assert "sk-secret" not in said and "me:password@host" not in said


def test_where_the_database_is_away_each_ends_with_a_sentence(
    run: Run, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("DATABASE_URL", NOBODY)
    for words in (["batches"], ["verify-audit"], ["retention"], ["pipelines", "list"], ["api"]):
        said = run(*words)
        assert said.code == 2, "1 is what a changed audit log ends with"
        assert said.err == "python -m screening: nothing more was done: the database is away\n"
    monkeypatch.setattr("jobs.process.set_up_log", lambda _format: None)
    caplog.clear()
    for ends in (worker.main, worker.alive):
        with pytest.raises(SystemExit, match="1"):
            ends()
    assert [one.getMessage() for one in caplog.records] == 2 * ["the database is away"]


def test_an_address_that_cannot_be_read_is_refused_without_a_part_of_it() -> None:
    for url in ("second_look", "postgresql://user:p@a-:secret/rd@127.0.0.1/second_look"):
        with pytest.raises(ValueError, match="no address of a database") as refused:
            Database(url)
        assert "secret" not in str(refused.value) and "a-" not in str(refused.value)


# `pipelines`: listed, checked, exported, imported, and screened with.


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
    file.write_text(write_pipeline(preset("paper")).replace('escalate = "risk"', 'escalate = "worker"'))
    said = run("pipelines", "check", file)
    assert said.code == 2 and "node worker: " in said.err and said.err.count("\n") == 1


def _with_nodes(name: str, **changes: dict[str, str]) -> PipelineConfig:
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
    ("sampler", "named", "mended"),
    [
        ("anthropic", ("model", "claude-hiaku-4-5"), ("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")),
        ("simulated", ("server", "ward"), ("SECOND_LOOK_SERVERS", '{"ward": "http://127.0.0.1:9"}')),
    ],
)
def test_what_a_node_names_and_there_is_not_is_refused_by_every_command_that_takes_a_pipeline(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
    sampler: str,
    named: tuple[str, str],
    mended: tuple[str, str],
) -> None:
    """A model that the paid service does not have; a server that the settings do not name."""
    monkeypatch.setenv("SECOND_LOOK_SAMPLER", sampler)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)
    file, kept = tmp_path / "ours.toml", ("--database", f"sqlite:///{tmp_path / 'site.db'}")
    field, value = named
    ours = _with_nodes("recommended", risk={field: value})
    for said in (
        _screened(run, tmp_path, *kept, pipeline=ours),
        run("pipelines", "check", file),
        run("pipelines", "import", file, *kept),
    ):
        assert said.code == 2 and said.err.count("\n") == 1
        assert f"ours.toml: node risk, {field}: '{value}' is an unknown {field}" in said.err
    assert "recommended/1" not in run("pipelines", *kept).out and not (tmp_path / "results.jsonl").exists()
    monkeypatch.setenv(*mended)  # a server of one's own may serve any name
    assert run("pipelines", "check", file).code == 0


def test_each_node_asks_its_own_model_with_its_own_prompt_and_another_server_without_the_sites_key(
    tmp_path: Path, stub: StartStub, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    ward = stub(StubPlan(weights={"escalate": 1.0}))
    monkeypatch.setenv("SECOND_LOOK_SERVERS", json.dumps({"ward": ward.url}))
    usual = stub(StubPlan(weights={"escalate": 1.0}))
    ours = _with_nodes("recommended", risk={"server": "ward"}, legal={"model": "other"})
    assert _screened(run, tmp_path, pipeline=ours).code == 0
    row = json.loads((tmp_path / "results.jsonl").read_text())
    assert (row["outcome"], row["node"]) == ("human_review", "legal")
    told = [[(body["model"], body["system"][0]["text"]) for body in each.counters.bodies] for each in (usual, ward)]
    asked = [{(model, prompt.splitlines()[0]) for model, prompt in each} for each in told]
    assert asked == [{("claude-sonnet-4-6", "# Worker"), ("other", "# Legal")}, {("claude-sonnet-4-6", "# Risk")}]
    assert not any("test-key" in str(headers) for headers in ward.counters.headers)
    monkeypatch.delenv("SECOND_LOOK_SERVERS")  # a server that went away after the pipeline was put in force
    with pytest.raises(SamplerError, match="name no server 'ward'"):
        model_settings(Settings(), ours.nodes[1].agent)


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
