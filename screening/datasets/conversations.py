"""Conversations of a file: one a row or a turn a row, to the cases that are asked about."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from itertools import count, pairwise
from typing import Any

from screening.datasets.mapping import ColumnMapping, ConversationReading, Shape
from screening.datasets.rows import (
    PATTERNS,
    WORDS,
    Fields,
    FileRefused,
    FileRow,
    NewCase,
    Reason,
    Rows,
    agreed_value,
    is_cut,
    is_placeholder,
    parsed_list,
)
from screening.text.conversation import MOST_TURNS, SENT, Conversation, Judged, Question, Role, Turn
from screening.text.flags import Flag
from screening.text.received import Receive

_KEYS: Mapping[str, list[str]] = WORDS["messages"]
_SPEAKERS = {word: Role(role) for role, words in WORDS["speakers"].items() for word in words}
_LONGEST_NOTE, _MOST_NESTED = 60, 20
_TIME = re.compile(r"[\[(]((?=[^\])\n]*\d)[^\])\n{\x22]{1,40})[\])]")
_BARE_TIME = re.compile(
    r"((?:\d{1,4}[./-]\d{1,2}[./-]\d{1,4},?\s+)?\d{1,2}[:.]\d{2}(?:[:.]\d{2})?(?:\s?[AaPp]\.?[Mm]\.?)?)(?:\s+-\s+|\s+(?=\S))"
)
_UNSEEN = " \t\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u202f\u2060\u2066\u2067\u2068\u2069\ufeff"
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
    return speakers[name] if name in speakers else _SPEAKERS.get(name)


def _turns_of_transcript(cell: str, speakers: Mapping[str, Role | None]) -> tuple[Turn, ...]:
    """The turns of a text whose turns begin with a name and a colon, and where messengers wrote it, a time before it.
    Any other line goes on with the turn before it, so that a colon in what somebody writes parts nothing; one that
    begins as a turn does, with a name that nobody explained, is refused by that name.
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
    _require_few(len(turns))
    return tuple(_turn_of(role, "\n".join(words).strip(), at=_note(at)) for role, at, words in turns)


def is_transcript(line: str) -> bool:
    """Whether a file's first line begins a turn: with a time and a name, or with a word for who speaks.

    >>> [is_transcript(line) for line in ("[02/01/26, 9:01] Reed: hi", "User: hi", "id,text", "[10:03, 7]")]
    [True, True, False, False]
    """
    at, name, _ = _line_parts(line)
    timed = at is not None and re.search(r"\d[:.]\d\d", at) is not None
    android = _BARE_TIME.match(line.lstrip(_UNSEEN))
    return (bool(name) and (timed or role_of(name, {}) is not None)) or bool(android and " - " in android[0])


def _turn_of(role: Role, text: str, *, lost: bool = False, at: str | None = None, own: str | None = None) -> Turn:
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
    return len(words) <= 3 and all(word[0].isupper() for word in words) and not PATTERNS["no_name"].fullmatch(name)


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


def _require_few(turns: int, where: str = "") -> None:
    if turns > MOST_TURNS:
        said = f"{where}the conversation has {turns:,} turns; at most {MOST_TURNS:,} are read"
        raise TurnsRefused(Reason.TOO_MANY_TURNS, said)


def _content_of(content: object, depth: int = 0) -> tuple[str, bool] | None:
    """The text of a message, and whether part of it is lost because it is no text; None for what is no message.

    >>> _content_of([{"type": "text", "text": "See "}, {"type": "image", "source": {}}])
    ('See \\n\\n[image]', True)
    """
    if content is None or isinstance(content, str):
        return content or "", False
    if not isinstance(content, list) or depth > _MOST_NESTED:
        return None
    parts = [part for one in content for part in _part(one, depth)]
    return "\n\n".join(words for words, _ in parts), any(lost for _, lost in parts)


def words_of(content: object) -> str:
    """The text of a message; empty for what is none."""
    return (_content_of(content) or ("", False))[0]


def _note(value: object) -> str | None:
    """A time or an id as it may be kept: short, in printable characters.

    >>> _note("10:03\\x00"), _note(""), _note(None)
    ('10:03', None, None)
    """
    kept = "".join(letter for letter in str(value or "") if letter.isprintable())[:_LONGEST_NOTE].strip()
    return kept or None


