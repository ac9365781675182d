"""`python -m screening screen` works on both kinds of database, beside other workers or alone."""

import json
from pathlib import Path

import pytest

from commands.__main__ import main
from tests.jobs.files import write_posts


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
