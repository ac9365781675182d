"""Options that say how the conversations of a file are read, and which turn of them is judged."""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from screening.datasets.columns import ColumnMapping, ConversationReading, Shape, propose_turns
from screening.datasets.mapping import find_column, speakers_said
from screening.text.conversation import CONTEXT_TOKENS, Judged, Question

OF_A_TURN = ("role", "order", "time", "turn_id")
ASKED = {"text": (Question.TEXT,), "reply": (Question.REPLY,), "both": (Question.TEXT, Question.REPLY)}


def add_conversation_options(parser: argparse.ArgumentParser) -> None:
    """Add these options to a parser."""
    group = parser.add_argument_group("conversations")
    shapes = (
        "a list of messages a row, a turn a row (the id column names the conversation), or `Name: text` transcripts"
    )
    group.add_argument("--conversations", choices=list(Shape), type=Shape, default=None, help=shapes)
    group.add_argument(
        "--judged",
        choices=list(Judged),
        type=Judged,
        default=None,
        help="which turn: the user's last (usual), each, all",
    )
    group.add_argument(
        "--ask-about", choices=list(ASKED), default=None, help="the user's risk (text), what the chatbot did, or both"
    )
    for part in OF_A_TURN:
        words = "the order of turns (an empty NAME: the file's)" if part == "order" else f"a turn's {part}"
        group.add_argument(f"--{part.replace('_', '-')}-column", default=None, metavar="NAME", help=words)
    group.add_argument(
        "--reply-label-column", default=None, metavar="NAME", help="reference label of what the chatbot did"
    )
    group.add_argument(
        "--speakers", default=None, metavar="ANNA=user,BEN=assistant", help="who of the file's names is what"
    )
    context = f"most tokens of turns that are not judged; the oldest are left out first (usual: {CONTEXT_TOKENS:,})"
    group.add_argument("--context-tokens", type=int, default=None, metavar="N", help=context)


def has_conversation_options(arguments: argparse.Namespace) -> bool:
    """Whether any of these options was given."""
    names = ("conversations", "judged", "ask_about", "speakers", "context_tokens", "reply_label_column")
    return any(getattr(arguments, name) is not None for name in (*names, *(f"{part}_column" for part in OF_A_TURN)))


def conversation_of(
    mapping: ColumnMapping, columns: tuple[str, ...], arguments: argparse.Namespace
) -> ConversationReading | None:
    """How conversations are read, begun from what the mapping says; None for a file of texts. Raises ValueError."""
    kept = mapping.conversation
    if arguments.conversations is None and kept is None:
        if has_conversation_options(arguments):
            raise ValueError("say how the file keeps conversations: --conversations messages, rows or transcript")
        return None
    shape = arguments.conversations or (kept.shape if kept else Shape.MESSAGES)
    begun = kept if kept and kept.shape is shape else ConversationReading(shape=shape)
    reading = replace(begun, **_reading_options(arguments, columns))
    return _with_turn_columns(reading, columns, arguments) if shape is Shape.ROWS and columns else reading


def conversation_words(reading: ConversationReading | None) -> Iterator[str]:
    """How conversations are read, line by line."""
    if reading is None:
        return
    asked = " and ".join(
        {Question.TEXT: "the user's risk", Question.REPLY: "the chatbot"}[one] for one in reading.questions
    )
    yield f"conversations: {reading.shape}, judged: {reading.judged}, asked about: {asked}"
    if reading.shape is Shape.ROWS:
        order = "that of the file" if reading.order is None else repr(reading.order)
        yield f"  role: {reading.role!r}, order: {order}, time: {reading.time!r}"


def _reading_options(arguments: argparse.Namespace, columns: tuple[str, ...]) -> dict[str, Any]:
    said: dict[str, Any] = {}
    if arguments.judged is not None:
        said["judged"] = arguments.judged
    if arguments.ask_about is not None:
        said["questions"] = ASKED[arguments.ask_about]
    if arguments.speakers is not None:
        said["speakers"] = speakers_said(arguments.speakers)
    if arguments.context_tokens is not None:
        said["context_tokens"] = arguments.context_tokens
    if arguments.reply_label_column is not None:
        said["reply_label"] = find_column(arguments.reply_label_column, columns)
    return said


def _with_turn_columns(
    reading: ConversationReading, columns: tuple[str, ...], arguments: argparse.Namespace
) -> ConversationReading:
    proposed = propose_turns(columns)
    named: dict[str, Any] = {}
    for part in OF_A_TURN:
        given, kept = getattr(arguments, f"{part}_column"), getattr(reading, part)
        named[part] = (find_column(given, columns) if given else None) if given is not None else kept or proposed[part]
    if named["role"] is None:
        raise ValueError("no column is known to say who speaks: say which with --role-column")
    if named["order"] is None and arguments.order_column is None:
        raise ValueError('no column is known to order the turns: --order-column NAME, or "" for the order of the file')
    return replace(reading, **named)
