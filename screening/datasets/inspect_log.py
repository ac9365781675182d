"""An Inspect evaluation log in its packed form: one JSON file a sample inside a zip archive."""

import json
import zipfile
from collections.abc import Iterator
from zlib import error as zlib_error

from screening.datasets.annotated import flatten
from screening.datasets.records import CELL_LIMIT, Fields, Reason, Record, cell_of
from screening.datasets.refused import FileRefused
from screening.datasets.source import Source, open_source

_SAMPLES = "samples/"
MOST_SAMPLES = 1_000_000


def is_inspect_log(source: Source) -> bool:
    """Whether it is such an archive, by what is inside it."""
    try:
        with open_source(source) as stream:
            if stream.read(2) != b"PK":
                return False
            stream.seek(0)
            with zipfile.ZipFile(stream) as archive:
                names = archive.namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError, OSError):
        return False
    return "header.json" in names or any(name.startswith("_journal/") for name in names)


def read_inspect_log(source: Source) -> Iterator[Record]:
    """One row a sample, in the order of their names. FileRefused for a damaged archive."""
    try:
        for row, content in enumerate(sample_files(source), start=1):
            yield _record(row, content)
    except (zipfile.BadZipFile, zlib_error, NotImplementedError, EOFError, OSError, RuntimeError):
        raise FileRefused("This Inspect log is damaged or cut off.") from None


def sample_files(source: Source, largest: int = CELL_LIMIT) -> Iterator[bytes]:
    """The JSON of each sample, in the order of their names; of one larger than ``largest`` a byte more than that.

    FileRefused for too many; what the zip library raises for a damaged archive.
    """
    with open_source(source) as stream, zipfile.ZipFile(stream) as archive:
        entries = sorted(
            (one for one in archive.infolist() if one.filename.startswith(_SAMPLES)), key=lambda one: one.filename
        )
        if len(entries) > MOST_SAMPLES:
            raise FileRefused(f"The log has more than {MOST_SAMPLES:,} samples.")
        for entry in entries:
            with archive.open(entry) as sample:
                yield sample.read(largest + 1)


def _record(row: int, content: bytes) -> Record:
    if len(content) > CELL_LIMIT:
        return Record(row, row, None, Reason.NOT_JSON, "the sample is larger than is read at all")
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return Record(row, row, None, Reason.NOT_JSON, "the sample is not a complete JSON object")
    if not isinstance(value, dict):
        return Record(row, row, None, Reason.NOT_AN_OBJECT, "the sample is not an object with named values")
    fields: Fields = {key: cell_of(one) for key, one in flatten(value).items()}
    return Record(row, row, fields)
