"""The texts of a stored case: as the agents are shown them, and exactly as they were received."""

from collections.abc import Mapping
from typing import Any

from screening.engine.draws import ScreenedText
from screening.text.exact import unescaped
from screening.text.masking import MASKING_VERSION, masked


def shown_to_agents(row: Any) -> ScreenedText:
    """Of a row with text, model_text, reply and model_reply: a copy for the model is kept only where it differs."""
    return ScreenedText(
        text=row.text if row.model_text is None else row.model_text,
        reply=row.reply if row.model_reply is None else row.model_reply,
    )


def sent_to_agents(row: Any, texts: Mapping[str, Any]) -> ScreenedText:
    """The same as it leaves the site: masked where the configuration it is screened with (``texts``) says so.

    ValueError for a masking that this version does not know: the case then stays pending and is sent nowhere.
    """
    shown = shown_to_agents(row)
    if (version := texts.get("masking")) is None:
        return shown
    if version != MASKING_VERSION:
        raise ValueError("the batch was begun with another version of the masking")
    return ScreenedText(text=masked(shown.text), reply=None if shown.reply is None else masked(shown.reply))


def as_received(stored: str | None, original_json: str | None) -> str | None:
    """The exact text where there is one."""
    return stored if original_json is None else unescaped(original_json)
