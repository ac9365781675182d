"""What the inbox says of tiers, reasons, times and counts; no words of its own name a label or an agent."""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from pages.ui.format import local_time
from pages.ui.labels import error_words
from screening.review.rating_form import RatingLabel
from screening.review.triage import Tier
from screening.text.display import visible
from screening.words import count_of
from storage.review.queue import MOST_COUNTED, Counts, State

TIER_WORDS: Mapping[Tier, str] = {
    Tier.P0: "P0 Immediate",
    Tier.P1: "P1 Urgent",
    Tier.P2: "P2 Same day",
    Tier.P3: "P3 Routine",
}
TIER_MEANINGS: Mapping[Tier, str] = {tier: words[3:] for tier, words in TIER_WORDS.items()}
TIER_MARKS: Mapping[Tier, str] = {Tier.P0: "▲▲", Tier.P1: "▲", Tier.P2: "●", Tier.P3: "○"}

WHY_WORDS: Mapping[str, str] = {
    "likely_urgent": "Likely urgent",
    "person_needed": "AI undecided, needs a clinician",
    "unsettled": "Awaiting review",
    "addresses_model": "May address the AI",
    "not_screenable": "Could not be screened: length, language or characters",
    "failed": "Screening failed",
    "not_screened": "Not screened",
}

STATE_WORDS: Mapping[State, str] = {
    State.FREE: "unassigned",
    State.MINE: "assigned to you",
    State.HELD: "assigned to others",
    State.READ: "awaiting second review",
    State.SENIOR: "awaiting a senior",
    State.RESERVED: "on hold or transferred",
    State.SKIPPED: "skipped by you",
}

LABEL_WORDS: Mapping[RatingLabel, str] = {
    RatingLabel.SAFE: "Safe",
    RatingLabel.UNSAFE: "Unsafe",
    RatingLabel.INSUFFICIENT_INFORMATION: "Insufficient information",
}

CERTAINTY_WORDS: Mapping[int, str] = {1: "Guess", 2: "Low", 3: "Moderate", 4: "High", 5: "Certain"}

LONGEST_NAME = 40
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9 _.#/-]{0,23}")


def read_words(read: int) -> str:
    """How many cases this person has reviewed since their midnight.

    >>> read_words(1), read_words(6)
    ('You have reviewed 1 case today', 'You have reviewed 6 cases today')
    """
    return f"You have reviewed {count_of(read, 'case')} today"


def why_words(why: str, *, settled: bool = False) -> str:
    """Why a case has its tier; a reason without words of its own is shown as it is.

    >>> why_words("unsettled"), why_words("not_screened:no_worker")
    ('Awaiting review', 'Not screened: no worker is running')

    ``settled``: the engine's view is shown beside it, and the engine had decided. Until then such a case is given the
    reason of those that were not settled, so that nothing gives it away.
    """
    if settled:
        return "The AI had decided it"
    kind, _, cause = why.partition(":")
    words = WHY_WORDS.get(kind, kind.replace("_", " "))
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
    """How many are late; empty for none."""
    return f"{number_words(late)} overdue" if late else ""


def number_words(number: int) -> str:
    """How many cases wait, which are counted as far as a limit.

    >>> number_words(MOST_COUNTED), number_words(MOST_COUNTED + 1)
    ('1,000', '1,000+')
    """
    return f"{number:,}" if number <= MOST_COUNTED else f"{MOST_COUNTED:,}+"


def state_words(state: State) -> str:
    """What keeps a case, in one word; empty where it is free."""
    short = {
        State.FREE: "",
        State.MINE: "assigned to you",
        State.READ: "reviewed",
        State.HELD: "assigned",
    }
    return short.get(state, state.value)


def span_words(span: timedelta) -> str:
    """A length of time in its largest unit, rounded down.

    >>> [span_words(timedelta(minutes=m)) for m in (0.5, 59, 61, 60 * 49)]
    ['<1 min', '59 min', '1 h', '2 d']
    """
    minutes = int(span.total_seconds() // 60)
    if minutes < 1:
        return "<1 min"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 60 * 48 else f"{minutes // (60 * 24)} d"


def due_words(due_at: datetime, now: datetime) -> str:
    """Time left to the target, or how far it is passed.

    >>> from datetime import UTC
    >>> at = datetime(2026, 1, 1, tzinfo=UTC)
    >>> due_words(at + timedelta(minutes=5), at), due_words(at, at + timedelta(hours=2))
    ('due in 5 min', 'overdue 2 h')
    """
    return f"due in {span_words(due_at - now)}" if due_at > now else f"overdue {span_words(now - due_at)}"


def counts_words(counts: Counts) -> str:
    """Every open case is in this sentence once; what is nought is left out, but for the free ones."""
    return ", ".join([f"{number_words(counts.free)} unassigned", *_others(counts)])


def _others(counts: Counts) -> Iterator[str]:
    """The cases that are not free, by what keeps them."""
    for state, words in STATE_WORDS.items():
        if state is not State.FREE and (number := counts.by_state[state]):
            until = {State.HELD: counts.held_until, State.RESERVED: counts.reserved_until}.get(state)
            yield f"{number_words(number)} {words}" + (f" (until {local_time(until, until)})" if until else "")
    if counts.outside_filter:
        yield f"{number_words(counts.outside_filter)} outside your filter"


def waiting_words(counts: Counts) -> str:
    """What is said on an empty desk."""
    if not counts.free:
        return empty_words(counts)
    return f"{number_words(counts.free)} case{'s' if counts.free != 1 else ''} to review."


def empty_words(counts: Counts) -> str:
    """Why there is nothing to give."""
    if not counts.open:
        return "No cases to review."
    return f"No unassigned case for you: {', '.join(_others(counts))}."
