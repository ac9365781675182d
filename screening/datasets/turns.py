"""The turns of one conversation, as a list of messages or a transcript writes them."""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from screening.datasets.listed import parsed_list
from screening.datasets.records import NestedValue, Reason
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
_TIME = re.compile(r"[\[(]([^\])\n]{1,40})[\])]")
_LONGEST_NAME = 60


class TurnsRefused(Exception):
    """Why a conversation is not read; the sentence says which turn, and never holds text of it."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def role_of(word: str, speakers: Mapping[str, Role]) -> Role | None:
    """The role of somebody with this name: as ``speakers`` (names in lower case) says, else by known words.

    >>> role_of(" Human", {}), role_of("Anna", {"anna": Role.USER}), role_of("Anna", {})
    (<Role.USER: 'user'>, <Role.USER: 'user'>, None)
    """
    name = word.strip().casefold()
    return speakers.get(name) or ROLE_WORDS.get(name)


def turns_of_messages(cell: str, speakers: Mapping[str, Role]) -> tuple[Turn, ...]:
    """The turns of a list of messages, as OpenAI, Anthropic and others write them. Raises TurnsRefused."""
    found = parsed_list(cell)
    if found is None or not all(isinstance(one, dict) for one in found):
        raise TurnsRefused(Reason.NOT_A_CONVERSATION, "no list of turns stands where one was expected")
    if not found:
        raise TurnsRefused(Reason.NOT_A_CONVERSATION, "the list of turns is empty")
    require_few(len(found))
    return tuple(_turn(number, one, speakers) for number, one in enumerate(found, start=1))


def turns_of_transcript(cell: str, speakers: Mapping[str, Role]) -> tuple[Turn, ...]:
    """The turns of a text whose turns begin with a name and a colon. A line that begins with no known name goes on with
    the turn before it, so that a colon in what somebody writes parts nothing. Raises TurnsRefused.
    """
    turns: list[tuple[Role, str | None, list[str]]] = []
    for line in cell.splitlines():
        at, name, words = _line_parts(line)
        if (role := role_of(name, speakers)) is not None:
            turns.append((role, at, [words]))
        elif turns:
            turns[-1][2].append(line)
        elif line.strip():
            raise TurnsRefused(Reason.TURN_WITHOUT_ROLE, "the transcript does not begin with a known name and a colon")
    if not turns:
        raise TurnsRefused(Reason.NOT_A_CONVERSATION, "the transcript has no turns")
    require_few(len(turns))
    return tuple(Turn(role=role, text="\n".join(lines).strip(), at=note(at)) for role, at, lines in turns)


def _line_parts(line: str) -> tuple[str | None, str, str]:
    """A line's time in brackets, what stands before its first colon, and its words; no name where it is none.

    >>> _line_parts("[10:03] **Anna:** well: so"), _line_parts("see http://x")[1]
    (('10:03', 'Anna', 'well: so'), '')
    """
    bare = line.strip()
    time = _TIME.match(bare)
    name, _, words = (bare[time.end() :] if time else bare).partition(":")
    name, after = name.strip(" \t*"), words.removeprefix("**")
    if not name or len(name) > _LONGEST_NAME or (after and not after[0].isspace()):
        return None, "", bare
    return time[1] if time else None, name, after.strip()


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


def _turn(number: int, message: Mapping[str, Any], speakers: Mapping[str, Role]) -> Turn:
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
    return Turn(role=role, text=text, at=note(_first(message, _TIMES)), id=note(_first(message, _IDS)), lost=lost)


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
