"""Which of many expressions can match a text at all, told from a few words of each: exact, and far cheaper than trying.

From every expression follows what any match of it must contain: of parts in sequence each, of alternatives one;
repeats that may be absent, classes and dots promise nothing. A text that lacks these words is passed over, one that
has them is searched as ever. So no match is lost, which the tests hold against the plain search. The idea is that of
Cox, "Regular expression matching with a trigram index" (2012).

Expressions are taken to ignore case. Texts and literals are folded alike, and a mark stands wherever a word begins
or ends, so that ``\\bai\\b`` asks for a word and is not met by "again".
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from screening.text.promises import MARK, AnyOf, marked_pieces, promise_of

_START = 3
"""So many first letters of a word are looked up before the whole literal is looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seen:
    """A text as literals are looked for in it: marked, and its words with their first letters."""

    marked: str
    words: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Literals:
    """Literals under a word each contains, or the first letters of one; those with neither apart."""

    by_word: Mapping[str, tuple[str, ...]]
    anywhere: tuple[str, ...]

    def find_in(self, seen: _Seen) -> Iterator[str]:
        for literal in self.anywhere:
            if literal in seen.marked:
                yield literal
        for word in self.by_word.keys() & seen.words:
            for literal in self.by_word[word]:
                if literal in seen.marked:
                    yield literal


@dataclass(frozen=True, slots=True, kw_only=True)
class _Check:
    """Passed where a literal is found or all checks of a group are passed."""

    literals: _Literals
    groups: tuple[tuple["_Check", ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstLook:
    """Which expressions each key literal opens, those that are always open, and what each needs besides its key."""

    keys: _Literals
    opens: Mapping[str, frozenset[int]]
    always: frozenset[int]
    checks: tuple[tuple[_Check, ...], ...]

    def candidates(self, text: str) -> list[int]:
        """Indices, in order, of the expressions that may match; all others do not."""
        pieces = marked_pieces(text)
        words = frozenset([*pieces, *[piece[:_START] for piece in pieces]])
        seen = _Seen(marked=MARK.join(["", *pieces, ""]), words=words)
        opened = self.always.union(*[self.opens[literal] for literal in self.keys.find_in(seen)])
        return sorted(index for index in opened if _all_passed(self.checks[index], seen))


def first_look(expressions: Iterable[re.Pattern[str]]) -> FirstLook:
    r"""The first look for these expressions, in their order.

    >>> look = first_look([re.compile(r"\bdear (?:ai|model)\b", re.I), re.compile(r"\d+ stars?", re.I)])
    >>> look.candidates("Dear AI, my dear air"), look.candidates("dear airlines"), look.candidates("1 star")
    ([0], [], [1])
    """
    needs = [sorted(promise_of(expression), key=_commonness) for expression in expressions]
    opens: dict[str, set[int]] = defaultdict(set)
    for index, need in enumerate(needs):
        for literal in _keys(need[0]) if need else ():
            opens[literal].add(index)
    return FirstLook(
        keys=_by_word(opens),
        opens={literal: frozenset(indices) for literal, indices in opens.items()},
        always=frozenset(index for index, need in enumerate(needs) if not need),
        # A key without groups is met already where it opens the expression.
        checks=tuple(_checks([*need[1:], *[key for key in need[:1] if key.groups]]) for need in needs),
    )


def _keys(part: AnyOf) -> frozenset[str]:
    """Literals of which there is one wherever the part is met: few and long, as far as can be chosen."""
    return part.literals.union(*(_keys(min(group, key=_commonness)) for group in part.groups))


def _commonness(part: AnyOf) -> float:
    """How readily texts meet the part, in no particular unit: more so with many literals and short ones."""
    return sum(5.0 ** -len(literal) for literal in _keys(part))


def _checks(need: Iterable[AnyOf]) -> tuple[_Check, ...]:
    return tuple(
        _Check(literals=_by_word(part.literals), groups=tuple(_checks(group) for group in part.groups)) for part in need
    )


def _by_word(literals: Iterable[str]) -> _Literals:
    by_word: dict[str, list[str]] = defaultdict(list)
    for literal in sorted(literals):
        by_word[_word(literal)].append(literal)
    anywhere = tuple(by_word.pop("", ()))
    return _Literals(by_word={word: tuple(some) for word, some in by_word.items()}, anywhere=anywhere)


def _word(literal: str) -> str:
    """A whole word that stands where the literal stands, or the first letters of one; empty where neither is sure."""
    _, *others = literal.split(MARK)
    if whole := others[:-1]:
        return max(whole, key=len)
    return others[0][:_START] if others and len(others[0]) >= _START else ""


def _all_passed(checks: tuple[_Check, ...], seen: _Seen) -> bool:
    return all(
        any(check.literals.find_in(seen)) or any(_all_passed(group, seen) for group in check.groups) for check in checks
    )
