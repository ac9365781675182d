"""Lists of wordings in a file, and one way to look for them in the readings of a text.

Readings of a text are nearly equal: a further one is looked at only around words that stand nowhere like this in those
before it.
"""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Self

_NAMED = re.compile("@([A-Za-z_]+)@")
_REFUSED_AT_START = re.compile(r"((?:@start@)?)(@un[a-z]+@)(.+)", re.DOTALL)
"""An expression that begins with what must not stand around it."""
_WORD = re.compile(r"\S+")
_TOGETHER = 32
"""Words in a row by which readings are told apart: a change among so many makes each of them a place to look at."""
_BEFORE, _AFTER, _AHEAD = 30, 32, 48
"""Words around such places at which a match may begin too, and how many more it may look at."""
_WORTH_PARTS = 0.8


@dataclass(frozen=True, slots=True)
class Wording:
    """An expression of a list, and whether a text holds what it needs, which is found sooner than a match."""

    section: str
    kind: str
    expression: re.Pattern[str]
    may_match: Callable[[str, frozenset[str]], bool]

    @classmethod
    def of(cls, section: str, kind: str, expression: re.Pattern[str]) -> Self:
        return cls(section, kind, expression, gate(required_words(expression.pattern)))


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
                yield from (Wording.of("by_language", language, compiled(one)) for one in alternatives(whole))

    def wordings(self, *sections: str, compiled: Callable[[str], re.Pattern[str]]) -> Iterator[Wording]:
        """All entries of these sections, in the order of the file.

        What must not stand around a wording takes longest to look for, so the wording itself is looked for first.
        """
        for section in sections:
            for kind, expressions in self.table[section].items():
                for written in (one for several in expressions for one in alternatives(several)):
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
            runs = runs_of(part)
            for wording in wordings:
                if not wording.may_match(part, runs):
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


# --- What a text must hold for an expression to match it: found once an expression, so that most are never tried. What
# is not known is taken for anything; expressions of which nothing is known are always tried.

Words = frozenset[str]
_Part = tuple[Words | None, Words | None]
"""The strings that a part matches, where they are few; strings of which every match holds one."""

_ANYTHING: _Part = (None, None)
_NOTHING: _Part = (frozenset([""]), None)
_MOST, _MOST_IN_SET = 150, 5
_REPEATED = re.compile(r"(\?|\*|\+|\{(\d*)(?:,\d*)?\})[?+]?")
_GROUP = re.compile(r"\((?:\?(?::|P<\w+>|(<?[=!])))?")
_ESCAPE = re.compile(r"\\(?:x..|u.{4}|U.{8}|.)", re.DOTALL)
_SET = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*\]", re.DOTALL)


def required_words(expression: str) -> Words | None:
    """Strings of which every match of the expression holds at least one; None where that is not known.

    >>> sorted(required_words("(?:kill|hang) (?:my self|myself)(?! (?:in|on) it)"))
    ['hang my self', 'hang myself', 'kill my self', 'kill myself']
    >>> required_words(r"\\w+ (?:a|b)") is None
    True
    """
    (_, needed), end = _alternatives(expression, 0)
    return needed if end == len(expression) else None


def alternatives(expression: str) -> Iterator[str]:
    """The expressions of which each match is one.

    >>> list(alternatives(r"a(?:b|c)|[|]d"))
    ['a(?:b|c)', '[|]d']
    """
    depth = begin = at = 0
    while at < len(expression):
        skipped = _ESCAPE.match(expression, at) or _SET.match(expression, at)
        depth += {"(": 1, ")": -1}.get(expression[at], 0)
        if expression[at] == "|" and not depth:
            yield expression[begin:at]
            begin = at + 1
        at = skipped.end() if skipped else at + 1
    yield expression[begin:]


def _alternatives(text: str, at: int) -> tuple[_Part, int]:
    parts = []
    while True:
        part, at = _sequence(text, at)
        parts.append(part)
        if text[at : at + 1] != "|":
            return _either(parts), at
        at += 1


