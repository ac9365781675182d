"""The body of a reply as bytes and as JSON: bounded, also after decompression, and read without any leniency."""

import json
import zlib
from collections.abc import AsyncIterable
from typing import Any, NoReturn

from screening.text.unique_keys import RepeatedKey, unique_keys

LARGEST_BODY = 256 * 1024
"""Bytes; a whole answer of one word takes about one thousand."""

_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class UnreadableBody(ValueError):
    """The body is too large, compressed in a way nobody asked for, or no JSON object."""


async def read_bounded(chunks: AsyncIterable[bytes], encoding: str | None, limit: int = LARGEST_BODY) -> bytes:
    """The whole body, decompressed; UnreadableBody as soon as it is larger than ``limit``, on the wire or after.

    Never holds more than ``limit`` bytes beyond one chunk, whatever the body would become.
    """
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > limit:
            raise UnreadableBody("too large")
    return plain(bytes(body), (encoding or "identity").strip().casefold(), limit)


def plain(body: bytes, encoding: str, limit: int = LARGEST_BODY) -> bytes:
    """The body decompressed up to ``limit`` bytes. UnreadableBody where it is larger, broken or in another coding.

    >>> plain(zlib.compress(b"safe"), "deflate")
    b'safe'
    """
    if encoding in ("identity", ""):
        return body
    if encoding not in _WINDOW_BITS:
        raise UnreadableBody("unknown content coding")
    decoder = zlib.decompressobj(_WINDOW_BITS[encoding])
    try:
        content = decoder.decompress(body, limit + 1)
    except zlib.error:
        raise UnreadableBody("broken compression") from None
    if len(content) > limit or not decoder.eof or decoder.unused_data:
        raise UnreadableBody("too large or cut")
    return content


class DuplicateKey(UnreadableBody):
    """A JSON object names a key twice, so that two readers may read two different replies."""


def json_object(body: bytes) -> dict[str, Any]:
    """The body as a JSON object. DuplicateKey, or UnreadableBody for anything else that is no plain JSON object.

    >>> json_object(b'{"a": 1}')
    {'a': 1}
    """
    try:
        read = _STRICT.decode(body.decode("utf-8"))
    except RepeatedKey:
        raise DuplicateKey("a key stands twice") from None
    except (ValueError, RecursionError):
        raise UnreadableBody("no JSON") from None
    if not isinstance(read, dict):
        raise UnreadableBody("no JSON object")
    return read


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_STRICT = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=_no_constant)
