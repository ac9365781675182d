"""What a compressed batch of an Arrow file unpacks to, from the lengths before its buffers: nothing is unpacked."""

import struct
from typing import Any

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
