"""The floor: what a text says outright of wanting, planning or trying to die, or of self-injury, forbids `safe`.

One list for everybody: the guard that stands behind every model, the inbox that puts such a text first, and whoever
else needs it. It is made for precision and knows only what is said outright; that nothing is found says nothing.
How much it finds, and how often it is wrong: docs/model-layer.md.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from screening.text.flags import Flag
from screening.text.lexicon import Lexicon, Readings, Wording
from screening.text.readings import Reading
from screening.text.word_stream import fold, long_forms, streams

_NEAR_WORDS = 24
"""How many words before and after a statement may hold its time or means."""


class StatementKind(StrEnum):
    """What is stated."""

    WISH = "wish"
    INTENT = "intent"
    PLAN = "plan"
    MEANS = "means"
    ATTEMPT = "attempt"
    SELF_INJURY = "self_injury"
    OTHER_PERSON = "other_person"
    """Somebody else is said to want, mean or have done it, or to have said goodbye."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RiskStatement:
    """One statement: its words in plain form, and where it stands in the text; both are part of it and never logged.

    ``imminent``: it stands with a time or with means. ``start`` and ``end`` enclose the phrase in the text looked at,
    line breaks and markup in it included.
    """

    kind: StatementKind
    wording: str
    imminent: bool
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    wordings: tuple[Wording, ...]
    near: re.Pattern[str]
    spell_out: Callable[[str], str]
    subjects: Mapping[str, re.Pattern[str]]

    def readings(self, text: Reading) -> Iterator[Reading]:
        """The streams of a text, and each with the subjects that its sentences leave out."""
        for stream in streams(text, self.spell_out):
            yield stream
            told = stream
            for subject, left_out in self.subjects.items():
                told = told.sub(left_out, rf"\g<0>{subject} ")
            if told.text != stream.text:
                yield told


def risk_statements(text: str) -> tuple[RiskStatement, ...]:
    r"""Every kind of statement in a text as received or normalized, each once; none for an empty text.

    >>> text = "I'm gonna <b>k\u00adill</b>\nmyself tonight."
    >>> [(found.kind.value, found.imminent, text[found.start : found.end]) for found in risk_statements(text)]
    [('intent', True, 'k\xadill</b>\nmyself')]
    >>> risk_statements("I don't want to die, and this homework is killing me.")
    ()
    """
    if not any(True for _ in _statements(Reading(text))):
        return ()
    found: dict[StatementKind, RiskStatement] = {}
    for statement in _statements(Reading.tracked(text)):
        if statement.kind not in found or (statement.imminent and not found[statement.kind].imminent):
            found[statement.kind] = statement
    return tuple(found.values())


def risk_flags(text: str) -> frozenset[Flag]:
    """The flags the engine and the inbox act on.

    >>> sorted(risk_flags("I tried to kill myself last night"))
    [<Flag.STATED_IMMINENT: 'stated_imminent'>, <Flag.STATED_RISK: 'stated_risk'>]
    """
    imminent = [statement.imminent for statement in _statements(Reading(text))]
    flags = {Flag.STATED_RISK} if imminent else set()
    return frozenset(flags | ({Flag.STATED_IMMINENT} if any(imminent) else set()))


def _statements(text: Reading) -> Iterator[RiskStatement]:
    rules, readings = _rules(), Readings()
    for stream in rules.readings(text):
        for found, match in readings.look_for(rules.wordings, stream.text):
            kind = StatementKind(found.kind)
            imminent = kind is StatementKind.MEANS or _stands_near(stream.text, match, rules.near)
            wording = match[0].strip()
            begin = match.start() + len(match[0]) - len(match[0].lstrip())
            start, end = stream.place(begin, begin + len(wording))
            yield RiskStatement(kind=kind, wording=wording, imminent=imminent, start=start, end=end)


def _stands_near(stream: str, match: re.Match[str], near: re.Pattern[str]) -> bool:
    before, after = stream[: match.start() + 1].split()[-_NEAR_WORDS:], stream[match.end() - 1 :].split()[:_NEAR_WORDS]
    return near.search(f" {' '.join([*before, *match[0].split(), *after])} ") is not None


@cache
def _rules() -> _Rules:
    lexicon = Lexicon("risk_statements")
    near = lexicon.table["near"]
    times = f"{_spaced(lexicon.whole(near['time']))}|{_plain(lexicon.whole(near['unspaced_time']))}"
    return _Rules(
        wordings=(
            *lexicon.wordings("statements", "others", compiled=lambda whole: re.compile(_spaced(whole))),
            *lexicon.wordings("unspaced", compiled=lambda whole: re.compile(_plain(whole))),
        ),
        near=re.compile(f"{times}|{_spaced(lexicon.whole(near['means']))}"),
        spell_out=long_forms(lexicon.table["expand"]),
        subjects={
            subject: re.compile(f"{lexicon.whole('@start@@lead@')}(?={words} )")
            for subject, words in lexicon.table["subject"].items()
        },
    )


def _spaced(expression: str) -> str:
    return f" (?:{_plain(expression)})(?= )"


def _plain(expression: str) -> str:
    """The expression folded as texts are."""
    return expression if expression.isascii() else fold(expression)
