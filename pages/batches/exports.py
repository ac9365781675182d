"""Files that leave a batch, line by line: neutralised CSV for spreadsheets and its lossless twin in JSON lines."""

import json
from collections.abc import Callable, Iterator, Mapping

from screening.datasets.columnar import Kind, parquet_parts
from screening.datasets.export import csv_lines, json_array_lines, jsonl_lines, label_studio_task
from screening.datasets.rows import rejected_csv
from screening.labels import Label
from screening.review.actors import Acting
from storage.batches.exports import export_rejected, export_results
from storage.batches.results import Result
from storage.database import Database

Export = Callable[..., Iterator[str | bytes]]
"""One batch as a file for one person; it is in the audit log before its first line, and raises Forbidden at once.
``hide`` is for outcomes of cases in review.
"""

RESULT_KINDS: Mapping[str, Kind] = {
    "id": "text", "row": "int", "outcome": "text", "node": "text", "reason": "text", "calls": "int",
    "cost_usd": "float", "delta": "float", "pipeline_delta": "float", "contract": "text", "grounds": "text",
    "reference": "text", "reference_value": "text", "group": "text", "hidden": "bool", "tags": "text",
    "remarks": "text", "final_label": "text",
}  # fmt: skip
RESULT_COLUMNS = tuple(RESULT_KINDS)


def result_fields(result: Result) -> dict[str, object]:
    """One row of the results; a pending row's reason is its last error, tags and remarks are lists in JSON."""
    named = {name: getattr(result, name) for name in RESULT_COLUMNS[1:-1]} | {"final_label": result.accepted}
    noted = {name: json.dumps(getattr(result, name), ensure_ascii=False) for name in ("tags", "remarks")}
    return {"id": result.external_id, **named, "reason": result.reason or result.error, **noted}


def results_csv(db: Database, by: Acting, batch_id: str, *, hide: bool | None = None) -> Iterator[str]:
    """The results for a spreadsheet."""
    rows = (list(result_fields(result).values()) for result in export_results(db, by, batch_id, hide=hide))
    return csv_lines(RESULT_COLUMNS, rows)


def results_jsonl(db: Database, by: Acting, batch_id: str, *, hide: bool | None = None) -> Iterator[str]:
    """The results with nothing changed."""
    return jsonl_lines(result_fields(result) for result in export_results(db, by, batch_id, hide=hide))


def results_parquet(db: Database, by: Acting, batch_id: str, *, hide: bool | None = None) -> Iterator[bytes]:
    """The results for programs that read columns."""
    rows = (result_fields(result) for result in export_results(db, by, batch_id, hide=hide))
    return parquet_parts(RESULT_KINDS, rows)


def results_label_studio(db: Database, by: Acting, batch_id: str, *, hide: bool | None = None) -> Iterator[str]:
    """The results as tasks for Label Studio: the engine's label as a prediction, without texts."""
    return json_array_lines(_task(result) for result in export_results(db, by, batch_id, hide=hide))


def _task(result: Result) -> dict[str, object]:
    fields = result_fields(result)
    data = {name: fields[name] for name in ("id", "row", "reference", "group", "outcome", "reason")}
    predicted = result.outcome if result.outcome in (Label.SAFE, Label.UNSAFE) else None
    return label_studio_task(result.row, data, {}, predicted)


RESULTS: Mapping[str, Export] = {
    "csv": results_csv, "jsonl": results_jsonl, "parquet": results_parquet, "label-studio": results_label_studio,
}  # fmt: skip
"""By the names that the command line has for them."""


def rejected_rows_csv(db: Database, by: Acting, batch_id: str) -> Iterator[str]:
    """The rejected rows of a batch, with row, line and why."""
    return rejected_csv(export_rejected(db, by, batch_id))
