"""Building one call: the text as nonce-tagged JSON data, the prompt, the code words. Pure, no library, no IO."""

import json
import random
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from screening.engine.answers import LABEL_WORDS
from screening.engine.draws import DrawRequest, ScreenedText, ScreenedThread
from screening.engine.prompting import SECOND_LOOK, PromptSet, estimated_tokens
from screening.labels import LABELS, Label
from screening.samplers.model_settings import Dialect, ModelSettings

CODE_WORDS = (
    "almond",
    "anchor",
    "bakery",
    "banjo",
    "barley",
    "basil",
    "beacon",
    "biscuit",
    "bramble",
    "candle",
    "canoe",
    "cedar",
    "clover",
    "cobalt",
    "compass",
    "copper",
    "cotton",
    "fiddle",
    "garlic",
    "granite",
    "harbor",
    "kettle",
    "lantern",
    "marble",
    "meadow",
    "nutmeg",
    "otter",
    "pepper",
    "pigeon",
    "quartz",
    "saffron",
    "teapot",
    "tulip",
    "velvet",
    "walnut",
    "zipper",
)
_DESCRIPTIONS = {Label.SAFE: "A", Label.UNSAFE: "B", Label.ESCALATE: "C"}
_OF_A_CONVERSATION = (
    "The record is a conversation: `conversation` lists its turns in their order, each with who speaks (`role`: the "
    "user, or the assistant, a chatbot). "
)
_JUDGED = {
    "text": "Judge what is said in the turns with `judged`; the others are there so that these are understood, and a "
    "sign of risk in any turn of the user counts.",
    "reply": "Judge what the assistant says in the turns with `judged`: it is `unsafe` where it encourages, instructs, "
    "agrees with, or passes over a risk that the user shows, and `safe` only where the assistant's words are right for "
    "that user.",
}
_WORD, _SIGN = re.compile(r"[^\W_]+"), re.compile(r"[^\w\s]+(?=\s)")
_WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u3040-\u30ff\u3400-\u9fff]")
_LONGEST_TOKEN, _MOST_A_TOKEN = 32, 4
"""Letters of a long word, and characters of writing without spaces, that are surely more than one token."""
_ANGLES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedCall:
    """One call, ready for the library: what is sent, and the words that count as labels in its answer."""

    system: list[dict[str, object]]
    user: str
    extra_body: dict[str, object]
    words: Mapping[str, Label]

    @property
    def least_tokens(self) -> int:
        """No tokenizer makes markedly fewer of what is sent."""
        whole = sum(map(least_tokens, [*(str(block["text"]) for block in self.system), self.user]))
        return whole * 19 // 20


@lru_cache(maxsize=16)
def least_tokens(text: str) -> int:
    """Fewer tokens than any tokenizer makes of a text: none joins words, or a sign with the space behind it.

    >>> least_tokens("We walked home, slowly. 我们走路回家。")
    8
    """
    words = sum(1 + (len(word) - 1) // _LONGEST_TOKEN for word in _WORD.findall(text))
    return words + len(_SIGN.findall(text)) + len(_WITHOUT_SPACES.findall(text)) // _MOST_A_TOKEN


def prepare_call(
    request: DrawRequest, settings: ModelSettings, wire: Dialect, prompts: PromptSet, rng: random.Random
) -> PreparedCall:
    """One call of a wave, with a nonce (and, for the second look, code words) of its own."""
    nonce = f"{rng.getrandbits(64):016x}"
    fixed = prompts.system(request.node, request.variant, request.agent)
    words = code_words(request.text, rng) if request.variant == SECOND_LOOK else LABEL_WORDS
    return PreparedCall(
        system=_system(fixed, _fresh(nonce, words, request.text.thread), cached=is_cacheable(fixed, settings)),
        user=data_block(request.text, nonce),
        extra_body=sampling_values(wire),
        words=words,
    )


def data_block(text: ScreenedText, nonce: str) -> str:
    r"""The text as JSON between nonce-named tags; no tag can be written inside the JSON.

    >>> print(data_block(ScreenedText(text="</record>"), "ab12"))
    <record-ab12>
    {"text": "\u003c/record\u003e"}
    </record-ab12>
    """
    first: dict[str, object] = {"text": _whole(text.text)} if text.thread is None else _turns(text.thread)
    record = first if text.reply is None else {**first, "reply": _whole(text.reply)}
    encoded = json.dumps(record, ensure_ascii=False)
    return f"<record-{nonce}>\n{encoded.translate(_ANGLES)}\n</record-{nonce}>"


def _turns(thread: ScreenedThread) -> dict[str, object]:
    """A conversation as data: what a turn says can end neither the turn nor the record."""
    turns = [
        {"role": turn.role, "text": _whole(turn.text), **({"judged": True} if turn.judged else {})}
        for turn in thread.turns
    ]
    left_out = {"earlier_turns_left_out": thread.left_out} if thread.left_out else {}
    return {**left_out, "conversation": turns}


def _whole(text: str) -> str:
    """Lone surrogates cannot be sent; pairs become the character they mean."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def code_words(text: ScreenedText, rng: random.Random) -> Mapping[str, Label]:
    """Three random words that do not occur in the text, one per label: a text cannot name the one it wants."""
    present = set(re.findall(r"[a-z]+", f"{text.text} {text.reply or ''}".casefold()))
    chosen = rng.sample([word for word in CODE_WORDS if word not in present] or CODE_WORDS, k=len(LABELS))
    return dict(zip(chosen, LABELS, strict=True))


def sampling_values(wire: Dialect) -> dict[str, object]:
    """The sampling values the library has no parameters for."""
    values: dict[str, object] = {} if wire.temperature is None else {"temperature": wire.temperature}
    if wire.neutral is not None:
        values |= {"top_p": wire.neutral.top_p, "top_k": wire.neutral.top_k, "min_p": wire.neutral.min_p}
    return values


def is_cacheable(fixed: str, settings: ModelSettings) -> bool:
    """Whether the fixed prompt is long enough to be cached; the service silently does not cache shorter ones."""
    return not settings.elsewhere and estimated_tokens(fixed) >= settings.cache_minimum_tokens


def cache_notes(settings: ModelSettings, prompts: PromptSet) -> tuple[str, ...]:
    """One sentence for each node whose prompt is too short for caching; none where a server is not Anthropic's."""
    lengths = {node: estimated_tokens(prompts.system(node)) for node in prompts.nodes}
    return tuple(
        f"The prompt of {node} has about {length} tokens, too few for caching "
        f"(from {settings.cache_minimum_tokens}): every call pays for all of it."
        for node, length in lengths.items()
        if length < settings.cache_minimum_tokens and not settings.elsewhere
    )


def _fresh(nonce: str, words: Mapping[str, Label], thread: ScreenedThread | None) -> str:
    tag = f"The record of this reading stands between <record-{nonce}> and </record-{nonce}>."
    if thread is not None:
        tag += f"\n{_OF_A_CONVERSATION}{_JUDGED[thread.question]}"
    if words is LABEL_WORDS:
        return tag
    meanings = ", ".join(f"`{word}` for description {_DESCRIPTIONS[label]}" for word, label in words.items())
    return f"{tag}\nCode words of this reading: {meanings}."


def _system(fixed: str, fresh: str, *, cached: bool) -> list[dict[str, object]]:
    first: dict[str, object] = {"type": "text", "text": fixed}
    if cached:
        first["cache_control"] = {"type": "ephemeral"}
    return [first, {"type": "text", "text": fresh}]
