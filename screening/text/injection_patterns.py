"""The wordings that address a model or answer in its place: kind, strength and expression, read from a file."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path

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
        Pattern(kind=SignKind(kind), strength=strength, expression=_compiled(expression, table["words"]))
        for strength in Strength
        for kind, expressions in table[strength].items()
        for expression in expressions
    )


def _compiled(expression: str, words: Mapping[str, str]) -> re.Pattern[str]:
    whole = re.sub(r"@([A-Z_]+)@", lambda match: words[match[1]], expression)
    return re.compile(whole, re.IGNORECASE | re.DOTALL)
