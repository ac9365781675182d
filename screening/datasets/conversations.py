"""Conversations of a file: one a row or a turn a row, to the cases that are asked about."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import count, pairwise

from screening.datasets.mapping import ColumnMapping, ConversationReading, Shape
from screening.datasets.rows import (
    Conversation,
    Fields,
    FileRow,
    NewCase,
    Reason,
    Receive,
    Rows,
    agreed_value,
    is_placeholder,
    parsed_list,
)
from screening.datasets.sources import FileRefused
from screening.datasets.turns import (
    TurnsRefused,
    content_of,
    note,
    require_few,
    role_of,
    turn_of,
    turns_of_messages,
    turns_of_transcript,
)
from screening.text.conversation import SENT, Judged, Question, Role, Turn, receive_conversation
from screening.text.flags import Flag

MOST_CHARACTERS = 200_000_000
"""Of a file with a turn a row: its conversations are put together in memory."""


def join_turns(rows: Rows, mapping: ColumnMapping) -> Rows:
    """The rows of a file with its conversations in the place of texts, counted anew from 1: rows in are what comes out.

    Without conversations the rows themselves. FileRefused where a damaged row could be a turn that would be missing.
    """
    reading = mapping.conversation
    if reading is None:
        yield from rows
        return
    numbers = count(1)
    for row in _together(rows, mapping, reading) if reading.shape is Shape.ROWS else rows:
        if row is None:
            yield None
        else:
            yield from (replace(one, row=next(numbers)) for one in _cases(row, mapping, reading))


def _cases(row: FileRow, mapping: ColumnMapping, reading: ConversationReading) -> Iterator[FileRow]:
    """One conversation as the cases that it becomes, or as one that is refused."""
    if row.problem is not None or row.fields is None:
        yield row
        return
    cell, row = row.fields.get(mapping.text), row.with_fields({mapping.text: None})
    try:
        turns = row.talk.turns if row.talk else _turns(cell, reading)
        asked = list(_asked(turns, reading))
    except TurnsRefused as refusal:
        words = "" if row.talk or cell is None else _readable(cell)
        yield _refused(row, refusal, words)
        return
    for at, one in enumerate(asked):
        case = replace(row.with_fields(_identity_fields(row, mapping, reading, one)), talk=one)
        missing = _missing(one)
        if missing is not None:
            said = "\n\n".join(turn.text for turn in turns if turn.role is Role.USER and turn.text.strip())
            case = _refused(case, missing, said)
        yield replace(case, turns=0 if at else len(turns))


def _refused(row: FileRow, refusal: TurnsRefused, words: str, *, named: bool = False) -> FileRow:
    """The row with why its conversation is not read; ``named`` says that the sentence names rows itself."""
    detail = str(refusal) if named else f"row {row.row}: {refusal}"
    return replace(row, talk=None, problem=refusal.reason, detail=detail, cells=(words,) if words else ())


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


def _readable(cell: str) -> str:
    """The words of a conversation that cannot be read as one: all strings of a list, or what stands there."""
    found = parsed_list(cell)
    return cell if found is None else "\n\n".join(_strings(found))


def _strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _strings(one)


def _turns(cell: str | None, reading: ConversationReading) -> tuple[Turn, ...]:
    if cell is None or not cell.strip():
        raise TurnsRefused(Reason.NO_TEXT, "the conversation is missing")
    read = turns_of_messages if reading.shape is Shape.MESSAGES else turns_of_transcript
    return read(cell, speakers_of(reading))


def speakers_of(reading: ConversationReading) -> Mapping[str, Role | None]:
    """Who is what, by names in lower case."""
    return {name.strip().casefold(): role for name, role in reading.speakers}


def _asked(turns: tuple[Turn, ...], reading: ConversationReading) -> Iterator[Conversation]:
    """The cases of a conversation: by turn, and by question. Of one that asks for a reply that is missing no turn is
    judged. TurnsRefused where nothing can be asked.
    """
    users = [at for at, turn in enumerate(turns) if turn.role is Role.USER]
    if not any(turns[at].text.strip() for at in users):
        raise TurnsRefused(Reason.NO_JUDGED_TURN, "no turn is the user's, or none of theirs holds words")
    alone = reading.questions == (Question.TEXT,)
    if reading.judged is Judged.WHOLE:
        sent = [at for at, turn in enumerate(turns) if turn.role in SENT and turn.text.strip()]
        replies = [at for at in sent if turns[at].role is Role.ASSISTANT]
        for question, judged in ((Question.TEXT, sent if alone else users), (Question.REPLY, replies)):
            if question in reading.questions:
                yield Conversation(turns=turns, judged=frozenset(judged), question=question)
        return
    for user in users[-1:] if reading.judged is Judged.LAST_USER else users:
        following = _reply_places(turns, user)
        if Question.TEXT in reading.questions:
            reply = "\n\n".join(turns[at].text for at in following) if alone else ""
            yield Conversation(turns=turns[: user + 1], judged=frozenset({user}), reply=reply or None)
        if Question.REPLY in reading.questions:
            upto = turns[: max(following, default=user) + 1]
            yield Conversation(turns=upto, judged=frozenset(following), question=Question.REPLY)


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
        if row is None:
            yield None
            continue
        if row.fields is None:
            raise FileRefused(
                f"row {row.row} does not fit ({row.detail}): a conversation would lack a turn. Mend that row.",
                line=row.line,
            )
        name, words = row.single(mapping.id), _words(row, mapping)
        if name is None or not name.strip():
            why = TurnsRefused(Reason.NO_ID, f"row {row.row} says of no conversation that it is a turn of it")
            nameless.append(_refused(row.with_fields({mapping.text: None}), why, words, named=True))
            continue
        characters += len(words) + row.characters()
        if characters > MOST_CHARACTERS:
            raise FileRefused("A file of this size with a turn a row is not read at once. Send a conversation a line.")
        kept.setdefault(name, []).append(row)
    yield from nameless
    for of_one in kept.values():
        yield _one(of_one, mapping, reading)


def _words(row: FileRow, mapping: ColumnMapping) -> str:
    return (content_of(row.content(mapping.text)) or ("", False))[0]


def _one(rows: list[FileRow], mapping: ColumnMapping, reading: ConversationReading) -> FileRow:
    """The rows of a conversation as one. What its columns say holds for all of it: several rows say the same thing
    there, or some of them nothing.
    """
    shared = {
        name: agreed_value(value for row in rows if (value := row.single(name)))
        for name in (mapping.label, mapping.group, mapping.where, reading.reply_label)
        if name is not None
    }
    first = rows[0].with_fields(shared | {mapping.text: None})
    try:
        require_few(len(rows))
        placed = [_placed_turn(row, mapping, reading) for row in rows]
        turns = tuple(
            placed[at][1] for at in _order([(row.row, order) for row, (order, _) in zip(rows, placed, strict=True)])
        )
    except TurnsRefused as refusal:
        return _refused(first, refusal, "\n\n".join(_words(row, mapping) for row in rows), named=True)
    return replace(first, talk=Conversation(turns=turns))


def _placed_turn(row: FileRow, mapping: ColumnMapping, reading: ConversationReading) -> tuple[str, Turn]:
    """A row's place in the order and its turn. Raises TurnsRefused."""
    word, content = row.single(reading.role) or "", content_of(row.content(mapping.text))
    role = role_of(word, speakers_of(reading))
    if role is None:
        said = "has a role that nobody explained" if word.strip() else "has no role"
        raise TurnsRefused(Reason.TURN_WITHOUT_ROLE, f"row {row.row} {said}")
    if content is None:
        raise TurnsRefused(Reason.NOT_A_TEXT, f"row {row.row} holds no text")
    order = (row.single(reading.order) or "").strip() if reading.order else str(row.row)
    if not order:
        raise TurnsRefused(Reason.TURN_WITHOUT_ORDER, f"row {row.row} has no place in the order")
    at, own = note(row.single(reading.time)), note(row.single(reading.turn_id))
    return order, turn_of(role, content[0], lost=content[1], at=at, own=own)


