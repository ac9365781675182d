"""What can be said of a text before any model sees it, and what each such finding forbids."""

from collections.abc import Callable, Mapping
from enum import IntEnum, StrEnum


class Flag(StrEnum):
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
    """Written so that people read what a program does not: leet, spaced letters, look-alikes, zalgo."""
    UNSUPPORTED_LANGUAGE = "unsupported_language"
    """All or part of it is not in a language the screening was validated for."""
    SUSPECTED_INJECTION = "suspected_injection"
    """It appears to address the model or to answer in its place."""
    POSSIBLE_INJECTION = "possible_injection"
    """Some sign of that, weak enough to be innocent: a `safe` needs the agreement of a second prompt."""
    ROW_REJECTED = "row_rejected"
    """The row of the file cannot be read as it should, and its words state a risk: it is escalated as it is."""
    STATED_RISK = "stated_risk"
    """It says outright, of the writer or of somebody else, a wish to be dead, an intent, a plan, means, an attempt or
    self-injury.
    """
    STATED_IMMINENT = "stated_imminent"
    """Such a statement stands with a time or with means."""


class Forbids(IntEnum):
    """What a finding forbids; each value forbids what those before it do."""

    NOTHING = 0
    UNCHECKED_SAFE = 1
    """A `safe` commits only when an independent prompt variant identifies it too."""
    SAFE = 2
    """A `safe` is never committed, whatever the model answers: the case is escalated."""
    SCREENING = 3
    """No call is made: the case is escalated with the finding as its reason."""


FORBIDS: Mapping[Flag, Forbids] = {
    Flag.ALTERED: Forbids.NOTHING,
    Flag.UNREADABLE: Forbids.SAFE,
    Flag.HIDDEN_UNICODE: Forbids.SAFE,
    Flag.BIDI_CONTROL: Forbids.SAFE,
    Flag.CONTROL_CHARACTERS: Forbids.NOTHING,
    Flag.TOO_LONG: Forbids.SCREENING,
    Flag.EMPTY: Forbids.SCREENING,
    Flag.NO_WORDS: Forbids.SAFE,
    Flag.OBFUSCATED: Forbids.SAFE,
    Flag.UNSUPPORTED_LANGUAGE: Forbids.SAFE,
    Flag.SUSPECTED_INJECTION: Forbids.SAFE,
    Flag.POSSIBLE_INJECTION: Forbids.UNCHECKED_SAFE,
    Flag.ROW_REJECTED: Forbids.SCREENING,
    Flag.STATED_RISK: Forbids.SAFE,
    Flag.STATED_IMMINENT: Forbids.SAFE,
}
"""The one table of what each finding of a text forbids."""

REFUSES_SCREENING = frozenset(flag for flag in Flag if FORBIDS[flag] is Forbids.SCREENING)
REFUSES_SAFE = frozenset(flag for flag in Flag if FORBIDS[flag] >= Forbids.SAFE)
SECOND_LOOK = frozenset(flag for flag in Flag if FORBIDS[flag] is Forbids.UNCHECKED_SAFE)

STATED: frozenset[Flag] = frozenset({Flag.STATED_RISK, Flag.STATED_IMMINENT})

Detector = Callable[[str], frozenset[Flag]]
"""Looks at the normalised text and returns what it found; the composition root passes extra ones to `receive`."""
