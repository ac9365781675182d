"""The ratings matrix as files, read and logged when they are asked for."""

from collections.abc import Iterator, Mapping
from functools import partial

from pages.research import agreement_view as view
from pages.ui import context
from pages.ui.downloads import CSV, JSON, JSONL, PARQUET, StreamedFile
from screening.datasets.columnar import Kind, parquet_parts
from screening.datasets.export import json_array_lines, label_studio_task
from screening.review.actors import Actor
from storage.research.reading_table import ReadingTable, export_readings

KINDS = (
    ("csv", "Matrix (CSV)", CSV),
    ("jsonl", "Reviews (JSON lines)", JSONL),
    ("parquet", "Reviews (Parquet)", PARQUET),
    ("label-studio", "Reviews (Label Studio)", JSON),
)

ENDINGS = {"label-studio": "-label-studio.json"}


def readings_files(batch_id: str | None) -> list[StreamedFile]:
    """The files of one batch's blind first readings, of all with None."""
    return [
        StreamedFile(
            label=label,
            name=f"readings{ENDINGS.get(kind, f'.{kind}')}",
            media_type=media,
            lines=partial(_lines, batch_id, kind),
        )
        for kind, label, media in KINDS
    ]


def _lines(batch_id: str | None, kind: str, who: Actor) -> Iterator[str] | Iterator[bytes]:
    key = context.settings().pseudonym_secret
    found = export_readings(context.database(), who.at(context.now()), key, batch_id)
    return as_file(found, kind)


def as_file(table: ReadingTable, kind: str) -> Iterator[str] | Iterator[bytes]:
    """The table as a file of this kind: csv, jsonl, parquet or label-studio."""
    if kind == "parquet":
        return _parquet(table)
    if kind == "label-studio":
        return json_array_lines(_tasks(table))
    return view.as_csv(table) if kind == "csv" else view.as_jsonl(table)


def _tasks(table: ReadingTable) -> Iterator[dict[str, object]]:
    """A task a case, with an annotation for each reader; without texts."""
    for row, case_id in enumerate(table.case_ids):
        labels = zip(table.readers, table.labels[row], strict=True)
        readings = {reader: label for reader, label in labels if label is not None}
        named = {"case_id": case_id, "id": table.external_ids[row], "at_random": table.at_random[row]}
        yield label_studio_task(row + 1, named, readings, None)


def _parquet(table: ReadingTable) -> Iterator[bytes]:
    """A row per case and reader who gave a blind first reading."""
    rows = (
        {
            "case_id": case_id,
            "id": table.external_ids[row],
            "reader": reader,
            "label": table.labels[row][column],
            "certainty": table.certainties[row][column],
            "ideation": table.ideation[row][column],
            "reading": table.turns[row][column],
            "at_random": table.at_random[row],
        }
        for row, case_id in enumerate(table.case_ids)
        for column, reader in enumerate(table.readers)
        if table.labels[row][column] is not None
    )
    kinds: Mapping[str, Kind] = {"case_id": "text", "id": "text", "reader": "text", "label": "text"}
    numbers: Mapping[str, Kind] = {"certainty": "int", "ideation": "int"}
    return parquet_parts({**kinds, **numbers, "reading": "text", "at_random": "bool"}, rows)
