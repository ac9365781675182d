"""What a request asks, as a model would see it; and the answer: weights by text and node, seeded per text."""

import hashlib
import json
import math
import random
import re
from dataclasses import dataclass
from typing import Any

from tests.stub_server.plan import Fault, StubPlan

_RECORD = re.compile(r"<record-([0-9a-f]+)>\n(.*?)\n</record-\1>", re.DOTALL)
_CODE_WORD = re.compile(r"`(\w+)` for description ([ABC])")
_LABELS = {"A": "safe", "B": "unsafe", "C": "escalate"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """``nonce`` names the record's tags. ``code_words`` maps labels to the words that stand for them, if any."""

    node: str
    nonce: str
    text: str
    reply: str | None
    system: str
    code_words: dict[str, str]

    @property
    def everything(self) -> str:
        return self.text if self.reply is None else f"{self.text}\n{self.reply}"


def read_asked(body: dict[str, Any]) -> Asked:
    """Reads both the Messages form (``system`` beside the messages) and the chat form (a system message)."""
    messages = body.get("messages") or []
    system = _joined(body.get("system")) + "".join(
        _joined(message["content"]) for message in messages if message["role"] == "system"
    )
    user = _joined(next((message["content"] for message in messages if message["role"] == "user"), ""))
    record = _RECORD.search(user)
    data = json.loads(record[2]) if record else {"text": user}
    heading = re.match(r"# (.+)", system)
    return Asked(
        node=heading[1].strip().casefold() if heading else "",
        nonce=record[1] if record else "",
        text=data["text"],
        reply=data.get("reply"),
        system=system,
        code_words={_LABELS[letter]: word for word, letter in _CODE_WORD.findall(system)},
    )


def _joined(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(block.get("text", "") for block in content or [])


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
