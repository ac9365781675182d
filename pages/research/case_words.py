"""What lists of cases say of each, in words."""

from pages.components.words import OUTCOME_WORDS, REASON_WORDS
from screening.engine.screen import Reason
from screening.labels import Outcome


def reason_words(reason: str | None) -> str:
    """A stored reason in words; one this version does not know is shown as it is."""
    try:
        return REASON_WORDS[Reason(reason or "")]
    except ValueError:
        return reason or "not settled yet"


def outcome_words(outcome: str) -> str:
    """An outcome of a list in words.

    >>> outcome_words("unsafe"), outcome_words("in review")
    ('labeled unsafe', 'in review')
    """
    return OUTCOME_WORDS[Outcome(outcome)].lower() if outcome in set(Outcome) else outcome
