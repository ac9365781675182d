"""Parquet files, a row at a time and within the limits of all files."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from screening.datasets.json_rows import class_name, class_names
from screening.datasets.mapping import unique_names
from screening.datasets.rows import FileLayout, FileRow, Rows, most_characters, require_few_columns
from screening.datasets.sources import FileFormat, FileRefused, Source, damage_refused, open_source
from screening.settings import FILE_LIMITS

_AT_ONCE = 256
"""Rows in memory, their texts as numbers that point at each once."""
_UNPACKED_IN_FULL = frozenset({"DELTA_BYTE_ARRAY"})
"""Encodings in which each value may repeat almost all of the one before it."""


def find_parquet(source: Source, _sheet: str | None = None) -> FileLayout | None:
    """The table that this is; None for any other kind of file. FileRefused for a damaged one."""
    import pyarrow.parquet as pq

    with open_source(source) as stream:
        if stream.read(4) != b"PAR1":
            return None
        with damage_refused(FileFormat.PARQUET):
            schema = pq.read_schema(stream)
            names = _label_names(schema)
    columns = unique_names(schema.names)
    require_few_columns(columns)
    read = partial(_read, source, columns, names)
    return FileLayout(source=source, format=FileFormat.PARQUET, read=read, columns=columns)


def _label_names(schema: Any) -> dict[int, Sequence[str]]:
    """What the numbers of a label column stand for, by its place, as the datasets library writes it into the schema."""
    found = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))
    features: Mapping[str, object] = (found.get("info") or {}).get("features") or {}
    return {place: names for place, one in enumerate(schema.names) if (names := class_names(features.get(one)))}


def _read(source: Source, columns: tuple[str, ...], names: Mapping[int, Sequence[str]]) -> Rows:
    """Every row; a list or a structure stands as JSON in its cell."""
    row = 0
    with open_source(source) as stream, damage_refused(FileFormat.PARQUET):
        for batch in _batches(stream, most_characters(source)):
            _require_short(batch, row)
            for place in range(batch.num_rows):
                row += 1
                cells = (class_name(column[place].as_py(), names.get(at)) for at, column in enumerate(batch.columns))
                yield FileRow.of_values(row, row, dict(zip(columns, map(_plain, cells), strict=True)))


def _batches(stream: Any, most: int) -> Iterator[Any]:
    """Some rows at a time. FileRefused where they are too many, or unpack to more than is read."""
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(stream)
    if metadata.num_rows > FILE_LIMITS.rows:
        raise FileRefused(f"The file has more than {FILE_LIMITS.rows:,} rows. Send it in parts.")
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    if sum(group.total_byte_size for group in groups) > most:
        raise FileRefused(
            f"This Parquet file unpacks to more than is read: {most // 1_000_000:,} MB, {FILE_LIMITS.expansion} times "
            "its size. Send it in parts, as CSV."
        )
    for number, group in enumerate(groups):
        parts = [group.column(place) for place in range(group.num_columns)]
        if any(part.num_values > max(FILE_LIMITS.rows, group.num_rows) for part in parts):
            raise FileRefused(f"A list in this Parquet file has more than {FILE_LIMITS.rows:,} values.")
        repeating = {part.path_in_schema for part in parts if not _UNPACKED_IN_FULL.isdisjoint(part.encodings)}
        long = repeating or any(part.physical_type == "FIXED_LEN_BYTE_ARRAY" for part in parts)
        texts = [part.path_in_schema for part in parts if part.physical_type == "BYTE_ARRAY"]
        file = pq.ParquetFile(
            stream, metadata=metadata, read_dictionary=[path for path in texts if path not in repeating]
        )
        yield from file.iter_batches(batch_size=1 if long else _AT_ONCE, row_groups=[number])


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
        known = np.append(_lengths(array.dictionary), 0)
        return np.asarray(known[pc.fill_null(array.indices.cast("int64"), len(known) - 1).to_numpy()])
    if types.is_list(kind) or types.is_large_list(kind) or types.is_map(kind) or types.is_fixed_size_list(kind):
        size = kind.list_size if types.is_fixed_size_list(kind) else 0
        ends = np.arange(array.offset, array.offset + len(array) + 1) * size if size else array.offsets.to_numpy()
        inside = np.concatenate(([0], np.cumsum(_lengths(array.values) + 4)))
        return np.asarray(inside[ends[1:]] - inside[ends[:-1]])
    if types.is_struct(kind):
        return sum((_lengths(one) + 4 for one in array.flatten()), np.zeros(len(array), dtype=np.int64))
    if types.is_primitive(kind) or types.is_decimal(kind) or types.is_null(kind):
        return np.full(len(array), 30)
    try:
        return np.asarray(pc.fill_null(pc.binary_length(array).cast("int64"), 0).to_numpy())
    except pa.ArrowNotImplementedError:
        raise FileRefused(f"A column of the kind {kind} is not read. Send it as JSON lines.") from None


def _plain(value: object) -> object:
    return value.isoformat() if hasattr(value, "isoformat") else value
