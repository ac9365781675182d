"""The ratings matrix as files, read and logged when they are asked for."""

from collections.abc import Iterator
from functools import partial

from pages.components import resources
from pages.components.streamed import CSV, JSONL, StreamedFile
from pages.research import agreement_view as view
from screening.review.actors import Actor
from storage.research.reading_table import exported_readings

KINDS = (("csv", "Matrix (CSV)", CSV), ("jsonl", "Readings (JSON lines)", JSONL))


def readings_files(batch_id: str | None) -> list[StreamedFile]:
    """Both files of one batch's blind first readings, of all with None."""
    return [
        StreamedFile(label=label, name=f"readings.{kind}", media_type=media, lines=partial(_lines, batch_id, kind))
        for kind, label, media in KINDS
    ]


def _lines(batch_id: str | None, kind: str, who: Actor) -> Iterator[str]:
    key = resources.settings().pseudonym_secret
    found = exported_readings(resources.database(), who, key, resources.now(), batch_id)
    return view.as_csv(found) if kind == "csv" else view.as_jsonl(found)
