"""The texts of stored cases: as agents are shown them, exactly as received, and in pages of bounded size."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from sqlalchemy import Connection, Row, Select

from screening.pipeline.draws import ScreenedText, ScreenedThread, screened_thread
from screening.text.conversation import thread_of
from screening.text.masking import MASKING_VERSION, mask
from screening.text.received import unescape

SHOWN_TO_AGENTS = ("text", "model_text", "reply", "model_reply", "turns")
"""The columns of a case from which agents are shown its text."""


def text_for_agents(row: Any) -> ScreenedText:
    """Of a row with `SHOWN_TO_AGENTS`: a copy for the model is kept only where it differs."""
    text = row.text if row.model_text is None else row.model_text
    thread = thread_of(row.turns)
    return ScreenedText(
        text=text,
        reply=row.reply if row.model_reply is None else row.model_reply,
        thread=None if thread is None else screened_thread(thread, text),
    )


def text_to_send(row: Any, texts: Mapping[str, Any]) -> ScreenedText:
    """The same as it leaves the site: masked where the configuration it is screened with (``texts``) says so.

    ValueError for a masking that this version does not know: the case then stays pending and is sent nowhere.
    """
    shown = text_for_agents(row)
    if (version := texts.get("masking")) is None:
        return shown
    if version != MASKING_VERSION:
        raise ValueError("the batch was begun with another version of the masking")
    reply = None if shown.reply is None else mask(shown.reply)
    return ScreenedText(text=mask(shown.text), reply=reply, thread=shown.thread and _mask_thread(shown.thread))


def _mask_thread(thread: ScreenedThread) -> ScreenedThread:
    return replace(thread, turns=tuple(replace(turn, text=mask(turn.text)) for turn in thread.turns))


def text_as_received(stored: str | None, original_json: str | None) -> str | None:
    """The text exactly as it was received: from its escaped original, where one is kept."""
    return stored if original_json is None else unescape(original_json)


ROWS = 500
CHARACTERS = 4_000_000
"""A page ends with the row that reaches so many."""
_AT_ONCE = 10


def text_page(conn: Connection, query: Select[Any]) -> list[Row[Any]]:
    """The next rows of an ordered query; none only where there are none left."""
    page: list[Row[Any]] = []
    characters = 0
    with conn.execute(query.limit(ROWS).execution_options(yield_per=_AT_ONCE)) as rows:
        for row in rows:
            page.append(row)
            characters += sum(len(value) for value in row if isinstance(value, str))
            if characters >= CHARACTERS:
                break
    return page
