"""The turns of one conversation, from a list of messages or from a transcript."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from screening.datasets.mapping import Shape
from screening.datasets.rows import Reason, is_cut, is_placeholder, parsed_list
from screening.datasets.sources import detect_encoding, open_text
from screening.text.conversation import MOST_TURNS, Role, Turn

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


_LISTS = ("messages", "conversation", "conversations", "turns")
SUFFIXES = ("txt", "json", "jsonl")
"""Of files that hold one conversation."""


def detect_shape(words: str) -> tuple[Shape, str]:
    """What somebody wrote, as a cell: a list of messages, an object that holds one, or one message a line, in JSON; all
    else is a transcript. TurnsRefused for JSON that cannot be read, with the line, and for several conversations.

    >>> detect_shape('{"messages": [{"role": "user", "content": "Hello"}]}')
    (<Shape.MESSAGES: 'messages'>, '[{"role": "user", "content": "Hello"}]')
    >>> detect_shape("User: Hello")
    (<Shape.TRANSCRIPT: 'transcript'>, 'User: Hello')
    """
    bare = words.strip()
    if bare.startswith("{"):
        return Shape.MESSAGES, json.dumps(_messages(_objects(bare)))
    return Shape.MESSAGES if _is_list(bare) else Shape.TRANSCRIPT, words


def decode(content: bytes) -> str:
    """The words of a file, in whatever encoding it is. Raises FileRefused."""
    return open_text(content, detect_encoding(content)).read()


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
