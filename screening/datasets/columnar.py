"""Columnar files: Parquet, Arrow, and a folder as the Hugging Face datasets library saves one."""

import io
import json
import struct
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from screening.datasets.json_rows import class_name, class_names
from screening.datasets.rows import (
    FileFormat,
    FileLayout,
    FileRefused,
    FileRow,
    Lines,
    Source,
    damage_refused,
    most_characters,
    normalised_name,
    open_source,
    require_few_rows,
    unique_names,
)
from screening.settings import FILE_LIMITS

_DELTA_BYTE_ARRAY = 7
"""Each of such values may repeat almost all of the one before it."""
_LONGEST_HEADER = 1 << 16
_LONGEST_FOOTER = 1 << 24
_BYTES, _LISTS, _STRUCT = 8, (9, 10), 12


def plan_unpacking(stream: BinaryIO, most: int) -> list[tuple[int, set[str]]]:
    """For each row group how many rows are unpacked at once, and which columns not as a dictionary, which cannot be.
    FileRefused where a page, or all of them, unpack to more than is read.
    The footer's own numbers are not trusted: the library unpacks what the headers of the pages say. Nor is the library
    asked of a column: where its statistics are damaged, that ends the process.
    """
    plans, together = list[tuple[int, set[str]]](), 0
    for group in _footer(stream)[4]:
        at_once, prefixed = 0, set[str]()
        for column in (chunk[3] for chunk in group[1]):
            pages = list(_pages(stream, column))
            together += sum(unpacked for unpacked, _, _ in pages)
            at_once += max((unpacked for unpacked, _, _ in pages), default=0)
            if sum(values for _, values, _ in pages) > max(FILE_LIMITS.rows, group[3]):
                raise FileRefused(f"A list in this Parquet file has more than {FILE_LIMITS.rows:,} values.")
            if any(encoding == _DELTA_BYTE_ARRAY for _, _, encoding in pages):
                prefixed.add(b".".join(column[3]).decode())
        if at_once > FILE_LIMITS.page or together > most:
            raise FileRefused(
                f"This Parquet file unpacks to more than is read: {FILE_LIMITS.page // 1_000_000} MB at once, "
                f"{most // 1_000_000:,} MB together, {FILE_LIMITS.expansion} times its size. Send it in parts, as CSV."
            )
        rows = 1 if prefixed else min(256, FILE_LIMITS.page // max(at_once, 1))  # a page holds a row or more
        plans.append((rows, prefixed))
    return plans


def _footer(stream: BinaryIO) -> dict[int, Any]:
    stream.seek(-8, io.SEEK_END)
    length = int.from_bytes(stream.read(4), "little")
    if length > _LONGEST_FOOTER:
        raise FileRefused("This Parquet file has more columns or parts than are read. Send it as CSV.")
    stream.seek(-8 - length, io.SEEK_END)
    return _structure(stream.read(length))[1]


def _pages(stream: BinaryIO, column: Mapping[int, Any]) -> Iterator[tuple[int, int, int]]:
    """Of each page, as its header says: bytes when unpacked, values (none in a dictionary), and their encoding."""
    at = min(start for start in (column[9], column.get(11)) if start is not None and start >= 4)
    end = at + column[7]
    while at < end:
        stream.seek(at)
        length, fields = _structure(stream.read(_LONGEST_HEADER))
        unpacked, packed = int(fields[2]), int(fields[3])
        if packed < 0 or unpacked < 0:
            raise FileRefused("This Parquet file is damaged.")
        data: dict[int, Any] = next((fields[place] for place in (5, 8, 7) if isinstance(fields.get(place), dict)), {})
        yield unpacked, 0 if 7 in fields else int(data.get(1, 0)), int(data.get(4 if 8 in fields else 2, 0))
        at += length + packed


def _structure(content: bytes) -> tuple[int, dict[int, Any]]:
    """How long a structure of Thrift's compact protocol is (a footer, a page's header), and its fields by number."""
    stream = io.BytesIO(content)
    fields = _value(stream, _STRUCT, 0)
    return stream.tell(), fields


def _bytes(stream: BinaryIO, length: int = 1) -> bytes:
    found = stream.read(length)
    if len(found) < length:
        raise ValueError("cut off")
    return found


def _varint(stream: BinaryIO) -> int:
    number = shift = 0
    while True:
        (byte,) = _bytes(stream)
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number
        shift += 7


def _value(stream: BinaryIO, kind: int, depth: int) -> Any:
    if depth > 20:
        raise ValueError("too deep")
    if kind in (1, 2, 3):  # of a list: a field of these has its value in its head
        return _bytes(stream)[0]
    if kind in (4, 5, 6):
        number = _varint(stream)
        return (number >> 1) ^ -(number & 1)
    if kind == 7:
        return _bytes(stream, 8)
    if kind == _BYTES:
        return _bytes(stream, _varint(stream))
    if kind in _LISTS:
        (head,) = _bytes(stream)
        length = head >> 4 if head >> 4 != 15 else _varint(stream)
        return [_value(stream, head & 0x0F, depth + 1) for _ in range(length)]
    if kind != _STRUCT:
        raise ValueError("no such kind")
    fields, place = dict[int, Any](), 0
    while head := _bytes(stream)[0]:
        place = place + (head >> 4) if head >> 4 else _value(stream, 5, depth)
        fields[place] = head & 0x0F if head & 0x0F in (1, 2) else _value(stream, head & 0x0F, depth + 1)
    return fields


def unpacked_bytes(message: Any) -> int:
    """What the compressed buffers of a message of an Arrow stream say that they unpack to; 0 where none is."""
    if message.type not in ("record batch", "dictionary"):
        return 0
    metadata, body = bytes(message.metadata), message.body
    batch = _child(metadata, struct.unpack_from("<I", metadata)[0], 2)
    if message.type == "dictionary":
        batch = _child(metadata, batch, 1)
    if _field(metadata, batch, 3) is None:
        return 0
    buffers, total = _child(metadata, batch, 2), 0
    for place in range(struct.unpack_from("<I", metadata, buffers)[0]):
        offset, length = struct.unpack_from("<qq", metadata, buffers + 4 + 16 * place)
        if length >= 8:
            total += max(struct.unpack("<q", bytes(body[offset : offset + 8]))[0], 0)
    return total


def _field(metadata: bytes, table: int, number: int) -> int | None:
    """Where a field of a FlatBuffers table stands; None where it has none."""
    table_of_fields = table - struct.unpack_from("<i", metadata, table)[0]
    if 4 + 2 * number >= struct.unpack_from("<H", metadata, table_of_fields)[0]:
        return None
    offset = struct.unpack_from("<H", metadata, table_of_fields + 4 + 2 * number)[0]
    return table + offset if offset else None


def _child(metadata: bytes, table: int, number: int) -> int:
    """Where the table or the list begins that a field of a table points at."""
    place: Any = _field(metadata, table, number)
    return int(place + struct.unpack_from("<I", metadata, place)[0])


Parts = tuple[tuple[Source, str | None], ...]
"""The files of a table in their order, each with its split."""


def find_columnar(source: Source, _sheet: str | None = None) -> FileLayout | None:
    """The columnar table that this is; None for any other kind of file. FileRefused for a damaged one."""
    if isinstance(source, Path) and source.is_dir():
        with damage_refused(FileFormat.DATASET_FOLDER):
            return _describe(source, FileFormat.DATASET_FOLDER, tuple(_parts(source)))
    with open_source(source) as stream:
        head = stream.read(6)
    if head.startswith(b"PAR1"):
        return _describe(source, FileFormat.PARQUET, ((source, None),))
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return _describe(source, FileFormat.ARROW, ((source, None),))
    return None


def _read(kind: FileFormat, parts: Parts, columns: tuple[str, ...], names: Mapping[int, Sequence[str]]) -> Lines:
    """Every row; ``names`` are those that the numbers of a column stand for, by its place."""
    row = 0
    for source, split in parts:
        with damage_refused(kind), open_source(source) as stream:
            for batch in _parquet_batches(stream, most_characters(source)) if _is_parquet(stream) else _reader(stream):
                require_few_rows(row + batch.num_rows)
                batch.validate(full=True)  # a wrong offset would point at other memory
                _require_short(batch, row)
                for place in range(batch.num_rows):
                    row += 1
                    cells = (class_name(one[place].as_py(), names.get(at)) for at, one in enumerate(batch.columns))
                    written = (cell.isoformat() if hasattr(cell, "isoformat") else cell for cell in cells)
                    yield FileRow.of_values(row, row, dict(zip(columns, (*written, split), strict=False)))


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


def _describe(whole: Source, kind: FileFormat, parts: Parts) -> FileLayout:
    with damage_refused(kind):
        schemas = [_schema(source) for source, _ in parts]
        names = [_label_names(schema, source) for schema, (source, _) in zip(schemas, parts, strict=True)]
    columns = [unique_names(schema.names) for schema in schemas]
    if not columns or any(one != columns[0] for one in columns) or any(one != names[0] for one in names):
        raise FileRefused("The parts of this data set do not have the same columns.")
    split = any(split for _, split in parts) and "split" not in map(normalised_name, columns[0])
    every = (*columns[0], *(("split",) if split else ()))
    return FileLayout(source=whole, format=kind, read=partial(_read, kind, parts, every, names[0]), columns=every)


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


def _is_parquet(stream: io.BufferedIOBase | Any) -> bool:
    head = stream.read(4)
    stream.seek(0)
    return bool(head == b"PAR1")


def _parquet_batches(stream: Any, most: int) -> Iterator[Any]:
    """Some rows at a time, texts as numbers that point at each once. FileRefused where they unpack to too much."""
    import pyarrow.parquet as pq

    metadata = pq.read_metadata(stream)
    leaves = [metadata.schema.column(place) for place in range(len(metadata.schema))]
    if any(leaf.length > FILE_LIMITS.row // 256 for leaf in leaves if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY"):
        raise FileRefused("This Parquet file has a column of very long values of one length. Send it as CSV.")
    require_few_rows(metadata.num_rows)
    plans = plan_unpacking(stream, most)
    for group, (rows, prefixed) in enumerate(plans):
        texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY" and leaf.path not in prefixed]
        stream.seek(0)
        file = pq.ParquetFile(stream, metadata=metadata, read_dictionary=texts)
        yield from file.iter_batches(batch_size=rows, row_groups=[group])


def _reader(stream: Any) -> Any:
    """The batches of an Arrow file, or of an Arrow stream, as the datasets library writes it; a file holds one."""
    import pyarrow as pa

    start = 8 if stream.read(6) == b"ARROW1" else 0
    stream.seek(start)
    for message in pa.ipc.MessageReader.open_stream(stream):
        if unpacked_bytes(message) > FILE_LIMITS.page:
            raise FileRefused(
                f"Part of this Arrow file unpacks to more than {FILE_LIMITS.page // 1_000_000} MB. Save it as Parquet."
            )
    stream.seek(start)
    return pa.ipc.open_stream(stream)
