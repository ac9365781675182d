"""A node's label distribution in one call: the probabilities of the first token, where an own server tells them.

Servers with OpenAI-style chat completions (vLLM, SGLang, llama.cpp) can return the most probable first tokens. A token
counts for the one label it begins, for `safe` only where it is the whole word: a word that merely begins like it must
not count for it. What begins no label, and what the server leaves out, is unknown and counts against every label. The
answer that comes with them is read as strictly as any; where it is not the label that its first token counts for, that
label's share is unknown as well. The second look, whose code words have several tokens, is always sampled.
"""

import math
from collections.abc import Awaitable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from screening.labels import LABELS, Label
from screening.models.http import HttpAdapter, ModelSampler
from screening.models.retries import Response
from screening.models.settings import ModelSettings
from screening.models.wire import CHAT, Expected, PreparedCall, completion_choice
from screening.pipeline.draws import Answer, Draw, DrawRequest, LabelDistribution, bare_word
from screening.pipeline.engine import MAIN

ASKED_TOKENS = 20
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


NOTHING_KNOWN = LabelDistribution(labels=dict.fromkeys(LABELS, 0.0), unknown=1.0)


class LogprobsAdapter(HttpAdapter):
    """Chat completions, and the same with the probabilities of the first tokens."""

    def __init__(self, settings: ModelSettings) -> None:
        if not settings.elsewhere:
            raise ValueError("log probabilities need a server of one's own: set a base URL")
        super().__init__(settings, CHAT)
        self.name = "logprobs"
        self._most_unknown = settings.most_unknown

    def describe(self) -> Mapping[str, object]:
        """How much may be unknown."""
        return {"most_unknown": self._most_unknown}

    async def send_for_probabilities(self, call: PreparedCall, attempt: int) -> Response:
        """One request at temperature 1: only some servers apply the temperature to the probabilities they report."""
        asked = {
            **self.format.write(call, self._settings),
            "temperature": 1.0,
            "logprobs": True,
            "top_logprobs": ASKED_TOKENS,
        }
        return await self.post(asked, attempt)

    def distribution(self, reply: Mapping[str, Any], expected: Expected, temperature: float) -> LabelDistribution:
        """The distribution in a reply; all of it is unknown where the reply is not what was asked for or has none."""
        draw = self.draw(reply, expected)
        positions = _positions(reply)
        found = NOTHING_KNOWN
        if draw.answer not in (Answer.MISSHAPEN, Answer.OTHER_MODEL, Answer.REFUSAL) and positions:
            first, tokens = positions
            found = _drop_contradicted_label(distribution(tokens, expected.words, temperature), first, draw, expected)
        return replace(found, most_unknown=self._most_unknown, usage=draw.usage)


class LogprobsSampler(ModelSampler):
    """A model whose server tells its probabilities; where they say too little it draws over chat completions."""

    adapter = LogprobsAdapter
    _adapter: LogprobsAdapter

    @property
    def notes(self) -> tuple[str, ...]:
        """What is special about it, for the settings page and the model card."""
        said = (
            "Labels are read off from the probabilities that the server tells, in one call an agent: exact for the "
            f"question as it was asked, with no error level. Above {self._settings.most_unknown:g} unknown, "
            "and for the second look, answers are drawn as always."
        )
        return (*super().notes, said)

    def distribution(self, request: DrawRequest) -> Awaitable[LabelDistribution] | None:
        """The label distribution at this node for this text in one call; None for the second look. SamplerError as
        for draws.
        """
        if request.variant != MAIN:
            return None
        return self._within_deadline(request, lambda: self._read_off(request))

    async def _read_off(self, request: DrawRequest) -> LabelDistribution:
        self._ledger.count_call()
        call = self._prepare(request, self._wire)
        reply = await self._attempts.reply(
            lambda attempt: self._adapter.send_for_probabilities(call, attempt), request.bill
        )
        temperature = 1.0 if self._wire.temperature is None else self._wire.temperature
        found = self._adapter.distribution(reply, self._expectation(call), temperature)
        self._ledger.count_answer(found.usage)
        return found


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


def _drop_contradicted_label(found: LabelDistribution, first: str, draw: Draw, expected: Expected) -> LabelDistribution:
    """Where the answer is not the label that its first token counts for, tokens that count for it are not known to
    lead to it.
    """
    label = counts_for(first, expected.words)
    if label is None or (draw.answer is Answer.LABEL and draw.label is label):
        return found
    labels = {**found.labels, label: 0.0}
    return LabelDistribution(labels=labels, unknown=min(1.0, found.unknown + found.labels[label]))
