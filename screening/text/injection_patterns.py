"""The wordings that address a model or answer in its place: kind, strength and expression, read from a file.

Few texts hold any of the words that a match needs, so a first look at these passes over most expressions.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

from screening.text.first_look import FirstLook, first_look

_FILE = Path(__file__).with_suffix(".toml")


class SignKind(StrEnum):
    """What a sign of injection is a sign of."""

    INSTRUCTION_OVERRIDE = "instruction_override"
    FAKE_FRAME = "fake_frame"
    ROLE_PLAY = "role_play"
    VERDICT = "verdict"
    JSON_ANSWER = "json_answer"
    FAKE_AUTHORITY = "fake_authority"
    ENCODED = "encoded"
    SPLIT = "split"
    TRANSLATED = "translated"
    HIDDEN_UNICODE = "hidden_unicode"
    PROMPT_EXFILTRATION = "prompt_exfiltration"
    ADDRESS = "address"


class Strength(StrEnum):
    """``strong``: hardly ever innocent, a human decides. ``weak``: may be innocent, a second look decides."""

    STRONG = "strong"
    WEAK = "weak"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern:
    """One expression and what a match of it means."""

    kind: SignKind
    strength: Strength
    expression: re.Pattern[str]


@cache
def patterns() -> tuple[Pattern, ...]:
    """All expressions, strong ones first; compiled once a process."""
    table = tomllib.loads(_FILE.read_text(encoding="utf-8"))
    return tuple(
        Pattern(kind=SignKind(kind), strength=strength, expression=_compile(expression, table["words"]))
        for strength in Strength
        for kind, expressions in table[strength].items()
        for expression in expressions
    )


def matches(text: str, strengths: tuple[Strength, ...] = tuple(Strength)) -> Iterator[tuple[Pattern, re.Match[str]]]:
    """The first match of every expression of these strengths that matches, in the order of `patterns`."""
    chosen, look = _patterns(strengths)
    for index in look.candidates(text):
        if match := chosen[index].expression.search(text):
            yield chosen[index], match


def may_match(text: str, strengths: tuple[Strength, ...]) -> bool:
    """False where no expression of these strengths matches the text or any part of it between NUL characters."""
    return bool(_patterns(strengths)[1].candidates(text))


@cache
def _patterns(strengths: tuple[Strength, ...]) -> tuple[tuple[Pattern, ...], FirstLook]:
    chosen = tuple(pattern for pattern in patterns() if pattern.strength in strengths)
    return chosen, first_look(pattern.expression for pattern in chosen)


def _compile(expression: str, words: Mapping[str, str]) -> re.Pattern[str]:
    whole = re.sub(r"@([A-Z_]+)@", lambda match: words[match[1]], expression)
    return re.compile(whole, re.IGNORECASE | re.DOTALL)