def _turn(where: str, message: Mapping[str, Any], speakers: Mapping[str, Role | None]) -> Turn:
    word = _first(message, "role")
    if isinstance(word, dict):
        word = word.get("role") or word.get("name")
    role = role_of(word, speakers) if isinstance(word, str) else None
    if role is None:
        said = "has a role that nobody explained" if isinstance(word, str) and word.strip() else "has no role"
        raise TurnsRefused(Reason.TURN_WITHOUT_ROLE, f"{where} {said}")
    content = _first(message, "content")
    if (read := _content_of(content)) is None:
        raise TurnsRefused(Reason.NOT_A_TEXT, f"{where} holds no text and no list of parts")
    text, lost = read
    parts = content if isinstance(content, list) else []
    if role is Role.USER and parts and all(isinstance(one, dict) and one.get("type") == "tool_result" for one in parts):
        role = Role.TOOL  # it is sent in the user's place, and nothing that the user wrote
    return _turn_of(role, text, lost=lost, at=_note(_first(message, "time")), own=_note(_first(message, "id")))


def _part(one: object, depth: int) -> Iterator[tuple[str, bool]]:
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
        read = _content_of(part.get("content"), depth + 1)
        yield read if read is not None else ("[tool_result]", True)
    elif kind not in _KEYS["of_tools"]:
        yield f"[{_note(kind)}]", True


def _first(message: Mapping[str, Any], part: str) -> object:
    return next((message[name] for name in _KEYS[part] if message.get(name) is not None), None)


def read_case(words: str, reading: ConversationReading, receive: Receive) -> NewCase:
    """The one case that what somebody wrote becomes, whatever shape ``reading`` names: the words tell. Its last, where
    several are asked about. TurnsRefused.
    """
    shape, cell = _cell_of(words)
    *_, found = _asked(_turns(cell, replace(reading, shape=shape)), reading)
    if (missing := _missing(found)) is not None:
        raise missing
    text, thread = found.received(receive)
    if not text.stored.strip() or Flag.EMPTY in text.flags:
        raise TurnsRefused(Reason.EMPTY_TEXT, "nothing but spaces or invisible characters")
    reply = receive(found.reply) if found.reply else None
    return NewCase(row=1, external_id="text", text=text, thread=thread, reply=reply)


def _cell_of(words: str) -> tuple[Shape, str]:
    """What somebody wrote, as a cell: a list of messages, an object that holds one, or one message a line, in JSON; all
    else is a transcript. TurnsRefused for JSON that cannot be read, with the line, and for several conversations.

    >>> _cell_of('{"messages": [{"role": "user", "content": "Hello"}]}')
    (<Shape.MESSAGES: 'messages'>, '[{"role": "user", "content": "Hello"}]')
    >>> _cell_of("[10:03] User: Hello")
    (<Shape.TRANSCRIPT: 'transcript'>, '[10:03] User: Hello')
    """
    bare, found, at = words.strip(), list[Any](), 0
    if not bare.startswith("{"):  # a transcript may begin with a time in brackets
        is_list = bare.startswith("[") and bare[1:].lstrip()[:1] in ("{", "]")
        return Shape.MESSAGES if is_list else Shape.TRANSCRIPT, words
    while at < len(bare):
        try:
            one, at = json.JSONDecoder().raw_decode(bare, at)
        except (ValueError, RecursionError) as wrong:
            line = bare.count("\n", 0, getattr(wrong, "pos", at)) + 1
            raise TurnsRefused(Reason.NOT_A_CONVERSATION, f"the JSON cannot be read from line {line} on") from None
        found.append(one)
        while at < len(bare) and bare[at].isspace():
            at += 1
    held = [one.get(name) for one in found if isinstance(one, dict) for name in _KEYS["lists"]]
    named = [one for one in held if isinstance(one, list)]
    if named and len(found) > 1:
        said = f"these are {len(found):,} conversations, and one is read here; upload the file as a batch"
        raise TurnsRefused(Reason.NOT_A_CONVERSATION, said)
    return Shape.MESSAGES, json.dumps(named[0] if named else found)


MOST_CHARACTERS = 200_000_000
"""Of a file with a turn a row: its conversations are put together in memory."""


def join_turns(rows: Rows, mapping: ColumnMapping, reading: ConversationReading) -> Rows:
    """The rows of a file with its conversations in the place of texts, counted anew from 1: rows in are what comes out.
    FileRefused where a damaged row could be a turn that would be missing.
    """
    numbers = count(1)
    for row in _together(rows, mapping, reading) if reading.shape is Shape.ROWS else rows:
        cases = [row] if row.problem is not None else _cases(row, mapping, reading)
        yield from (replace(one, row=next(numbers)) for one in cases)


