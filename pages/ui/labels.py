"""What codes mean, in the words the pages use everywhere."""

from collections.abc import Mapping

from screening.labels import Outcome
from screening.pipeline.engine import Reason
from screening.pipeline.errors import error_kind
from screening.review.review_form import Disposition
from screening.text.display import visible
from screening.text.flags import Flag
from storage.batches.batch_state import BatchState

OUTCOME_WORDS: Mapping[Outcome, str] = {
    Outcome.SAFE: "Labeled safe",
    Outcome.UNSAFE: "Labeled unsafe",
    Outcome.HUMAN_REVIEW: "Escalated to a clinician",
}

OUTCOME_ICONS: Mapping[Outcome, str] = {Outcome.SAFE: "✓", Outcome.UNSAFE: "▲", Outcome.HUMAN_REVIEW: "→"}

REASON_WORDS: Mapping[Reason, str] = {
    Reason.IDENTIFIED: "its most frequent answer is clear",
    Reason.ESCALATED: "its most frequent answer is that a clinician must look",
    Reason.EXHAUSTED: "its answers were too mixed: no label won within its limit",
    Reason.FUTILITY: "its answers were too mixed: no label could win within its limit any more",
    Reason.NO_ANSWER: "the model gave no usable answer: too many of its answers were no label",
    Reason.TOO_CLOSE: "no label's probability leads clearly",
    Reason.SECOND_LOOK_DISAGREED: "a second wording of the question did not confirm safe",
    Reason.STATED_RISK: "a rule decided, not an agent: the text states a risk outright, so safe is not accepted",
    Reason.SUSPECTED_INJECTION: "a rule decided, not an agent: the text appears to address the AI",
    Reason.HIDDEN_CHARACTERS: "a rule decided, not an agent: the text holds hidden characters",
    Reason.OBFUSCATED: "a rule decided, not an agent: the text is written so that programs misread it",
    Reason.NO_WORDS: "a rule decided, not an agent: the text has no words to go by",
    Reason.UNSUPPORTED_LANGUAGE: "a rule decided, not an agent: the language is not supported",
    Reason.TOO_LONG: "a rule decided, not an agent: the text is longer than the limit",
    Reason.UNREADABLE: "a rule decided, not an agent: part of the text is unreadable",
    Reason.ROW_REJECTED: "not screened: the row of the file could not be read as it should, and its words state a risk",
    Reason.REPEATED_FAILURE: "screening it failed again and again",
    Reason.STOPPED: "AI decisions are paused: everything new is escalated",
}

FLAG_WORDS: Mapping[Flag, str] = {
    Flag.ALTERED: "holds characters a database cannot store; the original is kept beside the copy",
    Flag.UNREADABLE: "part of it is unreadable",
    Flag.HIDDEN_UNICODE: "holds characters that show nothing",
    Flag.BIDI_CONTROL: "holds characters that change the order in which it is shown",
    Flag.CONTROL_CHARACTERS: "holds control characters",
    Flag.TOO_LONG: "longer than the limit",
    Flag.EMPTY: "nothing is left once invisible characters and spaces are removed",
    Flag.NO_WORDS: "has no word of two letters or more",
    Flag.OBFUSCATED: "written so that a person reads what a program does not",
    Flag.UNSUPPORTED_LANGUAGE: "not, or not all, in a language the screening was checked for",
    Flag.SUSPECTED_INJECTION: "appears to address the AI or to answer in its place",
    Flag.STATED_RISK: "states one or more of: a wish to be dead, an intent, a plan, means, an attempt, self-injury",
    Flag.STATED_IMMINENT: "states it together with a time or with means",
    Flag.POSSIBLE_INJECTION: "may address the AI: safe needs a second check",
    Flag.ROW_REJECTED: "not screened: the row of the file could not be read as it should",
}

DISPOSITION_WORDS: Mapping[Disposition, str] = {
    Disposition.UNDECIDED: "Not set",
    Disposition.CONTACT_NOW: "Contact now",
    Disposition.CARE_TEAM: "Care team today",
    Disposition.PROTECTIVE_SERVICES: "Protective services",
    Disposition.MONITOR: "Monitor",
    Disposition.IN_CARE: "Already in care",
    Disposition.NONE: "No action",
}

STATE_WORDS: Mapping[BatchState, str] = {
    BatchState.FINISHED: "✓ Finished",
    BatchState.CANCELLED: "■ Cancelled",
    BatchState.PAUSED: "‖ Paused",
    BatchState.CAPPED: "◼ Stopped at its cap",
    BatchState.NEEDS_RETRY: "! Waits for a retry",
    BatchState.ROWS_MISSING: "! Rows are missing",
    BatchState.TAKING_IN: "↓ Taking rows in",
    BatchState.RUNNING: "● Running",
}

DELTA_MEANING = "δ limits how often an agent's most frequent answer is misread. It is not an accuracy rate."

NOT_PRIVATE = (
    "Message batches: the service answers within a day a round, most within an hour, and keeps texts and answers for "
    "weeks. It is neither zero-retention nor HIPAA eligible: for research files alone, never for patients' texts."
)

PROBABILITIES_MEANING = (
    "Labels are read off from the probabilities that a model's server tells, in one call an agent. That is exact for "
    "the question as it was asked, and no error level holds for it. Where the server leaves too much unknown, and for "
    "the second look, answers are drawn as always."
)


_MARKUP = "\\`*_[]<>#!|~$:&"


def literal(words: str) -> str:
    """Words that somebody typed, for a place that reads Markdown: shown as they were written, and nothing is fetched.

    >>> print(literal("a *b* ![i](http://x)"))
    a \\*b\\* \\!\\[i\\](http\\://x)
    """
    return "".join(f"\\{letter}" if letter in _MARKUP else letter for letter in visible(words))


def sentence(refusal: Exception) -> str:
    """What an exception of ours says, as a sentence of its own.

    >>> sentence(ValueError("say why"))
    'Say why.'
    """
    words = str(refusal)
    return f"{words[0].upper()}{words[1:]}."


def error_words(kind: str) -> str:
    """A failure's kind in words; a kind without words of its own is shown as it is."""
    return error_kind(kind).words
