"""What can be said of a text before any model sees it, and what each such finding forbids."""

from collections.abc import Callable
from enum import StrEnum


class Flag(StrEnum):
    """A finding about a text as received."""

    ALTERED = "altered"
    """A database cannot hold it as it came: NUL or surrogates were replaced, the original kept escaped."""
    UNREADABLE = "unreadable"
    """Part of it is lost: lone surrogates, U+FFFD, or another alphabet read by the table of Western Europe."""
    HIDDEN_UNICODE = "hidden_unicode"
    """Characters that show nothing stand inside words or form a payload."""
    BIDI_CONTROL = "bidi_control"
    """Characters that change the order in which the text is displayed."""
    CONTROL_CHARACTERS = "control_characters"
    """C0 or C1 controls other than tab and line ends."""
    TOO_LONG = "too_long"
    """Longer than the limit: it is not shown to a model and never cut."""
    EMPTY = "empty"
    """Nothing is left once invisible characters and spaces are removed."""
    NO_WORDS = "no_words"
    """No word of two letters or more."""
    OBFUSCATED = "obfuscated"
    """Written so that a person reads what a program does not: leet, spaced letters, look-alikes, zalgo."""
    UNSUPPORTED_LANGUAGE = "unsupported_language"
    """All or part of it is not in a language the screening was validated for."""
    SUSPECTED_INJECTION = "suspected_injection"
    """It appears to address the model or to answer in its place."""
    POSSIBLE_INJECTION = "possible_injection"
    """Some sign of that, weak enough to be innocent: a `safe` needs the agreement of a second look."""
    ROW_REJECTED = "row_rejected"
    """The row of the file cannot be read as it should, and its words state a risk: a person sees what there is."""
    STATED_RISK = "stated_risk"
    """It says outright, of the writer or of somebody else, a wish to be dead, an intent, a plan, means, an attempt
    or self-injury."""
    STATED_IMMINENT = "stated_imminent"
    """Such a statement stands with a time or with means."""


REFUSES_SAFE: frozenset[Flag] = frozenset(
    {
        Flag.UNREADABLE,
        Flag.HIDDEN_UNICODE,
        Flag.BIDI_CONTROL,
        Flag.TOO_LONG,
        Flag.EMPTY,
        Flag.NO_WORDS,
        Flag.OBFUSCATED,
        Flag.UNSUPPORTED_LANGUAGE,
        Flag.SUSPECTED_INJECTION,
        Flag.STATED_RISK,
        Flag.STATED_IMMINENT,
        Flag.ROW_REJECTED,
    }
)
"""With any of these a `safe` is never committed, whatever the model answers: the case goes to a human."""

REFUSES_SCREENING: frozenset[Flag] = frozenset({Flag.TOO_LONG, Flag.EMPTY, Flag.ROW_REJECTED})
"""With any of these no call is made: the case goes to a human with the flag as its reason."""

STATED: frozenset[Flag] = frozenset({Flag.STATED_RISK, Flag.STATED_IMMINENT})
"""An outright statement of risk."""

SECOND_LOOK: frozenset[Flag] = frozenset({Flag.POSSIBLE_INJECTION})
"""With any of these a `safe` commits only when an independent prompt variant identifies it too."""

Detector = Callable[[str], frozenset[Flag]]
"""Looks at the normalised text and returns what it found; the composition root passes extra ones to `receive`."""
