"""`python -m screening screen` works on both kinds of database, beside other workers or alone."""

import json
from itertools import islice
from pathlib import Path

import pytest

from commands import screen
from commands.__main__ import main
from commands.batches import ResultsFile
from jobs.intake import receiver
from jobs.process import Clock
from screening.datasets.reader import Table
from screening.review.actors import Actor
from screening.settings import Settings
from storage.batches.intake import add_rows
from storage.database import Database
from tests.jobs.files import write_posts
from tests.storage.batch_of import batch, decide, waiting


def test_a_file_goes_in_and_one_outcome_a_row_comes_out(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    accepted = write_posts(tmp_path / "posts.csv", 30, rejected_every=10)
    out = tmp_path / "out.jsonl"
    arguments = ["screen", str(tmp_path / "posts.csv"), "--out", str(out), "--sampler", "simulated", "--json"]
    assert main([*arguments, "--database", database_url]) == 0
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (summary["rows_in"], summary["accepted"], summary["pending"]) == (30, accepted, 0)
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert len(rows) == accepted and {row["outcome"] for row in rows} >= {"safe", "unsafe"}


def test_a_run_that_was_killed_while_rows_came_in_goes_on(
    database_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first run dies after its first rows; the second, with --resume, ends with one outcome for each row."""
    accepted = write_posts(tmp_path / "posts.csv", 60)
    out = tmp_path / "out.jsonl"
    arguments = ["screen", str(tmp_path / "posts.csv"), "--out", str(out), "--sampler", "simulated", "--json"]
    arguments += ["--database", database_url]

    def dies(
        db: Database, _by: Actor, batch_id: str, table: Table, settings: Settings, clock: Clock, _: object
    ) -> None:
        add_rows(db, batch_id, islice(table.rows(receiver(settings)), 20), clock())
        raise KeyboardInterrupt

    with monkeypatch.context() as killed:
        killed.setattr(screen, "fill_batch", dies)
        assert main(arguments) == 130
    assert main([*arguments, "--resume"]) == 0
    told = capsys.readouterr()
    assert "going on with batch" in told.err
    summary = json.loads(told.out.splitlines()[-1])
    assert (summary["rows_in"], summary["accepted"], summary["pending"]) == (60, accepted, 0)
    assert len({json.loads(line)["row"] for line in out.read_text(encoding="utf-8").splitlines()}) == accepted
    main([*arguments, "--resume"])
    assert "going on" not in capsys.readouterr().err, "what is finished is not gone on with"


def test_results_are_written_as_rows_are_settled(db: Database, tmp_path: Path) -> None:
    batch_id = batch(db, ["one", "two", "three"])
    first, second, third = waiting(db)
    file = ResultsFile(db=db, out=tmp_path / "out.jsonl", hide=None)

    def written() -> list[tuple[int, str]]:
        lines = file.out.read_text(encoding="utf-8").splitlines()
        return [(row["row"], row["outcome"]) for row in map(json.loads, lines)]

    decide(db, first)
    decide(db, third)
    file.write_settled(batch_id)
    assert written() == [(1, "safe")]
    decide(db, second)
    file.write_settled(batch_id)
    file.write_all(batch_id)
    assert written() == [(1, "safe"), (2, "safe"), (3, "safe")]


def test_the_results_of_any_batch_can_be_had_and_the_exit_code_tells_what_is_pending(
    db: Database, database_url: str, tmp_path: Path
) -> None:
    batch_id, out = batch(db, ["one", "two"]), tmp_path / "may.jsonl"
    arguments = ["batches", "results", batch_id, "--database", database_url, "--out", str(out)]
    assert main(arguments) == 3
    for case_id in waiting(db):
        decide(db, case_id)
    assert main(arguments) == 0
    assert [json.loads(line)["outcome"] for line in out.read_text(encoding="utf-8").splitlines()] == ["safe", "safe"]
    assert (tmp_path / "may.rejected.csv").exists()
    assert main([*arguments[:4], "nonsense", *arguments[5:]]) == 2
