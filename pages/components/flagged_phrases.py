"""The words of a text that a rule went by, and what the rule took them for: no more than the words themselves say."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from html import escape

from screening.text.conversation import Thread
from screening.text.display import shown_offset, visible
from screening.text.risk_statements import RiskStatement, StatementKind, risk_statements

_OF_WHAT = {
    StatementKind.WISH: "a wish to be dead",
    StatementKind.INTENT: "suicidal intent",
    StatementKind.PLAN: "a suicide plan",
    StatementKind.MEANS: "means at hand",
    StatementKind.ATTEMPT: "a suicide attempt",
    StatementKind.SELF_INJURY: "self-injury",
}
_FIRST_PERSON = re.compile(r"\b(?:i|i['’]?(?:m|ve|d|ll)|me|my|myself)\b", re.IGNORECASE)
_REPORTED = re.compile(
    r"(?<!\bi )\b(?:says?|said|wrote|writes|texted|posted|told (?:me|us|her|him|them)|lyrics?|quotes?|quoted|character"
    r"|novel|song|scene)\b[^.!?\n]{0,60}$",
    re.IGNORECASE,
)
_LONGEST = 160
"""Characters of a phrase that are shown in a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlaggedPhrase:
    """Characters ``start`` up to ``end`` of a text as received, and what is said of them."""

    start: int
    end: int
    words: str


@lru_cache(maxsize=256)
def flagged_phrases(text: str, thread: Thread | None = None) -> tuple[FlaggedPhrase, ...]:
    """What the rules find stated in a text, or in the judged turns of a conversation.

    >>> [phrase.words for phrase in flagged_phrases('I will kill myself tonight.')]
    ['Flagged phrase: “kill myself” (first-person statement of suicidal intent, with a time or means)']
    >>> [phrase.words for phrase in flagged_phrases('She wrote: "I want to die".')]
    ['Flagged phrase: “I want to die” (quoted or reported statement of a wish to be dead)']
    """
    parts = [(0, len(text))] if thread is None else [(turn.start, turn.end) for turn in thread.turns if turn.judged]
    found = ((at, end, one) for at, end in parts for one in risk_statements(text[at:end]))
    return tuple(
        FlaggedPhrase(start=at + one.start, end=at + one.end, words=_words(text[at:end], one)) for at, end, one in found
    )


def _words(text: str, stated: RiskStatement) -> str:
    phrase = visible(" ".join(text[stated.start : stated.end].split()))
    short = phrase if len(phrase) <= _LONGEST else f"{phrase[: _LONGEST - 1]}…"
    near = ", with a time or means" if stated.imminent and stated.kind is not StatementKind.MEANS else ""
    return f"Flagged phrase: “{short}” ({_told(text, stated)}{near})"


def _told(text: str, stated: RiskStatement) -> str:
    if stated.kind is StatementKind.OTHER_PERSON:
        return "statement about another person"
    said = f"statement of {_OF_WHAT[stated.kind]}"
    if _is_quoted(text, stated.start):
        return f"quoted or reported {said}"
    return f"first-person {said}" if _FIRST_PERSON.search(text[stated.start : stated.end]) else said


def _is_quoted(text: str, start: int) -> bool:
    """Whether the words stand within quotation marks, in a quoted line, or after who is said to have said so."""
    before = text[:start]
    line = before.rpartition("\n")[2]
    quoted = line.count('"') % 2 == 1 or before.count("“") > before.count("”") or line.lstrip().startswith(">")
    return quoted or _REPORTED.search(line) is not None


def marked_html(text: str, phrases: Sequence[FlaggedPhrase]) -> str:
    """The text as inert HTML, with what was flagged in it marked."""
    shown, parts, done = visible(text), [], 0
    for phrase in sorted(phrases, key=lambda each: each.start):
        start, end = (shown_offset(text, at) for at in (max(phrase.start, 0), phrase.end))
        if start < done:
            continue
        parts += [escape(shown[done:start]), f'<mark title="{escape(phrase.words)}">{escape(shown[start:end])}</mark>']
        done = end
    return "".join([*parts, escape(shown[done:])])
