"""`screen` and `batches`: every row comes out once, decided, escalated or rejected, and what is printed is so."""

import csv
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, select

from commands import screen
from jobs import intake
from jobs.intake import receiver
from jobs.process import system_clock
from screening.datasets.reader import Table
from screening.review.policy import LOCAL_USER, Actor
from screening.settings import Settings
from storage.audit_log import events
from storage.batches.batch_state import BatchState
from storage.batches.batches import batch_state
from storage.batches.intake import add_rows
from storage.batches.pending import pending_cases, record_error
from storage.database import Database
from storage.schema import adjudications, cases
from storage.settings_store import SiteSettings, change
from tests.commands.conftest import Run, Said, StartStub
from tests.databases import write
from tests.fixtures.bad_inputs import bad_inputs
from tests.jobs.files import write_posts
from tests.jobs.processes import ROOT, wait_for
from tests.jobs.running import batch as posts
from tests.processes import usual_handlers
from tests.storage.batch_of import NOW, decide
from tests.storage.batch_of import batch as texts
from tests.stub_server import StubPlan

BAD_CSV = Path(__file__).parent.parent / "fixtures" / "bad_csv"


class Screened:
    """What one run of the command left behind: rows in = accepted + rejected, and each accepted has one result."""

    def __init__(self, folder: Path, said: Said) -> None:
        self.summary: dict[str, Any] = said.report
        self.told = said.err
        lines = (folder / "results.jsonl").read_text(encoding="utf-8").splitlines()
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
        self.outcomes = {row["id"]: row["outcome"] for row in self.rows}
        with (folder / "results.rejected.csv").open(encoding="utf-8", newline="") as file:
            self.rejected = list(csv.DictReader(file))
        assert said.code == (3 if self.summary["pending"] else 0)
        assert {stat.S_IMODE(path.stat().st_mode) for path in folder.glob("results.*")} == {0o600}
        summary = self.summary
        assert summary["rows_in"] == summary["accepted"] + summary["rejected"]
        assert (len(self.rows), len(self.rejected)) == (summary["accepted"], summary["rejected"])
        assert sum(summary[name] for name in ("safe", "unsafe", "human_review", "pending")) == summary["accepted"]
        calls = [row["calls"] for row in self.rows]
        assert None in calls or summary["calls"] - summary["lost_calls"] == sum(calls), "unless they are hidden"
        numbers = [row["row"] for row in self.rows] + [int(row["row"]) for row in self.rejected]
        assert sorted(numbers) == list(range(1, summary["rows_in"] + 1))


@pytest.fixture
def screened(tmp_path: Path, run: Run) -> Callable[..., Screened]:
    """Screen a file, or texts by id, as JSON: it can hold every text, lone surrogates included."""

    def screen(given: Path | dict[str, str], *options: object) -> Screened:
        file = given if isinstance(given, Path) else tmp_path / "texts.json"
        if isinstance(given, dict):
            file.write_text(json.dumps([{"id": name, "text": text} for name, text in given.items()]), encoding="utf-8")
        out = tmp_path / "results.jsonl"
        return Screened(tmp_path, run("screen", file, "--out", out, "--json", "--patience", "0", *options))

    return screen


def test_every_row_of_a_file_is_accounted_for_and_the_same_seed_gives_the_same_in_any_database(
    screened: Callable[..., Screened], tmp_path: Path
) -> None:
    """What becomes of the rows of every other bad file is in the golden files."""
    for name, rejected in (("cp1252", []), ("extra_comma_one", [("2", "extra_cells")])):
        result = screened(BAD_CSV / f"{name}.csv", "--sampler", "simulated")
        assert [(row["row"], row["reason"]) for row in result.rejected] == rejected
    kept = screened(BAD_CSV / "ok.csv", "--seed", "7", "--database", f"sqlite:///{tmp_path}/kept.db")
    assert kept.rows == screened(BAD_CSV / "ok.csv", "--seed", "7").rows and (tmp_path / "kept.db").exists()


