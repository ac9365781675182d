"""`python -m screening screen` and `batches`: what is printed is what the tables say, and what is asked for happens."""

import json
from dataclasses import replace
from io import BytesIO
from itertools import islice
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from sqlalchemy import insert

from commands import screen
from commands.__main__ import main
from jobs import uploads
from jobs.intake import receiver
from jobs.process import Clock, system_clock
from screening.datasets.reader import Table
from screening.review.actors import Actor
from screening.settings import Settings
from storage.batches.batch_state import BatchState
from storage.batches.batches import batch_state
from storage.batches.intake import add_rows
from storage.batches.pending import pending_cases, record_error
from storage.database import Database
from storage.schema import adjudications
from tests.databases import write
from tests.jobs.files import write_posts
from tests.jobs.running import batch
from tests.storage.batch_of import NOW, decide, waiting
from tests.storage.batch_of import batch as texts


def _told(capsys: pytest.CaptureFixture[str], url: str, *arguments: str) -> list[dict[str, object]]:
    capsys.readouterr()
    assert main(["batches", *(arguments or ["list"]), "--database", url, "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_pause_resume_retry_and_cancel(db: Database, database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    batch_id = batch(db, 3)
    assert _told(capsys, database_url, "pause", batch_id)[0]["state"] == "paused"
    assert _told(capsys, database_url, "resume", batch_id)[0]["state"] == "running"
    for case_id in pending_cases(db, 3):
        record_error(db, case_id, "timeout", "no answer", system_clock(), calls=4)
    (shown,) = _told(capsys, database_url, "show", batch_id)
    assert (shown["state"], shown["failed"], shown["calls"], shown["pending"]) == ("needs_retry", 3, 12, 3)
    assert _told(capsys, database_url, "retry", batch_id)[0]["failed"] == 0
    assert len(pending_cases(db, 9)) == 3
    assert _told(capsys, database_url, "cancel", batch_id)[0]["state"] == "cancelled"
    assert batch_state(db, batch_id) is BatchState.CANCELLED


def test_a_cancelled_batch_leaves_no_file_on_disk_and_no_other_file_is_touched(
    db: Database, database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SECOND_LOOK_DATA_DIRECTORY", str(tmp_path))
    made, other = batch(db, 1), batch(db, 1)
    theirs = []
    for folder in (tmp_path / name for name in uploads.FOLDERS):
        for batch_id in (made, other):
            kept = uploads.keep(folder, "a.csv", BytesIO(b"id,text\n1,a quiet day\n"), "ann")
            uploads.remember(replace(kept, batch_id=batch_id))
        theirs.append(kept.path)
    assert _told(capsys, database_url, "cancel", made)[0]["state"] == "cancelled"
    left = {path for folder in uploads.FOLDERS for path in (tmp_path / folder).iterdir()}
    assert left == {path.with_suffix(suffix) for path in theirs for suffix in ("", ".json")}


def test_the_list_names_each_batch_on_a_line(
    db: Database, database_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [batch(db, 2), batch(db, 5)]
    assert {line["batch"] for line in _told(capsys, database_url)} == set(made)
    assert main(["batches", "list", "--database", database_url, "--limit", "1"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert made[1] in line and "running" in line and "0 of 5 done" in line
    assert main(["batches", "show", "nothing", "--database", database_url]) == 2


def test_the_corrected_data_set_is_written_as_of_a_version(
    db: Database, database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch_id = texts(db, ["one day"])
    decide(db, case_id := pending_cases(db, 1)[0])
    made = {"version": 1, "label": "unsafe", "method": "senior", "by": "s", "review_ids": [], "at": NOW}
    write(db, insert(adjudications).values(case_id=case_id, **made))
    given = ["batches", "export", batch_id, "--database", database_url, "--out", str(tmp_path / "out.jsonl")]

    def exported(*more: str) -> tuple[int, str | None]:
        assert main([*given, *more]) == 0
        line = json.loads((tmp_path / "out.jsonl").read_text())
        return line["as_of"], line["adjudicated_label"]

    assert (exported(), exported("--as-of", "1"), exported("--as-of", "0")) == ((1, "unsafe"), (1, "unsafe"), (0, None))
    assert main([*given, "--as-of", "-1"]) == 2
    assert "--as-of" in capsys.readouterr().err
    for option in (["--as-of", "1"], ["--without-text"]):
        assert main([*given, "--what", "results", *option]) == 2
        assert "for --what corrected only" in capsys.readouterr().err


def test_everything_is_written_in_every_format(db: Database, database_url: str, tmp_path: Path) -> None:
    batch_id = texts(db, ["one day", "another day", "a third day"])
    decide(db, pending_cases(db, 1)[0])
    for what in ("results", "reviews", "corrected"):
        written = {}
        for kind in ("csv", "jsonl", "parquet", "label-studio"):
            out = tmp_path / f"{what}.{kind}"
            given = ["batches", "export", batch_id, "--database", database_url, "--what", what, "--format", kind]
            assert main([*given, "--out", str(out)]) == 0
            written[kind] = out.read_bytes()
            assert out.stat().st_mode & 0o077 == 0
        tasks, lines = json.loads(written["label-studio"]), written["jsonl"].splitlines()
        assert len(tasks) == len(lines) == pq.read_table(tmp_path / f"{what}.parquet").num_rows
        assert written["csv"].startswith(b"\xef\xbb\xbf")
        if what != "reviews":
            assert [len(task["predictions"]) for task in tasks] == [1, 0, 0]
            assert ("text" in tasks[0]["data"]) is (what == "corrected")


def test_a_run_that_was_killed_while_rows_came_in_goes_on(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run dies after its first rows; the second, with --resume, ends with one outcome for each row."""
    accepted = write_posts(tmp_path / "posts.csv", 30, rejected_every=10)
    out = tmp_path / "out.jsonl"
    arguments = ["screen", str(tmp_path / "posts.csv"), "--out", str(out), "--sampler", "simulated", "--json"]
    arguments += ["--database", database_url]

    def dies(
        db: Database, _by: Actor, batch_id: str, table: Table, settings: Settings, clock: Clock, _: object
    ) -> None:
        add_rows(db, batch_id, islice(table.rows(receiver(settings)), 12), clock())
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(screen, "fill_batch", dies)
        assert main(arguments) == 130
    assert main([*arguments, "--resume"]) == 0
    told = capsys.readouterr()
    assert "going on with batch" in told.err
    summary = json.loads(told.out.splitlines()[-1])
    assert (summary["rows_in"], summary["accepted"], summary["pending"]) == (30, accepted, 0)
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert len({row["row"] for row in rows}) == accepted and {row["outcome"] for row in rows} >= {"safe", "unsafe"}
    main([*arguments, "--resume"])
    assert "going on" not in capsys.readouterr().err, "what is finished is not gone on with"


def test_the_results_of_any_batch_can_be_had_and_the_exit_code_tells_what_is_pending(
    db: Database, database_url: str, tmp_path: Path
) -> None:
    batch_id, out = texts(db, ["one", "two"]), tmp_path / "may.jsonl"
    arguments = ["batches", "results", batch_id, "--database", database_url, "--out", str(out)]
    assert main(arguments) == 3
    for case_id in waiting(db):
        decide(db, case_id)
    assert main(arguments) == 0
    assert [json.loads(line)["outcome"] for line in out.read_text(encoding="utf-8").splitlines()] == ["safe", "safe"]
    assert (tmp_path / "may.rejected.csv").exists()
    assert main([*arguments[:4], "nonsense", *arguments[5:]]) == 2
