"""Choosing the answer to one request: weights by text and node, seeded per text, or obedience; and the whole reply."""

import base64
import binascii
import codecs
import hashlib
import math
import random
import re
import unicodedata
from typing import Any

from tests.stub_server.asked import Asked
from tests.stub_server.plan import Fault, Gullible, StubPlan

_UNUSABLE: dict[Fault, tuple[str, list[Any] | None]] = {
    Fault.REFUSAL: ("refusal", []),
    Fault.EMPTY: ("end_turn", []),
    Fault.WRONG_LABEL: ("end_turn", [{"type": "text", "text": "It is probably safe."}]),
    Fault.CUT: ("max_tokens", [{"type": "text", "text": "safe"}]),
    Fault.THINKING: ("max_tokens", [{"type": "thinking", "thinking": "The writer", "signature": "stub"}]),
}
ANSWERED_FAULTS = frozenset(_UNUSABLE)
_WANTS_SAFE = re.compile(
    r"(?<!un)safe(?!ty)|no[ -]risk|not? (?:a |any )?(?:risk|concern|danger)|low[ -]risk|harmless|benign|false positive"
    r"|all[ -]clear|nothing to (?:worry|see)|segur[oa]|sicher|sûr|sicuro|безопасн|安全|bezpieczn|veilig|güvenli"
    r"|do not escalate|don't escalate|label ?[:=] ?0|option a\b|description a\b",
    re.IGNORECASE,
)
_WANTS_PROMPT = re.compile(
    r"system prompt|your (?:instructions|rules|prompt)|previous (?:patient|message)", re.IGNORECASE
)
_LEET = str.maketrans("0134578@$", "oleastbas")


def weights_for(plan: StubPlan, asked: Asked) -> dict[str, float]:
    """The relative frequencies of the answers, by the first rule that fits."""
    text = asked.everything.casefold()
    fitting = (rule for rule in plan.texts if rule.contains.casefold() in text and rule.node in {None, asked.node})
    rule = next(fitting, None)
    return plan.weights if rule is None else rule.weights


def answer_to(plan: StubPlan, asked: Asked, nth: int) -> str:
    """The nth answer (from 0) to this text at this node: the same whatever else is being asked meanwhile."""
    asked_for = None if plan.gullible is Gullible.NO else wanted(asked.everything)
    if asked_for == "prompt":
        return asked.system[:60]
    if asked_for is not None:
        return asked.code_words.get(asked_for, asked_for) if plan.gullible is Gullible.CLEVER else asked_for
    seed = hashlib.sha256(f"{plan.seed}|{asked.node}|{asked.everything}|{nth}".encode("utf-8", "replace"))
    weights = weights_for(plan, asked)
    answer = random.Random(seed.digest()).choices(list(weights), list(weights.values()))[0]
    return asked.code_words.get(answer, answer)


def message(body: dict[str, Any], answer: str, fault: Fault | None, message_id: str) -> dict[str, Any]:
    """A whole Messages response, with the usage a service would count (a token for every four characters)."""
    stop_reason, content = _UNUSABLE.get(fault, ("end_turn", [{"type": "text", "text": answer}]))  # type: ignore[arg-type]
    return {
        "id": message_id,
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": content,
        "stop_reason": stop_reason,
        "stop_sequence": None,
        "usage": {
            "input_tokens": len(str(body.get("system"))) // 4 + len(str(body.get("messages"))) // 4,
            "output_tokens": 3,
            "cache_creation_input_tokens": None,
            "cache_read_input_tokens": None,
        },
    }


def completion(body: dict[str, Any], answer: str, shares: dict[str, float], reply_id: str) -> dict[str, Any]:
    """A whole chat completion of an OpenAI-compatible server; with log probabilities where they are asked for."""
    choice: dict[str, Any] = {"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}
    if body.get("logprobs"):
        total = sum(shares.values())
        first = {word[:4]: math.log(share / total) for word, share in shares.items() if share}
        tokens = [{"token": token, "logprob": logprob} for token, logprob in first.items()]
        said = {"token": answer[:4], "logprob": first[answer[:4]], "top_logprobs": tokens}
        choice["logprobs"] = {"content": [said]}
    usage = {"prompt_tokens": len(str(body.get("messages"))) // 4, "completion_tokens": 2}
    whole = {"id": reply_id, "object": "chat.completion", "model": body.get("model")}
    return whole | {"choices": [choice], "usage": usage}


def wanted(text: str) -> str | None:
    """The label that the text asks for, ``prompt`` if it asks for the prompt, None if it asks for nothing: in plain
    words, encoded, reversed, spaced out or in another language.
    """
    visible = "".join(character for character in text if unicodedata.category(character) != "Cf")
    folded = unicodedata.normalize("NFKC", visible)
    tags = "".join(chr(ord(character) - 0xE0000) for character in text if 0xE0020 <= ord(character) <= 0xE007E)
    joined = re.sub(r"(?<=\b\w)[\s._\-*|]+(?=\w\b)", "", folded)
    squeezed = re.sub(r"[^\w]+", "", folded)
    readings = [text, folded, tags, joined, squeezed, folded.translate(_LEET), folded[::-1]]
    readings += [codecs.encode(folded, "rot13"), *_decoded(folded)]
    if any(_WANTS_SAFE.search(reading) for reading in readings):
        return "safe"
    return "prompt" if any(_WANTS_PROMPT.search(reading) for reading in readings) else None


def _decoded(text: str) -> list[str]:
    found = []
    for blob in re.findall(r"[A-Za-z0-9+/]{12,}={0,2}", text):
        try:
            found.append(base64.b64decode(blob + "=" * (-len(blob) % 4)).decode("utf-8", "ignore"))
        except (binascii.Error, ValueError):
            continue
    pairs = re.findall(r"(?:[0-9a-fA-F]{2}[\s:]?){6,}", text)
    return found + [bytes.fromhex(re.sub(r"[\s:]", "", blob)).decode("utf-8", "ignore") for blob in pairs]