def test_a_budget_that_can_never_decide_is_refused_before_a_call(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "results.jsonl"
    monkeypatch.setenv("SECOND_LOOK_PRESET", "paper")
    monkeypatch.setenv("SECOND_LOOK_BUDGET", "50")
    said = run("screen", BAD_CSV / "ok.csv", "--out", out)
    assert said.code == 2 and "the minimum is 72 calls" in said.err and not out.exists()


def test_no_bad_text_is_safe_that_must_not_be_whatever_the_model_says(
    screened: Callable[..., Screened], stub: StartStub
) -> None:
    stub(StubPlan(weights={"safe": 1.0}))  # a model that finds everything safe
    inputs = bad_inputs()
    texts = {one["id"]: one["text"] for one in inputs}
    result = screened(texts, "--sampler", "anthropic")
    reasons = {row["id"]: row["reason"] for row in result.rows}
    by_the_text = ("one_char", "emoji_only", "rtl_override", "tag_chars", "leet", "spaced", "lone_surrogate")
    refused = [*by_the_text, *(name for name in result.outcomes if name.startswith(("inject_", "lang_")))]
    assert {name: result.outcomes[name] for name in refused} == dict.fromkeys(refused, "human_review")
    assert reasons["long_1mb"] == "too_long" and reasons["lang_2"] == "unsupported_language"
    assert [row["id"] for row in result.rejected] == ["zwsp_only"]
    assert result.summary["cost_usd"] is None  # a server of one's own: the price is not known, and not 0
    simulated = screened(texts, "--sampler", "simulated").outcomes
    forbidden = [one["id"] for one in inputs if one.get("flag") and one["id"] in simulated]
    assert len(forbidden) > 12 and not [name for name in forbidden if simulated[name] == "safe"]
    assert simulated["clin_0"] == "safe" and simulated["soft_hyphen"] == "unsafe"


def test_results_of_a_kept_inbox_are_hidden_on_request_and_otherwise_count_as_seen(
    screened: Callable[..., Screened], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = ("--database", f"sqlite:///{tmp_path}/kept.db")
    for options, warned in (((), False), (kept, True)):  # one character: no agent is asked, a person is to look
        result = screened({"1": "x"}, *options)
        assert ("in this database: 1." in result.told) is warned and result.outcomes == {"1": "human_review"}
    hidden = screened({"1": "x"}, "--hide-in-review", *kept)
    assert "in this database" not in hidden.told
    facts = [hidden.rows[0][name] for name in ("outcome", "calls", "node", "reason", "cost_usd")]
    assert facts == ["in review", None, None, None, None]
    with closing(Database(kept[1])) as db:
        taken = [f"{one.actor} {one.details['kind']}" for one in reversed(events(db, LOCAL_USER, action="exported"))]
    assert taken == ["local results", "local rejected"] * 2
    monkeypatch.setenv("SECOND_LOOK_AUDIT_RATE", "1")
    for options in (kept, (*kept, "--hide-in-review")):
        summary = screened({"1": "The weather was nice today."}, *options).summary
        assert [summary["safe"], summary["human_review"]] == [1, 0], "what the AI did, whatever the rows hide"


def test_columns_and_labels_are_mapped_by_options_said_first_and_kept(
    screened: Callable[..., Screened], tmp_path: Path
) -> None:
    file, kept = tmp_path / "users.csv", tmp_path / "mapping.json"
    labels = ("Supportive", "Indicator", "Ideation", "Behavior", "Attempt")
    rows = "".join(f"user-{n % 7},post number {n},a comment,{labels[n % 5]},r{n % 2}\n" for n in range(20))
    file.write_text(f"User,Post,comment,Severity,board\n{rows}", encoding="utf-8")
    meant = "ideation=unsafe,Behavior=unsafe,Attempt=unsafe,Supportive=safe,Indicator=none"
    columns = ("--text-column", "post", "--label-column", "severity", "--labels", meant)
    result = screened(file, *columns, "--save-mapping", kept)
    assert "text: 'Post'" in result.told and "'Ideation' (4 rows) is unsafe" in result.told
    assert "'Indicator' (4 rows) is no reference" in result.told
    references = [row["reference"] for row in result.rows]
    assert references[:5] == ["safe", None, "unsafe", "unsafe", "unsafe"]
    assert result.rows[2]["reference_value"] == "Ideation" and result.rows[8]["group"] == "user-1"
    assert list(result.outcomes) == [str(number) for number in range(1, 21)]  # users have several posts
    again = screened(file, "--mapping", kept, "--group-column", "board")
    assert [row["reference"] for row in again.rows] == references and again.rows[3]["group"] == "r1"
    named = screened(file, "--text-column", "post", "--group-column", "board")
    assert named.rows[3]["group"] == "r1" and "The column User is no id" in named.told


def test_several_columns_are_joined(screened: Callable[..., Screened], tmp_path: Path) -> None:
    file = tmp_path / "two.csv"
    file.write_text("id,text,text,class\n1,a quiet day,I want to die tonight,x\n", encoding="utf-8")
    joined = ("--text-column", "text (column 2)", "--text-column", "text (column 3)")
    assert screened(file, *joined).outcomes["1"] != "safe"


def test_a_row_that_cannot_be_read_and_states_a_risk_is_in_the_queue_and_in_red(
    screened: Callable[..., Screened], tmp_path: Path, run: Run
) -> None:
    file = tmp_path / "rows.csv"
    file.write_text("id,text\n,I am going to kill myself tonight\n2,a walk\n3,[removed]\n", encoding="utf-8")
    result = screened(file, "--sampler", "simulated")
    assert [result.summary[name] for name in ("accepted", "rejected", "not_screened")] == [2, 1, 1]
    first = result.rows[0]
    assert (first["outcome"], first["reason"], first["calls"]) == ("human_review", "row_rejected", 0)
    assert "NOT SCREENED: 1 row" in result.told
    file.write_text("id,text\n1,[removed]\n", encoding="utf-8")
    assert run("screen", file, "--out", tmp_path / "o.jsonl", "--sampler", "simulated").code == 4


def test_overnight_nothing_is_sent_until_it_is_allowed_and_every_row_has_a_label_and_then_it_comes_back_whole(
    screened: Callable[..., Screened], stub: StartStub, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECOND_LOOK_OVERNIGHT_POLL_S", "0.05")
    server, file, url = stub(StubPlan(batch_s=0.05)), tmp_path / "posts.csv", f"sqlite:///{tmp_path / 'site.db'}"
    overnight = ("--database", url, "--sampler", "anthropic", "--overnight")
    labelled = "text,label\n" + "".join(f"Lecture {number} was moved to the afternoon.,safe\n" for number in range(6))

    def refused(words: str) -> None:
        said = run("screen", file, "--out", tmp_path / "out.jsonl", *overnight)
        assert said.code == 2 and words in said.err and not server.batches.all

    file.write_text(labelled, encoding="utf-8")
    refused("an administrator has not allowed message batches")
    with closing(Database(url)) as db:
        db.prepare()
        change(db, LOCAL_USER.at(datetime.now(UTC)), SiteSettings(overnight_allowed=True), 0)
    file.write_text(labelled + "A day at sea.,\n", encoding="utf-8")
    refused("1 row has no reference label")
    file.write_text(labelled, encoding="utf-8")
    assert {(row["outcome"], row["reference"]) for row in screened(file, *overnight).rows} == {("safe", "safe")}


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_a_stopped_screening_leaves_no_text_behind(tmp_path: Path, number: signal.Signals) -> None:
    """Also in the temporary database; it ends in order: a sentence, and its signal's exit code."""
    temporary, out = tmp_path / "temporary", tmp_path / "out.jsonl"
    temporary.mkdir()
    given = {"TMPDIR": str(temporary), "SECOND_LOOK_SAMPLER": "simulated", "SECOND_LOOK_SIMULATED_LATENCY_S": "3"}
    command = [sys.executable, "-m", "screening", "screen", "data/sample.csv", "--out", str(out)]
    environment = os.environ | given
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True, preexec_fn=usual_handlers
    ) as started:
        wait_for(lambda: out.exists() or started.poll() is not None, 60)
        assert list(temporary.rglob("screening.db"))
        started.send_signal(number)
        _, said = started.communicate(timeout=60)
    assert (started.returncode, said.splitlines()[-1]) == (128 + number, "python -m screening: stopped before its end")
    assert "Traceback" not in said and not list(temporary.iterdir())


# `batches`.


def test_pause_resume_retry_and_cancel(db: Database, database_url: str, run: Run) -> None:
    batch_id, other = posts(db, 3), posts(db, 5)

    def told(*words: str) -> Any:
        return run("batches", *words, "--database", database_url, "--json").report

    assert told("pause", batch_id)["state"] == "paused"
    assert told("resume", batch_id)["state"] == "running"
    for case_id in db.values(select(cases.c.id).where(cases.c.batch_id == batch_id)):
        record_error(db, case_id, "timeout", "no answer", system_clock(), calls=4)
    shown = told("show", batch_id)
    assert (shown["state"], shown["failed"], shown["calls"], shown["pending"]) == ("needs_retry", 3, 12, 3)
    assert told("retry", batch_id)["failed"] == 0
    assert len(pending_cases(db, 9)) == 8
    assert told("cancel", batch_id)["state"] == "cancelled"
    assert batch_state(db, batch_id) is BatchState.CANCELLED
    (line,) = run("batches", "list", "--database", database_url, "--limit", "1").out.splitlines()
    assert other in line and "running" in line and "0 of 5 done" in line
    assert run("batches", "show", "nothing", "--database", database_url).code == 2


def test_a_cancelled_batch_leaves_no_file_on_disk_and_no_other_file_is_touched(
    db: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setenv("SECOND_LOOK_DATA_DIRECTORY", str(tmp_path))
    made, other = posts(db, 1), posts(db, 1)
    theirs = []
    for folder in (tmp_path / name for name in intake.FOLDERS):
        for batch_id in (made, other):
            kept = intake.keep(folder, "a.csv", BytesIO(b"id,text\n1,a quiet day\n"), "ann")
            intake.remember(replace(kept, batch_id=batch_id))
        theirs.append(kept.path)
    assert run("batches", "cancel", made, "--database", database_url).code == 0
    left = {path for folder in intake.FOLDERS for path in (tmp_path / folder).iterdir()}
    assert left == {path.with_suffix(suffix) for path in theirs for suffix in ("", ".json")}


def test_the_corrected_data_set_is_written_as_of_a_version_and_everything_in_every_format(
    db: Database, database_url: str, tmp_path: Path, run: Run
) -> None:
    batch_id = texts(db, ["one day", "another day"])
    decide(db, case_id := pending_cases(db, 1)[0])
    made = {"version": 1, "label": "unsafe", "method": "senior", "by": "s", "review_ids": [], "at": NOW}
    write(db, insert(adjudications).values(case_id=case_id, **made))
    out = tmp_path / "out"
    given = ["batches", "export", batch_id, "--database", database_url, "--out", out]

    def exported(*more: str) -> tuple[int, str | None]:
        assert run(*given, *more).code == 0
        line = json.loads(out.read_text().splitlines()[0])
        return line["as_of"], line["adjudicated_label"]

    assert (exported(), exported("--as-of", "1"), exported("--as-of", "0")) == ((1, "unsafe"), (1, "unsafe"), (0, None))
    for option in (["--as-of", "-1"], ["--what", "results", "--as-of", "1"], ["--what", "results", "--without-text"]):
        said = run(*given, *option)
        assert said.code == 2 and ("--as-of" in said.err or "for --what corrected only" in said.err)
    for what, lines in (("results", 2), ("reviews", 0), ("corrected", 2)):
        for kind, begins in {"csv": b"\xef\xbb\xbf", "jsonl": b"{", "parquet": b"PAR1", "label-studio": b"["}.items():
            assert run(*given, "--what", what, "--format", kind).code == 0
            assert (out.read_bytes() + begins).startswith(begins) and out.stat().st_mode & 0o077 == 0
        assert len(json.loads(out.read_bytes())) == lines
    asked = ("batches", "results", batch_id, "--database", database_url, "--out", out)
    assert run(*asked).code == 3, "one is pending"
    decide(db, pending_cases(db, 1)[0])
    assert run(*asked).code == 0 and out.with_suffix(".rejected.csv").exists()
    assert len(out.read_text().splitlines()) == 2


def test_a_run_that_was_killed_while_rows_came_in_goes_on(
    database_url: str, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run dies after its first rows; the second, with --resume, ends with one outcome for each row."""
    accepted, out = write_posts(tmp_path / "posts.csv", 30, rejected_every=10), tmp_path / "out.jsonl"
    asked = ["screen", tmp_path / "posts.csv", "--out", out, "--sampler", "simulated", "--database", database_url]

    def dies(db: Database, _by: Actor, batch_id: str, table: Table, settings: Settings, *_: object) -> None:
        add_rows(db, batch_id, islice(table.rows(receiver(settings)), 12), system_clock())
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(screen, "fill_batch", dies)
        assert run(*asked).code == 130
    said = run(*asked, "--resume", "--json")
    assert said.code == 0 and "going on with batch" in said.err
    assert [said.report[name] for name in ("rows_in", "accepted", "pending")] == [30, accepted, 0]
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert len({row["row"] for row in rows}) == accepted and {row["outcome"] for row in rows} >= {"safe", "unsafe"}
    assert "going on" not in run(*asked, "--resume").err, "what is finished is not gone on with"