def _cases(row: FileRow, mapping: ColumnMapping, reading: ConversationReading) -> Iterator[FileRow]:
    """One conversation as the cases that it becomes, or as one that is refused."""
    cell, together = row.fields.get(mapping.text), row.turns
    row = replace(row.with_fields({mapping.text: None}), turns=())
    try:
        turns = together or _turns(cell, reading)
        asked = list(_asked(turns, reading))
    except TurnsRefused as refusal:
        found = parsed_list(cell or "")
        words = [turn.text for turn in together] or _strings(cell if found is None else found)
        yield _refused(row, refusal, words, f"row {row.row}: ")
        return
    said = [turn.text for turn in turns if turn.role is Role.USER and turn.text.strip()]
    for at, one in enumerate(asked):
        case = replace(row.with_fields(_identity_fields(row, mapping, reading, one)), talk=one)
        if (missing := _missing(one)) is not None:
            case, said = _refused(case, missing, said, f"row {row.row}: "), []  # the words stand with the first of them
        yield replace(case, turns=() if at else turns)


def _refused(row: FileRow, refusal: TurnsRefused, words: Iterable[str], where: str = "") -> FileRow:
    """The row with why its conversation is not read; ``where`` says which row, where the sentence does not."""
    said = "\n\n".join(words)
    return replace(row, talk=None, problem=refusal.reason, detail=f"{where}{refusal}", cells=(said,) if said else ())


def _missing(one: Conversation) -> TurnsRefused | None:
    """Why nothing can be said of the turns that are judged: there is none, or one was removed or is empty."""
    if not one.judged:
        return TurnsRefused(Reason.NO_JUDGED_TURN, "no words of the assistant follow")
    if len(one.judged) > 1:
        return None
    (place,) = one.judged
    text = one.turns[place].text
    if is_placeholder(text):
        return TurnsRefused(Reason.PLACEHOLDER, f"turn {place + 1}, which is judged, was removed or is no text")
    if not text.strip():
        return TurnsRefused(Reason.EMPTY_TEXT, f"turn {place + 1}, which is judged, is empty")
    return None


def _strings(value: object) -> Iterator[str]:
    """All strings of a list that cannot be read as turns."""
    if isinstance(value, str):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _strings(one)


def _turns(cell: str | None, reading: ConversationReading) -> tuple[Turn, ...]:
    """The turns of a transcript, or of a list of messages as OpenAI, Anthropic and others write them."""
    if cell is None or not cell.strip():
        raise TurnsRefused(Reason.NO_TEXT, "the conversation is missing")
    if reading.shape is not Shape.MESSAGES:
        return _turns_of_transcript(cell, _speakers_of(reading))
    found = parsed_list(cell)
    if not found or not all(isinstance(one, dict) for one in found):
        said = "the list of turns is empty" if found == [] else "no list of turns stands where one was expected"
        raise TurnsRefused(Reason.NOT_A_CONVERSATION, said)
    _require_few(len(found))
    speakers = _speakers_of(reading)
    return tuple(_turn(f"turn {number}", one, speakers) for number, one in enumerate(found, start=1))


def _speakers_of(reading: ConversationReading) -> Mapping[str, Role | None]:
    """Who is what, by names in lower case."""
    return {name.strip().casefold(): role for name, role in reading.speakers}


def _asked(turns: tuple[Turn, ...], reading: ConversationReading) -> Iterator[Conversation]:
    """The cases of a conversation, by turn and by question; no turn is judged where the reply asked for is missing."""
    users = [at for at, turn in enumerate(turns) if turn.role is Role.USER]
    if not any(turns[at].text.strip() for at in users):
        raise TurnsRefused(Reason.NO_JUDGED_TURN, "no turn is the user's, or none of theirs holds words")
    alone, asked = reading.questions == (Question.TEXT,), partial(Conversation, context_tokens=reading.context_tokens)
    if reading.judged is Judged.WHOLE:
        sent = [at for at, turn in enumerate(turns) if turn.role in SENT and turn.text.strip()]
        replies = [at for at in sent if turns[at].role is Role.ASSISTANT]
        for question, judged in ((Question.TEXT, sent if alone else users), (Question.REPLY, replies)):
            if question in reading.questions:
                yield asked(turns=turns, judged=frozenset(judged), question=question)
        return
    for user in users[-1:] if reading.judged is Judged.LAST_USER else users:
        following = _reply_places(turns, user)
        if Question.TEXT in reading.questions:
            reply = "\n\n".join(turns[at].text for at in following) if alone else ""
            yield asked(turns=turns[: user + 1], judged=frozenset({user}), reply=reply or None)
        if Question.REPLY in reading.questions:
            upto = turns[: max(following, default=user) + 1]
            yield asked(turns=upto, judged=frozenset(following), question=Question.REPLY)


def _reply_places(turns: Sequence[Turn], user: int) -> list[int]:
    """The places of the assistant's turns with words before the user speaks again."""
    until = next((at for at in range(user + 1, len(turns)) if turns[at].role is Role.USER), len(turns))
    return [at for at in range(user + 1, until) if turns[at].role is Role.ASSISTANT and turns[at].text.strip()]


