"""Conversations: from a list of messages, a transcript or a turn a row to the cases that are asked about."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count, pairwise
from typing import Any, Final

from screening.datasets.mapping import ColumnMapping, ConversationReading, Shape, agreed_value, parsed_list
from screening.datasets.rows import (
    BlankLine,
    Fields,
    NestedValue,
    NewCase,
    Reason,
    Receive,
    Record,
    is_cut,
    is_placeholder,
    single,
)
from screening.datasets.sources import FileRefused, detect_encoding, open_text
from screening.text.conversation import MOST_TURNS, SENT, Judged, Question, Role, Turn, receive_conversation
from screening.text.flags import Flag

ROLE_WORDS: Final[Mapping[str, Role]] = {
    **dict.fromkeys(("user", "human", "prompter", "client", "patient", "seeker", "person"), Role.USER),
    **dict.fromkeys(("assistant", "bot", "chatbot", "ai", "model", "gpt", "agent", "chatgpt"), Role.ASSISTANT),
    **dict.fromkeys(("system", "developer"), Role.SYSTEM),
    **dict.fromkeys(("tool", "function", "ipython"), Role.TOOL),
}  # fmt: skip
"""Who speaks, as files write it, in lower case."""

_ROLES, _CONTENTS = ("role", "from", "speaker", "author", "sender"), ("content", "value", "text", "message", "parts")
_TIMES, _IDS = ("timestamp", "created_at", "create_time", "time", "at"), ("id", "message_id", "turn_id", "uuid")
_OF_TOOLS = frozenset({"tool_use", "tool_call", "thinking", "redacted_thinking", "reasoning", "function_call"})
_LONGEST_NOTE = 60
_TIME = re.compile(r"[\[(]((?=[^\])\n]*\d)[^\])\n{\x22]{1,40})[\])]")
_BARE_TIME = re.compile(
    r"((?:\d{1,4}[./-]\d{1,2}[./-]\d{1,4},?\s+)?\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?:\s?[AaPp]\.?[Mm]\.?)?)(?:\s+-\s+|\s+(?=\S))"
)
_UNSEEN = " \t\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u202f\u2060\u2066\u2067\u2068\u2069\ufeff"
_NO_NAMES = re.compile(
    r"note|ps|p\.s\.?|edit|update|tl;dr|tldr|re|subject|to|from|cc|date|sent|https?|example|question|answer|reasons?"
    r"|warning|tw|summary|me|to-?day|tomorrow|yesterday|tonight|monday|step|plan|pros|cons|link|source"
)
"""What people write before a colon that is nobody's name, in lower case."""
_LONGEST_NAME = 60


