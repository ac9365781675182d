"""Marks in a text: the browser counts in the text as it is shown, storage in the text as it was received."""

from collections.abc import Mapping
from typing import Any

from screening.review.rating_form import TextMark
from screening.text.display import received_offset, shown_offset
from storage.review.evidence import CaseText

_OF_THE_BROWSER = ("rev", "revision", "reason", "leaving", "marks")


def part_of(text: CaseText, part: str) -> str:
    """The part of a case by its name; nothing for one that it has not."""
    return (text.reply or "") if part == "reply" else text.text


def received_form(form: Mapping[str, Any], text: CaseText | None) -> dict[str, Any]:
    """The fields as storage takes them: without what is only the browser's, marks in the text as received.

    Marks of a text that is not at hand are left out, and so are those that hold nothing.
    """
    fields = {name: value for name, value in form.items() if name not in _OF_THE_BROWSER}
    marks = [] if text is None else [_received_mark(mark, text) for mark in form.get("marks") or ()]
    found = [mark for mark in marks if mark["start"] < mark["end"]]
    return {name: value for name, value in fields.items() if value is not None} | {"marks": found}


def _received_mark(mark: Mapping[str, Any], text: CaseText) -> dict[str, Any]:
    part = "reply" if mark.get("part") == "reply" else "text"
    whole = part_of(text, part)
    ends = {name: received_offset(whole, int(mark.get(name) or 0)) for name in ("start", "end")}
    return {"part": part, **ends}


def shown_mark(mark: TextMark, text: CaseText) -> dict[str, Any]:
    """A mark as the browser counts."""
    whole = part_of(text, mark.part)
    return {"part": mark.part, "start": shown_offset(whole, mark.start), "end": shown_offset(whole, mark.end)}
