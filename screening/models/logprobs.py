"""A node's label distribution in one call: the probabilities of the first token, where an own server tells them.

Servers with OpenAI-style chat completions (vLLM, SGLang, llama.cpp) can return the most probable first tokens. A token
counts for the one label it begins, for `safe` only where it is the whole word: a word that merely begins like it must
not count for it. What begins no label, and what the server leaves out, is unknown and counts against every label. The
answer that comes with them is read as strictly as any; where it is not the label that its first token counts for, that
label's share is unknown as well. The second look, whose code words have several tokens, is always sampled.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from screening.labels import LABELS, Label
from screening.models.wire import completion_choice
from screening.pipeline.draws import Answer, Draw, LabelDistribution, bare_word

ASKED: dict[str, object] = {"temperature": 1.0, "logprobs": True, "top_logprobs": 20}
"""Beside a chat completion; at temperature 1, since only some servers apply it to the probabilities they report."""
Token = tuple[str, float]
"""A token and its natural log probability."""


def counts_for(token: str, words: Mapping[str, Label]) -> Label | None:
    """The one label whose word begins with this token; None for none, several, or nothing but punctuation.

    >>> words = {"safe": Label.SAFE, "unsafe": Label.UNSAFE, "escalate": Label.ESCALATE}
    >>> counts_for(" Un", words), counts_for("Safe", words), counts_for("sa", words), counts_for(".", words)
    (<Label.UNSAFE: 'unsafe'>, <Label.SAFE: 'safe'>, None, None)
    """
    start = bare_word(token)
    fitting = {(word, label) for word, label in words.items() if start and word.startswith(start)}
    if len(fitting) != 1:
        return None
    word, label = fitting.pop()
    return label if label is not Label.SAFE or start == word else None


def distribution(tokens: Iterable[Token], words: Mapping[str, Label], temperature: float) -> LabelDistribution:
    """From the most probable first tokens with their natural log probabilities at temperature 1.

    At another temperature the shares of the returned tokens are rescaled among themselves; the part left out
    keeps its share, which overstates it below temperature 1: the error is on the side of ``unknown``.
    """
    listed = [(token, math.exp(min(logprob, 0.0))) for token, logprob in tokens]
    told = sum(share for _, share in listed)
    known = min(1.0, told)
    heated = [(token, share ** (1 / max(temperature, 0.01))) for token, share in listed]
    scale = known / (sum(share for _, share in heated) or 1.0)
    labels = dict.fromkeys(LABELS, 0.0)
    for token, share in heated:
        if (label := counts_for(token, words)) is not None:
            labels[label] += share * scale
    return LabelDistribution(labels=labels, unknown=max(0.0, 1.0 - sum(labels.values())))


def told_distribution(
    reply: Mapping[str, Any], draw: Draw, words: Mapping[str, Label], temperature: float
) -> LabelDistribution:
    """The distribution in a reply that was read as this draw; all of it is unknown where the reply is not what was
    asked for or tells none.
    """
    positions = _positions(reply)
    if draw.answer in (Answer.MISSHAPEN, Answer.OTHER_MODEL, Answer.REFUSAL) or not positions:
        return LabelDistribution(labels=dict.fromkeys(LABELS, 0.0), unknown=1.0)
    first, tokens = positions
    found, label = distribution(tokens, words, temperature), counts_for(first, words)
    if label is None or (draw.answer is Answer.LABEL and draw.label is label):
        return found
    # The answer is not the label that its first token counts for: such tokens are not known to lead to it.
    unknown = min(1.0, found.unknown + found.labels[label])
    return LabelDistribution(labels={**found.labels, label: 0.0}, unknown=unknown)


def _positions(reply: Mapping[str, Any]) -> tuple[str, list[Token]] | None:
    """The first token that was answered, and the most probable ones in its place; None where they are not told."""
    try:
        place = (completion_choice(reply) or {})["logprobs"]["content"][0]
        tokens = [(one["token"], one["logprob"]) for one in place["top_logprobs"]]
        first = place["token"]
    except (KeyError, IndexError, TypeError):
        return None
    plain = all(isinstance(token, str) and _is_number(logprob) for token, logprob in tokens)
    if not plain or not isinstance(first, str):
        return None
    told = sum(math.exp(min(logprob, 0.0)) for _, logprob in tokens)
    return (first, tokens) if told <= 1 + 1e-3 and all(logprob <= 1e-6 for _, logprob in tokens) else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value)
