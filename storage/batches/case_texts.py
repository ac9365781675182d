"""The texts of a stored case: as the agents are shown them, and exactly as they were received."""

from typing import Any

from screening.engine.draws import ScreenedText
from screening.text.exact import unescaped


def shown_to_agents(row: Any) -> ScreenedText:
    """Of a row with text, model_text, reply and model_reply: a copy for the model is kept only where it differs."""
    return ScreenedText(
        text=row.text if row.model_text is None else row.model_text,
        reply=row.reply if row.model_reply is None else row.model_reply,
    )


def as_received(stored: str | None, original_json: str | None) -> str | None:
    """The exact text where there is one."""
    return stored if original_json is None else unescaped(original_json)
