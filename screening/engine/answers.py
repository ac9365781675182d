"""Reading an answer as a draw: strictly one of the allowed words, or ``escalate`` marked as what it was."""

import unicodedata
from collections.abc import Mapping

from screening.engine.draws import Answer, Draw, Usage, unusable
from screening.labels import LABELS, Label

LABEL_WORDS: Mapping[str, Label] = {label.value: label for label in LABELS}

_FINISHED = frozenset({"end_turn", "stop_sequence"})
_CUT = frozenset({"max_tokens", "model_context_window_exceeded"})


def bare_word(answer: str) -> str:
    """The answer casefolded, without surrounding white space, punctuation and symbols.

    >>> bare_word(' **Unsafe.** ')
    'unsafe'
    >>> bare_word("not safe")
    'not safe'
    """
    start, end = 0, len(answer)
    while start < end and _is_surrounding(answer[start]):
        start += 1
    while end > start and _is_surrounding(answer[end - 1]):
        end -= 1
    return answer[start:end].casefold()


def _is_surrounding(character: str) -> bool:
    return character.isspace() or unicodedata.category(character)[0] in "PSC"


def read_answer(
    answer: str | None, stop_reason: str | None, usage: Usage, words: Mapping[str, Label] = LABEL_WORDS
) -> Draw:
    """The draw an answer makes. Only a finished answer that is exactly one of ``words`` is a label.

    >>> read_answer("Safe.", "end_turn", Usage()).label
    <Label.SAFE: 'safe'>
    >>> read_answer("safe", "max_tokens", Usage()).answer
    <Answer.CUT: 'cut'>
    >>> str(read_answer("It is safe", "end_turn", Usage()).label)
    'escalate'
    """
    text = answer or ""
    if stop_reason == "refusal":
        return unusable(Answer.REFUSAL, text, usage)
    if stop_reason in _CUT:
        return unusable(Answer.CUT, text, usage)
    if not text.strip():
        return unusable(Answer.EMPTY, text, usage)
    label = words.get(bare_word(text)) if stop_reason in _FINISHED else None
    if label is None:
        return unusable(Answer.UNPARSABLE, text, usage)
    return Draw(label=label, usage=usage)
