"""What every match of an expression must contain, told from the expression as the standard library reads it."""

import importlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

MARK = "\x01"
"""Stands in folded texts wherever a word begins or ends."""

_PIECES = re.compile(r"\w+|\W+")
_SPACES = "\t\n\v\f\r\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)
_ALIKE = {**dict.fromkeys(map(ord, _SPACES), " "), ord("İ"): "i", ord("ı"): "i"}
_MOST = 40
"""Most spellings that joining two neighbouring parts may give; beyond, each is promised alone."""
_LARGEST_CLASS = 8
"""A class of more characters promises too little."""


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Met where one of the literals stands in the folded, marked text, or one of the groups is met."""

    literals: frozenset[str]
    groups: tuple["AllOf", ...] = ()


AllOf = tuple[AnyOf, ...]
"""Met where every part is; an empty one always."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """How a match of a part of an expression begins and ends, and what else is in it.

    One of ``heads`` begins it and one of ``tails`` ends it (they may be the same characters); "" promises nothing.
    ``whole``: the heads are all it can be.
    """

    heads: frozenset[str]
    tails: frozenset[str]
    need: AllOf = ()
    whole: bool = False


_EMPTY = frozenset({""})
_ANYTHING = _Part(heads=_EMPTY, tails=_EMPTY)


def promise_of(expression: re.Pattern[str]) -> AllOf:
    """What any text has that the expression matches; for an expression that ignores case or does not.

    >>> [sorted(part.literals) for part in promise_of(re.compile("(?:a cat|dogs?) .* Straße"))]
    [['a\\x01 \\x01cat\\x01 ', 'dog\\x01 ', 'dogs\\x01 '], [' \\x01strasse']]
    """
    if expression.flags & re.ASCII:
        return ()  # words and cases are others there
    return _without_implied(_all_of(_sequence(_parse(expression))))


def marked_pieces(text: str) -> list[str]:
    """The words of the text and what stands between them, folded; with marks around each it is the marked text.

    >>> marked_pieces("Dear AI!")
    ['dear', ' ', 'ai', '!']
    """
    if text.isascii():
        return _PIECES.findall(text.translate(_ALIKE).lower())
    return [fold(piece) for piece in _PIECES.findall(text)]


def fold(text: str) -> str:
    """The text in the one case of a comparison that ignores case; each character for itself, whatever its neighbours.

    As `re.IGNORECASE` compares: dotted and dotless i are one, the Kelvin sign is a k, the long s an s. Any white
    space is a space.

    >>> fold("İıIſK\\n")
    'iiisk '
    """
    return text.translate(_ALIKE).casefold()


def _parse(expression: re.Pattern[str]) -> Sequence[Any]:
    """The expression as the standard library reads it: the only use of its inner parser."""
    parsed: Sequence[Any] = importlib.import_module("re._parser").parse(expression.pattern, expression.flags)
    return parsed


def _sequence(items: Iterable[tuple[Any, Any]]) -> _Part:
    heads: frozenset[str] | None = None
    need: AllOf = ()
    run = _EMPTY
    for operation, argument in items:
        part = _part(str(operation), argument)
        joined = _join(run, part.heads)
        if joined is not None and part.whole:
            run = joined
            continue
        first = run if joined is None else joined
        need += (_promise(first) if heads is not None else ()) + part.need
        if joined is None and not part.whole:
            need += _promise(part.heads)
        heads = first if heads is None else heads
        run = part.tails
    return _whole(run) if heads is None else _Part(heads=heads, tails=run, need=need)


def _part(operation: str, argument: Any) -> _Part:
    match operation:
        case "LITERAL":
            return _whole(frozenset({chr(argument)}))
        case "AT":
            return _whole(frozenset({MARK if str(argument) == "AT_BOUNDARY" else ""}))
        case "ASSERT" | "ASSERT_NOT":  # what must or must not follow or precede takes no room in the match
            return _whole(_EMPTY)
        case "IN":
            return _class(argument)
        case "SUBPATTERN" if not argument[1] and not argument[2]:
            return _sequence(argument[3])
        case "BRANCH":
            return _alternatives([_sequence(branch) for branch in argument[1]])
        case "MAX_REPEAT" | "MIN_REPEAT":
            return _repeat(*argument)
        case _:
            return _ANYTHING


def _whole(spellings: frozenset[str]) -> _Part:
    return _Part(heads=spellings, tails=spellings, whole=True)


def _class(members: Sequence[tuple[Any, Any]]) -> _Part:
    spellings = [_member(str(kind), value) for kind, value in members]
    return (
        _ANYTHING if len(members) > _LARGEST_CLASS or None in spellings else _whole(frozenset(filter(None, spellings)))
    )


def _member(kind: str, value: Any) -> str | None:
    if kind == "CATEGORY" and str(value) == "CATEGORY_SPACE":
        return " "  # as all white space is folded
    return chr(value) if kind == "LITERAL" else None


def _alternatives(branches: Sequence[_Part]) -> _Part:
    heads = frozenset[str]().union(*(branch.heads for branch in branches))
    if all(branch.whole for branch in branches):
        return _whole(heads)
    needs = [_all_of(branch) for branch in branches]
    tails = frozenset[str]().union(*(branch.tails for branch in branches))
    return _Part(heads=heads, tails=tails, need=(_any_of(needs),) if all(needs) else ())


def _any_of(needs: Sequence[AllOf]) -> AnyOf:
    """Needs that are one bare set of literals as one set, the others as groups."""
    bare = [need[0].literals for need in needs if len(need) == 1 and not need[0].groups]
    groups = tuple(need for need in needs if len(need) > 1 or need[0].groups)
    return AnyOf(_shortest(frozenset[str]().union(*bare)), groups)


def _repeat(least: int, most: int, repeated: Iterable[tuple[Any, Any]]) -> _Part:
    part = _sequence(repeated)
    if most == 1 and part.whole:
        return _whole(part.heads | _EMPTY if least == 0 else part.heads)
    return _Part(heads=part.heads, tails=part.tails, need=part.need) if least > 0 else _ANYTHING


def _all_of(part: _Part) -> AllOf:
    return _promise(part.heads) + (() if part.whole else part.need + _promise(part.tails))


def _join(run: frozenset[str], heads: frozenset[str]) -> frozenset[str] | None:
    if len(run) * len(heads) > max(_MOST, len(run), len(heads)):
        return None
    return frozenset(map("".join, product(run, heads)))


def _promise(spellings: frozenset[str]) -> AllOf:
    """That one of the spellings stands there, if that says anything."""
    literals = frozenset(map(_mark, spellings))
    return () if any(not literal.strip(MARK) for literal in literals) else (AnyOf(_shortest(literals)),)


def _mark(spelling: str) -> str:
    """Folded, marked where words begin or end within it and where the expression asks for a boundary."""
    parts = (MARK.join(marked_pieces(part)) for part in spelling.split(MARK))
    return re.sub(f"{MARK}+", MARK, MARK.join(parts))


def _shortest(literals: frozenset[str]) -> frozenset[str]:
    """Without those that contain another."""
    return frozenset(one for one in literals if not any(other in one for other in literals if other != one))


def _without_implied(need: AllOf) -> AllOf:
    """Without the parts that are met wherever another one is, and without groups' own such parts."""
    parts = [AnyOf(part.literals, tuple(map(_without_implied, part.groups))) for part in dict.fromkeys(need)]
    return tuple(one for one in parts if not any(_implies(other, one) for other in parts if other is not one))


def _implies(one: AnyOf, other: AnyOf) -> bool:
    """Whether ``other`` is met wherever ``one`` is, and says less."""
    if one.groups or (one.literals == other.literals and not other.groups):
        return False
    return all(any(literal in longer for literal in other.literals) for longer in one.literals)
