"""The sample's counts, matrix and metrics stay what the AI did: in review, after 30 reviews, after Send to review."""

import csv
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from commands.__main__ import main
from jobs.process import system_clock
from screening.review.actors import LOCAL_USER
from storage.batches.batches import list_batches
from storage.database import Database
from storage.research.cells import confusions
from storage.review.worklist import request_second_looks
from storage.schema import cases
from tests.pages.conftest import Opener
from tests.pages.researched import SAMPLE, review
from tests.storage.inbox_cases import ANN, RESEARCHER, SENIOR, register

MEASURES = ("accuracy", "fnr", "fpr", "escalation_rate")
REFERENCES = ("safe", "unsafe")
OUTCOMES = {
    "safe": "Labeled safe", "unsafe": "Labeled unsafe", "human_review": "Escalated", "pending": "Pending"
}  # fmt: skip
COUNTED = ("safe", "unsafe", "human_review", "pending")


def measured_by_command(batch_id: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What `metrics` says of the results file."""
    out = folder / "results.jsonl"
    main(["batches", "results", batch_id, "--out", str(out)])
    capsys.readouterr()
    assert main(["metrics", str(out)]) == 0
    return dict(json.loads(capsys.readouterr().out))


@pytest.mark.parametrize("unsafe", ["read", "count"])
def test_nothing_that_people_do_changes_what_the_ai_did(
    open_page: Opener, page_database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str], unsafe: str
) -> None:
    db, url = page_database, f"sqlite:///{tmp_path / 'pages.db'}"
    register(db, ANN, SENIOR)
    assert main(["screen", str(SAMPLE), "--out", str(tmp_path / "a.jsonl"), "--database", url, "--unsafe", unsafe,
                 "--json"]) == 0  # fmt: skip
    summary = json.loads(capsys.readouterr().out.splitlines()[-1])
    (batch,) = list_batches(db, LOCAL_USER)
    assert [summary[name] for name in COUNTED] == [getattr(batch.progress, name) for name in COUNTED]

    def seen() -> dict[str, Any]:
        """Every place that tells of the batch; all of them agree."""
        (line,) = open_page("batches").dataframe[0].value.to_dict("records")
        assert [line[name] for name in ("Safe", "Unsafe", "Escalated")] == [summary[name] for name in COUNTED[:3]]
        matrix = confusions(db, LOCAL_USER, batch.id).original
        assert all(confusions(db, who, batch.id).original == matrix for who in (SENIOR, RESEARCHER))
        told, page = measured_by_command(batch.id, tmp_path, capsys), open_page("errors", batch=batch.id)
        for name, said in zip(MEASURES, page.table[0].value["Original labels"], strict=False):
            rate = told[name]
            value, low, high = (f"{100 * rate[part]:.1f}" for part in ("value", "low", "high"))
            assert said.startswith(f"{value}% (95% CI {low}-{high}%, "), name
            assert f"{rate['numerator']} of {rate['denominator']}" in said, name
        table = page.dataframe[0].value
        counts = [[int(str(value).split()[0]) for value in table[title]] for title in OUTCOMES.values()]
        assert counts == [[matrix.get((reference, outcome), 0) for reference in REFERENCES] for outcome in OUTCOMES]
        (now,) = list_batches(db, SENIOR)
        return {"progress": asdict(now.progress), "matrix": matrix, "metrics": told}

    before = seen()
    assert before["metrics"]["n"] == 120 and before["metrics"]["fnr"]["denominator"] > 15
    reviewed = review(db, "unsafe", who=ANN, most=30)
    assert reviewed >= 10 and seen() == before
    file = tmp_path / "results.csv"
    assert main(["batches", "export", batch.id, "--what", "results", "--format", "csv", "--out", str(file)]) == 0
    rows = list(csv.DictReader(file.read_text(encoding="utf-8-sig").splitlines()))
    assert [sum(row["outcome"] == name for row in rows) for name in COUNTED] == [summary[name] for name in COUNTED]
    assert 0 < sum(row["final_label"] == "unsafe" for row in rows) <= reviewed, "what reviews change"
    every = db.values(select(cases.c.id).where(cases.c.batch_id == batch.id))
    assert request_second_looks(db, RESEARCHER.at(system_clock()), every).opened > 30
    assert seen() == before
