"""The relabelled data set as files: CSV for spreadsheets, JSON lines that lose nothing, Parquet, Label Studio's tasks,
and a card that says what is in it; all made row by row."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any

from pages.components import resources
from pages.components.data_card import as_data_card
from pages.components.streamed import CSV, JSON, JSONL, MARKDOWN, PARQUET, StreamedFile
from screening.datasets.columnar import Kind, parquet_parts
from screening.datasets.export import csv_lines, json_array_lines, jsonl_lines, label_studio_task
from screening.review.actors import Actor
from storage.research.relabelled import RelabelledRow, export_relabelled

Written = Iterator[str] | Iterator[bytes]
HEADER = (
    *("id", "row", "case_id", "text", "reply", "group", "reference", "reference_value", "provenance", "outcome"),
    *("ratings", "adjudicated_label", "final_label", "final_source", "hidden", "version", "as_of"),
    *("model", "prompts", "pipeline", "rule", "pipeline_delta", "configuration", "tags"),
)

CSV_HEADER = tuple(name for name in HEADER if name != "provenance")

OTHERS: Mapping[str, Kind] = {"row": "int", "as_of": "int", "hidden": "bool", "pipeline_delta": "float"}


def relabelled_files(batch_id: str, *, with_text: bool = True, as_of: int | None = None) -> list[StreamedFile]:
    """The files of a batch's relabelled data set, for those who may take data out; as of its first ``as_of`` accepted
    labels, or as it is now.
    """
    key = resources.settings().pseudonym_secret

    def lines(written: Callable[[Iterable[RelabelledRow]], Written], who: Actor) -> Written:
        now = resources.now()
        rows = export_relabelled(resources.database(), who.at(now), batch_id, key, with_text=with_text, as_of=as_of)
        return written(rows)

    stem = f"relabelled-{batch_id[:12]}" + ("" if as_of is None else f"-as-of-{as_of}")
    return [
        StreamedFile(
            label=f"Relabelled ({words})", name=f"{stem}{ending}", media_type=media, lines=partial(lines, made)
        )
        for words, ending, media, made in KINDS
    ]


def as_csv(rows: Iterable[RelabelledRow]) -> Iterator[str]:
    """One line a case; the ratings stand in one cell as JSON, formulas neutralised. Where the labels come from is in
    the data card.
    """
    return csv_lines(CSV_HEADER, map(_cells, rows))


def as_jsonl(rows: Iterable[RelabelledRow]) -> Iterator[str]:
    """One JSON object a case, with everything that the row holds."""
    return jsonl_lines(map(_plain_row, rows))


def as_parquet(rows: Iterable[RelabelledRow]) -> Iterator[bytes]:
    """One row a case; ratings and provenance stand in one column each as JSON."""
    return parquet_parts({name: OTHERS.get(name, "text") for name in HEADER}, map(_flat, rows))


def as_label_studio(rows: Iterable[RelabelledRow]) -> Iterator[str]:
    """Tasks for Label Studio: one annotation a reader, the engine's outcome as a prediction."""
    return json_array_lines(map(_task, rows))


def _task(row: RelabelledRow) -> dict[str, object]:
    plain = _plain_row(row)
    data = {name: plain[name] for name in ("id", "text", "reply", "group", "reference", "final_label", "final_source")}
    latest = {one.reader: one.label for one in row.ratings}
    return label_studio_task(row.row, data, latest, row.outcome)


def _cells(row: RelabelledRow) -> list[object]:
    plain = _flat(row)
    return [plain[name] for name in CSV_HEADER]


def _flat(row: RelabelledRow) -> dict[str, object]:
    """The row with what has parts as JSON."""
    plain = _plain_row(row)
    for name in ("ratings", "provenance"):
        plain[name] = json.dumps(plain[name], ensure_ascii=False)
    return plain | {"tags": ", ".join(row.tags)}


def _plain_row(row: RelabelledRow) -> dict[str, object]:
    found = {name: _plain(value) for name, value in asdict(row).items()}
    return {"id": found.pop("external_id"), **found}


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    return value


KINDS: tuple[tuple[str, str, str, Callable[[Iterable[RelabelledRow]], Written]], ...] = (
    ("CSV", ".csv", CSV, as_csv),
    ("JSON lines", ".jsonl", JSONL, as_jsonl),
    ("Parquet", ".parquet", PARQUET, as_parquet),
    ("Label Studio", "-label-studio.json", JSON, as_label_studio),
    ("data card", "-data-card.md", MARKDOWN, as_data_card),
)
WRITTEN: Mapping[str, Callable[[Iterable[RelabelledRow]], Written]] = {
    "csv": as_csv, "jsonl": as_jsonl, "parquet": as_parquet, "label-studio": as_label_studio,
}  # fmt: skip
"""By the names that the command line has for them."""
