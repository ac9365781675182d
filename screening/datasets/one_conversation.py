"""One conversation by itself, as a person pastes it or a program sends it: read and taken in as a file's rows are."""

import json
from dataclasses import dataclass
from typing import Any

from screening.datasets.columns import ConversationReading, Shape
from screening.datasets.conversations import one_case
from screening.datasets.encoding import detect_encoding, open_text
from screening.datasets.records import Reason
from screening.datasets.row_validation import Receive
from screening.datasets.rows import NewCase
from screening.datasets.turns import TurnsRefused
from screening.text.conversation import receive_conversation
from screening.text.flags import Flag

_LISTS = ("messages", "conversation", "conversations", "turns")
SUFFIXES = ("txt", "json", "jsonl")
"""Of files that hold one conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What somebody wrote: a transcript or a list of messages."""

    shape: Shape
    cell: str


def detect_shape(words: str) -> Written:
    """A list of messages, an object that holds one, or one message a line, in JSON; all else is a transcript.

    TurnsRefused for JSON that cannot be read, with the line, and for several conversations.

    >>> detect_shape('{"messages": [{"role": "user", "content": "Hello"}]}').cell
    '[{"role": "user", "content": "Hello"}]'
    >>> detect_shape("User: Hello").shape
    <Shape.TRANSCRIPT: 'transcript'>
    """
    bare = words.strip()
    if bare.startswith("{"):
        return Written(shape=Shape.MESSAGES, cell=json.dumps(_messages(_objects(bare))))
    return Written(shape=Shape.MESSAGES if _is_list(bare) else Shape.TRANSCRIPT, cell=words)


def decode(content: bytes) -> str:
    """The words of a file, in whatever encoding it is. Raises FileRefused."""
    return open_text(content, detect_encoding(content)).read()


def read_case(cell: str, reading: ConversationReading, receive: Receive) -> NewCase:
    """The case that it becomes, without a name yet. TurnsRefused, which says the turn."""
    found = one_case(cell, reading)
    text, thread = receive_conversation(
        found.turns, found.judged, receive, question=found.question, context_tokens=reading.context_tokens
    )
    if not text.stored.strip() or Flag.EMPTY in text.flags:
        raise TurnsRefused(Reason.EMPTY_TEXT, "nothing but spaces or invisible characters")
    reply = receive(found.reply) if found.reply else None
    return NewCase(row=1, external_id="text", text=text, thread=thread, reply=reply)


def _is_list(bare: str) -> bool:
    """Whether it begins as a list of objects does; a transcript may begin with a time in brackets."""
    return bare.startswith("[") and bare[1:].lstrip()[:1] in ("{", "]")


def _objects(bare: str) -> list[Any]:
    """The objects, one after the other with white space between them."""
    found, at, decoder = [], 0, json.JSONDecoder()
    while at < len(bare):
        try:
            one, at = decoder.raw_decode(bare, at)
        except (ValueError, RecursionError) as wrong:
            line = bare.count("\n", 0, getattr(wrong, "pos", at)) + 1
            raise TurnsRefused(Reason.NOT_A_CONVERSATION, f"the JSON cannot be read from line {line} on") from None
        found.append(one)
        while at < len(bare) and bare[at].isspace():
            at += 1
    return found


def _messages(objects: list[Any]) -> list[Any]:
    named = [(one, name) for one in objects if isinstance(one, dict) for name in _LISTS]
    held = [one[name] for one, name in named if isinstance(one.get(name), list)]
    if not held:
        return objects
    if len(objects) > 1:
        said = f"these are {len(objects):,} conversations, and one is read here; upload the file as a batch"
        raise TurnsRefused(Reason.NOT_A_CONVERSATION, said)
    return list(held[0])
