"""Lists of wordings in a file, and one way to look for them in the readings of a text.

Readings of a text are nearly equal: a further one is looked at only around words that stand nowhere like this in those
before it.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

_NAMED = re.compile("@([A-Za-z_]+)@")
_REFUSED_AT_START = re.compile(r"((?:@start@)?)(@un[a-z]+@)(.+)", re.DOTALL)
"""An expression that begins with what must not stand around it."""
_WORD = re.compile(r"\S+")
_TOGETHER = 32
"""Words in a row by which readings are told apart: a change among so many makes each of them a place to look at."""
_BEFORE, _AFTER, _AHEAD = 30, 32, 48
"""Words around such places at which a match may begin too, and how many more it may look at."""
_WORTH_PARTS = 0.8


_PIECE = re.compile(r"\\(?:x..|u.{4}|.)|\[\^?\]?(?:\\.|[^\]\\])*\]|\((?:\?(?::|P<\w+>|<?[=!]))?|.", re.DOTALL)
"""An escape, a set, what opens a group, or a single character of an expression."""
_TIMES = re.compile(r"(?:([?*]|\{0?,\d*\}|\{0\})|\+|\{\d+(?:,\d*)?\})[?+]?")
"""How often a piece stands; the group is there where it may be left out."""


class Wording(NamedTuple):
    """An expression of a list, and strings of which every match holds one: most are told from a text by these."""

    section: str
    kind: str
    expression: re.Pattern[str]
    needed: frozenset[str] | None

    @classmethod
    def of(cls, section: str, kind: str, expression: re.Pattern[str]) -> Self:
        return cls(section, kind, expression, required_words(expression.pattern))


class Lexicon:
    """The file of this name beside this one.

    ``@name@`` in an expression stands for the entry of ``[words]`` with that name, which may hold others.
    """

    def __init__(self, name: str) -> None:
        text = Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")
        self.table: Mapping[str, Any] = tomllib.loads(text)

    def whole(self, expression: str) -> str:
        """The expression with every name replaced; KeyError for one that the file does not have."""
        while _NAMED.search(expression):
            expression = _NAMED.sub(lambda named: self.table["words"][named[1]], expression)
        return expression

    def by_language(self, compiled: Callable[[str], re.Pattern[str]]) -> Iterator[Wording]:
        """The expressions of ``[by_language]`` with the words of each of its languages."""
        table = dict(self.table["by_language"])
        for expression in table.pop("expressions"):
            for language, words in table.items():
                parts = _NAMED.split(expression)
                whole = "".join(words[part] if at % 2 else part for at, part in enumerate(parts))
                yield Wording.of("by_language", language, compiled(whole))

    def wordings(self, *sections: str, compiled: Callable[[str], re.Pattern[str]]) -> Iterator[Wording]:
        """All entries of these sections, in the order of the file.

        What must not stand around a wording takes longest to look for, so the wording itself is looked for first.
        """
        for section in sections:
            for kind, expressions in self.table[section].items():
                for written in expressions:
                    late = _REFUSED_AT_START.fullmatch(written)
                    whole = self.whole(f"{late[1]}(?={late[3]}){late[2]}{late[3]}" if late else written)
                    yield Wording.of(section, kind, compiled(whole))


class Readings:
    """The readings of one text, one after another."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def look_for(self, wordings: Sequence[Wording], text: str) -> Iterator[tuple[Wording, re.Match[str]]]:
        """Every match in the first reading, and in a further one every match at what is new there."""
        for begin, last, end in self._new_parts(text):
            part = text[begin:end]
            for wording in wordings:
                if wording.needed is not None and not any(word in part for word in wording.needed):
                    continue
                for match in wording.expression.finditer(text, begin, end):
                    if match.start() > last:
                        break
                    yield wording, match

    def _new_parts(self, text: str) -> list[list[int]]:
        """Where matches may begin, first and last, and how far they look, in characters."""
        at = [word.start() for word in _WORD.finditer(text)]
        ends = [*at[_TOGETHER:], *[len(text)] * _TOGETHER]
        stretches = [text[begin:end] for begin, end in zip(at, ends, strict=False)]
        stretches[:1] = [f"^{first}" for first in stretches[:1]]
        new = [place for place, stretch in enumerate(stretches) if stretch not in self._seen]
        first = not self._seen
        self._seen.update(stretches)
        parts: list[list[int]] = []
        for place in new:
            if parts and place - _BEFORE <= parts[-1][1]:
                parts[-1][1] = place + _AFTER
            else:
                parts.append([place - _BEFORE, place + _AFTER])
        if first or sum(end - begin for begin, end in parts) > _WORTH_PARTS * len(at):
            return [[0, len(text), len(text)]]
        return [
            [0 if one <= 0 else at[one] - 1 if one < len(at) else len(text) for one in (begin, end, end + _AHEAD)]
            for begin, end in parts
        ]


def required_words(expression: str) -> frozenset[str] | None:
    """Strings of which every match of the expression holds at least one; None where that is not known.

    >>> sorted(required_words(r"\\b(?:kill|hang)(?: it)? \\w+ me") or ())
    ['hang', 'kill']
    >>> required_words(r"\\w+ (?:a|b)") is None
    True
    """
    words, end = _alternatives(expression, 0)
    return words if end == len(expression) else None


def _alternatives(text: str, at: int) -> tuple[frozenset[str] | None, int]:
    """Of the alternatives up to the end of their group."""
    branches = []
    while True:
        words, at = _sequence(text, at)
        branches.append(words)
        if text[at : at + 1] != "|":
            known = [one for one in branches if one is not None]
            return (frozenset().union(*known) if len(known) == len(branches) else None), at
        at += 1


def _sequence(text: str, at: int) -> tuple[frozenset[str] | None, int]:
    """Of the pieces that follow each other: the rarest of what they need, as its length tells."""
    found, run = [], ""
    while at < len(text) and text[at] not in "|)":
        found_piece = _PIECE.match(text, at)
        if found_piece is None or (text.startswith("(?", at) and found_piece[0] == "("):
            raise ValueError(f"a kind of group that is not known at {at}")
        piece = found_piece[0]
        at, letter, words = at + len(piece), "", None
        if piece[0] == "(":
            words, at = _alternatives(text, at)
            words, at = None if piece[-1] in "=!" else words, at + 1
        elif len(piece) == 1 and piece not in ".^$":
            letter = piece
        elif piece[0] == "\\" and not piece[1].isalnum():
            letter = piece[1]
        times = _TIMES.match(text, at)
        if times is not None:
            at = times.end()
            letter, words = ("", None) if times[1] else (letter, words)
        run += letter
        if not letter or times is not None:
            found += [frozenset([run]), words]
            run = ""
    known = [one for one in (*found, frozenset([run])) if one and min(map(_weight, one)) > 2]
    return max(known, key=lambda one: (min(5, *map(_weight, one)), -len(one)), default=None), at


def _weight(word: str) -> int:
    return len(word) if word.isascii() else 2 * len(word)
