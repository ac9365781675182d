"""JSON objects in which no key stands twice: one reader would take the first of two values, another the last."""

from typing import Any


class RepeatedKey(Exception):
    """An object names a key twice, so one of two values would be lost."""


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object, for ``object_pairs_hook`` of `json`. Raises RepeatedKey.

    >>> unique_keys([("a", 1), ("b", 2)])
    {'a': 1, 'b': 2}
    """
    read = dict(pairs)
    if len(read) != len(pairs):
        raise RepeatedKey
    return read
