"""Texts that a file keeps as a list: of strings, in JSON or as Python prints them, or of a conversation's turns."""

import ast
import json
from typing import Any

from screening.datasets.annotated import content_text

_LONGEST_LITERAL = 1_000_000
_ROLES, _CONTENTS = ("role", "from", "speaker", "author"), ("content", "value", "text", "message")


def parts_of(cell: str) -> tuple[str, ...] | None:
    """The strings of a list, or its turns with who speaks before each; None for everything else.

    A turn without a role or without a text is none, so that nothing of a conversation is left out unsaid.

    >>> parts_of('["a", "b"]'), parts_of("['a', \\"it's\\"]"), parts_of("[deleted]"), parts_of('[1, "a"]')
    (('a', 'b'), ('a', "it's"), None, None)
    >>> parts_of('[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": [{"text": "Hello"}]}]')
    ('User: Hi', 'Assistant: Hello')
    """
    bare = cell.strip()
    if not (bare.startswith("[") and bare.endswith("]")):
        return None
    found = _parsed(bare)
    if not isinstance(found, list):
        return None
    parts = tuple(one if isinstance(one, str) else _turn(one) for one in found)
    kept = tuple(part for part in parts if part is not None)
    return kept if len(kept) == len(parts) and len({type(one) for one in found}) <= 1 else None


def joined(cell: str) -> str:
    """The parts of a list with an empty line between, or the cell as it stands where it is no such list."""
    parts = parts_of(cell)
    return cell if parts is None else "\n\n".join(part for part in parts if part.strip())


def _turn(value: object) -> str | None:
    """One turn as "User: words"; None without a role or a text."""
    if not isinstance(value, dict):
        return None
    role, content = _first(value, _ROLES), content_text(_first(value, _CONTENTS))
    if not isinstance(role, str) or not role.strip() or content is None:
        return None
    return f"{role.strip().capitalize()}: {content}"


def _first(turn: dict[Any, Any], names: tuple[str, ...]) -> object:
    return next((turn[name] for name in names if turn.get(name) is not None), None)


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
