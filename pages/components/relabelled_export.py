"""The relabelled data set as files: CSV for spreadsheets, JSON lines that lose nothing; both made row by row."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict
from datetime import datetime
from enum import Enum
from functools import partial
from typing import Any

from pages.components import resources
from pages.components.streamed import CSV, JSONL, StreamedFile
from screening.datasets.export import csv_lines, jsonl_lines
from screening.review.actors import Actor
from storage.research.relabelled import RelabelledRow, relabelled_rows

HEADER = (
    *("id", "row", "case_id", "text", "reply", "group", "reference", "reference_value", "provenance", "outcome"),
    *("ratings", "adjudicated_label", "final_label", "final_source", "withheld", "version"),
)


def relabelled_files(batch_id: str, *, with_text: bool = True) -> list[StreamedFile]:
    """Both files of a batch's relabelled data set, for those who may take data out."""
    key = resources.settings().pseudonym_secret

    def lines(written: Callable[[Iterable[RelabelledRow]], Iterator[str]], who: Actor) -> Iterator[str]:
        return written(relabelled_rows(resources.database(), who, batch_id, key, resources.now(), with_text=with_text))

    stem = f"relabelled-{batch_id[:12]}"
    return [
        StreamedFile(
            label=f"Relabelled ({words})", name=f"{stem}.{ending}", media_type=media, lines=partial(lines, made)
        )
        for words, ending, media, made in (("CSV", "csv", CSV, as_csv), ("JSON lines", "jsonl", JSONL, as_jsonl))
    ]


def as_csv(rows: Iterable[RelabelledRow]) -> Iterator[str]:
    """One line a case; the ratings stand in one cell as JSON, formulas neutralised."""
    return csv_lines(HEADER, map(_cells, rows))


def as_jsonl(rows: Iterable[RelabelledRow]) -> Iterator[str]:
    """One JSON object a case, with everything that the row holds."""
    return jsonl_lines(map(_plain_row, rows))


def _cells(row: RelabelledRow) -> list[object]:
    plain = _plain_row(row)
    for name in ("ratings", "provenance"):
        plain[name] = json.dumps(plain[name], ensure_ascii=False)
    return [plain[name] for name in HEADER]


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
