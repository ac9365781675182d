"""What the page says of a case that its reader no longer holds: why, and what of their work is kept."""

from collections.abc import Mapping
from typing import Any

from pages.ui.format import local_time
from screening.review.rating_form import RatingLabel
from storage.review.standing import Place, Standing

_LABELS = {
    RatingLabel.SAFE: "safe",
    RatingLabel.UNSAFE: "unsafe",
    RatingLabel.INSUFFICIENT_INFORMATION: "insufficient information",
}
_WORDS = {
    Place.TAKEN: "This case is assigned to another reviewer now.",
    Place.CLOSED: "This case was closed by somebody else in the meantime.",
    Place.ERASED: "What this case held was deleted: nobody reviews it any more.",
    Place.FREE: "This case is not assigned to you any more: others may take it.",
}
KEPT = "What you filled in is kept as a draft."
_OF_THE_PAGE = ("rev", "read_to_end", "revision", "form_version")
"""Fields of a draft that nobody fills in."""


def is_filled_in(draft: Mapping[str, Any] | None) -> bool:
    """Whether a draft holds anything that its reader chose, marked or wrote.

    >>> is_filled_in({"rev": 3, "label": None, "marks": [], "note": ""}), is_filled_in({"rev": 3, "label": "safe"})
    (False, True)
    """
    return any(value for name, value in (draft or {}).items() if name not in _OF_THE_PAGE)


def standing_words(found: Standing, *, draft: bool) -> str:
    """One or two sentences; the second where a ``draft`` of theirs is kept.

    >>> standing_words(Standing(place=Place.TAKEN), draft=True)
    'This case is assigned to another reviewer now. What you filled in is kept as a draft.'
    >>> standing_words(Standing(place=Place.TAKEN), draft=False)
    'This case is assigned to another reviewer now.'
    """
    if found.place is Place.READ and found.at is not None and found.label is not None:
        then = "it is closed" if found.closed else "it awaits a second review"
        return f"You reviewed this case at {local_time(found.at, found.at)} as {_LABELS[found.label]}; {then}."
    words = _WORDS.get(found.place, "")
    if found.place is Place.KEPT and found.until is not None:
        words = f"This case is kept for you until {local_time(found.until, found.until)}."
    if not words:
        return "This case is assigned to you."
    return f"{words} {KEPT}" if draft else words
