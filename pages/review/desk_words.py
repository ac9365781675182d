"""Everything that the desk's form offers, in the order in which it is shown, with its words and keys."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Any

from pages.review.inbox_words import CERTAINTY_WORDS, LABEL_WORDS
from screening.review.guideline import DEFINITIONS, REMINDERS
from screening.review.rating_form import (
    LONGEST_NOTE,
    MOST_MARKS,
    Behaviour,
    Disposition,
    Intent,
    Means,
    Plan,
    ProtectiveFactor,
    RatingForm,
    RatingLabel,
    ReasonCode,
    Subject,
    Timeframe,
)
from storage.settings_store import SiteSettings

LABEL_KEYS = {RatingLabel.SAFE: "1", RatingLabel.UNSAFE: "2", RatingLabel.INSUFFICIENT_INFORMATION: "3"}
CERTAINTY_KEYS = {1: "4", 2: "5", 3: "6", 4: "7", 5: "8"}
LEVELS = {
    0: "0 denied",
    1: "1 wish to be dead",
    2: "2 thoughts of it",
    3: "3 with a method",
    4: "4 with intent",
    5: "5 with a plan",
}
_UNSAID = {"not_stated": "not stated", "undecided": "undecided"}
KEYS = (
    ("N", "next case"),
    ("1 2 3", "label: only selects"),
    ("4 to 8", "how sure: only selects"),
    ("Ctrl+Enter", "save what is shown"),
    ("U", "undo, within half a minute"),
    ("V", "change a saved reading"),
    ("P", "the case before"),
    ("S", "skip"),
    ("X", "not me, without a reason"),
    ("A", "ask for a second opinion"),
    ("H", "set aside, hand over, give back"),
    ("W", "what the text says"),
    ("D", "reasons, disposition, note"),
    ("M", "mark the words that decided it"),
    (", .", "of a conversation: the turn before, the turn after"),
    ("G", "guideline"),
    ("F", "finish: nothing stays with you"),
    ("?", "these keys"),
)
LIST_KEYS = (("/", "find in the list"), ("J K", "down, up in the list"))
"""For those who may browse the list."""


def words(value: object) -> str:
    """A value of the form as it is shown."""
    return str(value).replace("_", " ")


@cache
def form_offer(*, browse: bool) -> Mapping[str, Any]:
    """Labels, certainties and the fields that are not compulsory, as the browser draws them, and the keys that act, for
    who may ``browse`` the list and who may not; put together once.
    """
    return {
        "labels": [[label.value, LABEL_WORDS[label], LABEL_KEYS[label]] for label in RatingLabel],
        "certainties": [[level, CERTAINTY_WORDS[level], key] for level, key in CERTAINTY_KEYS.items()],
        "coding": [
            _one("subject", "Whom it is about", Subject, none="not chosen"),
            {
                "name": "ideation",
                "title": "Ideation",
                "values": [[None, "not stated"], *([level, said] for level, said in LEVELS.items())],
            },
            _one("intent", "Intent", Intent),
            _one("plan", "Plan", Plan),
            _one("means", "Means", Means),
            _one("behaviour", "Behaviour", Behaviour),
            _one("timeframe", "Timeframe", Timeframe),
            _many("protective_factors", "Protective factors", ProtectiveFactor),
        ],
        "rest": [
            _many("reason_codes", "What makes it hard, or went wrong", ReasonCode),
            _one("disposition", "What should happen next", Disposition),
        ],
        "longest_note": LONGEST_NOTE,
        "most_marks": MOST_MARKS,
        "keys": [list(each) for each in (*KEYS, *(LIST_KEYS if browse else ()))],
    }


def _one(name: str, title: str, kind: type[StrEnum], none: str = "") -> dict[str, Any]:
    """A field with one choice of several. What it begins with comes first, so that it can be chosen again."""
    start = next((value for value in kind if value.value in _UNSAID), None)
    first = [[None, none or words(start)]]
    return {
        "name": name,
        "title": title,
        "values": first + [[value.value, words(value)] for value in kind if value is not start],
    }


def _many(name: str, title: str, kind: type[StrEnum]) -> dict[str, Any]:
    return {"name": name, "title": title, "many": True, "values": [[value.value, words(value)] for value in kind]}


def guideline(site: SiteSettings) -> dict[str, Any]:
    """What the labels mean, and the site's own text: shown as text, never as markup."""
    return {
        "labels": [[LABEL_WORDS[label], DEFINITIONS[label]] for label in RatingLabel],
        "reminders": list(REMINDERS),
        "own": site.guideline,
    }


def reading_words(form: RatingForm) -> str:
    """Label and certainty."""
    return f"{LABEL_WORDS[form.label]}, {CERTAINTY_WORDS[form.certainty].lower()}"
