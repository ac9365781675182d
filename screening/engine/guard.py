"""What the findings in a text forbid the engine to do."""

from collections.abc import Iterable

from screening.engine.screen import Guard, Reason
from screening.text.flags import REFUSES_SAFE, REFUSES_SCREENING, SECOND_LOOK, Flag

_REASONS = {
    Flag.ROW_REJECTED: Reason.ROW_REJECTED,
    Flag.TOO_LONG: Reason.TOO_LONG,
    Flag.STATED_IMMINENT: Reason.STATED_RISK,
    Flag.STATED_RISK: Reason.STATED_RISK,
    Flag.EMPTY: Reason.NO_WORDS,
    Flag.SUSPECTED_INJECTION: Reason.SUSPECTED_INJECTION,
    Flag.HIDDEN_UNICODE: Reason.HIDDEN_CHARACTERS,
    Flag.BIDI_CONTROL: Reason.HIDDEN_CHARACTERS,
    Flag.OBFUSCATED: Reason.OBFUSCATED,
    Flag.UNREADABLE: Reason.UNREADABLE,
    Flag.UNSUPPORTED_LANGUAGE: Reason.UNSUPPORTED_LANGUAGE,
    Flag.NO_WORDS: Reason.NO_WORDS,
}


def guard_for(flags: Iterable[str]) -> Guard:
    """The guard of a text with these findings. A finding this version does not know refuses `safe` as well.

    >>> guard_for(["no_words"]).refuse_safe
    <Reason.NO_WORDS: 'no_words'>
    >>> guard_for(["a finding of a later version"]).refuse_safe
    <Reason.UNREADABLE: 'unreadable'>
    """
    names = set(flags)
    known = {flag for flag in Flag if flag.value in names}
    refusing = [_REASONS[flag] for flag in _REASONS if flag in known & REFUSES_SAFE]
    if names - {flag.value for flag in Flag}:
        refusing.append(Reason.UNREADABLE)
    screening = [_REASONS[flag] for flag in _REASONS if flag in known & REFUSES_SCREENING]
    return Guard(
        refuse_screening=screening[0] if screening else None,
        refuse_safe=refusing[0] if refusing else None,
        second_look=bool(known & SECOND_LOOK),
    )
