"""Draws from a real model through the Messages API, at Anthropic or at a server of one's own."""

import asyncio
import logging
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Self

import anthropic
from anthropic import AsyncAnthropic, DefaultAioHttpClient
from anthropic.types import Message

from screening.engine.answers import read_answer
from screening.engine.draws import Draw, DrawRequest, SamplerError, Usage
from screening.engine.prompting import PromptSet
from screening.samplers.anthropic_attempts import AttemptFailed, Attempts, written_on
from screening.samplers.anthropic_request import PreparedCall, cache_notes, prepare_call
from screening.samplers.ledger import CallCounts, Ledger
from screening.samplers.model_settings import ANTHROPIC_URL, Dialect, ModelSettings, dialect
from screening.samplers.preflight import HARMLESS, Preflight, answered, refused
from screening.samplers.rate import Limiter, RateGate, at_most

FIRST_NODE = "worker"
_SPENT_RETRIES: Mapping[str, str] = {
    "rate_limited": "The service limits our rate, and waiting did not help.",
    "overloaded": "The service is overloaded, also after retries.",
    "server_error": "The service failed, also after retries.",
    "timeout": "The service did not answer in time, also after retries.",
    "connection": "The service cannot be reached.",
    "malformed": "The service's answer could not be read, also after retries.",
}


