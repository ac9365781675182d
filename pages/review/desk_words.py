"""Everything that the desk's form offers, in the order in which it is shown, with its words and keys."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cache
from typing import Any

from pages.review.inbox_words import CERTAINTY_WORDS, LABEL_WORDS
from pages.ui.labels import DISPOSITION_WORDS
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
from storage.review.follow_ups import follow_up_minutes
from storage.settings_store import SiteSettings

LABEL_KEYS = {RatingLabel.SAFE: "1", RatingLabel.UNSAFE: "2", RatingLabel.INSUFFICIENT_INFORMATION: "3"}
CERTAINTY_KEYS = {1: "4", 2: "5", 3: "6", 4: "7", 5: "8"}
DISPOSITION_KEYS = "QWERTY"
"""By their place on the site's list."""
LEVELS = {
    0: "0 None / denied",
    1: "1 Wish to be dead",
    2: "2 Thoughts of suicide, nonspecific",
    3: "3 Thoughts with a method",
    4: "4 Thoughts with some intent",
    5: "5 Thoughts with plan and intent",
}
VALUE_WORDS: Mapping[type[StrEnum], Mapping[Any, str]] = {
    Subject: {
        Subject.SELF: "the writer",
        Subject.QUOTATION_OR_FICTION: "quote or fiction",
        Subject.PROFESSIONAL: "professional context",
    },
    Plan: {Plan.VAGUE: "partial", Plan.FULL: "specific"},
    Means: {Means.AT_HAND: "yes"},
    Behaviour: {
        Behaviour.DENIED: "none / denied",
        Behaviour.SELF_HARM: "self-injury without suicidal intent",
        Behaviour.PREPARATION: "preparatory acts",
        Behaviour.ABORTED: "aborted attempt",
        Behaviour.INTERRUPTED: "interrupted attempt",
        Behaviour.ATTEMPT: "actual attempt",
    },
}
KEYS = (
    ("N", "next case"),
    ("1 2 3", "choose label"),
    ("4 to 8", "choose confidence"),
    ("Q to Y", "choose disposition"),
    ("Ctrl+Enter", "submit"),
    ("U", "undo, within half a minute"),
    ("V", "edit a saved review"),
    ("P", "previous case"),
    ("S", "skip"),
    ("H", "put on hold"),
    ("B", "transfer to a colleague"),
    ("X", "decline, without a reason"),
    ("A", "request a second review"),
    ("C", "clinical coding"),
    ("D", "reasons and note"),
    ("M", "highlight the key words"),
    (", .", "in a conversation: previous turn, next turn"),
    ("G", "guideline"),
    ("F", "end session (returns an open case)"),
    ("?", "these keys"),
)
LIST_KEYS = (("/", "search the list"), ("J K", "down, up in the list"))
"""For those who may browse the list."""


def words(value: StrEnum) -> str:
    """A value of the form as it is shown."""
    return VALUE_WORDS.get(type(value), {}).get(value) or value.replace("_", " ")


@cache
def form_offer(
    dispositions: tuple[Disposition, ...], minutes: tuple[float, float], *, browse: bool
) -> Mapping[str, Any]:
    """Labels, certainties, the site's dispositions and the fields that are not compulsory, as the browser draws them,
    and the keys that act, for who may ``browse`` the list and who may not; put together once.

    ``minutes``: by when somebody sees to what a disposition asks for, as the site set it.
    """
    return {
        "dispositions": [
            [each.value, DISPOSITION_WORDS[each], key, follow_up_minutes(each, minutes)]
            for each, key in zip(dispositions, DISPOSITION_KEYS, strict=False)
        ],
        "labels": [[label.value, LABEL_WORDS[label], LABEL_KEYS[label]] for label in RatingLabel],
        "certainties": [[level, CERTAINTY_WORDS[level], key] for level, key in CERTAINTY_KEYS.items()],
        "coding": [
            _one("subject", "About", Subject, none="not chosen"),
            {
                "name": "ideation",
                "title": "Ideation",
                "values": [[None, "not stated"], *([level, said] for level, said in LEVELS.items())],
            },
            _one("intent", "Intent", Intent),
            _one("plan", "Plan", Plan),
            _one("means", "Access to means", Means),
            _one("behaviour", "Behavior", Behaviour),
            _one("timeframe", "Timeframe", Timeframe),
            _many("protective_factors", "Protective factors", ProtectiveFactor),
        ],
        "rest": [_many("reason_codes", "Reason for difficulty or error", ReasonCode)],
        "longest_note": LONGEST_NOTE,
        "most_marks": MOST_MARKS,
        "keys": [list(each) for each in (*KEYS, *(LIST_KEYS if browse else ()))],
    }


def _one(name: str, title: str, kind: type[StrEnum], none: str = "") -> dict[str, Any]:
    """A field with one choice of several. What it begins with comes first, so that it can be chosen again."""
    start = next((value for value in kind if value.value == "not_stated"), None)
    first = [[None, none or "not stated"]]
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
    """Label, certainty and what happens next."""
    said = f"{LABEL_WORDS[form.label]} ({CERTAINTY_WORDS[form.certainty].lower()} confidence)"
    next_step = "" if form.disposition is Disposition.UNDECIDED else f", {DISPOSITION_WORDS[form.disposition].lower()}"
    return said + next_step
