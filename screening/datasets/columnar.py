"""Rows as a Parquet file, made while it is sent: a few thousand rows are in memory at a time."""

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Literal

Kind = Literal["text", "int", "float", "bool"]

_ROWS = 2_000
_CHARACTERS = 8_000_000
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Parts(io.RawIOBase):
    """What was written and not yet taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        content = bytes(part)
        self._parts.append(content)
        self._written += len(content)
        return len(content)

    def tell(self) -> int:
        return self._written

    def take(self) -> bytes:
        """All of it; it is forgotten here."""
        taken, self._parts = b"".join(self._parts), []
        return taken


def parquet_parts(columns: Mapping[str, Kind], rows: Iterable[Mapping[str, object]]) -> Iterator[bytes]:
    """The rows as the parts of one Parquet file, its columns in the order given; None is a missing value.

    A character that UTF-8 cannot hold becomes U+FFFD: the JSON lines keep it.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"text": pa.string(), "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_()}
    schema = pa.schema([(name, types[kind]) for name, kind in columns.items()])
    sink, remaining = _Parts(), iter(rows)
    with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), schema, compression="zstd") as writer:
        while part := _part(remaining):
            values = {name: [_value(row.get(name)) for row in part] for name in columns}
            writer.write_table(pa.table(values, schema=schema))
            yield sink.take()
    yield sink.take()


def _part(rows: Iterator[Mapping[str, object]]) -> list[Mapping[str, object]]:
    """The next rows: fewer where their texts are long."""
    part: list[Mapping[str, object]] = []
    characters = 0
    for row in islice(rows, _ROWS):
        part.append(row)
        characters += sum(len(value) for value in row.values() if isinstance(value, str))
        if characters >= _CHARACTERS:
            break
    return part


def _value(value: object) -> object:
    return _SURROGATE.sub("\ufffd", value) if isinstance(value, str) else value
