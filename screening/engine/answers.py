"""Reading an answer as a draw: strictly one of the allowed words, or ``escalate`` marked as what it was."""

from collections.abc import Mapping

from screening.engine.draws import Answer, Draw, Usage, unusable
from screening.labels import LABELS, Label

LABEL_WORDS: Mapping[str, Label] = {label.value: label for label in LABELS}

_AROUND = " \t\r\n\u00a0\"'`.*\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
_FINISHED = frozenset({"end_turn", "stop_sequence"})
_CUT = frozenset({"max_tokens", "model_context_window_exceeded"})


def bare_word(answer: str) -> str:
    """The answer in lower case, without white space, quotation marks, full stops and asterisks around it.

    Nothing else is taken off: "¬safe", "safe?" and "🚫safe" are no labels, nor is a word in other letters.

    >>> bare_word(' **Unsafe.** ')
    'unsafe'
    >>> bare_word("!safe")
    '!safe'
    """
    return answer.strip(_AROUND).lower()


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
