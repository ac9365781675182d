"""Experiment: the label distribution of an own server in one call, from the first token's probabilities.

Servers with an OpenAI-style endpoint (vLLM, SGLang, llama.cpp, LiteLLM) can return the most probable first tokens.
A token counts for the one label it begins; what no label begins with, and what the server leaves out, counts as
unknown. Not the recommended way: an answer that begins like a label need not be one, a distribution is conditional
on one nonce, and no tokens after the first are seen.
"""

import math
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import aiohttp
from pydantic import BaseModel, ValidationError

from screening.engine.answers import bare_word
from screening.engine.draws import Answer, Draw, DrawRequest, SamplerError, Usage, unusable
from screening.engine.prompting import PromptSet
from screening.labels import LABELS, Label
from screening.samplers.model_request import prepare_call
from screening.samplers.model_settings import ModelSettings, dialect

_ASKED_TOKENS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelDistribution:
    """Probability of each label by its first token; ``unknown`` is the rest, so that all sum to 1."""

    labels: Mapping[Label, float]
    unknown: float
    usage: Usage

    def mode(self) -> Label | None:
        """The label that stays most probable wherever the unknown part belongs; None where none does."""
        ranked = sorted(LABELS, key=lambda label: self.labels[label], reverse=True)
        lead = self.labels[ranked[0]] - self.labels[ranked[1]]
        return ranked[0] if lead > self.unknown else None


class _Token(BaseModel):
    token: str
    logprob: float


class _Position(BaseModel):
    top_logprobs: list[_Token]


class _Logprobs(BaseModel):
    content: list[_Position]


class _Choice(BaseModel):
    logprobs: _Logprobs


class _Counted(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _Completion(BaseModel):
    choices: list[_Choice]
    usage: _Counted | None = None


def begins(token: str, words: Mapping[str, Label]) -> Label | None:
    """The one label whose word begins with this token; None for none, several, or nothing but punctuation.

    >>> words = {"safe": Label.SAFE, "unsafe": Label.UNSAFE, "escalate": Label.ESCALATE}
    >>> begins(" Un", words), begins("s", words), begins("the", words), begins(".", words)
    (<Label.UNSAFE: 'unsafe'>, <Label.SAFE: 'safe'>, None, None)
    """
    start = bare_word(token)
    fitting = {label for word, label in words.items() if start and word.startswith(start)}
    return fitting.pop() if len(fitting) == 1 else None


def distribution(
    tokens: Iterable[tuple[str, float]], words: Mapping[str, Label], temperature: float, usage: Usage
) -> LabelDistribution:
    """From the most probable first tokens with their natural log probabilities at temperature 1.

    At another temperature the shares of the returned tokens are rescaled among themselves; the part left out
    keeps its share, which overstates it below temperature 1: the error is on the side of ``unknown``.
    """
    listed = [(token, math.exp(min(logprob, 0.0))) for token, logprob in tokens]
    known = min(1.0, sum(share for _, share in listed))
    heated = [(token, share ** (1 / max(temperature, 0.01))) for token, share in listed]
    scale = known / (sum(share for _, share in heated) or 1.0)
    labels = dict.fromkeys(LABELS, 0.0)
    for token, share in heated:
        if (label := begins(token, words)) is not None:
            labels[label] += share * scale
    return LabelDistribution(labels=labels, unknown=max(0.0, 1.0 - sum(labels.values())), usage=usage)


class LogprobsSampler:
    """Draws made from the distribution that one call returns: the first draw of a wave carries its usage.

    ``rng`` draws from the distribution; an unknown share comes out as an unparsable answer. One attempt a
    call, no retries: a failure is a SamplerError and the case stays pending.
    """

    def __init__(self, settings: ModelSettings, prompts: PromptSet, rng: random.Random) -> None:
        if not settings.own_server or settings.base_url is None:
            raise ValueError("log probabilities need a server of one's own: set a base URL")
        self._settings, self._prompts, self._rng = settings, prompts, rng
        self._url = f"{settings.base_url.rstrip('/')}/v1/chat/completions"
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._session is not None:
            await self._session.close()

    def describe(self) -> dict[str, object]:
        """What identifies this configuration in a screening's record."""
        return {
            "sampler": "logprobs (experiment)",
            "model": self._settings.model,
            "temperature": dialect(self._settings).temperature,
            "prompts": self._prompts.version,
            "host": self._settings.host,
            "own_server": True,
        }

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        """``request.count`` independent draws from the distribution of one call. SamplerError if it fails."""
        found = await self.distribution(request)
        outcomes: list[Label | None] = [*LABELS, None]
        weights = [*(found.labels[label] for label in LABELS), found.unknown]
        chosen = self._rng.choices(outcomes, weights, k=request.count)
        usages = [found.usage] + [Usage()] * (request.count - 1)
        return [_as_draw(label, usage) for label, usage in zip(chosen, usages, strict=True)]

    async def distribution(self, request: DrawRequest) -> LabelDistribution:
        """The label distribution at this node for this text. SamplerError where the server gives none."""
        wire = dialect(self._settings)
        call = prepare_call(request, self._settings, wire, self._prompts, self._rng)
        system = "\n\n".join(str(block["text"]) for block in call.system)
        answer = await self._post(
            {
                "model": self._settings.model,
                "max_tokens": 1,
                "temperature": 1.0,
                "logprobs": True,
                "top_logprobs": _ASKED_TOKENS,
                "messages": [{"role": "system", "content": system}, {"role": "user", "content": call.user}],
            }
        )
        tokens = [(one.token, one.logprob) for one in answer.choices[0].logprobs.content[0].top_logprobs]
        counted = answer.usage or _Counted()
        usage = Usage(input_tokens=counted.prompt_tokens, output_tokens=counted.completion_tokens)
        return distribution(tokens, call.words, wire.temperature or 1.0, usage)

    async def _post(self, body: Mapping[str, object]) -> _Completion:
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=self._settings.call_timeout_s))
        headers = {"authorization": f"Bearer {self._settings.api_key or 'none'}"}
        try:
            async with self._session.post(self._url, json=body, headers=headers) as response:
                if response.status != 200:
                    raise SamplerError("service", f"The server refused log probabilities ({response.status}).")
                completion = _Completion.model_validate_json(await response.read())
        except (TimeoutError, aiohttp.ClientError) as error:
            raise SamplerError("connection", f"The server did not answer: {type(error).__name__}.") from None
        except ValidationError:
            raise SamplerError("malformed", "The server returned no log probabilities.") from None
        if not completion.choices or not completion.choices[0].logprobs.content:
            raise SamplerError("malformed", "The server returned no log probabilities.")
        return completion


def _as_draw(label: Label | None, usage: Usage) -> Draw:
    return unusable(Answer.UNPARSABLE, usage=usage) if label is None else Draw(label=label, usage=usage)
