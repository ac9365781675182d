"""Columnar files: Parquet, Arrow, and a folder as the Hugging Face datasets library saves one."""

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from screening.datasets.class_names import class_name, class_names
from screening.datasets.columns import normalised_name, unique_names
from screening.datasets.limits import most_characters
from screening.datasets.records import CELL_LIMIT, COLUMN_LIMIT, Fields, Record, cell_of
from screening.datasets.refused import FileRefused
from screening.datasets.source import HEAD, FileFormat, Source, open_source
from screening.datasets.unpacked_sizes import plan_unpacking, unpacked_bytes
from screening.settings import FILE_LIMITS

_SPLIT = "split"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrowFiles:
    """The files of a table in their order, each with its split, and the table's columns. ``names`` are those that the
    numbers of a column stand for, by its place, as the datasets library writes them.
    """

    format: FileFormat
    parts: tuple[tuple[Source, str | None], ...]
    columns: tuple[str, ...]
    names: Mapping[int, Sequence[str]]


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
                named = (class_name(cell, files.names.get(place)) for place, cell in enumerate(cells))
                fields: Fields = dict(zip(files.columns, (*map(_cell, named), split), strict=False))
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
    schemas = []
    for source, _split in parts:
        try:
            schemas.append(_schema(source))
        except FileRefused:
            raise
        except Exception:  # as above
            raise FileRefused(f"This {kind} is damaged or cut off.") from None
    columns = [unique_names(schema.names) for schema in schemas]
    names = [_label_names(schema, source) for schema, (source, _) in zip(schemas, parts, strict=True)]
    if not columns or any(one != columns[0] for one in columns) or any(one != names[0] for one in names):
        raise FileRefused("The parts of this data set do not have the same columns.")
    if len(columns[0]) > COLUMN_LIMIT:
        raise FileRefused(f"The file has {len(columns[0]):,} columns; at most {COLUMN_LIMIT:,} are read.")
    split = any(split for _, split in parts) and _SPLIT not in map(normalised_name, columns[0])
    every = (*columns[0], *((_SPLIT,) if split else ()))
    return ArrowFiles(format=kind, parts=parts, columns=every, names=names[0])


def _schema(source: Source) -> Any:
    import pyarrow.parquet as pq

    with open_source(source) as stream:
        return pq.read_schema(stream) if _is_parquet(stream) else _reader(stream).schema


def _label_names(schema: Any, source: Source) -> dict[int, Sequence[str]]:
    """What the numbers of a label column stand for, as the datasets library writes it into the schema or the folder."""
    try:
        found = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    except ValueError:
        found = {}
    features = (found.get("info") or {}).get("features") if isinstance(found, dict) else None
    if not features and isinstance(source, Path):
        features = _json(source.parent / "dataset_info.json").get("features")
    return {place: names for place, one in enumerate(schema.names) if (names := class_names((features or {}).get(one)))}


def _rows_of(source: Source) -> Iterator[tuple[Any, ...]]:
    """The rows, one at a time as Python values, once their sizes are known."""
    with open_source(source) as stream:
        row = 0
        for batch in _parquet_batches(stream, most_characters(source)) if _is_parquet(stream) else _reader(stream):
            if row + batch.num_rows > FILE_LIMITS.rows:
                raise FileRefused(f"The file has more than {FILE_LIMITS.rows:,} rows. Send it in parts.")
            _require_short(batch, row)
            for place in range(batch.num_rows):
                yield tuple(column[place].as_py() for column in batch.columns)
            row += batch.num_rows


def _require_short(batch: Any, before: int) -> None:
    """FileRefused for a row of more characters than is read, before it is in memory."""
    totals = sum((_lengths(column) for column in batch.columns), np.zeros(batch.num_rows, dtype=np.int64))
    if batch.num_rows and totals.max() > FILE_LIMITS.row:
        row = before + int(totals.argmax()) + 1
        raise FileRefused(f"row {row} holds more than {FILE_LIMITS.row:,} characters.")


