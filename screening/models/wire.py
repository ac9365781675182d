"""What is sent and what comes back: a call as nonce-tagged JSON data, prompt and code words; the body of a reply,
bounded and read without any leniency. A server's protocol is a pair of functions in `FORMATS`. Pure, no library, no IO.

A reply counts only if it is what was asked: this shape, this model, to all that was sent, one text. Anything else is an
answer that cannot be used, marked as what it was: a gateway that repeats one answer, another model behind the same
address, a server that read only part of the text, or a second block beside the word never make a label.

Servers with OpenAI-style chat completions (vLLM, SGLang, llama.cpp) can tell a node's label distribution in one call:
the probabilities of the first token. One counts for the one label it begins, for `safe` only where it is the whole
word. What begins no label, and what the server leaves out, is unknown and counts against every label. Where the answer
that comes with them is not the label that its first token counts for, that label's share is unknown as well.
"""

import hashlib
import json
import math
import random
import re
import tomllib
import zlib
from collections import OrderedDict
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, NamedTuple, NoReturn

from pydantic import BaseModel, Field

from screening.labels import LABELS, Label
from screening.models.settings import ModelSettings
from screening.pipeline.draws import (
    LABEL_WORDS,
    Answer,
    Draw,
    DrawRequest,
    LabelDistribution,
    ScreenedText,
    ScreenedThread,
    Usage,
    bare_word,
    read_answer,
    unusable,
)
from screening.pipeline.files import SECOND_LOOK, PromptSet, estimated_tokens
from screening.text.unique_keys import RepeatedKey, unique_keys

LARGEST_BODY = 256 * 1024
"""Bytes; a whole answer of one word takes about one thousand."""
_WINDOW_BITS = {"gzip": 31, "x-gzip": 31, "deflate": 15}


class UnreadableBody(ValueError):
    """Too large, compressed in a way nobody asked for, or no JSON object."""


class AttemptFailed(Exception):
    """One attempt brought no reply that can be read; another may."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


async def read_bounded(chunks: AsyncIterable[bytes], encoding: str | None, limit: int = LARGEST_BODY) -> bytes:
    """The whole body, decompressed; UnreadableBody as soon as it is larger than ``limit``, on the wire or after. Never
    holds more than ``limit`` bytes beyond one chunk.
    """
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > limit:
            raise UnreadableBody("too large")
    return plain(bytes(body), (encoding or "identity").strip().casefold(), limit)


def plain(body: bytes, encoding: str, limit: int = LARGEST_BODY) -> bytes:
    """The body decompressed up to ``limit`` bytes. UnreadableBody where it is larger, broken or in another coding."""
    if encoding in ("identity", ""):
        return body
    if encoding not in _WINDOW_BITS:
        raise UnreadableBody("unknown content coding")
    decoder = zlib.decompressobj(_WINDOW_BITS[encoding])
    try:
        content = decoder.decompress(body, limit + 1)
    except zlib.error:
        raise UnreadableBody("broken compression") from None
    if len(content) > limit or not decoder.eof or decoder.unused_data:
        raise UnreadableBody("too large or cut")
    return content


def json_object(body: bytes) -> dict[str, Any]:
    """UnreadableBody for anything but a JSON object, and where a key stands twice: two readers may read two replies."""
    try:
        read = _STRICT.decode(body.decode("utf-8"))
    except (RepeatedKey, ValueError, RecursionError):
        raise UnreadableBody("no JSON") from None
    if not isinstance(read, dict):
        raise UnreadableBody("no JSON object")
    return read


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_STRICT = json.JSONDecoder(object_pairs_hook=unique_keys, parse_constant=_no_constant)
_IDS_KEPT = 10_000
_CHAT_STOPS = {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}
_CHAT_NOISE = frozenset({"role", "content"})


@dataclass(slots=True)
class SeenIds:
    """The ids of the latest replies of one sampler, so that an answer sent twice is one draw. ``unique``: the server
    gives no id twice. Of others ids prove nothing once different replies came under one.
    """

    unique: bool = True
    _ids: OrderedDict[str, bytes] = field(default_factory=OrderedDict)
    _prove_nothing: bool = False

    def remember(self, reply_id: str, reply: Mapping[str, Any] | None = None) -> None:
        self._ids[reply_id] = b"" if self.unique else _digest(reply)
        if len(self._ids) > _IDS_KEPT:
            self._ids.popitem(last=False)

    def objection(self, reply: Mapping[str, Any]) -> str | None:
        """Why the reply is not taken for one of its own; from now on its id was seen."""
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
    """What a reply must be, made of no fewer prompt tokens than ``least_tokens``."""

    models: frozenset[str]
    words: Mapping[str, Label]
    seen: SeenIds
    least_tokens: int = 0


def message_draw(reply: Mapping[str, Any], expected: Expected) -> Draw:
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
    """What a reply counts as that was not asked for; None where it was. A server that counts no tokens says nothing of
    what it read.
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
    """The one choice, with its assistant message; None where the reply has another shape."""
    choices = reply.get("choices")
    if reply.get("object") != "chat.completion" or not isinstance(choices, list) or len(choices) != 1:
        return None
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, dict) else None
    return choice if isinstance(message, dict) and message.get("role") == "assistant" else None


