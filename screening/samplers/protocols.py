"""Which sampler speaks a model's protocol: the one place that knows them all."""

from collections.abc import Callable, Mapping

from screening.engine.draws import Preflight, Protocol
from screening.engine.prompting import PromptSet
from screening.samplers.anthropic import AnthropicSampler
from screening.samplers.chat import ChatSampler
from screening.samplers.logprobs import LogprobsSampler
from screening.samplers.model_sampler import ModelSampler
from screening.samplers.model_settings import ModelSettings
from screening.samplers.rate import RateGate

_SPEAKS: Mapping[Protocol, Callable[..., ModelSampler]] = {
    "messages": AnthropicSampler,
    "chat": ChatSampler,
    "logprobs": LogprobsSampler,
}


def sampler_of(settings: ModelSettings, prompts: PromptSet, *, gate: RateGate | None = None) -> ModelSampler:
    """The sampler for these settings, over the protocol they name."""
    return _SPEAKS[settings.protocol](settings, prompts, gate=gate)


async def preflight(settings: ModelSettings, prompts: PromptSet) -> Preflight:
    """Ask once with a sampler made for it and closed again: for a process that does not screen itself."""
    async with sampler_of(settings, prompts) as sampler:
        return await sampler.preflight()
