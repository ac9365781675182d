"""Choosing the answer to one request: weights by text and node, seeded per text; and the whole reply."""

import hashlib
import math
import random
from typing import Any

from tests.stub_server.asked import Asked
from tests.stub_server.plan import Fault, StubPlan

_UNUSABLE: dict[Fault, tuple[str, list[Any] | None]] = {
    Fault.REFUSAL: ("refusal", []),
    Fault.EMPTY: ("end_turn", []),
    Fault.WRONG_LABEL: ("end_turn", [{"type": "text", "text": "It is probably safe."}]),
    Fault.CUT: ("max_tokens", [{"type": "text", "text": "safe"}]),
    Fault.THINKING: ("max_tokens", [{"type": "thinking", "thinking": "The writer", "signature": "stub"}]),
}
ANSWERED_FAULTS = frozenset(_UNUSABLE)


def weights_for(plan: StubPlan, asked: Asked) -> dict[str, float]:
    """The relative frequencies of the answers, by the first rule that fits."""
    text = asked.everything.casefold()
    fitting = (rule for rule in plan.texts if rule.contains.casefold() in text and rule.node in {None, asked.node})
    rule = next(fitting, None)
    return plan.weights if rule is None else rule.weights


def answer_to(plan: StubPlan, asked: Asked, nth: int) -> str:
    """The nth answer (from 0) to this text at this node: the same whatever else is being asked meanwhile."""
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
