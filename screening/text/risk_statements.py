"""The floor: what a person says outright of wanting, meaning, planning or trying to die forbids `safe`.

One list for everybody: the guard that stands behind every model, the inbox that puts such a text first, and whoever
else needs it. It is made for precision and knows only what is said outright; that nothing is found says nothing.
How much it finds, and how often it is wrong: docs/model-layer.md.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from screening.text.first_look import FirstLook, first_look
from screening.text.flags import Flag
from screening.text.word_stream import fold, streams

_FILE = Path(__file__).with_suffix(".toml")
_NEAR_WORDS = 24
"""How many words before and after a statement may hold its time or means."""


class StatementKind(StrEnum):
    """What is stated."""

    WISH = "wish"
    INTENT = "intent"
    PLAN = "plan"
    MEANS = "means"
    ATTEMPT = "attempt"


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskStatement:
    """One statement and its words in plain form; they are part of the text and never logged.

    ``imminent``: it stands with a time or with means.
    """

    kind: StatementKind
    wording: str
    imminent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lexicon:
    kinds: tuple[StatementKind, ...]
    expressions: tuple[re.Pattern[str], ...]
    look: FirstLook
    near: re.Pattern[str]
    expand: Mapping[str, str]
    subjects: Mapping[str, re.Pattern[str]]

    def readings(self, text: str) -> Iterator[str]:
        """The streams of a text, and each with the subjects that its sentences leave out."""
        for stream in streams(text, self.expand):
            yield stream
            told = stream
            for subject, left_out in self.subjects.items():
                told = left_out.sub(rf"\g<0>{subject} ", told)
            if told != stream:
                yield told


def risk_statements(text: str) -> tuple[RiskStatement, ...]:
    """Every kind of statement in a text as received or normalised, each once; none for an empty text.

    >>> [(found.kind.value, found.imminent) for found in risk_statements("I'm gonna k\\u00adill myself tonight.")]
    [('intent', True)]
    >>> risk_statements("I don't want to die, and this homework is killing me.")
    ()
    """
    lexicon = _lexicon()
    found: dict[StatementKind, RiskStatement] = {}
    for stream in lexicon.readings(text):
        for statement in _statements(stream, lexicon):
            if statement.kind not in found or statement.imminent:
                found[statement.kind] = statement
    return tuple(found.values())


def risk_flags(text: str) -> frozenset[Flag]:
    """The flags the engine and the inbox act on.

    >>> sorted(risk_flags("I tried to kill myself last night"))
    [<Flag.STATED_IMMINENT: 'stated_imminent'>, <Flag.STATED_RISK: 'stated_risk'>]
    """
    found = risk_statements(text)
    if not found:
        return frozenset()
    return frozenset({Flag.STATED_RISK} | ({Flag.STATED_IMMINENT} if any(one.imminent for one in found) else set()))


def _statements(stream: str, lexicon: _Lexicon) -> Iterator[RiskStatement]:
    for index in lexicon.look.candidates(stream):
        for match in lexicon.expressions[index].finditer(stream):
            kind = lexicon.kinds[index]
            imminent = kind is StatementKind.MEANS or _stands_near(stream, match, lexicon.near)
            yield RiskStatement(kind=kind, wording=match[0].strip(), imminent=imminent)


def _stands_near(stream: str, match: re.Match[str], near: re.Pattern[str]) -> bool:
    before, after = stream[: match.start() + 1].split()[-_NEAR_WORDS:], stream[match.end() - 1 :].split()[:_NEAR_WORDS]
    return near.search(f" {' '.join([*before, *match[0].split(), *after])} ") is not None


@cache
def _lexicon() -> _Lexicon:
    table: Mapping[str, Any] = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    spaced = [(kind, f" (?:{_whole(one, table)})(?= )") for kind, one in _entries(table, "statements", "others")]
    anywhere = [(kind, _whole(one, table)) for kind, one in _entries(table, "unspaced")]
    expressions = tuple(re.compile(expression) for _, expression in [*spaced, *anywhere])
    near = table["near"]
    times = f" (?:{_whole(near['time'], table)})(?= )|{_whole(near['unspaced_time'], table)}"
    return _Lexicon(
        kinds=tuple(kind for kind, _ in [*spaced, *anywhere]),
        expressions=expressions,
        look=first_look(expressions),
        near=re.compile(f"{times}| (?:{_whole(near['means'], table)})(?= )"),
        expand=table["expand"],
        subjects={
            subject: re.compile(f"{_whole('<start><lead>', table)}(?={words} )")
            for subject, words in table["subject"].items()
        },
    )


def _entries(table: Mapping[str, Any], *parts: str) -> Iterator[tuple[StatementKind, str]]:
    for part in parts:
        for kind, expressions in table[part].items():
            for expression in expressions:
                yield StatementKind(kind), expression


def _whole(expression: str, table: Mapping[str, Any]) -> str:
    """The expression with its macros, folded as texts are; macros may hold others."""
    while (named := re.search(r"<([a-z]+)>", expression)) is not None:
        expression = expression.replace(named[0], table["macros"][named[1]])
    return expression if expression.isascii() else fold(expression)
