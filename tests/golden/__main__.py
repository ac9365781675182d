"""Writes the golden files; `tests/test_golden.py` compares them."""

import hashlib
import io
import json
import sys
import tomllib
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
from screening.datasets.mapping import ColumnMapping, column_mapping
from screening.datasets.reader import read_table
from screening.datasets.rows import FileRefused, RejectedRow, Row
from screening.evaluation.experiments import our_conditions, paper_conditions
from screening.evaluation.library import DRAWS, screen_texts
from screening.pipeline.config import PipelineConfig, preset
from screening.pipeline.files import read_pipeline
from screening.settings import Settings
from screening.text.received import original_text
from storage.database import Database
from storage.schema import audit_events

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SAMPLE = ROOT / "data" / "sample.csv"
FIXTURES = ROOT / "tests" / "fixtures"
VOLATILE = {"case", "case_id", "batch", "batch_id", "completed_at", "out", "rejected", "results", "seconds"}
"""What differs from run to run, or names a place."""


def _pipelines() -> dict[str, PipelineConfig]:
    conditions = {condition.name: condition for condition in (*paper_conditions(), *our_conditions())}
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


AS_SAID = tomllib.loads((HERE / "as_said.toml").read_text("utf-8"))
"""Files that are not read unless a person says how."""


def files() -> str:
    """What is accepted and rejected of each awkward file, row by row with its text or the reason, and what is said of
    the file, or why it is refused.
    """
    found: dict[str, object] = {}
    for path in sorted(path for folder in ("bad_csv", "field") for path in (FIXTURES / folder).glob("*")):
        found[path.name] = _read(path, None)
        if path.name in AS_SAID:
            found[f"{path.name} as said"] = _read(path, column_mapping(AS_SAID[path.name]))
    return _lines(found)


def _read(path: Path, mapping: ColumnMapping | None) -> object:
    try:
        table = read_table(path, path.name, mapping=mapping)
        rows = list(table.rows())
    except FileRefused as refused:
        return str(refused)
    read = [*table.warnings, *(_row(row) for row in rows[:40])]
    return [*read, _digest([_row(row) for row in rows[40:]])] if len(rows) > 40 else read


def _row(row: Row) -> str:
    """The row with its text; what does not fit a line, and what else is kept of it, as a digest."""
    if isinstance(row, RejectedRow):
        return f"{row.row} {row.reason} {_digest([row.line, row.external_id, row.detail, row.original_json])}"
    thread = row.thread.turns if row.thread else ()
    turns = [(turn.role, turn.start, turn.end, turn.judged, turn.at, turn.id) for turn in thread]
    kept = [row.text.stored, row.text.model_text, original_text(row.text), sorted(row.text.flags), turns]
    beside = [row.reply and row.reply.stored, row.reference_value, row.group, row.where, row.not_screened]
    text = row.text.stored if len(row.text.stored) <= 60 else f"{row.text.stored[:60]}…"
    return f"{row.row} {row.external_id} {row.reference} {_digest(kept + beside)} {text}"


def _digest(kept: object) -> str:
    return hashlib.blake2b(json.dumps(kept).encode(), digest_size=4).hexdigest()


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
    for name, make in GOLDEN.items():
        (HERE / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    write()
    sys.exit(0)
