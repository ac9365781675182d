"""The ratings matrix as files, read and logged when they are asked for."""

from collections.abc import Iterator, Mapping
from functools import partial

from pages.components import resources
from pages.components.streamed import CSV, JSONL, PARQUET, StreamedFile
from pages.research import agreement_view as view
from screening.datasets.columnar import Kind, parquet_parts
from screening.review.actors import Actor
from storage.research.reading_table import ReadingTable, exported_readings

KINDS = (
    ("csv", "Matrix (CSV)", CSV),
    ("jsonl", "Readings (JSON lines)", JSONL),
    ("parquet", "Readings (Parquet)", PARQUET),
)


def readings_files(batch_id: str | None) -> list[StreamedFile]:
    """The files of one batch's blind first readings, of all with None."""
    return [
        StreamedFile(label=label, name=f"readings.{kind}", media_type=media, lines=partial(_lines, batch_id, kind))
        for kind, label, media in KINDS
    ]


def _lines(batch_id: str | None, kind: str, who: Actor) -> Iterator[str] | Iterator[bytes]:
    key = resources.settings().pseudonym_secret
    found = exported_readings(resources.database(), who, key, resources.now(), batch_id)
    if kind == "parquet":
        return _parquet(found)
    return view.as_csv(found) if kind == "csv" else view.as_jsonl(found)


def _parquet(table: ReadingTable) -> Iterator[bytes]:
    """A row per case and reader who gave a blind first reading."""
    rows = (
        {
            "case_id": case_id,
            "reader": reader,
            "label": table.labels[row][column],
            "certainty": table.certainties[row][column],
            "ideation": table.ideation[row][column],
        }
        for row, case_id in enumerate(table.case_ids)
        for column, reader in enumerate(table.readers)
        if table.labels[row][column] is not None
    )
    kinds: Mapping[str, Kind] = {"case_id": "text", "reader": "text", "label": "text"}
    return parquet_parts({**kinds, "certainty": "int", "ideation": "int"}, rows)
