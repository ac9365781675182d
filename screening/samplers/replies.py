"""A reply as a draw. It counts only if it is what was asked: this shape, this model, to all that was sent, one text.

Anything else is an answer that cannot be used, marked as what it was; a gateway that repeats one answer, another
model behind the same address, a server that read only part of the text, or a second block beside the word never make
a label.
"""

import hashlib
import json
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from screening.engine.answers import read_answer
from screening.engine.draws import Answer, Draw, Usage, unusable
from screening.labels import Label

_IDS_KEPT = 10_000
_CHAT_STOPS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
_CHAT_NOISE = frozenset({"role", "content"})


@dataclass(slots=True)
class SeenIds:
    """The ids of the latest replies of one sampler, so that an answer sent twice is one draw.

    ``unique``: the server gives no id twice. Others number their replies small; once different replies came under one
    id, ids prove nothing there, and that an answer is fresh rests on the connection it came over.
    """

    unique: bool = True
    _ids: OrderedDict[str, bytes] = field(default_factory=OrderedDict)
    _prove_nothing: bool = False

    def remember(self, reply_id: str, reply: Mapping[str, Any] | None = None) -> None:
        """Take the id as seen."""
        self._ids[reply_id] = _digest(reply)
        if len(self._ids) > _IDS_KEPT:
            self._ids.popitem(last=False)

    def objection(self, reply: Mapping[str, Any]) -> str | None:
        """Why the reply is not taken for one of its own; None where it is. From now on its id was seen."""
        reply_id = reply.get("id")
        if not isinstance(reply_id, str) or not reply_id.strip():
            return "the reply has no id" if reply_id is None else "the reply has an empty id"
        before = self._ids.get(reply_id)
        self.remember(reply_id, reply)
        if before is None or self._prove_nothing:
            return None
        self._prove_nothing = not self.unique and before != _digest(reply)
        return None if self._prove_nothing else "a reply with this id was received before"


def _digest(reply: Mapping[str, Any] | None) -> bytes:
    return b"" if reply is None else hashlib.sha256(json.dumps(reply, sort_keys=True).encode()).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """What a reply must be: from one of these models, answered in these words, with an id not seen before, and made of
    no fewer prompt tokens than ``least_tokens``.
    """

    models: frozenset[str]
    words: Mapping[str, Label]
    seen: SeenIds
    least_tokens: int = 0


def message_draw(reply: Mapping[str, Any], expected: Expected) -> Draw:
    """The draw that a reply of the Messages API makes."""
    usage = message_usage(reply.get("usage"))
    if reply.get("type") != "message" or reply.get("role") != "assistant":
        return unusable(Answer.MISSHAPEN, usage=usage)
    if (stranger := _not_asked(reply, expected, usage)) is not None:
        return stranger
    stop_reason, content = reply.get("stop_reason"), reply.get("content")
    if not isinstance(stop_reason, str) or not (content is None or isinstance(content, list)):
        return unusable(Answer.MISSHAPEN, usage=usage)
    return _read(_only_text(content or []), bool(content), stop_reason, usage, expected)


def completion_draw(reply: Mapping[str, Any], expected: Expected) -> Draw:
    """The draw that a reply of an OpenAI-compatible chat completion makes."""
    usage = completion_usage(reply.get("usage"))
    choice = completion_choice(reply)
    if choice is None:
        return unusable(Answer.MISSHAPEN, usage=usage)
    if (stranger := _not_asked(reply, expected, usage)) is not None:
        return stranger
    message, content = choice["message"], choice["message"].get("content")
    alone = not any(value for key, value in message.items() if key not in _CHAT_NOISE)
    text = content if isinstance(content, str) and alone else None
    if message.get("refusal"):
        return unusable(Answer.REFUSAL, usage=usage)
    stop_reason = _CHAT_STOPS.get(str(choice.get("finish_reason")), "")
    return _read(text, content is not None or not alone, stop_reason, usage, expected)


def _not_asked(reply: Mapping[str, Any], expected: Expected, usage: Usage) -> Draw | None:
    """What a reply counts as that is not one of its own, names no model or one that was not asked, or was made of part
    of what was sent; None where it was asked. A server that counts no tokens says nothing of what it read.
    """
    if (objection := expected.seen.objection(reply)) is not None:
        return unusable(Answer.MISSHAPEN, objection, usage)
    model = reply.get("model")
    if not isinstance(model, str):
        return unusable(Answer.MISSHAPEN, "the reply names no model", usage)
    if model not in expected.models:
        return unusable(Answer.OTHER_MODEL, model, usage)
    if 0 < usage.input_tokens < expected.least_tokens:
        read = f"the server read {usage.input_tokens} tokens of at least {expected.least_tokens} that were sent"
        return unusable(Answer.MISSHAPEN, read, usage)
    return None


def completion_choice(reply: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The one choice of a chat completion, with its assistant message; None where the reply has another shape."""
    choices = reply.get("choices")
    if reply.get("object") != "chat.completion" or not isinstance(choices, list) or len(choices) != 1:
        return None
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, dict) else None
    return choice if isinstance(message, dict) and message.get("role") == "assistant" else None


def _read(text: str | None, something: bool, stop_reason: str, usage: Usage, expected: Expected) -> Draw:
    draw = read_answer(text, stop_reason, usage, expected.words)
    if text is None and something and draw.answer is Answer.EMPTY:
        return unusable(Answer.MISSHAPEN, usage=usage)
    return draw


def _only_text(content: list[Any]) -> str | None:
    """The text of exactly one text block; None for none, several, or one of another kind beside it."""
    if len(content) != 1 or not isinstance(content[0], dict) or content[0].get("type") != "text":
        return None
    text = content[0].get("text")
    return text if isinstance(text, str) else None


def message_usage(counted: object) -> Usage:
    """Tokens of a Messages reply; what the service left out counts as 0, and input is the total with cache."""
    names = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    fresh, written, read, output = (_count(counted, name) for name in names)
    return Usage(
        input_tokens=fresh + written + read, output_tokens=output, cache_read_tokens=read, cache_write_tokens=written
    )


def completion_usage(counted: object) -> Usage:
    """Tokens of a chat completion; what the server left out counts as 0.

    Tokens read from a cache are part of the prompt's in most servers; where there are more of them, they are not.
    """
    prompt = _count(counted, "prompt_tokens")
    cached = _count(counted.get("prompt_tokens_details") if isinstance(counted, Mapping) else None, "cached_tokens")
    return Usage(
        input_tokens=prompt + cached if cached > prompt else prompt,
        output_tokens=_count(counted, "completion_tokens"),
        cache_read_tokens=cached,
    )


def _count(counted: object, name: str) -> int:
    value = counted.get(name) if isinstance(counted, Mapping) else None
    return value if isinstance(value, int) and value > 0 else 0
