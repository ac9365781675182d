"""Whether a record becomes a case: each row is accepted, or rejected with the first reason that applies."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace

from screening.datasets.columns import ColumnMapping
from screening.datasets.conversations import ConversationCell, RefusedTurns
from screening.datasets.file_profile import EXCEL_CELL, FileProfile, id_of, nested_column, reply_of, text_of
from screening.datasets.labels import label_of, map_label
from screening.datasets.records import Fields, Reason, Record, is_cut, is_placeholder, single
from screening.datasets.rows import NewCase, RejectedRow
from screening.labels import Label
from screening.text.conversation import CONTEXT_TOKENS, Thread, receive_conversation
from screening.text.flags import STATED, Flag
from screening.text.received import ReceivedText

ID_LIMIT = 200
"""Longest id, in characters."""

_WRONG_CELLS = frozenset({Reason.EXTRA_CELLS, Reason.MISSING_CELLS, Reason.ROWS_MERGED})
_NOBODYS_WORDS = frozenset({Reason.HEADER_REPEATED, Reason.DESCRIBES_COLUMNS, Reason.DUPLICATE})
"""Of a row that is a header, or that is another row."""

WHERE_LIMIT = 500
"""Most characters of a link or contact reference."""

Row = NewCase | RejectedRow
Receive = Callable[[str], ReceivedText]


def judge_row(record: Record, found: FileProfile, labels: Mapping[str, Label | None], receive_text: Receive) -> Row:
    """The record as an accepted row, or as a rejected one with the first reason that applies. A rejected one whose
    words state a risk outright is accepted as a case that no agent is asked about: a person sees it, with the reason.
    """
    row, words = _judge(record, found, labels, receive_text)
    if isinstance(row, NewCase) or row.reason in _NOBODYS_WORDS or not words.strip():
        return row
    received = receive_text(words)
    if STATED.isdisjoint(received.flags):
        return row
    flags = received.flags | {Flag.ROW_REJECTED}
    identity = row.external_id or ""
    named = identity.strip() and is_usable_id(identity)
    return NewCase(
        row=row.row,
        external_id=identity if named else f"row {row.row}",
        text=replace(received, flags=flags, model_text=""),
        not_screened=row.detail or str(row.reason),
    )


def _judge(
    record: Record, found: FileProfile, labels: Mapping[str, Label | None], receive_text: Receive
) -> tuple[Row, str]:
    """The row, and of a rejected one the words that can be read of it."""
    if record.fields is None:
        return _unfitting_row(record, found), "\n".join(record.cells)
    fields, mapping = record.fields, found.mapping
    text, identity = text_of(fields, mapping), id_of(record, fields, mapping)
    nested, cell = nested_column(fields, mapping), fields.get(mapping.text)
    if isinstance(cell, RefusedTurns):
        return _reject(record, identity, cell.words or None, cell.reason, str(cell)), cell.words
    removed = _removed_column(fields, mapping)
    if nested is not None:
        rejection: tuple[Reason, str] | None = _nested_problem(nested)
    elif removed is not None:
        rejection = Reason.PLACEHOLDER, f"what stood in the column {removed} was removed before the file was made"
    else:
        rejection = _rejection(record.row, text, identity, found)
    if rejection is not None or text is None or identity is None:
        reason, detail = rejection or (Reason.NO_TEXT, "the text is missing")
        return _reject(record, identity, text, reason, detail), text or ""
    received, thread = _receive(cell, text, mapping, receive_text)
    if Flag.EMPTY in received.flags:
        return _reject(record, identity, text, Reason.EMPTY_TEXT, "nothing but spaces or invisible characters"), ""
    if _is_cut(fields, found, text):
        received = replace(received, flags=received.flags | {Flag.UNREADABLE})
    case = _accept(record, identity, received, _reply(fields, mapping, receive_text), fields, found, labels)
    return (case if thread is None else replace(case, thread=thread)), ""


def _removed_column(fields: Fields, mapping: ColumnMapping) -> str | None:
    """The first column of the text that holds a placeholder."""
    return next((name for name in mapping.text_columns() if (cell := fields.get(name)) and is_placeholder(cell)), None)


def _is_cut(fields: Fields, found: FileProfile, text: str) -> bool:
    """Whether it is known that a part of the text is missing: the file says so, or it ends where Excel cuts."""
    said = fields.get(found.cut_column) if found.cut_column else None
    cells = (fields.get(name) or "" for name in found.mapping.text_columns())
    return (said or "").strip().casefold() in ("true", "1", "yes") or is_cut(text) or EXCEL_CELL in map(len, cells)


def _receive(
    cell: str | None, text: str, mapping: ColumnMapping, receive_text: Receive
) -> tuple[ReceivedText, Thread | None]:
    """The text, or the conversation in its place."""
    if not isinstance(cell, ConversationCell):
        return receive_text(text), None
    tokens = mapping.conversation.context_tokens if mapping.conversation else CONTEXT_TOKENS
    return receive_conversation(cell.turns, cell.judged, receive_text, question=cell.question, context_tokens=tokens)


def _unfitting_row(record: Record, found: FileProfile) -> RejectedRow:
    """A row whose cells do not fit the columns; its id is known where that is the first column."""
    reason = record.problem or Reason.NOT_AN_OBJECT
    named = reason in _WRONG_CELLS and bool(record.cells) and found.mapping.id == found.columns[0]
    return RejectedRow(
        row=record.row,
        line=record.line,
        external_id=record.cells[0] if named else None,
        reason=reason,
        detail=record.detail,
        original_json=json.dumps(record.cells) if record.cells else None,
    )


def _accept(
    record: Record,
    identity: str,
    text: ReceivedText,
    reply: ReceivedText | None,
    fields: Fields,
    found: FileProfile,
    labels: Mapping[str, Label | None],
) -> NewCase:
    mapping = found.mapping
    value = found.reviews.get(record.row) or label_of(fields.get(mapping.label) if mapping.label else None)
    return NewCase(
        row=record.row,
        external_id=identity,
        text=text,
        reply=reply,
        reference=map_label(value, labels),
        reference_value=value,
        group=single(fields, mapping.group) or None,
        where=where_of(single(fields, mapping.where)),
    )


def where_of(cell: str | None) -> str | None:
    """Where to act, on one line and short enough to be shown; None for nothing."""
    kept = " ".join((cell or "").split())[:WHERE_LIMIT]
    return kept or None


def _nested_problem(column: str) -> tuple[Reason, str]:
    return Reason.NOT_A_TEXT, f"a list or an object stands in the column {column}, where a text was expected"


def _rejection(row: int, text: str | None, identity: str | None, found: FileProfile) -> tuple[Reason, str] | None:
    if text is None:
        return Reason.NO_TEXT, "the text is missing"
    if not text.strip():
        return Reason.EMPTY_TEXT, "the text is empty"
    if identity is None or not identity.strip():
        return Reason.NO_ID, "the id is missing"
    if not is_usable_id(identity):
        return Reason.UNUSABLE_ID, f"the id is longer than {ID_LIMIT} characters or holds control characters"
    if row in found.same:
        return Reason.DUPLICATE, f"the same id and text as row {found.same[row]}"
    return None


def is_usable_id(identity: str) -> bool:
    """Whether an id can be kept as it is, and shown."""
    return len(identity) <= ID_LIMIT and identity.isprintable()


def _reject(record: Record, identity: str | None, text: str | None, reason: Reason, detail: str) -> RejectedRow:
    return RejectedRow(
        row=record.row,
        line=record.line,
        external_id=identity,
        reason=reason,
        detail=detail,
        original_json=None if text is None else json.dumps(text),
    )


def _reply(fields: Fields, mapping: ColumnMapping, receive_text: Receive) -> ReceivedText | None:
    cell = fields.get(mapping.text)
    following = cell.reply if isinstance(cell, ConversationCell) else None
    reply = reply_of(fields, mapping) or following
    return receive_text(reply) if reply is not None and reply.strip() else None