class AnthropicSampler:
    """The sampler for real models. Close it (``async with``); it belongs to one event loop.

    ``gate`` shares one process's limits between samplers; ``rng`` makes nonces and code words and is the
    operating system's unless a test needs to know them.
    """

    def __init__(
        self,
        settings: ModelSettings,
        prompts: PromptSet,
        *,
        gate: RateGate | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._settings = settings
        self._prompts = prompts
        self._wire = dialect(settings)
        self._rng = rng or random.SystemRandom()
        self._ledger = Ledger()
        self._gate = gate or default_gate(settings)
        attempts = Attempts(gate=self._gate, ledger=self._ledger, timeout_s=settings.call_timeout_s)
        self._client = _client(settings, self._wire.api_version, attempts)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; the sampler cannot be used afterwards."""
        await self._client.close()

    @property
    def counts(self) -> CallCounts:
        """Calls, attempts, retries, failures and tokens since the start, failed waves included."""
        return self._ledger.counts()

    def describe(self) -> dict[str, object]:
        """What identifies this configuration in a screening's record: no key, no address beyond the host."""
        neutral = self._wire.neutral
        return {
            "sampler": "anthropic",
            "model": self._settings.model,
            "temperature": self._wire.temperature,
            "api_version": str(self._client.default_headers["anthropic-version"]),
            "max_output_tokens": self._settings.max_output_tokens,
            "thinking": "disabled",
            "prompts": self._prompts.version,
            "host": self._settings.host,
            "own_server": self._settings.own_server,
            "top_p": neutral and neutral.top_p,
            "top_k": neutral and neutral.top_k,
            "min_p": neutral and neutral.min_p,
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the settings page: what these settings mean on the wire."""
        return self._wire.notes + cache_notes(self._settings, self._prompts)

    async def preflight(self) -> Preflight:
        """One call with a harmless text; a second, without temperature, where the first was refused."""
        begun = time.monotonic()
        model, temperature = self._settings.model, self._wire.temperature
        try:
            draw = await self._harmless(self._wire)
        except SamplerError as error:
            seconds = time.monotonic() - begun
            cured = error.kind == "bad_request" and temperature is not None and await self._works_without_temperature()
            return refused(error, model=model, works_without_temperature=cured, seconds=seconds)
        return answered(draw, model=model, temperature=temperature, seconds=time.monotonic() - begun)

    async def _harmless(self, wire: Dialect) -> Draw:
        node = FIRST_NODE if FIRST_NODE in self._prompts.nodes else self._prompts.nodes[0]
        request = DrawRequest(node=node, text=HARMLESS, first=0, count=1, urgent=True)
        (draw,) = await self._settled(request, wire)
        return draw

    async def _works_without_temperature(self) -> bool:
        try:
            await self._harmless(replace(self._wire, temperature=None))
        except SamplerError:
            return False
        return True

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        """``request.count`` concurrent calls, their draws in request order.

        SamplerError when a call fails for good or the node's deadline passes; then there are no draws,
        and what was paid for is on the request's bill and in `counts`.
        """
        return await self._settled(request, self._wire)

    async def _settled(self, request: DrawRequest, wire: Dialect) -> list[Draw]:
        calls = [prepare_call(request, self._settings, wire, self._prompts, self._rng) for _ in range(request.count)]
        deadline_s = self._settings.node_deadline_s
        try:
            async with self._gate.wave(urgent=request.urgent, deadline_s=deadline_s):
                with written_on(request.bill):
                    return await self._wave(calls)
        except TimeoutError:
            raise SamplerError("deadline", f"The node's draws did not arrive within {deadline_s:g} seconds.") from None

    async def _wave(self, calls: Sequence[PreparedCall]) -> list[Draw]:
        tasks = [asyncio.create_task(self._call(call)) for call in calls]
        try:
            draws = await _all_settled(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return draws

    async def _call(self, call: PreparedCall) -> Draw:
        self._ledger.called()
        draw = _as_draw(await self._message(call), call)
        self._ledger.answered(draw.usage)
        return draw

    async def _message(self, call: PreparedCall) -> Message:
        system: Any = call.system
        try:
            return await self._client.messages.create(
                model=self._settings.model,
                max_tokens=self._settings.max_output_tokens,
                system=system,
                messages=[{"role": "user", "content": call.user}],
                thinking={"type": "disabled"},
                extra_body=call.extra_body,
            )
        except AttemptFailed as failure:
            raise SamplerError(failure.kind, _SPENT_RETRIES[failure.kind]) from None
        except anthropic.AnthropicError as error:
            # The library's message may quote the response, and so the text: only the type is told.
            raise SamplerError("service", f"The call failed: {type(error).__name__}.") from None


async def preflight(settings: ModelSettings, prompts: PromptSet) -> Preflight:
    """Ask once with a sampler made for it and closed again: for a process that does not screen itself."""
    async with AnthropicSampler(settings, prompts) as sampler:
        return await sampler.preflight()


def default_gate(settings: ModelSettings, limiter: Limiter | None = None) -> RateGate:
    """A gate for one process; ``limiter``, where given, is shared with others and replaces the own bucket."""
    limit = settings.requests_per_minute
    return RateGate(
        concurrency=settings.concurrency,
        limiter=limiter or (None if limit is None else at_most(limit)),
        pause_cap_s=settings.pause_cap_s,
    )


def _client(settings: ModelSettings, api_version: str | None, attempts: Attempts) -> AsyncAnthropic:
    log = logging.getLogger("anthropic")
    if log.getEffectiveLevel() < logging.INFO:
        log.setLevel(logging.INFO)  # its debug log prints whole requests, and so the text
    return AsyncAnthropic(
        api_key=settings.api_key or "none",
        base_url=settings.base_url or ANTHROPIC_URL,
        max_retries=settings.max_retries,
        timeout=settings.call_timeout_s,
        default_headers={} if api_version is None else {"anthropic-version": api_version},
        http_client=DefaultAioHttpClient(follow_redirects=False),
        middleware=[attempts],
        open_telemetry=False,
    )


async def _all_settled(tasks: Sequence[asyncio.Task[Draw]]) -> list[Draw]:
    """All draws in the order of the tasks, or the first error in that order.

    After an ordinary error the other calls are let finish: they are under way and will be charged. An
    error that stops the batch ends the wave at once.
    """
    pending: set[asyncio.Task[Draw]] = set(tasks)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
        errors = [task.exception() for task in done if not task.cancelled()]
        for error in errors:
            if error is not None and not (isinstance(error, SamplerError) and not error.stops_batch):
                raise error
    return [task.result() for task in tasks]


def _as_draw(message: Message, call: PreparedCall) -> Draw:
    content: Sequence[Any] = message.content or []
    texts = [block.text for block in content if getattr(block, "type", None) == "text"]
    answer = "".join(text for text in texts if isinstance(text, str))
    return read_answer(answer, message.stop_reason, usage_of(message), call.words)


def usage_of(message: Message) -> Usage:
    """The tokens of one answer; what the service left out counts as 0, and input is the total with cache."""
    usage = getattr(message, "usage", None)
    fresh, written, read, output = (
        _count(getattr(usage, name, None))
        for name in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")
    )
    return Usage(
        input_tokens=fresh + written + read,
        output_tokens=output,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
