"""Columnar files: Parquet, Arrow, and a folder as the Hugging Face datasets library saves one."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from screening.datasets.columns import normalised_name, unique_names
from screening.datasets.records import COLUMN_LIMIT, Fields, Record, cell_of
from screening.datasets.refused import FileRefused
from screening.datasets.source import HEAD, FileFormat, Source, open_source

UNPACKED_LIMIT = 4_000_000_000
"""Most bytes the columns of a Parquet file may unpack to."""

_ROWS = 256
_SPLIT = "split"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowFiles:
    """The files of a table in their order, each with its split, and the table's columns."""

    format: FileFormat
    parts: tuple[tuple[Source, str | None], ...]
    columns: tuple[str, ...]


def find_arrow(source: Source) -> ArrowFiles | None:
    """The columnar table that this is; None for any other kind of file. FileRefused for a damaged one."""
    if isinstance(source, Path) and source.is_dir():
        return _describe(FileFormat.DATASET_FOLDER, tuple(_parts(source)))
    with open_source(source) as stream:
        head = stream.read(HEAD)
    if head.startswith(b"PAR1"):
        return _describe(FileFormat.PARQUET, ((source, None),))
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return _describe(FileFormat.ARROW, ((source, None),))
    return None


def read_arrow(files: ArrowFiles) -> Iterator[Record]:
    """Every row; a list or a structure stands as JSON in its cell."""
    row = 0
    for source, split in files.parts:
        try:
            for cells in _rows_of(source):
                row += 1
                fields: Fields = dict(zip(files.columns, (*map(_cell, cells), split), strict=False))
                yield Record(row, row, fields)
        except FileRefused:
            raise
        except Exception:  # pyarrow meets damage with errors of its own, of memory and of values
            raise FileRefused(f"This {files.format} is damaged.", line=row + 1) from None


def _parts(folder: Path) -> Iterator[tuple[Path, str | None]]:
    """The files of a saved data set, or of each split of several."""
    splits = _json(folder / "dataset_dict.json").get("splits")
    if isinstance(splits, list):
        for split in splits:
            inside = folder / Path(str(split)).name
            yield from ((path, str(split)) for path, _ in _parts(inside))
        return
    listed = _json(folder / "state.json").get("_data_files")
    files = listed if isinstance(listed, list) else []
    for one in files:
        yield folder / Path(str(one.get("filename", ""))).name, None
    if not files:
        raise FileRefused("The folder is no saved data set: it has neither dataset_dict.json nor state.json.")


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _describe(kind: FileFormat, parts: tuple[tuple[Source, str | None], ...]) -> ArrowFiles:
    names: list[tuple[str, ...]] = []
    for source, _split in parts:
        try:
            names.append(_columns(source))
        except FileRefused:
            raise
        except Exception:  # as above
            raise FileRefused(f"This {kind} is damaged or cut off.") from None
    if not names or any(one != names[0] for one in names):
        raise FileRefused("The parts of this data set do not have the same columns.")
    if len(names[0]) > COLUMN_LIMIT:
        raise FileRefused(f"The file has {len(names[0]):,} columns; at most {COLUMN_LIMIT:,} are read.")
    split = any(split for _, split in parts) and _SPLIT not in map(normalised_name, names[0])
    return ArrowFiles(format=kind, parts=parts, columns=(*names[0], *((_SPLIT,) if split else ())))


def _columns(source: Source) -> tuple[str, ...]:
    with open_source(source) as stream:
        if _is_parquet(stream):
            return unique_names(_parquet(stream).schema_arrow.names)
        return unique_names(_reader(stream).schema.names)


def _rows_of(source: Source) -> Iterator[tuple[Any, ...]]:
    """The rows, one at a time as Python values: a value that repeats is in memory once."""
    with open_source(source) as stream:
        batches = _parquet(stream).iter_batches(batch_size=_ROWS) if _is_parquet(stream) else _reader(stream)
        for batch in batches:
            for row in range(batch.num_rows):
                yield tuple(column[row].as_py() for column in batch.columns)


def _is_parquet(stream: io.BufferedIOBase | Any) -> bool:
    head = stream.read(4)
    stream.seek(0)
    return bool(head == b"PAR1")


def _parquet(stream: Any) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pq.read_schema(stream)
    stream.seek(0)
    kinds = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
    texts = [one.name for one in schema if one.type in kinds]
    file = pq.ParquetFile(stream, read_dictionary=texts)
    groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
    if sum(group.total_byte_size for group in groups) > UNPACKED_LIMIT:
        raise FileRefused(f"This Parquet file unpacks to more than {UNPACKED_LIMIT // 1_000_000_000} GB.")
    return file


def _reader(stream: Any) -> Any:
    """Record batches of an Arrow file or of an Arrow stream, as the datasets library writes it."""
    import pyarrow as pa

    head = stream.read(6)
    stream.seek(0)
    if head != b"ARROW1":
        return pa.ipc.open_stream(stream)
    file = pa.ipc.open_file(stream)
    return _Batches(file)


class _Batches:
    """The record batches of an Arrow file as an iterator with a schema, as a stream of them is."""

    def __init__(self, file: Any) -> None:
        self.schema = file.schema
        self._file = file

    def __iter__(self) -> Iterator[Any]:
        return (self._file.get_batch(number) for number in range(self._file.num_record_batches))


def _cell(value: object) -> str | None:
    return cell_of(value.isoformat() if hasattr(value, "isoformat") else value)