def _order(places: list[tuple[int, str]]) -> list[int]:
    """The rows (number and place of each) in their order: by numbers, where two must not be the same, or by times.
    TurnsRefused for anything else, and for both mixed.
    """
    numbers, times = [_number(order) for _, order in places], [_moment(order) for _, order in places]
    if None not in numbers:
        pairs = sorted((number, at) for at, number in enumerate(numbers) if number is not None)
        for (number, one), (next_number, other) in pairwise(pairs):
            if number == next_number:
                first, second = sorted((places[one][0], places[other][0]))
                sentence = f"rows {first} and {second} have the same place in the order"
                raise TurnsRefused(Reason.TURN_WITHOUT_ORDER, sentence)
        return [at for _, at in pairs]
    for (row, _), place, time in zip(places, numbers, times, strict=True):
        if place is None and time is None:
            sentence = f"row {row} has a place in the order that is no number and no time"
            raise TurnsRefused(Reason.TURN_WITHOUT_ORDER, sentence)
    if None in times:
        raise TurnsRefused(Reason.TURN_WITHOUT_ORDER, "some of its places in the order are numbers and some times")
    try:
        return [at for _, at in sorted((time, at) for at, time in enumerate(times) if time is not None)]
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


def read_case(cell: str, reading: ConversationReading, receive: Receive) -> NewCase:
    """The one case that a conversation becomes (its last, where several are asked about), without a name yet.
    TurnsRefused, which says the turn.
    """
    *_, found = _asked(_turns(cell, reading), reading)
    if (missing := _missing(found)) is not None:
        raise missing
    text, thread = receive_conversation(
        found.turns, found.judged, receive, question=found.question, context_tokens=reading.context_tokens
    )
    if not text.stored.strip() or Flag.EMPTY in text.flags:
        raise TurnsRefused(Reason.EMPTY_TEXT, "nothing but spaces or invisible characters")
    reply = receive(found.reply) if found.reply else None
    return NewCase(row=1, external_id="text", text=text, thread=thread, reply=reply)
