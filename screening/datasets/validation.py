"""The second pass over a file: each row accepted as a case, or rejected with why."""

import json
from collections.abc import Mapping
from dataclasses import replace

from screening.datasets.mapping import ColumnMapping
from screening.datasets.profile import EXCEL_CELL, FileProfile, id_of, nested_column, reply_of, text_of
from screening.datasets.rows import (
    Fields,
    FileRow,
    NewCase,
    Reason,
    Receive,
    RejectedRow,
    is_cut,
    is_placeholder,
    label_of,
    map_label,
)
from screening.labels import Label
from screening.text.conversation import CONTEXT_TOKENS, Thread, receive_conversation
from screening.text.flags import STATED, Flag
from screening.text.received import ReceivedText

ID_LIMIT = 200
"""Longest id, in characters."""

_WRONG_CELLS = frozenset({Reason.EXTRA_CELLS, Reason.MISSING_CELLS, Reason.ROWS_MERGED})
_NOBODYS_WORDS = frozenset({Reason.HEADER_REPEATED, Reason.DESCRIBES_COLUMNS, Reason.DUPLICATE})
"""Of a row that is a header, or that is another row."""
_EMPTY = Reason.EMPTY_TEXT, "nothing but spaces or invisible characters"

WHERE_LIMIT = 500
"""Most characters of a link or contact reference."""

Row = NewCase | RejectedRow


def judge_row(row: FileRow, found: FileProfile, labels: Mapping[str, Label | None], receive_text: Receive) -> Row:
    """The row as an accepted one, or as a rejected one with the first reason that applies. A rejected one whose words
    state a risk outright is accepted as a case that no agent is asked about: it is escalated, with the reason.
    """
    mapping, fields = found.mapping, row.fields or {}
    text, identity = text_of(fields, mapping), id_of(row, mapping)
    problem = _problem(row, text, identity, found)
    if problem is None and identity is not None:
        received, thread = _receive(row, text or "", mapping, receive_text)
        if Flag.EMPTY not in received.flags:
            if _is_cut(fields, found, text or ""):
                received = replace(received, flags=received.flags | {Flag.UNREADABLE})
            value = found.reviews.get(row.row) or label_of(fields.get(mapping.label) if mapping.label else None)
            reply = reply_of(fields, mapping) or (row.talk.reply if row.talk else None)
            return NewCase(
                row=row.row,
                external_id=identity,
                text=received,
                reply=receive_text(reply) if reply is not None and reply.strip() else None,
                reference=map_label(value, labels),
                reference_value=value,
                group=row.single(mapping.group) or None,
                where=where_of(row.single(mapping.where)),
                thread=thread,
            )
    return _reject(row, identity, text, problem or _EMPTY, found, receive_text)


def _problem(row: FileRow, text: str | None, identity: str | None, found: FileProfile) -> tuple[Reason, str] | None:
    """The first reason for which it is no case, with a sentence."""
    if row.problem is not None or row.fields is None:
        return row.problem or Reason.NOT_AN_OBJECT, row.detail
    if (nested := nested_column(row, found.mapping)) is not None:
        said = f"a list or an object stands in the column {nested}, where a text was expected"
        return Reason.NOT_A_TEXT, said
    for name in found.mapping.text_columns():
        if (cell := row.fields.get(name)) and is_placeholder(cell):
            return Reason.PLACEHOLDER, f"what stood in the column {name} was removed before the file was made"
    if row.talk is None and text is None:
        return Reason.NO_TEXT, "the text is missing"
    if row.talk is None and not (text or "").strip():
        return Reason.EMPTY_TEXT, "the text is empty"
    if identity is None or not identity.strip():
        return Reason.NO_ID, "the id is missing"
    if not is_usable_id(identity):
        return Reason.UNUSABLE_ID, f"the id is longer than {ID_LIMIT} characters or holds control characters"
    if row.row in found.same:
        return Reason.DUPLICATE, f"the same id and text as row {found.same[row.row]}"
    return None


def _reject(
    row: FileRow,
    identity: str | None,
    text: str | None,
    problem: tuple[Reason, str],
    found: FileProfile,
    receive_text: Receive,
) -> Row:
    """The rejected row, or the escalated case where its words state a risk. Of a row whose cells do not fit the id
    is known where that is the first column.
    """
    reason, detail = problem
    original: str | tuple[str, ...] | None = text
    if row.fields is None:
        named = reason in _WRONG_CELLS and bool(row.cells) and found.mapping.id == found.columns[0]
        identity, original = row.cells[0] if named else None, row.cells or None
    elif row.problem is not None:
        original = row.cells[0] if row.cells else None
    elif row.talk is not None:
        original = "\n\n".join(turn.text for turn in row.talk.turns)
    words = "\n".join(original) if isinstance(original, tuple) else original or ""
    if problem is not _EMPTY and reason not in _NOBODYS_WORDS and words.strip():
        received = receive_text(words)
        if not STATED.isdisjoint(received.flags):
            return NewCase(
                row=row.row,
                external_id=identity if identity and identity.strip() and is_usable_id(identity) else f"row {row.row}",
                text=replace(received, flags=received.flags | {Flag.ROW_REJECTED}, model_text=""),
                not_screened=detail or str(reason),
            )
    return RejectedRow(
        row=row.row,
        line=row.line,
        external_id=identity,
        reason=reason,
        detail=detail,
        original_json=None if original is None else json.dumps(original),
    )


def _is_cut(fields: Fields, found: FileProfile, text: str) -> bool:
    """Whether it is known that a part of the text is missing: the file says so, or it ends where Excel cuts."""
    said = fields.get(found.cut_column) if found.cut_column else None
    cells = (fields.get(name) or "" for name in found.mapping.text_columns())
    return (said or "").strip().casefold() in ("true", "1", "yes") or is_cut(text) or EXCEL_CELL in map(len, cells)


def _receive(
    row: FileRow, text: str, mapping: ColumnMapping, receive_text: Receive
) -> tuple[ReceivedText, Thread | None]:
    """The text, or the conversation in its place."""
    if row.talk is None:
        return receive_text(text), None
    tokens = mapping.conversation.context_tokens if mapping.conversation else CONTEXT_TOKENS
    return receive_conversation(
        row.talk.turns, row.talk.judged, receive_text, question=row.talk.question, context_tokens=tokens
    )


def where_of(cell: str | None) -> str | None:
    """Where to act, on one line and short enough to be shown; None for nothing."""
    kept = " ".join((cell or "").split())[:WHERE_LIMIT]
    return kept or None


def is_usable_id(identity: str) -> bool:
    """Whether an id can be kept as it is, and shown."""
    return len(identity) <= ID_LIMIT and identity.isprintable()
