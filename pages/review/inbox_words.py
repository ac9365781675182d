"""The words of the queue and the review form, and what the browser is given of a form; none names an agent."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cache
from typing import Any

from pages.ui.words import DISPOSITION_WORDS, WORDS, duration, error_words, local_time, words_of
from screening.review import review_form
from screening.review.triage import Priority
from screening.text.display import visible
from screening.words import count_of
from storage.review.follow_ups import For, How, follow_up_minutes
from storage.review.inbox import Place, Standing
from storage.review.queue import MOST_COUNTED, Counts, State
from storage.settings_store import SiteSettings

LABEL_WORDS: Mapping[review_form.ReviewLabel, str] = words_of(review_form.ReviewLabel, "label")
STATE_WORDS: Mapping[State, str] = words_of(State, "case_state")
PRIORITY_MEANINGS: Mapping[Priority, str] = words_of(Priority.__getitem__, "priority")
PRIORITY_WORDS: Mapping[Priority, str] = {one: f"{one.name} {words}" for one, words in PRIORITY_MEANINGS.items()}
PRIORITY_MARKS: Mapping[Priority, str] = {Priority.P0: "▲▲", Priority.P1: "▲", Priority.P2: "●", Priority.P3: "○"}

CERTAINTY_WORDS: Mapping[int, str] = {1: "Guess", 2: "Low", 3: "Moderate", 4: "High", 5: "Certain"}
HOW_CERTAIN = {
    level: {"Guess": "a guess", "Certain": "certain"}.get(words, f"{words.lower()} confidence")
    for level, words in CERTAINTY_WORDS.items()
}
"""The same inside a sentence."""

FOR_WORDS: Mapping[For, str] = {
    For.CONTACT_NOW: DISPOSITION_WORDS[review_form.Disposition.CONTACT_NOW],
    For.CARE_TEAM: DISPOSITION_WORDS[review_form.Disposition.CARE_TEAM],
    For.PROTECTIVE_SERVICES: DISPOSITION_WORDS[review_form.Disposition.PROTECTIVE_SERVICES],
    For.SECOND_REVIEW: "Second review needed: reviewed by one person so far",
}
HOW_WORDS = {How.DONE: "Completed", How.HANDED_ON: "Referred externally", How.NOT_NEEDED: "No longer needed"}

LONGEST_NAME = 40
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.#/-]{0,23}")


def read_words(read: int) -> str:
    """How many cases this person has reviewed since their midnight.

    >>> read_words(1), read_words(6)
    ('You have reviewed 1 case today', 'You have reviewed 6 cases today')
    """
    return f"You have reviewed {count_of(read, 'case')} today"


def why_words(why: str, *, settled: bool = False) -> str:
    """Why a case has its priority; a reason without words of its own is shown as it is.

    >>> why_words("unsettled"), why_words("not_screened:no_worker")
    ('Awaiting review', 'Not screened: no background service is running')

    ``settled``: the AI's view is shown beside it, and the AI had decided. Until then such a case is given the
    reason of those that were not settled, so that nothing gives it away.
    """
    if settled:
        return "Labeled by the AI"
    kind, _, cause = why.partition(":")
    words = WORDS["why"].get(kind, kind.replace("_", " "))
    return f"{words}: {error_words(cause)}" if cause else words


def plain_name(external_id: str, case_id: str) -> str:
    """A case's own id where it can do no harm in a label, which renders Markdown; else the end of ours.

    >>> plain_name("post-17", "0" * 32), plain_name("![a](//x.example)", "0" * 26 + "c0ffee")
    ('post-17', 'case c0ffee')
    """
    return external_id if _PLAIN.fullmatch(external_id) else f"case {case_id[-6:]}"


def list_name(external_id: str, case_id: str) -> str:
    """A case's own id for a list that shows it as text, its hidden characters visible; else the end of ours.

    >>> list_name("post-17", "0" * 32), list_name("", "0" * 26 + "c0ffee"), list_name("long/" * 9, "0" * 32)
    ('post-17', 'case c0ffee', 'long/long/long/long/long/long/long/long…')
    """
    name = visible(external_id) if external_id.strip() else f"case {case_id[-6:]}"
    return name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…"


def late_words(late: int) -> str:
    return f"{number_words(late)} overdue" if late else ""


def number_words(number: int) -> str:
    """How many cases wait, which are counted as far as a limit.

    >>> number_words(MOST_COUNTED), number_words(MOST_COUNTED + 1)
    ('1,000', '1,000+')
    """
    return f"{number:,}" if number <= MOST_COUNTED else f"{MOST_COUNTED:,}+"


def state_words(state: State) -> str:
    """What keeps a case, in one word; empty where it is free."""
    short = {State.FREE: "", State.MINE: "assigned to you", State.READ: "reviewed", State.HELD: "assigned"}
    return short.get(state, state.value)


def due_words(due_at: datetime, now: datetime) -> str:
    """Time left to the target, or how far it is passed.

    >>> from datetime import UTC, timedelta
    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> due_words(at + timedelta(minutes=5), at), due_words(at, at + timedelta(hours=2))
    ('due in 5 min', 'overdue 2 h')
    """
    words = duration(abs(due_at - now), least=60)
    return f"due in {words}" if due_at > now else f"overdue {words}"


def counts_words(counts: Counts) -> str:
    """Every open case is in this sentence once; what is nought is left out, but for the free ones."""
    return ", ".join([f"{number_words(counts.free)} unassigned", *_others(counts)])


def _others(counts: Counts) -> Iterator[str]:
    for state, words in STATE_WORDS.items():
        if state is not State.FREE and (number := counts.by_state[state]):
            until = {State.HELD: counts.held_until, State.RESERVED: counts.reserved_until}.get(state)
            yield f"{number_words(number)} {words}" + (f" (until {local_time(until, until)})" if until else "")
    if counts.outside_filter:
        yield f"{number_words(counts.outside_filter)} outside your filter"


def waiting_words(counts: Counts) -> str:
    if counts.free:
        return f"{number_words(counts.free)} case{'s' if counts.free != 1 else ''} to review."
    return f"No unassigned case for you: {', '.join(_others(counts))}." if counts.open else "No cases to review."


_WORDS = words_of(Place, "place")
KEPT = "What you filled in is kept as a draft."
_OF_THE_PAGE = ("rev", "read_to_end", "revision", "form_version")


def is_filled_in(draft: Mapping[str, Any] | None) -> bool:
    """Whether a draft holds anything that its reviewer chose, marked or wrote.

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
        return (
            f"You reviewed this case at {local_time(found.at, found.at)} as {LABEL_WORDS[found.label].lower()}; {then}."
        )
    words = _WORDS.get(found.place, "")
    if found.place is Place.KEPT and found.until is not None:
        words = f"This case is kept for you until {local_time(found.until, found.until)}."
    if not words:
        return "This case is assigned to you."
    return f"{words} {KEPT}" if draft else words


