"""What a request asks: node, text, code words and version, read from the body as a model would see it."""

import json
import re
from dataclasses import dataclass
from typing import Any

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
        """Text and reply, as the model reads them."""
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