def _sequence(text: str, at: int) -> tuple[_Part, int]:
    run: Words = frozenset([""])
    found: list[Words | None] = []
    whole = True
    while at < len(text) and text[at] not in "|)":
        (exact, needed), at = _repeated(text, at)
        if exact is not None and len(run) * len(exact) <= _MOST:
            run = frozenset(map("".join, product(run, exact)))
        else:
            found += [run, needed]
            run, whole = exact or frozenset([""]), False
    return (run if whole else None, _best([*found, run])), at


def _repeated(text: str, at: int) -> tuple[_Part, int]:
    (exact, needed), at = _single(text, at)
    times = _REPEATED.match(text, at)
    if times is None:
        return (exact, needed), at
    if times[1] == "?":
        return (None if exact is None else exact | {""}, None), times.end()
    least = int(times[2] or 0) if times[1][0] == "{" else times[1] == "+"
    return (None, (needed or _best([exact])) if least else None), times.end()


def _single(text: str, at: int) -> tuple[_Part, int]:
    if text[at] == "(":
        return _group(text, at)
    if text[at] == "[":
        chosen = _SET.match(text, at)
        if chosen is None:
            raise ValueError(f"a set without an end at {at}")
        few = re.fullmatch(rf"\[[^\^\\\]-]{{1,{_MOST_IN_SET}}}\]", chosen[0])
        return ((frozenset(chosen[0][1:-1]), None) if few else _ANYTHING), chosen.end()
    if text[at] == "\\":
        return _escaped(text, at)
    if text[at] in "^$":
        return _NOTHING, at + 1
    return (_ANYTHING if text[at] == "." else (frozenset(text[at]), None)), at + 1


def _group(text: str, at: int) -> tuple[_Part, int]:
    begun = _GROUP.match(text, at)
    if begun is None or (text.startswith("(?", at) and begun.end() == at + 1):
        raise ValueError(f"a kind of group that is not known at {at}")
    part, end = _alternatives(text, begun.end())
    return (_NOTHING if begun[1] else part), end + 1


def _escaped(text: str, at: int) -> tuple[_Part, int]:
    escape = _ESCAPE.match(text, at)
    if escape is None:
        return _ANYTHING, at + 1
    sign = escape[0][1:]
    if sign in "bBAZ":
        return _NOTHING, escape.end()
    plain = len(sign) == 1 and not sign.isalnum()
    return ((frozenset(sign), None) if plain else _ANYTHING), escape.end()


def _either(parts: list[_Part]) -> _Part:
    exact = [one for one, _ in parts if one is not None]
    few = len(exact) == len(parts) and sum(map(len, exact)) <= _MOST
    needed = [one for _, one in parts if one is not None]
    return (
        frozenset().union(*exact) if few else None,
        frozenset().union(*needed) if len(needed) == len(parts) else None,
    )


def _best(found: list[Words | None]) -> Words | None:
    """Those that are rarest, as their length tells."""
    told = [words for words in found if words and min(map(_weight, words)) >= 3]
    return max(told, key=lambda words: (min(_MOST_IN_SET, min(map(_weight, words))), -len(words)), default=None)


def _weight(word: str) -> int:
    return len(word) if word.isascii() else 2 * len(word)


def runs_of(text: str) -> frozenset[str]:
    """All runs of three and of five characters, and the empty one."""
    runs = {text[at : at + 5] for at in range(len(text))}
    return frozenset([*runs, *(run[:3] for run in runs), ""])


def gate(needed: Words | None) -> Callable[[str, frozenset[str]], bool]:
    """Whether a text, with its runs, holds one of these."""
    if needed is None:
        return lambda text, runs: True
    begun: dict[str, list[str]] = {}
    for word in needed:
        begun.setdefault(word[:5] if len(word) > 4 else word[:3] if len(word) > 2 else "", []).append(word)
    starts = frozenset(begun)

    def holds_one(text: str, runs: frozenset[str]) -> bool:
        return any(word in text for start in starts & runs for word in begun[start])

    return holds_one
