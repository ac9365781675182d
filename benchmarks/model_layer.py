"""Calls a second and CPU a call: our sampler against a bare loop over the same library, in the same run.

Run ``python -m benchmarks.model_layer``. The stub runs in a process of its own; both sides use the aiohttp
transport, the same request and the same concurrency. Only the ratio is meant to be compared between machines.
"""

import argparse
import asyncio
import statistics
import time
from dataclasses import dataclass

from anthropic import AsyncAnthropic, DefaultAioHttpClient

from benchmarks.figures import Figure, tell
from benchmarks.processes import ask_bare, stub_server
from screening.engine.draws import DrawRequest, ScreenedText
from screening.engine.prompting import load_prompts
from screening.samplers.anthropic import AnthropicSampler
from screening.samplers.model_settings import ModelSettings

TEXT = ScreenedText(text="We walked along the river and talked about nothing in particular. " * 3)
WAVE = 11
AIM = 0.85
"""Of what the bare library does."""
NAMES = ("calls_per_second", "cpu_us")


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    """Calls a second of wall time, and microseconds of this process's CPU a call."""

    calls_per_second: float
    cpu_us: float


def speed(calls: int, began: tuple[float, float]) -> Speed:
    """From the clocks at the start."""
    wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    return Speed(calls_per_second=calls / wall, cpu_us=cpu / calls * 1e6)


def clocks() -> tuple[float, float]:
    """Wall and CPU seconds."""
    return time.perf_counter(), time.process_time()


async def bare(url: str, waves: int, concurrency: int) -> Speed:
    """The library alone, the same prompt and text, a semaphore for the concurrency."""
    prompt, slots = load_prompts().system("worker"), asyncio.Semaphore(concurrency)
    client = AsyncAnthropic(api_key="k", base_url=url, http_client=DefaultAioHttpClient(), max_retries=4)

    async def call() -> None:
        async with slots:
            await ask_bare(client, "claude-sonnet-4-6", prompt, TEXT.text, 0.7)

    async with client:
        await call()
        began = clocks()
        await asyncio.gather(*(call() for _ in range(waves * WAVE)))
        return speed(waves * WAVE, began)


async def ours(url: str, waves: int, concurrency: int) -> Speed:
    """The sampler with everything it does: gate, deadline, nonce, strict reading, counting."""
    settings = ModelSettings(base_url=url, api_key="k", requests_per_minute=None, concurrency=concurrency)
    async with AnthropicSampler(settings, load_prompts()) as sampler:
        await sampler.draw(DrawRequest(node="worker", text=TEXT, first=0, count=1))
        request = DrawRequest(node="worker", text=TEXT, first=0, count=WAVE)
        began = clocks()
        await asyncio.gather(*(sampler.draw(request) for _ in range(waves)))
        return speed(waves * WAVE, began)


def measure(url: str, *, waves: int, concurrency: int, rounds: int) -> tuple[list[Speed], list[Speed]]:
    """Both sides in turn, ``rounds`` times, so that a busy machine slows both."""
    pairs = [
        (asyncio.run(bare(url, waves, concurrency)), asyncio.run(ours(url, waves, concurrency))) for _ in range(rounds)
    ]
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs]


def main() -> None:
    """Print the medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waves", type=int, default=150)
    parser.add_argument("--concurrency", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--latency", type=float, default=0.01, help="seconds the stub takes")
    arguments = parser.parse_args()
    with stub_server(arguments.latency) as url:
        sides = measure(url, waves=arguments.waves, concurrency=arguments.concurrency, rounds=arguments.rounds)
    report(*sides)


def report(bare_runs: list[Speed], our_runs: list[Speed]) -> None:
    """Medians of the rounds; the ratio is of each round's pair."""
    pairs = list(zip(bare_runs, our_runs, strict=True))
    rates = statistics.median(our.calls_per_second / alone.calls_per_second for alone, our in pairs)
    cpu = statistics.median(alone.cpu_us / our.cpu_us for alone, our in pairs)
    rate, spent = (f"{_middle(name, our_runs)} against {_middle(name, bare_runs)}" for name in NAMES)
    tell(Figure(name="calls a second, of the bare loop's", value=rates, aim=AIM, at_least=True, note=rate))
    tell(Figure(name="processor time a call, the bare loop's of ours", value=cpu, aim=AIM, at_least=True, note=spent))


def _middle(name: str, runs: list[Speed]) -> str:
    unit = "calls/s" if name == NAMES[0] else "µs"
    return f"{statistics.median(getattr(run, name) for run in runs):,.0f} {unit}"


if __name__ == "__main__":
    main()
