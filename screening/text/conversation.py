"""A conversation as received: its turns in order, which of them are judged, and one text that holds them all.

The text is what everything else knows of a case: its hash, its marks and its erasure are those of the whole
conversation. Where each turn stands in it is kept beside it, so that no words in a turn can pass for another turn.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from itertools import accumulate
from typing import Any

from pydantic import TypeAdapter

from screening.text.flags import REFUSES_SCREENING, Flag
from screening.text.received import Receive, ReceivedText, escape, text_sha256

MOST_TURNS = 1_000
CONTEXT_TOKENS = 6_000
"""Tokens of turns that are not judged themselves, as far as nothing else is chosen; the oldest are left out first."""
CHARACTERS_PER_TOKEN = 4.5
"""Of English prose, a cautious estimate; no tokeniser is consulted."""

_BETWEEN = "\n\n"
_OF_THE_JUDGED = frozenset({Flag.EMPTY, Flag.NO_WORDS})
"""What may well be so of a single turn ("…", "👍") and says nothing of the others."""


class Role(StrEnum):
    """Who speaks."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"
    TOOL = "tool"


SENT = frozenset({Role.USER, Role.ASSISTANT})
"""Whose turns a model is shown; the operator's own instructions and what tools gave are kept and shown to people."""


class Judged(StrEnum):
    """Which turns of a conversation are judged."""

    LAST_USER = "last_user"
    EACH_USER = "each_user"
    WHOLE = "whole"


class Question(StrEnum):
    """What is asked of them: the writer's risk, or what the chatbot did."""

    TEXT = "text"
    REPLY = "reply"


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One turn as it stands in a file. ``lost``: part of it is no text (a picture, a file) and cannot be judged."""

    role: Role
    text: str
    at: str | None = None
    id: str | None = None
    lost: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedTurn:
    """Where a turn's words stand: from ``start`` to ``end`` in the stored text, ``shown`` in the copy for the model,
    None where the model is not shown it. ``named`` is where who speaks begins.
    """

    role: Role
    named: int
    start: int
    end: int
    shown: tuple[int, int] | None
    judged: bool
    at: str | None = None
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    question: Question
    turns: tuple[PlacedTurn, ...]

    @property
    def left_out(self) -> int:
        """Turns of user and assistant that the model is not shown, because there was no room for them."""
        return sum(turn.shown is None and turn.role in SENT and turn.end > turn.start for turn in self.turns)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def thread_of(stored: Mapping[str, Any] | None) -> Thread | None:
    """Read what `Thread.as_json` wrote; None for a case that is no conversation."""
    return None if stored is None else _THREAD.validate_python(stored)


_THREAD = TypeAdapter(Thread)


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The turns of a conversation, and the places of those that are judged by the question, if there are any.
    ``reply`` is what the chatbot answered, where only the user's risk is asked about.
    """

    turns: tuple[Turn, ...]
    judged: frozenset[int] = frozenset()
    question: Question = Question.TEXT
    reply: str | None = None
    context_tokens: int = CONTEXT_TOKENS

    def received(self, receive: Receive) -> tuple[ReceivedText, Thread]:
        """The conversation as one received text, and where its turns stand in it.

        Every turn of user and assistant is looked through, also one that the model is not shown, and so are those that
        it is shown together. Judged turns are never left out: where they are too long, the text is.
        """
        turns, received = self.turns, [receive(turn.text) for turn in self.turns]
        sent = self._places_to_send(received)
        flags = self._flags(received, sent, receive)
        raw, _ = _join_turns([(turn.role, turn.text) for turn in turns])
        stored, places = _join_turns([(turn.role, one.stored) for turn, one in zip(turns, received, strict=True)])
        model_text, shown = _join_turns([(turns[place].role, received[place].model_text) for place in sent])
        spans = dict(zip(sent, shown, strict=True))
        if flags & REFUSES_SCREENING:
            model_text, spans = "", {}
        placed = tuple(
            PlacedTurn(
                role=turn.role,
                named=named,
                start=start,
                end=end,
                shown=spans[at][1:] if at in spans else None,
                judged=at in self.judged,
                at=turn.at,
                id=turn.id,
            )
            for at, (turn, (named, start, end)) in enumerate(zip(turns, places, strict=True))
        )
        whole = ReceivedText(
            stored=stored,
            original_json=None if stored == raw else escape(raw),
            sha256=text_sha256(raw),
            model_text=model_text,
            flags=flags,
        )
        return whole, Thread(question=self.question, turns=placed)

    def _places_to_send(self, received: Sequence[ReceivedText]) -> list[int]:
        """The places that a model is shown: all judged ones, and of the others the newest that there is room for."""
        places = [at for at, turn in enumerate(self.turns) if turn.role in SENT]
        context = [at for at in reversed(places) if at not in self.judged]
        used = accumulate(int(len(self.turns[at].text) / CHARACTERS_PER_TOKEN) + 1 for at in context)
        kept = {at for at, tokens in zip(context, used, strict=True) if tokens <= self.context_tokens}
        return [at for at in places if received[at].model_text and (at in self.judged or at in kept)]

    def _flags(self, received: Sequence[ReceivedText], sent: Sequence[int], receive: Receive) -> frozenset[Flag]:
        """What was found in any turn, in those that are shown together, and in the judged ones alone."""
        together, alone = (
            receive(_BETWEEN.join(self.turns[at].text for at in places)).flags for places in (sent, sorted(self.judged))
        )
        found = alone | (together - _OF_THE_JUDGED)
        for turn, one in zip(self.turns, received, strict=True):
            if turn.role in SENT:
                found |= one.flags - _OF_THE_JUDGED - {Flag.TOO_LONG}
            if turn.role is Role.USER and turn.lost:
                found |= {Flag.UNREADABLE}
            found |= one.flags & {Flag.ALTERED}
        return found


def _join_turns(turns: Sequence[tuple[Role, str]]) -> tuple[str, list[tuple[int, int, int]]]:
    """All turns as one text, each after who speaks; and of each where that, its words and its end stand."""
    parts, places, length = [], [], 0
    for role, words in turns:
        name = f"{role.capitalize()}: "
        places.append((length, length + len(name), length + len(name) + len(words)))
        parts.append(f"{name}{words}")
        length += len(parts[-1]) + len(_BETWEEN)
    return _BETWEEN.join(parts), places