def _identity_fields(row: FileRow, mapping: ColumnMapping, reading: ConversationReading, one: Conversation) -> Fields:
    """What tells the cases of one conversation apart: their ids, and their reference labels."""
    changed: Fields = {}
    second = len(reading.questions) > 1 and one.question is Question.REPLY
    identity = row.single(mapping.id)
    if identity is not None and identity.strip():
        if reading.judged is Judged.EACH_USER:
            identity += f" turn {max(one.judged, default=len(one.turns) - 1) + 1}"
        changed[str(mapping.id)] = f"{identity} reply" if second else identity
    if mapping.label is not None and second:
        changed[mapping.label] = row.single(reading.reply_label)
    return changed


def _together(rows: Rows, mapping: ColumnMapping, reading: ConversationReading) -> Rows:
    """The rows of each conversation as one row, in the order in which the conversations begin in the file."""
    kept: dict[str, list[FileRow]] = {}
    nameless: list[FileRow] = []
    characters = 0
    for row in rows:
        if row.problem is not None:
            raise FileRefused(
                f"row {row.row} does not fit ({row.detail}): a conversation would lack a turn. Mend that row.",
                line=row.line,
            )
        name, words = row.single(mapping.id), words_of(row.content(mapping.text))
        if name is None or not name.strip():
            why = TurnsRefused(Reason.NO_ID, f"row {row.row} says of no conversation that it is a turn of it")
            nameless.append(_refused(row.with_fields({mapping.text: None}), why, [words]))
            continue
        characters += len(words) + row.characters()
        if characters > MOST_CHARACTERS:
            raise FileRefused("A file of this size with a turn a row is not read at once. Send a conversation a line.")
        kept.setdefault(name, []).append(row)
    yield from nameless
    for of_one in kept.values():
        yield _one(of_one, mapping, reading)


def _one(rows: list[FileRow], mapping: ColumnMapping, reading: ConversationReading) -> FileRow:
    """The rows of a conversation as one; what any of them says in the other columns holds for all of it."""
    shared = {
        name: agreed_value(value for row in rows if (value := row.single(name)))
        for name in (mapping.label, mapping.group, mapping.where, reading.reply_label)
        if name is not None
    }
    first, contents = rows[0].with_fields(shared | {mapping.text: None}), [row.content(mapping.text) for row in rows]
    try:
        _require_few(len(rows), f"row {first.row}: ")
        turns, speakers = [], _speakers_of(reading)
        for row, content in zip(rows, contents, strict=True):
            role, at, own = (row.single(column) for column in (reading.role, reading.time, reading.turn_id))
            said = {"role": role, "content": content, "time": at, "id": own}
            turns.append(_turn(f"row {row.row}", said, speakers))
        order = _order(rows, reading.order)
    except TurnsRefused as refusal:
        return _refused(first, refusal, map(words_of, contents))
    return replace(first, turns=tuple(turns[at] for at in order))


def _order(rows: Sequence[FileRow], column: str | None) -> Sequence[int]:
    """The rows in their order, without such a column that of the file: by numbers, no two the same, or by times."""
    if column is None:
        return range(len(rows))
    places = [(row.single(column) or "").strip() for row in rows]
    numbers, times = ([_read(kind, place) for place in places] for kind in (float, datetime.fromisoformat))
    for row, place, number, time in zip(rows, places, numbers, times, strict=True):
        if number is None and time is None:
            said = "a place in the order that is no number and no time" if place else "no place in the order"
            raise TurnsRefused(Reason.TURN_WITHOUT_ORDER, f"row {row.row} has {said}")
    keys = times if None in numbers else numbers
    try:
        ordered = sorted(range(len(rows)), key=keys.__getitem__)
    except TypeError:  # None beside a time, or a time with a zone and one without
        sentence = "some of its places in the order are numbers and some times, or times with a zone and without"
        raise TurnsRefused(Reason.TURN_WITHOUT_ORDER, f"row {rows[0].row}: {sentence}") from None
    for one, other in pairwise(ordered):
        if keys is numbers and keys[one] == keys[other]:
            first, second = sorted((rows[one].row, rows[other].row))
            sentence = f"rows {first} and {second} have the same place in the order"
            raise TurnsRefused(Reason.TURN_WITHOUT_ORDER, sentence)
    return ordered


def _read(kind: Callable[[str], Any], order: str) -> Any:
    """None for what is none of this kind, and for "nan"."""
    try:
        found = kind(order)
    except ValueError:
        return None
    return found if found == found else None
