"""Files that leave a batch, line by line: neutralised CSV for spreadsheets and its lossless twin in JSON lines."""

from collections.abc import Callable, Iterator
from datetime import datetime

from screening.datasets.export import csv_lines, jsonl_lines
from screening.datasets.rows import rejected_csv
from screening.review.actors import Actor
from storage.batches.exports import exported_rejected, exported_results
from storage.batches.results import Result
from storage.database import Database

Export = Callable[[Database, Actor, str, datetime], Iterator[str]]
"""One batch as a file for one person; it is in the audit log before its first line, and raises Forbidden at once."""

RESULT_COLUMNS = (
    "id", "row", "outcome", "node", "reason", "calls", "cost_usd", "delta", "reference", "reference_value", "group",
    "withheld",
)  # fmt: skip


def result_fields(result: Result) -> dict[str, object]:
    """One row of the results; a pending row's reason is its last error."""
    named = {name: getattr(result, name) for name in RESULT_COLUMNS[1:]}
    return {"id": result.external_id, **named, "reason": result.reason or result.error}


def results_csv(db: Database, actor: Actor, batch_id: str, now: datetime) -> Iterator[str]:
    """The results for a spreadsheet."""
    rows = (list(result_fields(result).values()) for result in exported_results(db, actor, batch_id, now))
    return csv_lines(RESULT_COLUMNS, rows)


def results_jsonl(db: Database, actor: Actor, batch_id: str, now: datetime) -> Iterator[str]:
    """The results with nothing changed."""
    return jsonl_lines(result_fields(result) for result in exported_results(db, actor, batch_id, now))


def rejected_rows_csv(db: Database, actor: Actor, batch_id: str, now: datetime) -> Iterator[str]:
    """The rejected rows of a batch, with row, line and why."""
    return rejected_csv(exported_rejected(db, actor, batch_id, now))
