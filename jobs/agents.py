"""Which agents answer for a configuration: the sampler it was screened with, or a refusal to mix two."""

from collections.abc import Mapping
from typing import Any

from screening.engine.cost import cost_usd
from screening.engine.draws import Sampler, SamplerError, Usage
from screening.engine.prompting import load_prompts
from screening.samplers.anthropic import AnthropicSampler
from screening.samplers.model_settings import ModelSettings
from screening.samplers.preflight import Preflight
from screening.samplers.rate import RateGate
from screening.samplers.simulated import SimulatedSampler
from screening.settings import Settings
from storage.batches.configurations import Configuration


def model_settings(settings: Settings) -> ModelSettings:
    """What a real model is asked with, from the site's settings."""
    key = settings.anthropic_api_key
    return ModelSettings(
        model=settings.model,
        temperature=settings.temperature,
        base_url=settings.anthropic_base_url,
        api_key=key.get_secret_value() if key else None,
        requests_per_minute=settings.requests_per_minute,
        concurrency=settings.concurrency,
        call_timeout_s=settings.call_timeout_s,
        node_deadline_s=settings.node_deadline_s,
    )


class Agents:
    """The samplers of one process; close it. A `gate` shares one rate limit with other processes."""

    def __init__(self, settings: Settings, gate: RateGate | None = None) -> None:
        self._settings = settings
        self._gate = gate
        self._anthropic: AnthropicSampler | None = None
        self._simulated: dict[int, SimulatedSampler] = {}

    def describe(self, seed: int) -> Mapping[str, Any]:
        """What identifies the agents of the present settings in a configuration."""
        return self._simulation(seed).describe() if self._settings.simulated else self._model().describe()

    def sampler(self, configuration: Configuration, seed: int) -> Sampler:
        """The sampler of this configuration. SamplerError where the present settings would ask other agents:
        a batch is never screened half by one model and half by another.
        """
        simulated = configuration.sampler.get("sampler") == "simulated"
        sampler = self._simulation(seed) if simulated else self._model()
        if dict(sampler.describe()) != dict(configuration.sampler):
            raise SamplerError(
                "configuration_changed",
                "This batch began with other agents than the present settings name: restore them or start it anew.",
                stops_batch=True,
            )
        return sampler

    def cost_usd(self, configuration: Configuration, usage: Usage) -> float | None:
        """Dollars at list price; 0 for simulated agents, None where the price is not known."""
        if configuration.sampler.get("sampler") == "simulated":
            return 0.0
        cost = None if configuration.sampler.get("own_server") else cost_usd(str(configuration.sampler["model"]), usage)
        return None if cost is None else float(cost)

    async def preflight(self) -> Preflight | None:
        """Ask the real model once, with a harmless text; None where agents are simulated."""
        return None if self._settings.simulated else await self._model().preflight()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._anthropic is not None:
            await self._anthropic.aclose()

    def _simulation(self, seed: int) -> SimulatedSampler:
        if seed not in self._simulated:
            self._simulated[seed] = SimulatedSampler(seed, latency_s=self._settings.simulated_latency_s)
        return self._simulated[seed]

    def _model(self) -> AnthropicSampler:
        if self._anthropic is None:
            prompts = load_prompts(self._settings.prompts_directory)
            self._anthropic = AnthropicSampler(model_settings(self._settings), prompts, gate=self._gate)
        return self._anthropic
