"""What an Arrow or a Parquet file unpacks to, from the lengths that it says itself: nothing is unpacked to know it."""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

from screening.datasets.refused import FileRefused
from screening.settings import FILE_LIMITS

_DELTA_BYTE_ARRAY = 7
"""Each of such values may repeat almost all of the one before it."""
_LONGEST_HEADER = 1 << 16
_BYTES, _LISTS, _STRUCT, _MAP = 8, (9, 10), 12, 11


@dataclass(frozen=True, slots=True)
class Page:
    """Sizes as its header says, the encoding of its values, and how many it claims."""

    header: int
    unpacked: int
    packed: int
    encoding: int
    values: int
    dictionary: bool


@dataclass(frozen=True, slots=True)
class Unpacking:
    """How a row group is unpacked: so many rows at once, and which columns not as a dictionary, which cannot be."""

    rows: int
    prefixed: frozenset[str]


def plan_unpacking(stream: BinaryIO, metadata: Any, most: int) -> list[Unpacking]:
    """One plan for each row group. FileRefused where a page, or all of them, unpack to more than is read.

    The footer's own numbers are not trusted: the reader unpacks what the headers of the pages say.
    """
    plans, together = list[Unpacking](), 0
    for group in (metadata.row_group(number) for number in range(metadata.num_row_groups)):
        at_once, prefixed = 0, set[str]()
        for column in (group.column(place) for place in range(group.num_columns)):
            pages = list(_pages(stream, column))
            together += sum(page.unpacked for page in pages)
            at_once += max((page.unpacked for page in pages), default=0)
            if sum(page.values for page in pages if not page.dictionary) > max(FILE_LIMITS.rows, group.num_rows):
                raise FileRefused(f"A list in this Parquet file has more than {FILE_LIMITS.rows:,} values.")
            if any(page.encoding == _DELTA_BYTE_ARRAY for page in pages):
                prefixed.add(column.path_in_schema)
        if at_once > FILE_LIMITS.page or together > most:
            raise FileRefused(
                f"This Parquet file unpacks to more than is read: {FILE_LIMITS.page // 1_000_000} MB at once, "
                f"{most // 1_000_000:,} MB together, {FILE_LIMITS.expansion} times its size. Send it in parts, as CSV."
            )
        rows = 1 if prefixed else min(256, FILE_LIMITS.page // max(at_once, 1))  # a page holds a row or more
        plans.append(Unpacking(rows, frozenset(prefixed)))
    return plans


def _pages(stream: BinaryIO, column: Any) -> Iterator[Page]:
    starts = [column.data_page_offset, column.dictionary_page_offset if column.has_dictionary_page else None]
    at = min(start for start in starts if start is not None and start >= 4)
    end = at + column.total_compressed_size
    while at < end:
        stream.seek(at)
        page = _Header(stream.read(_LONGEST_HEADER)).page()
        if page.packed < 0 or page.unpacked < 0:
            raise FileRefused("This Parquet file is damaged.")
        yield page
        at += page.header + page.packed


class _Header:
    """Reads one header as Thrift's compact protocol writes it: only what is needed, the rest is stepped over."""

    def __init__(self, content: bytes) -> None:
        self._content, self._at = content, 0

    def page(self) -> Page:
        fields = self._struct(1)
        data: dict[int, Any] = next((fields[place] for place in (5, 8, 7) if isinstance(fields.get(place), dict)), {})
        encoding = data.get(4 if 8 in fields else 2, 0)
        return Page(self._at, int(fields[2]), int(fields[3]), int(encoding), int(data.get(1, 0)), 7 in fields)

    def _byte(self) -> int:
        self._at += 1
        return self._content[self._at - 1]

    def _varint(self) -> int:
        number = shift = 0
        while True:
            byte = self._byte()
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number
            shift += 7

    def _zigzag(self) -> int:
        number = self._varint()
        return (number >> 1) ^ -(number & 1)

    def _struct(self, depth: int) -> dict[int, Any]:
        """The fields by number: whole numbers and structures as such, the rest as None."""
        if depth > 20:
            raise ValueError("too deep")
        fields, number = dict[int, Any](), 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            fields[number] = self._value(head & 0x0F, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):
            return None
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._zigzag()
        if kind == 7:
            self._at += 8
        elif kind == _BYTES:
            length = self._varint()
            self._at += length
        elif kind in _LISTS:
            head = self._byte()
            for _ in range(head >> 4 if head >> 4 != 15 else self._varint()):
                self._value(head & 0x0F, depth + 1)
        elif kind == _STRUCT:
            return self._struct(depth + 1)
        else:
            raise ValueError("no such kind")
        return None


_DICTIONARY, _BATCH = 2, 3


def unpacked_bytes(message: Any) -> int:
    """Of a message of an Arrow stream what its compressed buffers say that they unpack to; 0 where none is compressed.

    Raises struct.error for a damaged one.
    """
    metadata, body = bytes(message.metadata), message.body
    root = struct.unpack_from("<I", metadata)[0]
    kind = _field(metadata, root, 1)
    batch = _pointed(metadata, _field(metadata, root, 2))
    if kind is None or batch is None:
        return 0
    if metadata[kind] == _DICTIONARY:
        batch = _pointed(metadata, _field(metadata, batch, 1))
    elif metadata[kind] != _BATCH:
        return 0
    buffers = None if batch is None else _pointed(metadata, _field(metadata, batch, 2))
    if batch is None or buffers is None or _field(metadata, batch, 3) is None:
        return 0
    count = struct.unpack_from("<I", metadata, buffers)[0]
    total = 0
    for place in range(count):
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


def _pointed(metadata: bytes, place: int | None) -> int | None:
    return None if place is None else place + int(struct.unpack_from("<I", metadata, place)[0])
