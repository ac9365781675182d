"""Texts that a file keeps as a list of strings: in JSON, or as Python prints a list."""

import ast
import json

_LONGEST_LITERAL = 1_000_000


def parts_of(cell: str) -> tuple[str, ...] | None:
    """The strings of a list; None for everything else.

    >>> parts_of('["a", "b"]'), parts_of("['a', \\"it's\\"]"), parts_of("[deleted]"), parts_of('[1, "a"]')
    (('a', 'b'), ('a', "it's"), None, None)
    """
    bare = cell.strip()
    if not (bare.startswith("[") and bare.endswith("]")):
        return None
    found = _parsed(bare)
    return tuple(found) if isinstance(found, list) and all(isinstance(one, str) for one in found) else None


def joined(cell: str) -> str:
    """The strings of a list with an empty line between, or the cell as it stands where it is no list of strings."""
    parts = parts_of(cell)
    return cell if parts is None else "\n\n".join(part for part in parts if part.strip())


def _parsed(bare: str) -> object:
    try:
        return json.loads(bare)
    except (ValueError, RecursionError):
        pass
    if len(bare) > _LONGEST_LITERAL:
        return None
    try:
        return ast.literal_eval(bare)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
