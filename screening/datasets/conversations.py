"""Rows of a file as conversations: each is read from its list, its transcript or its rows, and becomes one case, or one
for each turn and question that is asked.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count, pairwise

from screening.datasets.annotated import agreed_value
from screening.datasets.columns import ColumnMapping, ConversationReading, Shape
from screening.datasets.listed import parsed_list
from screening.datasets.records import BlankLine, Fields, Reason, Record, is_placeholder, single
from screening.datasets.refused import FileRefused
from screening.datasets.turns import (
    TurnsRefused,
    cell_content,
    note,
    require_few,
    role_of,
    turn_of,
    turns_of_messages,
    turns_of_transcript,
)
from screening.text.conversation import SENT, Judged, Question, Role, Turn

MOST_CHARACTERS = 200_000_000
"""Of a file with a turn a row: its conversations are put together in memory."""


NO_REPLY = "no words of the assistant follow"


class ConversationCell(str):
    """A conversation in the place of a text: its turns, and which of them are judged by which question. As a string it
    is different for whatever is different.
    """

    turns: tuple[Turn, ...]
    judged: frozenset[int]
    question: Question
    reply: str | None
    read: int
    """Turns of the conversation, where this is the first of its cases, else 0: so many were read."""
    characters: int
    """Of all its turns; as a string it is short."""

    __slots__ = ("characters", "judged", "question", "read", "reply", "turns")


class RefusedTurns(str):
    """What stands in the place of a conversation that cannot be read: why."""

    reason: Reason
    read: int
    words: str
    """What can be read of the conversation all the same."""

    __slots__ = ("read", "reason", "words")


def join_turns(records: Iterable[Record | BlankLine], mapping: ColumnMapping) -> Iterator[Record | BlankLine]:
    """The records of a file with its conversations in the text column, counted anew from 1: rows in are what comes out.

    Without conversations the records themselves. FileRefused where a damaged row could be a turn that would be missing.
    """
    reading = mapping.conversation
    if reading is None:
        yield from records
        return
    rows = count(1)
    one_each = _together(records, mapping, reading) if reading.shape is Shape.ROWS else records
    for record in one_each:
        if isinstance(record, BlankLine):
            yield record
        elif record.fields is None:
            yield replace(record, row=next(rows))
        else:
            for fields in _cases(record, record.fields, mapping, reading):
                yield replace(record, row=next(rows), fields=fields)


def _cases(record: Record, fields: Fields, mapping: ColumnMapping, reading: ConversationReading) -> Iterator[Fields]:
    """One conversation as the cases that it becomes, or as one that is refused."""
    cell = fields.get(mapping.text)
    try:
        turns = cell.turns if isinstance(cell, ConversationCell) else _turns(cell, reading)
        asked = list(_conversation_cells(turns, reading))
    except TurnsRefused as refusal:
        named = isinstance(cell, RefusedTurns)
        place = "" if named else f"row {record.row}: "
        words = cell.words if isinstance(cell, RefusedTurns) else _readable(cell)
        yield fields | {mapping.text: _refusal(refusal.reason, f"{place}{refusal}", words)}
        return
    for at, one in enumerate(asked):
        judged: ConversationCell | RefusedTurns = one
        if (missing := _missing(one)) is not None:
            judged = _refusal(missing.reason, f"row {record.row}: {missing}", _said(turns))
        judged.read = 0 if at else len(turns)
        yield fields | {mapping.text: judged} | _identity_fields(fields, mapping, reading, one)


def _missing(one: ConversationCell) -> TurnsRefused | None:
    """Why nothing can be said of the turns that are judged: there is none, or one was removed or is empty."""
    if not one.judged:
        return TurnsRefused(Reason.NO_JUDGED_TURN, NO_REPLY)
    if len(one.judged) > 1:
        return None
    (place,) = one.judged
    text = one.turns[place].text
    if is_placeholder(text):
        return TurnsRefused(Reason.PLACEHOLDER, f"turn {place + 1}, which is judged, was removed or is no text")
    if not text.strip():
        return TurnsRefused(Reason.EMPTY_TEXT, f"turn {place + 1}, which is judged, is empty")
    return None


def _said(turns: Iterable[Turn]) -> str:
    return "\n\n".join(turn.text for turn in turns if turn.role is Role.USER and turn.text.strip())


def _readable(cell: str | None) -> str:
    """The words of a conversation that cannot be read as one: all strings of a list, or what stands there."""
    if cell is None or isinstance(cell, ConversationCell):
        return ""
    found = parsed_list(cell)
    return cell if found is None else "\n\n".join(_strings(found))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _strings(one)


def one_case(cell: str, reading: ConversationReading) -> ConversationCell:
    """The one case that a conversation becomes: its last, where several are asked about. Raises TurnsRefused."""
    found = list(_conversation_cells(_turns(cell, reading), reading))
    if not found:
        raise TurnsRefused(Reason.NO_JUDGED_TURN, NO_REPLY)
    if (missing := _missing(found[-1])) is not None:
        raise missing
    return found[-1]


def _turns(cell: str | None, reading: ConversationReading) -> tuple[Turn, ...]:
    if isinstance(cell, RefusedTurns):
        raise TurnsRefused(cell.reason, str(cell))
    if cell is None or not cell.strip():
        raise TurnsRefused(Reason.NO_TEXT, "the conversation is missing")
    read = turns_of_messages if reading.shape is Shape.MESSAGES else turns_of_transcript
    return read(cell, speakers_of(reading))


def speakers_of(reading: ConversationReading) -> Mapping[str, Role | None]:
    """Who is what, by names in lower case."""
    return {name.strip().casefold(): role for name, role in reading.speakers}


def _conversation_cells(turns: tuple[Turn, ...], reading: ConversationReading) -> Iterator[ConversationCell]:
    """The cases of a conversation: by turn, and by question. Of one that asks for a reply that is missing no turn is
    judged. TurnsRefused where nothing can be asked.
    """
    users = [at for at, turn in enumerate(turns) if turn.role is Role.USER]
    if not any(turns[at].text.strip() for at in users):
        raise TurnsRefused(Reason.NO_JUDGED_TURN, "no turn is the user's, or none of theirs holds words")
    if reading.judged is Judged.WHOLE:
        yield from _of_the_whole(turns, users, reading)
        return
    for user in users[-1:] if reading.judged is Judged.LAST_USER else users:
        following, alone = _reply_places(turns, user), reading.questions == (Question.TEXT,)
        if Question.TEXT in reading.questions:
            reply = _words(turns, following) if alone else None
            yield _cell(turns[: user + 1], {user}, Question.TEXT, reply=reply)
        if Question.REPLY in reading.questions:
            yield _cell(turns[: max(following, default=user) + 1], following, Question.REPLY)


def _of_the_whole(
    turns: tuple[Turn, ...], users: list[int], reading: ConversationReading
) -> Iterator[ConversationCell]:
    sent = [at for at, turn in enumerate(turns) if turn.role in SENT and turn.text.strip()]
    if Question.TEXT in reading.questions:
        yield _cell(turns, sent if reading.questions == (Question.TEXT,) else users, Question.TEXT)
    if Question.REPLY in reading.questions:
        yield _cell(turns, [at for at in sent if turns[at].role is Role.ASSISTANT], Question.REPLY)


def _reply_places(turns: Sequence[Turn], user: int) -> list[int]:
    """The places of the assistant's turns with words before the user speaks again."""
    found = []
    for at in range(user + 1, len(turns)):
        if turns[at].role is Role.USER:
            break
        if turns[at].role is Role.ASSISTANT and turns[at].text.strip():
            found.append(at)
    return found


