"""Choosing the answer to one request: weights by text and node, seeded per text, or obedience."""

import hashlib
import math
import random
from typing import Any

from tests.stub_server.asked import Asked
from tests.stub_server.gullible import wanted
from tests.stub_server.plan import Fault, Gullible, StubPlan

_UNUSABLE: dict[Fault, tuple[str, list[Any] | None]] = {
    Fault.REFUSAL: ("refusal", []),
    Fault.EMPTY: ("end_turn", []),
    Fault.NULL_CONTENT: ("end_turn", None),
    Fault.WRONG_LABEL: ("end_turn", [{"type": "text", "text": "It is probably safe."}]),
    Fault.CUT: ("max_tokens", [{"type": "text", "text": "safe"}]),
    Fault.THINKING: ("max_tokens", [{"type": "thinking", "thinking": "The writer", "signature": "stub"}]),
}


def weights_for(plan: StubPlan, asked: Asked) -> dict[str, float]:
    """The relative frequencies of the answers, by the first rule that fits."""
    text = asked.everything.casefold()
    for rule in plan.texts:
        if rule.contains.casefold() in text and rule.node in {None, asked.node}:
            return rule.weights
    return plan.weights


def answer_to(plan: StubPlan, asked: Asked, nth: int) -> str:
    """The nth answer (from 0) to this text at this node: the same whatever else is being asked meanwhile."""
    seed = hashlib.sha256(f"{plan.seed}|{asked.node}|{asked.everything}|{nth}".encode("utf-8", "replace"))
    rng = random.Random(seed.digest())
    weights = weights_for(plan, asked)
    answer = rng.choices(list(weights), list(weights.values()))[0]
    if plan.gullible is not Gullible.NO:
        asked_for = wanted(asked.everything)
        if asked_for == "prompt":
            return asked.system[:60]
        if asked_for is not None:
            return asked.code_words.get(asked_for, asked_for) if plan.gullible is Gullible.CLEVER else asked_for
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


def chat_completion(body: dict[str, Any], answer: str, reply_id: str) -> dict[str, Any]:
    """A whole chat completion, as OpenAI-compatible servers give it."""
    return {
        "id": reply_id,
        "object": "chat.completion",
        "model": body.get("model"),
        "choices": [{"index": 0, "message": {"role": "assistant", "content": answer}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": len(str(body.get("messages"))) // 4, "completion_tokens": 2},
    }


def completion(plan: StubPlan, asked: Asked, body: dict[str, Any], answer: str, reply_id: str) -> dict[str, Any]:
    """The chat completion of this answer with the log probabilities of the first tokens of all."""
    weights = weights_for(plan, asked)
    total = sum(weights.values())
    shares = {asked.code_words.get(answer, answer)[:4]: weight / total for answer, weight in weights.items() if weight}
    tokens = [{"token": token, "logprob": math.log(share)} for token, share in shares.items()]
    said = {"token": answer[:4], "logprob": math.log(shares[answer[:4]])}
    whole = chat_completion(body, answer, reply_id)
    whole["choices"][0]["logprobs"] = {"content": [{**said, "top_logprobs": tokens}]}
    return whole