class TurnsRefused(Exception):
    """Why a conversation is not read; the sentence says which turn, and never holds text of it."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def role_of(word: str, speakers: Mapping[str, Role | None]) -> Role | None:
    """The role of somebody with this name: as ``speakers`` (names in lower case) says, else by known words.

    >>> role_of(" Human", {}), role_of("Anna", {"anna": Role.USER}), role_of("Anna", {})
    (<Role.USER: 'user'>, <Role.USER: 'user'>, None)
    """
    name = word.strip(f"{_UNSEEN}\n").casefold()
    return speakers[name] if name in speakers else ROLE_WORDS.get(name)


def turns_of_messages(cell: str, speakers: Mapping[str, Role | None]) -> tuple[Turn, ...]:
    """The turns of a list of messages, as OpenAI, Anthropic and others write them. Raises TurnsRefused."""
    found = parsed_list(cell)
    if found is None or not all(isinstance(one, dict) for one in found):
        raise TurnsRefused(Reason.NOT_A_CONVERSATION, "no list of turns stands where one was expected")
    if not found:
        raise TurnsRefused(Reason.NOT_A_CONVERSATION, "the list of turns is empty")
    require_few(len(found))
    return tuple(_turn(number, one, speakers) for number, one in enumerate(found, start=1))


def turns_of_transcript(cell: str, speakers: Mapping[str, Role | None]) -> tuple[Turn, ...]:
    """The turns of a text whose turns begin with a name and a colon, and where messengers wrote it, a time before it.
    Any other line goes on with the turn before it, so that a colon in what somebody writes parts nothing; one that
    begins as a turn does, with a name that nobody explained, is refused by that name. Raises TurnsRefused.
    """
    turns: list[tuple[Role, str | None, list[str]]] = []
    lines = [_line_parts(line) for line in cell.splitlines()]
    timed = any(at is not None and role_of(name, speakers) is not None for at, name, _ in lines)
    for line, (at, name, words) in zip(cell.splitlines(), lines, strict=True):
        if (role := role_of(name, speakers)) is not None:
            turns.append((role, at, [words]))
        elif at is not None and not name:
            turns.append((Role.SYSTEM, at, [words]))  # a messenger's own line, as of who joined
        elif name and _begins_a_turn(name, at, timed=timed) and name.casefold() not in speakers:
            raise TurnsRefused(
                Reason.TURN_WITHOUT_ROLE,
                f"{name!r} speaks, and nobody said who that is ({name}=user, assistant, system or tool; {name}=none "
                "where that is no name)",
            )
        elif turns:
            turns[-1][2].append(line)
        elif line.strip():
            raise TurnsRefused(Reason.TURN_WITHOUT_ROLE, "the transcript does not begin with a known name and a colon")
    if not turns:
        raise TurnsRefused(Reason.NOT_A_CONVERSATION, "the transcript has no turns")
    require_few(len(turns))
    return tuple(turn_of(role, "\n".join(words).strip(), at=note(at)) for role, at, words in turns)


def is_transcript(line: str) -> bool:
    """Whether a file's first line begins a turn: with a time and a name, or with a word for who speaks.

    >>> [is_transcript(line) for line in ("[02/01/26, 9:01] Reed: hi", "User: hi", "id,text", "[10:03, 7]")]
    [True, True, False, False]
    """
    at, name, _ = _line_parts(line)
    timed = at is not None and re.search(r"\d[:.]\d\d", at) is not None
    android = _BARE_TIME.match(line.lstrip(_UNSEEN))
    return (bool(name) and (timed or role_of(name, {}) is not None)) or bool(android and " - " in android[0])


def turn_of(role: Role, text: str, *, lost: bool = False, at: str | None = None, own: str | None = None) -> Turn:
    """A turn; lost, in part, is also one that was removed or stands for a picture."""
    return Turn(role=role, text=text, at=at, id=own, lost=lost or is_placeholder(text) or is_cut(text))


def _begins_a_turn(name: str, at: str | None, *, timed: bool) -> bool:
    """Whether a line with this before its colon begins as a turn does: with a time, or where no turn has one, as a name
    is written.

    >>> [_begins_a_turn(name, None, timed=False) for name in ("Cleo", "Dr. B", "Note", "what I mean is this")]
    [True, True, False, False]
    """
    if at is not None or timed:
        return at is not None
    words = name.split()
    return len(words) <= 3 and all(word[0].isupper() for word in words) and not _NO_NAMES.fullmatch(name.casefold())


def _line_parts(line: str) -> tuple[str | None, str, str]:
    """A line's time, what stands before its first colon, and its words; no name where it is none.

    >>> _line_parts("\u200e[10:03] **Anna:** well: so"), _line_parts("see http://x")[1]
    (('10:03', 'Anna', 'well: so'), '')
    >>> _line_parts("02/01/26, 21:01 - ~\u202fReed: hi"), _line_parts("02/01/26, 21:02 - Reed left")
    (('02/01/26, 21:01', 'Reed', 'hi'), ('02/01/26, 21:02', '', 'Reed left'))
    """
    bare = line.lstrip(_UNSEEN).strip()
    time = _TIME.match(bare) or _BARE_TIME.match(bare)
    rest = bare[time.end() :] if time else bare
    name, _, words = rest.partition(":")
    name, after = name.strip(f"{_UNSEEN}~*"), words.removeprefix("**")
    at = time[1].strip() if time else None
    if not name or name == rest.strip() or len(name) > _LONGEST_NAME or (after and not after[0].isspace()):
        return at, "", rest.strip() if time else bare
    return at, name, after.strip()


def require_few(turns: int) -> None:
    """TurnsRefused for a conversation of more turns than are read."""
    if turns > MOST_TURNS:
        raise TurnsRefused(
            Reason.TOO_MANY_TURNS, f"the conversation has {turns:,} turns; at most {MOST_TURNS:,} are read"
        )


def content_of(content: object) -> tuple[str, bool] | None:
    """The text of a message, and whether part of it is lost because it is no text; None for what is no message.

    >>> content_of([{"type": "text", "text": "See "}, {"type": "image", "source": {}}])
    ('See \\n\\n[image]', True)
    """
    if content is None or isinstance(content, str):
        return content or "", False
    if not isinstance(content, list):
        return None
    parts = [part for one in content for part in _part(one)]
    return "\n\n".join(words for words, _ in parts), any(lost for _, lost in parts)


def note(value: object) -> str | None:
    """A time or an id as it may be kept: short, in printable characters.

    >>> note("10:03\\x00"), note(""), note(None)
    ('10:03', None, None)
    """
    kept = "".join(letter for letter in str(value or "") if letter.isprintable())[:_LONGEST_NOTE].strip()
    return kept or None


def _turn(number: int, message: Mapping[str, Any], speakers: Mapping[str, Role | None]) -> Turn:
    word = _first(message, _ROLES)
    if isinstance(word, dict):
        word = word.get("role") or word.get("name")
    role = role_of(word, speakers) if isinstance(word, str) else None
    if role is None:
        said = "has no role" if not isinstance(word, str) or not word.strip() else "has a role that nobody explained"
        raise TurnsRefused(Reason.TURN_WITHOUT_ROLE, f"turn {number} {said}")
    content = _first(message, _CONTENTS)
    read = content_of(content)
    if read is None:
        raise TurnsRefused(Reason.NOT_A_TEXT, f"turn {number} holds no text and no list of parts")
    if role is Role.USER and _from_tools(content):
        role = Role.TOOL
    text, lost = read
    return turn_of(role, text, lost=lost, at=note(_first(message, _TIMES)), own=note(_first(message, _IDS)))


def _part(one: object) -> Iterator[tuple[str, bool]]:
    """The words of one part of a message, or what stands there in their place."""
    if isinstance(one, str):
        yield one, False
        return
    part = one if isinstance(one, dict) else {}
    kind = str(part.get("type") or "part")
    for name in ("text", "refusal", "transcript"):
        if isinstance(part.get(name), str):
            yield part[name], False
            return
    if kind == "tool_result":
        read = content_of(part.get("content"))
        yield read if read is not None else ("[tool_result]", True)
    elif kind not in _OF_TOOLS:
        yield f"[{note(kind)}]", True


def _from_tools(content: object) -> bool:
    """Whether it is what tools gave and nothing that the user wrote, though it is sent in the user's place."""
    kinds = [one.get("type") if isinstance(one, dict) else None for one in content] if isinstance(content, list) else []
    return bool(kinds) and all(kind == "tool_result" for kind in kinds)


def _first(turn: Mapping[str, Any], names: tuple[str, ...]) -> object:
    return next((turn[name] for name in names if turn.get(name) is not None), None)


def cell_content(cell: str | None) -> tuple[str, bool] | None:
    """The text of a turn that has a row of its own; its cell may hold a list of parts. None for no message."""
    return content_of(json.loads(cell)) if isinstance(cell, NestedValue) else content_of(cell)


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