def _words(turns: Sequence[Turn], places: Iterable[int]) -> str | None:
    return "\n\n".join(turns[at].text for at in places if turns[at].text.strip()) or None


def _cell(
    turns: tuple[Turn, ...], judged: Iterable[int], question: Question, *, reply: str | None = None
) -> ConversationCell:
    places = frozenset(judged)
    said = hashlib.sha256(json.dumps([sorted(places), question, reply]).encode())
    for turn in turns:
        said.update(json.dumps([turn.role, turn.text, turn.at, turn.id]).encode())
    made = ConversationCell(f"conversation {said.hexdigest()}")
    made.turns, made.judged, made.question, made.reply, made.read = turns, places, question, reply, 0
    made.characters = sum(len(turn.text) for turn in turns)
    return made


def _identity_fields(
    fields: Fields, mapping: ColumnMapping, reading: ConversationReading, one: ConversationCell
) -> Fields:
    """What tells the cases of one conversation apart: their ids, and their reference labels."""
    changed: Fields = {}
    identity = single(fields, mapping.id)
    if identity is not None and identity.strip():
        if reading.judged is Judged.EACH_USER:
            identity += f" turn {max(one.judged, default=len(one.turns) - 1) + 1}"
        both = len(reading.questions) > 1
        changed[str(mapping.id)] = identity + (" reply" if both and one.question is Question.REPLY else "")
    if mapping.label is not None and len(reading.questions) > 1 and one.question is Question.REPLY:
        changed[mapping.label] = single(fields, reading.reply_label)
    return changed


def _refusal(reason: Reason, sentence: str, words: str) -> RefusedTurns:
    refused = RefusedTurns(sentence)
    refused.reason, refused.read, refused.words = reason, 0, words
    return refused


@dataclass(frozen=True, slots=True, kw_only=True)
class _TurnRow:
    """A row that is one turn; ``wrong`` is why it cannot be one."""

    record: Record
    fields: Fields
    turn: Turn
    order: str
    wrong: TurnsRefused | None = None


