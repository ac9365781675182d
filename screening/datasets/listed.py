"""Texts that a file keeps as a list of strings, in JSON or as Python prints them."""

import ast
import json
from typing import Any

_LONGEST_LITERAL = 1_000_000


def parts_of(cell: str) -> tuple[str, ...] | None:
    """The strings of a list; None for everything else.

    >>> parts_of('["a", "b"]'), parts_of("['a', \\"it's\\"]"), parts_of("[deleted]"), parts_of('[1, "a"]')
    (('a', 'b'), ('a', "it's"), None, None)
    """
    found = parsed_list(cell)
    return tuple(found) if found is not None and all(isinstance(one, str) for one in found) else None


def holds_turns(cell: str) -> bool:
    """Whether it is a list of objects, as conversations are written."""
    found = parsed_list(cell)
    return bool(found) and all(isinstance(one, dict) for one in found or ())


def join_list(cell: str) -> str:
    """The parts of a list with an empty line between, or the cell as it stands where it is no such list."""
    parts = parts_of(cell)
    return cell if parts is None else "\n\n".join(part for part in parts if part.strip())


def parsed_list(cell: str) -> list[Any] | None:
    """The list that a cell holds, in JSON or as Python prints it; None for any other cell."""
    bare = cell.strip()
    if not (bare.startswith("[") and bare.endswith("]")):
        return None
    found = _parse(bare)
    return found if isinstance(found, list) else None


def _parse(bare: str) -> object:
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
