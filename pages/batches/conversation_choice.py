"""How a file's conversations are read, and which turn of them is judged, as a person chooses it."""

from collections.abc import Mapping
from dataclasses import replace

import streamlit as st

from pages.ui.widgets import unique_labels
from screening.datasets.columns import ConversationReading, Shape, propose_turns
from screening.datasets.mapping import speakers_said
from screening.text.conversation import CONTEXT_TOKENS, Judged, Question, Role
from screening.text.display import visible

TEXTS = "texts"
FILE_ORDER = "(the order of the file)"
NOT_USED = "(not used)"
SHAPES: Mapping[str, str] = {
    TEXTS: "one text per row",
    Shape.MESSAGES: "one conversation per row, as a list of messages",
    Shape.ROWS: "one turn of a conversation per row",
    Shape.TRANSCRIPT: "one conversation per row, as a transcript (Name: text)",
}
JUDGED: Mapping[Judged, str] = {
    Judged.LAST_USER: "the user's last turn, in its context",
    Judged.EACH_USER: "each turn of the user, in its context",
    Judged.WHOLE: "the whole conversation",
}
ASKED: Mapping[tuple[Question, ...], str] = {
    (Question.TEXT,): "the user's risk",
    (Question.REPLY,): "what the chatbot did",
    (Question.TEXT, Question.REPLY): "both: two cases a conversation, each with its own label",
}
TURN_COLUMNS: Mapping[str, str] = {
    "role": "Who speaks",
    "order": "Order of the turns",
    "time": "Time",
    "turn_id": "Turn id",
}


def choose_conversation(
    columns: tuple[str, ...], kept: ConversationReading | None, suffix: str
) -> ConversationReading | None:
    """The choice; None for a file of texts."""
    options = list(SHAPES)
    shape = st.selectbox(
        "File format",
        options,
        index=options.index(kept.shape if kept else TEXTS),
        format_func=SHAPES.__getitem__,
        key=f"conversation_shape{suffix}",
    )
    if shape == TEXTS:
        return None
    begun = kept if kept and kept.shape == shape else ConversationReading(shape=Shape(shape))
    judged, asked, context = st.columns([2, 2, 1])
    every, questions = list(JUDGED), list(ASKED)
    reading = replace(
        begun,
        judged=judged.selectbox(
            "What to judge",
            every,
            index=every.index(begun.judged),
            format_func=JUDGED.__getitem__,
            key=f"conversation_judged{suffix}",
        ),
        questions=asked.selectbox(
            "Question",
            questions,
            index=questions.index(begun.questions) if begun.questions in ASKED else 0,
            format_func=ASKED.__getitem__,
            key=f"conversation_asked{suffix}",
        ),
        context_tokens=context.number_input(
            "Context, tokens",
            min_value=0,
            max_value=1_000_000,
            value=begun.context_tokens or CONTEXT_TOKENS,
            key=f"conversation_tokens{suffix}",
            help="Of turns that are not judged themselves; the oldest are left out first. Clinicians see all turns.",
        ),
    )
    return _with_columns(_with_speakers(reading, suffix), columns, suffix)


def wants(reading: ConversationReading | None, id_column: str | None) -> str | None:
    """What has still to be said of the columns; None for nothing."""
    if reading is None or reading.shape is not Shape.ROWS:
        return None
    if id_column is None:
        return "Choose the column that names the conversation, as the id."
    return "Choose the column that says who speaks." if reading.role is None else None


def speakers_of(words: str) -> tuple[tuple[str, Role | None], ...] | None:
    """Who is what, from ``Anna=user, Ben=assistant``; None for what is not understood.

    >>> speakers_of("Anna = user, Ben=none"), speakers_of("Ben=helper")
    ((('Anna', <Role.USER: 'user'>), ('Ben', None)), None)
    """
    try:
        return speakers_said(words)
    except ValueError:
        return None


def _with_speakers(reading: ConversationReading, suffix: str) -> ConversationReading:
    known = ", ".join(f"{name}={role or 'none'}" for name, role in reading.speakers)
    words = st.text_input(
        "Speaker names",
        known,
        placeholder="Anna=user, Ben=assistant",
        key=f"conversation_speakers{suffix}",
        help="Where they are not user and assistant: NAME=user, assistant, system or tool, with commas between.",
    )
    found = speakers_of(words)
    if found is None:
        st.caption("Not every name is understood: write NAME=user or NAME=assistant, with commas between.")
    return replace(reading, speakers=found or ())


def _with_columns(reading: ConversationReading, columns: tuple[str, ...], suffix: str) -> ConversationReading:
    """The columns that only conversations have."""
    picked: dict[str, str | None] = {}
    proposed = propose_turns(columns)
    asked = dict(TURN_COLUMNS) if reading.shape is Shape.ROWS else {}
    if len(reading.questions) > 1:
        asked["reply_label"] = "Original label of the chatbot"
    for place, (part, words) in zip(st.columns(max(1, len(asked))), asked.items(), strict=False):
        nothing = FILE_ORDER if part == "order" else NOT_USED
        options = [nothing, *columns]
        before = getattr(reading, part) or proposed.get(part)
        shown = unique_labels({one: visible(one) for one in options})
        found = place.selectbox(
            words,
            options,
            index=options.index(before) if before in options else 0,
            format_func=shown.__getitem__,
            key=f"conversation_{part}{suffix}",
        )
        picked[part] = None if found == nothing else found
    return replace(reading, **picked) if picked else reading  # type: ignore[arg-type]
