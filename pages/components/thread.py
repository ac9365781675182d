"""A conversation as a thread: who speaks, when, and which turns are judged; every word as inert text."""

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import Any

from pages.components.flagged_phrases import FlaggedPhrase, flagged_phrases, marked_html
from pages.components.untrusted_text import text_html
from screening.text.conversation import SENT, PlacedTurn, Question, Role, Thread
from screening.text.display import shown_offset, visible

ROLE_WORDS = {Role.USER: "User", Role.ASSISTANT: "Assistant", Role.SYSTEM: "System", Role.TOOL: "Tool"}
NOT_SHOWN = "not shown to the agents"


def question_words(thread: Thread) -> str:
    """What is asked of a conversation, in a sentence."""
    if thread.question is Question.REPLY:
        return "What the assistant says in the marked turns is judged."
    return "What is said in the marked turns is judged; the others are their context."


def shown_turns(text: str, thread: Thread | None) -> list[dict[str, Any]]:
    """The turns as the reading desk draws them, with positions in the text as it is shown; none for a text."""
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
    """A case's text or thread, and the reply to it; ``flagged``: with the phrases marked that a rule goes by."""
    after = ""
    if reply is not None:
        after = text_html(reply, label="The reply to it", phrases=flagged_phrases(reply) if flagged else ())
    return thread_html(text, thread, label=label, phrases=flagged_phrases(text, thread) if flagged else ()) + after


def thread_html(text: str, thread: Thread | None, *, label: str, phrases: Sequence[FlaggedPhrase] = ()) -> str:
    """The thread, or the text where it is no conversation."""
    if thread is None:
        return text_html(text, label=label, phrases=phrases)
    count = len(thread.turns)
    turns = "".join(_turn(text, turn, number, count, phrases) for number, turn in enumerate(thread.turns, start=1))
    return (
        f'<p class="sl-text-label">{escape(label)}. {escape(question_words(thread))}</p>'
        f'<div class="sl-thread" tabindex="0" role="region" aria-label="{escape(label, quote=True)}">{turns}</div>'
    )


def _turn(text: str, turn: PlacedTurn, number: int, count: int, phrases: Sequence[FlaggedPhrase]) -> str:
    inside = [
        replace(each, start=each.start - turn.start, end=each.end - turn.start)
        for each in phrases
        if turn.start <= each.start and each.end <= turn.end
    ]
    words = marked_html(text[turn.start : turn.end], inside) or "(no text)"
    head = f"{ROLE_WORDS[turn.role]} \u00b7 {_head(turn, number, count)}"
    return (
        f'<section class="sl-turn{" judged" if turn.judged else ""}"><h4>{escape(head)}</h4>'
        f'<p dir="auto">{words}</p></section>'
    )


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
