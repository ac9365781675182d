"""Lists of wordings in files, the readings of a text, and one way to look for the wordings in them.

What stands between or inside the words of a text is undone as far as it is known (readings.toml); the text itself and
what a model is shown stay as they are. Readings of a text are nearly equal: a further one is looked at only around
words that stand nowhere like this in those before it.
"""

import base64
import binascii
import html
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
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
_ROUNDS = 3
"""So often what is undone is looked at again: ``&amp;nbsp;`` takes two."""
_FOREIGN_RUN = re.compile("[\u0080-\uffff]+")
_TABLES = ("cp1252", "mac_roman", "cp850", "cp437", "cp1251", "cp1250", "gb18030", "cp932")
"""Tables by which text in UTF-8 is read mistakenly."""
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


class Lexicon:
    """The file of this name; ``@name@`` in an expression is the entry of its ``[words]``, which may hold others."""

    def __init__(self, name: str) -> None:
        text = Path(__file__).with_name(f"{name}.toml").read_text(encoding="utf-8")
        self.table: Mapping[str, Any] = tomllib.loads(text)

    def whole(self, expression: str, words: Mapping[str, str] | None = None) -> str:
        """The expression with every name replaced; KeyError for one that the file does not have."""
        known = words or self.table["words"]
        while _NAMED.search(expression):
            expression = _NAMED.sub(lambda named: known[named[1]], expression)
        return expression

    def by_language(self, compiled: Callable[[str], re.Pattern[str]]) -> Iterator[Wording]:
        """The expressions of ``[by_language]`` with the words of each of its languages."""
        table = dict(self.table["by_language"])
        for expression in table.pop("expressions"):
            for language, words in table.items():
                yield _wording("by_language", language, compiled(self.whole(expression, words)))

    def wordings(self, *sections: str, compiled: Callable[[str], re.Pattern[str]]) -> Iterator[Wording]:
        """All entries of these sections, in the order of the file. What must not stand around a wording takes longest
        to look for, so the wording itself is looked for first.
        """
        for section in sections:
            for kind, expressions in self.table[section].items():
                for written in expressions:
                    late = _REFUSED_AT_START.fullmatch(written)
                    whole = self.whole(f"{late[1]}(?={late[3]}){late[2]}{late[3]}" if late else written)
                    yield _wording(section, kind, compiled(whole))


def _wording(section: str, kind: str, expression: re.Pattern[str]) -> Wording:
    return Wording(section, kind, expression, required_words(expression.pattern))