def _together(
    records: Iterable[Record | BlankLine], mapping: ColumnMapping, reading: ConversationReading
) -> Iterator[Record | BlankLine]:
    """The rows of each conversation as one record, in the order in which the conversations begin in the file."""
    kept: dict[str, list[_TurnRow]] = {}
    nameless: list[Record] = []
    characters = 0
    for record in records:
        if isinstance(record, BlankLine):
            yield record
            continue
        row = _turn_row(record, mapping, reading)
        name = single(row.fields, mapping.id)
        if name is None or not name.strip():
            said = f"row {record.row} says of no conversation that it is a turn of it"
            refused = _refusal(Reason.NO_ID, said, row.turn.text)
            nameless.append(replace(record, fields=row.fields | {mapping.text: refused}))
            continue
        characters += len(row.turn.text) + sum(len(cell or "") for cell in row.fields.values())
        if characters > MOST_CHARACTERS:
            raise FileRefused("A file of this size with a turn a row is not read at once. Send a conversation a line.")
        kept.setdefault(name, []).append(row)
    yield from nameless
    for rows in kept.values():
        yield _one(rows, mapping)


def _turn_row(record: Record, mapping: ColumnMapping, reading: ConversationReading) -> _TurnRow:
    if record.fields is None:
        raise FileRefused(
            f"row {record.row} does not fit ({record.detail}): a conversation would lack a turn. Mend that row.",
            line=record.line,
        )
    fields = record.fields
    word, content = single(fields, reading.role), cell_content(fields.get(mapping.text))
    role = role_of(word or "", speakers_of(reading))
    wrong = None
    if role is None:
        said = "has no role" if not (word or "").strip() else "has a role that nobody explained"
        wrong = TurnsRefused(Reason.TURN_WITHOUT_ROLE, f"row {record.row} {said}")
    elif content is None:
        wrong = TurnsRefused(Reason.NOT_A_TEXT, f"row {record.row} holds no text")
    text, lost = content or ("", False)
    at, own = note(single(fields, reading.time)), note(single(fields, reading.turn_id))
    turn = turn_of(role or Role.SYSTEM, text, lost=lost, at=at, own=own)
    order = (single(fields, reading.order) or "").strip() if reading.order else str(record.row)
    if reading.order and not order and wrong is None:
        wrong = TurnsRefused(Reason.TURN_WITHOUT_ORDER, f"row {record.row} has no place in the order")
    return _TurnRow(record=record, fields=fields, turn=turn, order=order, wrong=wrong)


def _one(rows: list[_TurnRow], mapping: ColumnMapping) -> Record:
    first = rows[0]
    try:
        cell: str = _thread(rows)
    except TurnsRefused as refusal:
        cell = _refusal(refusal.reason, str(refusal), "\n\n".join(row.turn.text for row in rows))
    shared = {
        name: agreed_value(value for row in rows if (value := single(row.fields, name)))
        for name in _conversation_columns(mapping)
    }
    return replace(first.record, fields=first.fields | shared | {mapping.text: cell})


def _thread(rows: list[_TurnRow]) -> ConversationCell:
    require_few(len(rows))
    for row in rows:
        if row.wrong is not None:
            raise row.wrong
    return _cell(tuple(row.turn for row in _sort_rows(rows)), (), Question.TEXT)


def _sort_rows(rows: list[_TurnRow]) -> list[_TurnRow]:
    """By numbers, where two must not be the same, or by times. TurnsRefused for anything else, and for both mixed."""
    places = [_number(row.order) for row in rows]
    numbers = [place for place in places if place is not None]
    if len(numbers) == len(rows):
        pairs = sorted(zip(numbers, range(len(rows)), strict=True))
        for (number, one), (next_number, other) in pairwise(pairs):
            if number == next_number:
                same = sorted((rows[one].record.row, rows[other].record.row))
                sentence = f"rows {same[0]} and {same[1]} have the same place in the order"
                raise TurnsRefused(Reason.TURN_WITHOUT_ORDER, sentence)
        return [rows[at] for _, at in pairs]
    times = [_moment(row.order) for row in rows]
    for row, place, time in zip(rows, places, times, strict=True):
        if place is None and time is None:
            sentence = f"row {row.record.row} has a place in the order that is no number and no time"
            raise TurnsRefused(Reason.TURN_WITHOUT_ORDER, sentence)
    if not all(times):
        raise TurnsRefused(Reason.TURN_WITHOUT_ORDER, "some of its places in the order are numbers and some times")
    try:
        return [rows[at] for _, at in sorted(zip([time for time in times if time], range(len(rows)), strict=True))]
    except TypeError:  # with a time zone and without
        raise TurnsRefused(Reason.TURN_WITHOUT_ORDER, "some of its times name a zone and some do not") from None


def _number(order: str) -> float | None:
    try:
        number = float(order)
    except ValueError:
        return None
    return number if number == number else None  # "nan" is no place


def _moment(order: str) -> datetime | None:
    try:
        return datetime.fromisoformat(order)
    except ValueError:
        return None


def _conversation_columns(mapping: ColumnMapping) -> tuple[str, ...]:
    """The columns in which a conversation's rows say the same thing, or some of them nothing."""
    reply_label = mapping.conversation.reply_label if mapping.conversation else None
    return tuple(name for name in (mapping.label, mapping.group, mapping.where, reply_label) if name is not None)
