"""Writes the golden files; `tests/test_golden.py` compares them."""

import io
import json
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from sqlalchemy import select

from api.app import create_app
from commands.__main__ import main
from screening.datasets.reader import read_table
from screening.datasets.refused import FileRefused
from screening.datasets.rows import NewCase
from screening.evaluation.conditions import our_conditions, paper_conditions
from screening.evaluation.library import DRAWS, screen_texts
from screening.pipeline.config import PipelineConfig, preset
from screening.pipeline.files import read_pipeline
from screening.settings import Settings
from storage.database import Database
from storage.schema import audit_events

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SAMPLE = ROOT / "data" / "sample.csv"
FIXTURES = ROOT / "tests" / "fixtures"
VOLATILE = {"case", "case_id", "batch", "batch_id", "completed_at", "out", "rejected", "results", "seconds"}
"""What differs from run to run, or names a place."""


def _pipelines() -> dict[str, PipelineConfig]:
    conditions = {condition.name: condition.pipeline for condition in (*paper_conditions(), *our_conditions())}
    presets = {f"preset {name}": preset(name) for name in ("certified", "recommended", "paper")}
    own = read_pipeline((ROOT / "pipelines" / "four_agents.toml").read_text(encoding="utf-8"))
    return {**conditions, **presets, "a site's own": own}


def outcomes() -> str:
    """How each text of the sample ends under each pipeline, with the agent that ended it, its reason and the calls."""
    sample = pd.read_csv(SAMPLE, dtype=str, keep_default_na=False)
    replies = [reply or None for reply in sample["reply"]] if "reply" in sample else None
    lines = {"id": list(sample["id"])}
    for name, pipeline in _pipelines().items():
        found = screen_texts(list(sample["text"]), replies=replies, pipeline=pipeline, seed=0)
        drawn = [column for column in found.columns if column.startswith(DRAWS)]
        lines[name] = [
            f"{row.outcome} {row.node} {row.reason} {row.calls} {'/'.join(str(len(row[one])) for one in drawn)}"
            for _, row in found.iterrows()
        ]
        if name == "B=150":
            lines |= {column: list(found[column]) for column in drawn}
    return pd.DataFrame(lines).to_csv(index=False, lineterminator="\n")


def files() -> str:
    """What is accepted and rejected of each awkward file, row by row with the reason, or why it is refused."""
    found: dict[str, object] = {}
    for path in sorted(path for folder in ("bad_csv", "field") for path in (FIXTURES / folder).glob("*")):
        try:
            rows = list(read_table(path, path.name).rows())
        except FileRefused as refused:
            found[path.name] = str(refused)
            continue
        found[path.name] = [
            f"{row.row} {row.external_id} {row.reference}" if isinstance(row, NewCase) else f"{row.row} {row.reason}"
            for row in rows[:40]
        ]
    return _lines(found)


def _lines(found: dict[str, object]) -> str:
    """One line an entry, so that a change is a line to review."""
    return "".join(f"{json.dumps({name: found[name]}, sort_keys=True)}\n" for name in sorted(found))


def _said(*arguments: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        code = main(list(arguments))
    assert code == 0, arguments
    return out.getvalue()


def table() -> str:
    """The paper's table and ours on the sample, as `evaluate` prints it."""
    return _said("evaluate", "--format", "csv", "--sampler", "simulated", str(SAMPLE))


def description() -> str:
    """The interface for programs, as it describes itself."""
    with TemporaryDirectory() as folder:
        db = Database(f"sqlite:///{folder}/site.db")
        described = create_app(db, Settings(_env_file=None), lambda: datetime.now(UTC)).openapi()
        db.close()
    schemas = described.pop("components")["schemas"]
    return _lines(described.pop("paths") | schemas | described)


def day() -> str:
    """The sample screened into a database: its results in every form, and what the audit log has of it."""
    with TemporaryDirectory() as folder:
        url, out = f"sqlite:///{folder}/site.db", Path(folder) / "results.jsonl"
        said = _said("screen", str(SAMPLE), "--out", str(out), "--database", url, "--seed", "0", "--json")
        rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
        db = Database(url)
        actions = Counter(db.values(select(audit_events.c.action)))
        actions["outcomes_seen"] = 1  # how often depends on how many of the rows are written while the batch runs
        db.close()
    kept = [{key: value for key, value in row.items() if key not in VOLATILE} for row in rows]
    summary = {key: value for key, value in json.loads(said.splitlines()[-1]).items() if key not in VOLATILE}
    lines = [json.dumps(summary, sort_keys=True), json.dumps(actions, sort_keys=True)]
    return "\n".join([*lines, *(json.dumps(row, sort_keys=True) for row in kept)]) + "\n"


GOLDEN: dict[str, Callable[[], str]] = {
    "outcomes.csv": outcomes,
    "files.jsonl": files,
    "table.txt": table,
    "openapi.jsonl": description,
    "day.jsonl": day,
}


def write() -> None:
    """Write all of them."""
    for name, make in GOLDEN.items():
        (HERE / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    write()
    sys.exit(0)