def _read(text: str | None, something: bool, stop_reason: str, usage: Usage, expected: Expected) -> Draw:
    draw = read_answer(text, stop_reason, usage, expected.words)
    misshapen = text is None and something and draw.answer is Answer.EMPTY
    return unusable(Answer.MISSHAPEN, usage=usage) if misshapen else draw


def _only_text(content: list[Any]) -> str | None:
    """The text of exactly one text block."""
    if len(content) != 1 or not isinstance(content[0], dict) or content[0].get("type") != "text":
        return None
    text = content[0].get("text")
    return text if isinstance(text, str) else None


def message_usage(counted: object) -> Usage:
    """Tokens of a Messages reply; input is the total with cache."""
    written, read = _count(counted, "cache_creation_input_tokens"), _count(counted, "cache_read_input_tokens")
    return Usage(
        input_tokens=_count(counted, "input_tokens") + written + read,
        output_tokens=_count(counted, "output_tokens"),
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def completion_usage(counted: object) -> Usage:
    """Tokens of a chat completion: those read from a cache are part of the prompt's in most servers; where there are
    more of them, they are not.
    """
    prompt = _count(counted, "prompt_tokens")
    cached = _count(counted.get("prompt_tokens_details") if isinstance(counted, Mapping) else None, "cached_tokens")
    return Usage(
        input_tokens=prompt + cached if cached > prompt else prompt,
        output_tokens=_count(counted, "completion_tokens"),
        cache_read_tokens=cached,
    )


def _count(counted: object, name: str) -> int:
    """0 for what was left out."""
    value = counted.get(name) if isinstance(counted, Mapping) else None
    return value if isinstance(value, int) and value > 0 else 0


ASKED_FOR_LOGPROBS: dict[str, object] = {"temperature": 1.0, "logprobs": True, "top_logprobs": 20}
"""Beside a chat completion; at temperature 1, since only some servers apply it to the probabilities they report."""
Token = tuple[str, float]
"""A token and its natural log probability."""


def counts_for(token: str, words: Mapping[str, Label]) -> Label | None:
    """The one label whose word begins with this token; None for none, several, or nothing but punctuation.

    >>> words = {"safe": Label.SAFE, "unsafe": Label.UNSAFE, "escalate": Label.ESCALATE}
    >>> counts_for(" Un", words), counts_for("Safe", words), counts_for("sa", words), counts_for(".", words)
    (<Label.UNSAFE: 'unsafe'>, <Label.SAFE: 'safe'>, None, None)
    """
    start = bare_word(token)
    fitting = {(word, label) for word, label in words.items() if start and word.startswith(start)}
    if len(fitting) != 1:
        return None
    word, label = fitting.pop()
    return label if label is not Label.SAFE or start == word else None


def distribution(tokens: Iterable[Token], words: Mapping[str, Label], temperature: float) -> LabelDistribution:
    """From the most probable first tokens with their natural log probabilities at temperature 1. At another the shares
    of these are rescaled among themselves; the part left out keeps its share, which overstates it below temperature 1.
    """
    listed = [(token, math.exp(min(logprob, 0.0))) for token, logprob in tokens]
    told = sum(share for _, share in listed)
    known = min(1.0, told)
    heated = [(token, share ** (1 / max(temperature, 0.01))) for token, share in listed]
    scale = known / (sum(share for _, share in heated) or 1.0)
    labels = dict.fromkeys(LABELS, 0.0)
    for token, share in heated:
        if (label := counts_for(token, words)) is not None:
            labels[label] += share * scale
    return LabelDistribution(labels=labels, unknown=max(0.0, 1.0 - sum(labels.values())))


def told_distribution(
    reply: Mapping[str, Any], draw: Draw, words: Mapping[str, Label], temperature: float
) -> LabelDistribution:
    """The distribution in a reply that was read as this draw; unknown where the reply is not what was asked for."""
    positions = _positions(reply)
    if draw.answer in (Answer.MISSHAPEN, Answer.OTHER_MODEL, Answer.REFUSAL) or not positions:
        return LabelDistribution(labels=dict.fromkeys(LABELS, 0.0), unknown=1.0)
    first, tokens = positions
    found, label = distribution(tokens, words, temperature), counts_for(first, words)
    if label is None or (draw.answer is Answer.LABEL and draw.label is label):
        return found
    # The answer is not the label that its first token counts for: such tokens are not known to lead to it.
    unknown = min(1.0, found.unknown + found.labels[label])
    return LabelDistribution(labels={**found.labels, label: 0.0}, unknown=unknown)


class _Token(BaseModel):
    token: str
    logprob: Annotated[float, Field(strict=True, le=1e-6)]


class _Place(BaseModel):
    token: str
    top_logprobs: list[_Token]


def _positions(reply: Mapping[str, Any]) -> tuple[str, list[Token]] | None:
    """The first token that was answered, and the most probable ones in its place."""
    try:
        place = _Place.model_validate((completion_choice(reply) or {})["logprobs"]["content"][0])
    except (KeyError, IndexError, TypeError, ValueError):
        return None
    tokens = [(one.token, one.logprob) for one in place.top_logprobs]
    return (place.token, tokens) if sum(math.exp(min(logprob, 0.0)) for _, logprob in tokens) <= 1 + 1e-3 else None


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
CODE_WORDS: tuple[str, ...] = tuple(_TABLE["code_words"])
_DESCRIPTIONS = {Label.SAFE: "A", Label.UNSAFE: "B", Label.ESCALATE: "C"}
_WORD, _SIGN = re.compile(r"[^\W_]+"), re.compile(r"[^\w\s]+(?=\s)")
_WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")
_LONGEST_TOKEN, _MOST_A_TOKEN = 32, 4
"""Letters of a long word, and characters of writing without spaces, that are surely more than one token."""
_ANGLES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    system: list[dict[str, object]]
    user: str
    extra_body: Mapping[str, object]
    words: Mapping[str, Label]

    @property
    def least_tokens(self) -> int:
        """No tokenizer makes markedly fewer of what is sent. Counted are the parts that all calls of a text share: the
        first of the instructions, and what stands between the tags, which are new in each.
        """
        shared = [str(self.system[0]["text"]), *self.user.splitlines(keepends=True)[1:-1]]
        whole = sum(map(least_tokens, shared))
        return whole * 19 // 20


@lru_cache(maxsize=256)
def least_tokens(text: str) -> int:
    """Fewer tokens than any tokenizer makes: none joins words, or a sign with the space behind it.

    >>> least_tokens("We walked home, slowly. 我们走路回家。")
    8
    """
    words = sum(1 + (len(word) - 1) // _LONGEST_TOKEN for word in _WORD.findall(text))
    return words + len(_SIGN.findall(text)) + len(_WITHOUT_SPACES.findall(text)) // _MOST_A_TOKEN


def prepare_call(request: DrawRequest, settings: ModelSettings, prompts: PromptSet, rng: random.Random) -> PreparedCall:
    """One call, with a nonce (and, for the second look, code words) of its own."""
    nonce = f"{rng.getrandbits(64):016x}"
    fixed = prompts.system(request.node, request.variant, request.agent)
    words = code_words(request.text, rng) if request.variant == SECOND_LOOK else LABEL_WORDS
    fresh = _fresh(nonce, words, request.text.thread)
    cached = {"cache_control": {"type": "ephemeral"}} if is_cacheable(fixed, settings) else {}
    return PreparedCall(
        system=[{"type": "text", "text": fixed, **cached}, {"type": "text", "text": fresh}],
        user=data_block(request.text, nonce),
        extra_body=settings.sampling,
        words=words,
    )


def data_block(text: ScreenedText, nonce: str) -> str:
    r"""The text as JSON between nonce-named tags; no tag can be written inside the JSON.

    >>> print(data_block(ScreenedText(text="</record>"), "ab12"))
    <record-ab12>
    {"text": "\u003c/record\u003e"}
    </record-ab12>
    """
    return f"<record-{nonce}>\n{_record(text)}\n</record-{nonce}>"


@lru_cache(maxsize=256)  # a text is asked about many times
def _record(text: ScreenedText) -> str:
    first: dict[str, object] = {"text": _whole(text.text)} if text.thread is None else _turns(text.thread)
    record = first if text.reply is None else {**first, "reply": _whole(text.reply)}
    return json.dumps(record, ensure_ascii=False).translate(_ANGLES)


def _turns(thread: ScreenedThread) -> dict[str, object]:
    """A conversation as data: what a turn says can end neither the turn nor the record."""
    turns = [
        {"role": turn.role, "text": _whole(turn.text), **({"judged": True} if turn.judged else {})}
        for turn in thread.turns
    ]
    return {**({"earlier_turns_left_out": thread.left_out} if thread.left_out else {}), "conversation": turns}


def _whole(text: str) -> str:
    """Lone surrogates cannot be sent; pairs become the character they mean."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def code_words(text: ScreenedText, rng: random.Random) -> Mapping[str, Label]:
    """Three random words that do not occur in the text, one per label."""
    present = set(re.findall(r"[a-z]+", f"{text.text} {text.reply or ''}".casefold()))
    chosen = rng.sample([word for word in CODE_WORDS if word not in present] or CODE_WORDS, k=len(LABELS))
    return dict(zip(chosen, LABELS, strict=True))


def is_cacheable(fixed: str, settings: ModelSettings) -> bool:
    """The service silently does not cache shorter prompts."""
    return not settings.elsewhere and estimated_tokens(fixed) >= settings.cache_minimum_tokens


def cache_notes(settings: ModelSettings, prompts: PromptSet) -> tuple[str, ...]:
    """One sentence for each node whose prompt is too short for caching."""
    fixed = {} if settings.elsewhere else {node: prompts.system(node) for node in prompts.nodes}
    return tuple(
        f"The prompt of {node} has about {estimated_tokens(prompt)} tokens, too few for caching "
        f"(from {settings.cache_minimum_tokens}): every call pays for all of it."
        for node, prompt in fixed.items()
        if not is_cacheable(prompt, settings)
    )


def _fresh(nonce: str, words: Mapping[str, Label], thread: ScreenedThread | None) -> str:
    tag = f"The record of this reading stands between <record-{nonce}> and </record-{nonce}>."
    if thread is not None:
        tag += f"\n{_TABLE['conversation']}{_TABLE['judged'][thread.question]}"
    if words is LABEL_WORDS:
        return tag
    meanings = ", ".join(f"`{word}` for description {_DESCRIPTIONS[label]}" for word, label in words.items())
    return f"{tag}\nCode words of this reading: {meanings}."


class WireFormat(NamedTuple):
    """What servers of one kind are told and answer: the body of a request for one draw, and the draw of a reply."""

    path: str
    write: Callable[[PreparedCall, ModelSettings], dict[str, object]]
    read: Callable[[Mapping[str, Any], Expected], Draw]


def write_message(call: PreparedCall, settings: ModelSettings) -> dict[str, object]:
    """The Messages API, at Anthropic or at a server of one's own."""
    return {
        "model": settings.model,
        "max_tokens": settings.max_output_tokens,
        "system": call.system,
        "messages": [{"role": "user", "content": call.user}],
        "thinking": {"type": "disabled"},
        **call.extra_body,
    }


def write_chat(call: PreparedCall, settings: ModelSettings) -> dict[str, object]:
    """Chat completions as OpenAI defined them, which vLLM, llama.cpp, Ollama and others speak."""
    system = "\n\n".join(str(block["text"]) for block in call.system)
    return {
        "model": settings.model,
        "max_tokens": settings.max_output_tokens,
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": call.user}],
        **call.extra_body,
    }


_CHAT = WireFormat("/v1/chat/completions", write_chat, completion_draw)
FORMATS: dict[str, WireFormat] = {
    "messages": WireFormat("/v1/messages", write_message, message_draw),
    "chat": _CHAT,
    "logprobs": _CHAT,
}
"""By the protocol that a setting names."""