@dataclass(frozen=True, slots=True)
class Reading:
    """A text made from another one and, where it is tracked, the place there of each of its characters."""

    text: str
    at: Sequence[int] | None = None

    @classmethod
    def tracked(cls, text: str) -> Self:
        """The text itself, from which places are counted."""
        return cls(text, range(len(text)))

    def sub(self, pattern: re.Pattern[str], by: str | Callable[[re.Match[str]], str]) -> "Reading":
        """As `re.Pattern.sub`, keeping places; what is put in stands where the first character it replaces stood."""
        if self.at is None:
            return Reading(pattern.sub(by, self.text))
        parts: list[str] = []
        at: list[int] = []
        done = 0
        for match in pattern.finditer(self.text):
            new = match.expand(by) if isinstance(by, str) else by(match)
            parts += [self.text[done : match.start()], new]
            at += [*self.at[done : match.start()], *self._places(match.start(), match.end(), len(new))]
            done = match.end()
        return Reading("".join([*parts, self.text[done:]]), [*at, *self.at[done:]])

    def _places(self, start: int, end: int, length: int) -> Sequence[int]:
        """Of what is put in: the places it replaces where there are as many, else the first of them and the last."""
        if not self.at or length in (0, end - start):
            return self.at[start : start + length] if self.at else ()
        first = self.at[min(start, len(self.at) - 1)]
        return [*[first] * (length - 1), self.at[end - 1] if end > start else first]

    def translate(self, table: Mapping[int, int]) -> "Reading":
        """As `str.translate` by a table of single characters."""
        return Reading(self.text.translate(table), self.at)

    def each(self, change: Callable[[str], str]) -> "Reading":
        """Every character replaced by what ``change`` makes of it."""
        made = list(map(change, self.text))
        at = self.at and [at for at, new in zip(self.at, made, strict=True) for _ in new]
        return Reading("".join(made), at)

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where a part of a tracked reading stands in the text it was made from; (0, 0) for an empty part."""
        return (self.at[start], self.at[end - 1] + 1) if self.at and start < end else (0, 0)


def versions(reading: Reading) -> tuple[Reading, ...]:
    r"""The text, then the distinct readings in which what stands between its words is undone.

    >>> [one.text for one in versions(Reading("I don&#39;t<br>want <b>to</b>\n> go"))][1:]
    ["I don't\nwant to\n> go", "I don't want to go"]
    """
    plain = reading
    for _ in range(_ROUNDS):
        before, plain = plain, _undone(plain)
        if plain.text == before.text:
            break
    joined = _apply("layout", plain)
    return distinct([reading, plain, joined, joined.sub(_expression("aside"), " ")])


def distinct(readings: Iterable[Reading]) -> tuple[Reading, ...]:
    """Those of another text than all before them."""
    found: dict[str, Reading] = {}
    for one in readings:
        found.setdefault(one.text, one)
    return tuple(found.values())


def _undone(reading: Reading) -> Reading:
    if _expression("encoded").search(reading.text):
        if not reading.text.isascii():
            reading = reading.sub(_FOREIGN_RUN, _mended)
        rich = _expression("rich_text").search(reading.text)
        for section in ("bytes", "rich" if rich else "escapes", "markup"):
            reading = _apply(section, reading)
    return reading.sub(_expression("apostrophe"), "'")


def _apply(section: str, reading: Reading) -> Reading:
    for pattern, by in _rules(section):
        reading = reading.sub(pattern, by)
    return reading


_file = cache(lambda: Lexicon("readings"))


@cache
def _expression(name: str) -> re.Pattern[str]:
    return re.compile(_file().whole(_file().table[name]))


@cache
def _rules(section: str) -> tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]:
    return tuple((re.compile(_file().whole(find)), _DECODERS.get(by, by)) for find, by in _file().table[section])


def from_base64(token: str) -> bytes:
    """What it encodes, also in the alphabet for addresses; nothing where it encodes nothing."""
    standard = token.rstrip("=").translate(str.maketrans("-_", "+/"))
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4))
    except (binascii.Error, ValueError):
        return b""


def _mended(match: re.Match[str]) -> str:
    """The run as it was before it was read by the wrong table; itself where no table fits."""
    for table in _TABLES:
        try:
            return b"".join(_as_bytes(one, table) for one in match[0]).decode("utf-8")
        except UnicodeError:
            continue
    return match[0]


def _as_bytes(character: str, table: str) -> bytes:
    try:
        return character.encode(table)
    except UnicodeError:
        if table != "cp1252":
            raise
        return character.encode("latin-1")


def _byte_text(match: re.Match[str], base: int, width: int) -> str:
    digits = re.sub("[^0-9A-Fa-f]", "", match[0])
    raw = bytes(int(digits[at : at + width], base) for at in range(0, len(digits), width))
    try:
        return raw.decode("utf-8")
    except UnicodeError:
        return raw.decode("cp1252", "replace")


def _character(match: re.Match[str], base: int) -> str:
    """Of the group that was found: nothing for a surrogate, or beyond the last code point."""
    number = int(match[match.lastindex or 0], base)
    number = number % 0x10000 if base == 10 else number
    return chr(number) if number < 0x110000 and not 0xD800 <= number < 0xE000 else ""


_DECODERS: Mapping[str, Callable[[re.Match[str]], str]] = {
    "@bytes": lambda match: _byte_text(match, 16, 2),
    "@octal": lambda match: _byte_text(match, 8, 3),
    "@code": lambda match: _character(match, 16),
    "@decimal": lambda match: _character(match, 10),
    "@pair": lambda match: bytes.fromhex(match[1] + match[2]).decode("utf-16-be"),
    "@entity": lambda match: html.unescape(match[0]),
    "@number": lambda match: html.unescape(f"&#{match[1] or 39};"),
    "@without_stops": lambda match: re.sub(r"[.!](?=\s)", "", match[0]),
}
"""By the names that readings.toml gives them."""


class Readings:
    """Of one text, one after another."""

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
