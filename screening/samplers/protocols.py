"""Which sampler speaks a model's protocol: the one place that knows them all."""

from typing import assert_never

from screening.engine.draws import Preflight
from screening.engine.prompting import PromptSet
from screening.samplers.model_sampler import ModelSampler
from screening.samplers.model_settings import ModelSettings
from screening.samplers.rate import RateGate


def sampler_of(settings: ModelSettings, prompts: PromptSet, *, gate: RateGate | None = None) -> ModelSampler:
    """The sampler for these settings, over the protocol they name; imports its library only when one is made."""
    match settings.protocol:
        case "messages":
            from screening.samplers.anthropic import AnthropicSampler

            return AnthropicSampler(settings, prompts, gate=gate)
        case "chat":
            from screening.samplers.chat import ChatSampler

            return ChatSampler(settings, prompts, gate=gate)
        case "logprobs":
            from screening.samplers.logprobs import LogprobsSampler

            return LogprobsSampler(settings, prompts, gate=gate)
    assert_never(settings.protocol)


async def preflight(settings: ModelSettings, prompts: PromptSet) -> Preflight:
    """Ask once, with a sampler that is opened and closed for this call: for processes that do not screen."""
    async with sampler_of(settings, prompts) as sampler:
        return await sampler.preflight()
