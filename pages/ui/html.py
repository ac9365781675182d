"""The HTML that pages make themselves, from Jinja2 templates that escape every value: links, agents, reports (those in
Markdown are given literal ones); and texts as they came: inert, hidden characters marked, flagged phrases named,
conversations as threads.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import urlsplit

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from pages.ui.words import words_of
from screening.text.conversation import SENT, PlacedTurn, Question, Role, Thread
from screening.text.display import shown_offset, visible
from screening.text.risk_statements import RiskStatement, StatementKind, risk_statements

TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=select_autoescape(disabled_extensions=("md",), default=True),
    trim_blocks=True,
    lstrip_blocks=True,
    undefined=StrictUndefined,
    auto_reload=False,
)


class Macros(Protocol):
    def __getattr__(self, name: str) -> Callable[..., Markup]: ...


@lru_cache
def macros(name: str) -> Macros:
    """The macros of a template as functions; what they return is HTML, and is not escaped again in another one."""
    return cast("Macros", TEMPLATES.get_template(f"{name}.html").module)


class Link(NamedTuple):
    """Words that lead somewhere in this tab, as no widget's do; a ``kind`` colors the ``number`` before them, and what
    is there may be a file to ``download``, by its name.
    """

    words: str
    href: str | None
    number: str = ""
    kind: str = ""
    download: str = ""


def links_html(links: Iterable[Link]) -> str:
    return macros("links").row(links)


_OF_WHAT = words_of(StatementKind, "stated")
_FIRST_PERSON = re.compile(r"\b(?:i|i['’]?(?:m|ve|d|ll)|me|my|myself)\b", re.IGNORECASE)
_REPORTED = re.compile(
    r"(?<!\bi )\b(?:says?|said|wrote|writes|texted|posted|told (?:me|us|her|him|them)|lyrics?|quotes?|quoted|character"
    r"|novel|song|scene)\b[^.!?\n]{0,60}$",
    re.IGNORECASE,
)
_LONGEST = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class FlaggedPhrase:
    """Characters ``start`` up to ``end`` of a text as received, and what is said of them."""

    start: int
    end: int
    words: str


@lru_cache(maxsize=256)
def flagged_phrases(text: str, thread: Thread | None = None) -> tuple[FlaggedPhrase, ...]:
    """What the rules find stated in a text, or in the judged turns of a conversation; no phrase inside another one.

    >>> [phrase.words for phrase in flagged_phrases('I will kill myself tonight.')]
    ['Flagged phrase: “kill myself” (first-person statement of suicidal or self-harm intent, with a time or means)']
    >>> [phrase.words for phrase in flagged_phrases('She wrote: "I want to die".')]
    ['Flagged phrase: “I want to die” (quoted or reported statement of a wish to be dead or suicidal thoughts)']
    """
    parts = [(0, len(text))] if thread is None else [(turn.start, turn.end) for turn in thread.turns if turn.judged]
    told = dict[tuple[int, int], str]()
    for at, end in parts:
        # of the same words what is found first: self-harm is no wish to be dead, an intent no attempt yet
        for one in risk_statements(text[at:end]):
            told.setdefault((at + one.start, at + one.end), _words(text[at:end], one))
    whole = [one for one in told if not any(a <= one[0] and one[1] <= b and one != (a, b) for a, b in told)]
    return tuple(FlaggedPhrase(start=start, end=end, words=told[start, end]) for start, end in whole)


def _words(text: str, stated: RiskStatement) -> str:
    phrase = visible(" ".join(text[stated.start : stated.end].split()))
    short = phrase if len(phrase) <= _LONGEST else f"{phrase[: _LONGEST - 1]}…"
    near = ", with a time or means" if stated.imminent and stated.kind is not StatementKind.MEANS else ""
    told = "statement about another person"
    if stated.kind is not StatementKind.OTHER_PERSON:
        told = f"statement of {_OF_WHAT[stated.kind]}"
        if _is_quoted(text, stated.start):
            told = f"quoted or reported {told}"
        elif _FIRST_PERSON.search(text[stated.start : stated.end]):
            told = f"first-person {told}"
    return f"Flagged phrase: “{short}” ({told}{near})"


def _is_quoted(text: str, start: int) -> bool:
    """Whether the words stand within quotation marks, in a quoted line, or after who is said to have said so."""
    before = text[:start]
    line = before.rpartition("\n")[2]
    quoted = line.count('"') % 2 == 1 or before.count("“") > before.count("”") or line.lstrip().startswith(">")
    return quoted or _REPORTED.search(line) is not None


def _marked(text: str, phrases: Sequence[FlaggedPhrase], at: int = 0) -> list[tuple[str, str]]:
    """The text as it is shown in parts, each with what was flagged in it, or nothing; it begins ``at`` this place of
    the one that the phrases are of.
    """
    shown, parts, done = visible(text), list[tuple[str, str]](), 0
    for phrase in sorted(phrases, key=lambda each: each.start):
        start, end = phrase.start - at, phrase.end - at
        if start >= 0 and end <= len(text) and (first := shown_offset(text, start)) >= done:
            parts += [(shown[done:first], ""), (shown[first : shown_offset(text, end)], phrase.words)]
            done = shown_offset(text, end)
    return [part for part in (*parts, (shown[done:], "")) if part[0]]


ROLE_WORDS = {Role.USER: "User", Role.ASSISTANT: "Assistant", Role.SYSTEM: "System", Role.TOOL: "Tool"}
NOT_SHOWN = "not shown to the agents"


def shown_turns(text: str, thread: Thread | None) -> list[dict[str, Any]]:
    """The turns as the review desk draws them, with positions in the text as it is shown; none for a text."""
    if thread is None:
        return []
    count = len(thread.turns)
    return [
        {
            "named": shown_offset(text, turn.named),
            "start": shown_offset(text, turn.start),
            "end": shown_offset(text, turn.end),
            "role": turn.role.value,
            "judged": turn.judged,
            "head": _head(turn, number, count),
        }
        for number, turn in enumerate(thread.turns, start=1)
    ]


def texts_html(
    text: str, thread: Thread | None, reply: str | None, label: str = "Text of this case", *, flagged: bool = False
) -> str:
    """Text or thread, and the reply, in boxes that keyboards can scroll; ``flagged``: with phrases marked."""
    phrases, pane = flagged_phrases(text, thread) if flagged else (), macros("texts")
    if thread is None:
        shown = pane.box(label, _marked(text, phrases))
    else:
        turns = [_turn(text, turn, number, len(thread.turns), phrases) for number, turn in enumerate(thread.turns, 1)]
        asked = "What is said in the marked turns is judged; the others are their context."
        if thread.question is Question.REPLY:
            asked = "What the assistant says in the marked turns is judged."
        shown = pane.conversation(label, asked, turns)
    if reply is not None:
        shown += pane.box("The reply to it", _marked(reply, flagged_phrases(reply) if flagged else ()))
    return shown


def _turn(text: str, turn: PlacedTurn, number: int, count: int, phrases: Sequence[FlaggedPhrase]) -> dict[str, object]:
    head = f"{ROLE_WORDS[turn.role]} \u00b7 {_head(turn, number, count)}"
    parts = _marked(text[turn.start : turn.end], phrases, turn.start)
    return {"head": head, "judged": turn.judged, "parts": parts}


def _head(turn: PlacedTurn, number: int, count: int) -> str:
    """Which turn it is, when it was said, and what is to be known of it."""
    known = (
        f"{number} of {count}",
        visible(turn.at) if turn.at else "",
        "judged" if turn.judged else "",
        NOT_SHOWN if turn.shown is None and turn.role in SENT and turn.end > turn.start else "",
        NOT_SHOWN if turn.role not in SENT else "",
    )
    return " \u00b7 ".join(part for part in known if part)


def https_link(where: str) -> str | None:
    """The address where it is a whole one over https with a host, and nothing else; None for any other words.

    >>> https_link("https://records.example.org/7"), https_link("javascript:alert(1)"), https_link("https://a@b.org/")
    ('https://records.example.org/7', None, None)
    """
    try:
        parts = urlsplit(where)
        known = parts.scheme == "https" and parts.hostname and "@" not in parts.netloc and (parts.port or 443)
    except ValueError:
        return None
    return where if known and where.isascii() and where.isprintable() and not set(where) & set(' <>"\\^`{|}') else None


def where_html(where: str | None) -> str:
    """The reference in a line; nothing where none is known."""
    return macros("texts").where(visible(where), https_link(where)) if where else ""