def _lengths(array: Any) -> npt.NDArray[np.int64]:
    """How long each value is as text, without making it: an entry of a dictionary may stand in every row."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, types = array.type, pa.types
    if isinstance(array, pa.ExtensionArray):
        return _lengths(array.storage)
    if types.is_dictionary(kind):
        entries, places = _lengths(array.dictionary), array.indices
        known = np.append(entries, 0)
        return np.asarray(known[pc.fill_null(places.cast("int64"), len(entries)).to_numpy()])
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind) or types.is_fixed_size_list(kind):
        size = kind.list_size if types.is_fixed_size_list(kind) else 0
        ends = np.arange(array.offset, array.offset + len(array) + 1) * size if size else array.offsets.to_numpy()
        inside = np.concatenate(([0], np.cumsum(_lengths(array.values) + 4)))
        return np.asarray(inside[ends[1:]] - inside[ends[:-1]])
    if types.is_struct(kind):
        return sum((_lengths(one) + 4 for one in array.flatten()), np.zeros(len(array), dtype=np.int64))
    if types.is_string_view(kind) or types.is_binary_view(kind):
        views = np.frombuffer(array.buffers()[1], dtype="<i4")[::4]  # each begins with its length
        return views[array.offset : array.offset + len(array)].astype(np.int64)
    if any(
        is_text(kind) for is_text in (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary)
    ):
        return np.asarray(pc.fill_null(pc.binary_length(array).cast("int64"), 0).to_numpy())
    if types.is_primitive(kind) or types.is_decimal(kind) or types.is_null(kind) or types.is_fixed_size_binary(kind):
        return np.full(len(array), getattr(kind, "byte_width", 0) if types.is_fixed_size_binary(kind) else 30)
    raise FileRefused(f"A column of the kind {kind} is not read. Send it as JSON lines.")


def _is_parquet(stream: io.BufferedIOBase | Any) -> bool:
    head = stream.read(4)
    stream.seek(0)
    return bool(head == b"PAR1")


def _parquet_batches(stream: Any, most: int) -> Iterator[Any]:
    """Some rows at a time, texts as numbers that point at each once. FileRefused where they unpack to too much."""
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(stream)
    leaves = [metadata.schema.column(place) for place in range(len(metadata.schema))]
    if any(leaf.length > CELL_LIMIT // 256 for leaf in leaves if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY"):
        raise FileRefused("This Parquet file has a column of very long values of one length. Send it as CSV.")
    if metadata.num_rows > FILE_LIMITS.rows:
        raise FileRefused(f"The file has more than {FILE_LIMITS.rows:,} rows. Send it in parts.")
    plans = plan_unpacking(stream, metadata, most)
    for group, plan in enumerate(plans):
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and leaf.path not in plan.prefixed]
        stream.seek(0)
        file = pq.ParquetFile(stream, metadata=metadata, read_dictionary=texts)
        yield from file.iter_batches(batch_size=plan.rows, row_groups=[group])


def _reader(stream: Any) -> Any:
    """Record batches of an Arrow file, or of an Arrow stream, as the datasets library writes it; a file holds one."""
    import pyarrow as pa

    start = 8 if stream.read(6) == b"ARROW1" else 0
    stream.seek(start)
    for message in pa.ipc.MessageReader.open_stream(stream):
        if unpacked_bytes(message) > FILE_LIMITS.page:
            raise FileRefused(
                f"Part of this Arrow file unpacks to more than {FILE_LIMITS.page // 1_000_000} MB. Save it as Parquet."
            )
    stream.seek(start)
    return _Checked(pa.ipc.open_stream(stream))


class _Checked:
    """The batches of a stream, each with every offset in it checked: a wrong one would point at other memory."""

    def __init__(self, reader: Any) -> None:
        self.schema, self._reader = reader.schema, reader

    def __iter__(self) -> Iterator[Any]:
        for batch in self._reader:
            batch.validate(full=True)
            yield batch


def _cell(value: object) -> str | None:
    return cell_of(value.isoformat() if hasattr(value, "isoformat") else value)