LABEL_KEYS = {
    review_form.ReviewLabel.SAFE: "1",
    review_form.ReviewLabel.UNSAFE: "2",
    review_form.ReviewLabel.INSUFFICIENT_INFORMATION: "3",
}
DISPOSITION_KEYS = "QWERTY"


def choices_of(field: str, kind: type[StrEnum]) -> list[list[str]]:
    """The values that a field of the form may have, each as it is stored and in words."""
    said = WORDS.get(field, {})
    return [[value.value, said.get(value) or value.replace("_", " ")] for value in kind]


@cache
def form_offer(
    dispositions: tuple[review_form.Disposition, ...], minutes: tuple[float, float], *, browse: bool
) -> Mapping[str, Any]:
    """Labels, certainties, the site's dispositions and the fields that are not compulsory, as the browser draws them,
    and the keys that act, for who may ``browse`` the list and who may not; put together once.

    ``minutes``: by when somebody sees to what a disposition asks for, as the site set it.
    """
    keys = {**WORDS["key"], **(WORDS["list_key"] if browse else {})}
    levels = [[int(level), said] for level, said in WORDS["ideation"].items()]
    return {
        "dispositions": [
            [each.value, DISPOSITION_WORDS[each], key, follow_up_minutes(each, minutes)]
            for each, key in zip(dispositions, DISPOSITION_KEYS, strict=False)
        ],
        "labels": [[label.value, LABEL_WORDS[label], LABEL_KEYS[label]] for label in review_form.ReviewLabel],
        "certainties": [[level, said, str(level + 3), HOW_CERTAIN[level]] for level, said in CERTAINTY_WORDS.items()],
        "coding": [
            _one("subject", "About", review_form.Subject, none="not chosen"),
            {"name": "ideation", "title": "Ideation", "values": [[None, "not stated"], *levels]},
            _one("intent", "Intent", review_form.Intent),
            _one("plan", "Plan", review_form.Plan),
            _one("means", "Access to means", review_form.Means),
            _one("behaviour", "Behavior", review_form.Behaviour),
            _one("timeframe", "Timeframe", review_form.Timeframe),
            _many("protective_factors", "Protective factors", review_form.ProtectiveFactor),
        ],
        "rest": [_many("reason_codes", "Reason for difficulty or error", review_form.ReasonCode)],
        "longest_note": review_form.LONGEST_NOTE,
        "most_marks": review_form.MOST_MARKS,
        "keys": [list(each) for each in keys.items()],
    }


def _one(name: str, title: str, kind: type[StrEnum], none: str = "") -> dict[str, Any]:
    """A field with one choice of several. What it begins with comes first, so that it can be chosen again."""
    others = [choice for choice in choices_of(name, kind) if choice[0] != "not_stated"]
    return {"name": name, "title": title, "values": [[None, none or "not stated"], *others]}


def _many(name: str, title: str, kind: type[StrEnum]) -> dict[str, Any]:
    return {"name": name, "title": title, "many": True, "values": choices_of(name, kind)}


def guideline(site: SiteSettings) -> dict[str, Any]:
    """What the labels mean, and the site's own text: shown as text, never as markup."""
    return {
        "labels": [[said, WORDS["definition"][label]] for label, said in LABEL_WORDS.items()],
        "reminders": list(WORDS["reminder"].values()),
        "own": site.guideline,
    }


def review_words(form: review_form.ReviewForm) -> str:
    said = f"{LABEL_WORDS[form.label]} ({HOW_CERTAIN[form.certainty]})"
    undecided = form.disposition is review_form.Disposition.UNDECIDED
    return said if undecided else f"{said}, {DISPOSITION_WORDS[form.disposition].lower()}"
