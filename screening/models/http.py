"""Draws from a real model, whatever protocol its server speaks: the whole port around one adapter.

Billing, limits, retries and urgency are here, once. An adapter knows how one request is sent and how its reply reads.

Which sampler speaks a model's protocol: the one place that knows them all.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

from screening.models.canaries import HARMLESS, preflight_of_answer, preflight_of_error
from screening.models.limits import AdaptiveLimit, Limiter, RateGate, at_most
from screening.models.retries import AttemptFailed, Attempts, CallCounts, Ledger, Response
from screening.models.settings import Dialect, ModelSettings, dialect
from screening.models.wire import (
    FORMATS,
    Expected,
    PreparedCall,
    SeenIds,
    WireFormat,
    cache_notes,
    prepare_call,
    read_bounded,
)
from screening.pipeline.cost import cost_usd
from screening.pipeline.draws import Draw, DrawRequest, Preflight, SamplerError, Usage
from screening.pipeline.files import PromptSet

if TYPE_CHECKING:
    import aiohttp

FIRST_NODE = "worker"
CHUNK_BYTES = 16_384
T = TypeVar("T")


class Adapter(Protocol):
    """One protocol, as far as servers differ in it."""

    name: str

    def __init__(self, settings: ModelSettings) -> None: ...

    async def send(self, call: PreparedCall, attempt: int) -> Response:
        """One request and its reply. AttemptFailed for what did not arrive, UnreadableBody for a body out of bounds."""
        ...

    def draw(self, reply: Mapping[str, Any], expected: Expected) -> Draw:
        """The draw that a reply makes."""
        ...

    def describe(self) -> Mapping[str, object]:
        """What it adds to a configuration's record."""
        ...

    async def aclose(self) -> None:
        """Close its connections."""
        ...


class ModelSampler:
    """The sampler of one model, with the ``adapter`` that its subclass names. Close it (``async with``); it belongs to
    one event loop.

    ``gate`` shares one process's limits between samplers; ``rng`` makes nonces and code words and is the
    operating system's unless a test needs to know them.
    """

    adapter: ClassVar[type[Adapter]]

    def __init__(
        self,
        settings: ModelSettings,
        prompts: PromptSet,
        *,
        gate: RateGate | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self._adapter = type(self).adapter(settings)
        self._settings = settings
        self._prompts = prompts
        self._wire = dialect(settings)
        self._rng = rng or random.SystemRandom()
        self._ledger = Ledger()
        self._gate = gate or default_gate(settings)
        self._seen = SeenIds(unique=not settings.elsewhere)
        self._attempts = Attempts(
            gate=self._gate,
            ledger=self._ledger,
            timeout_s=settings.call_timeout_s,
            retries=settings.max_retries,
            adaptive=AdaptiveLimit(settings.concurrency, settings.node_deadline_s) if settings.adaptive else None,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; the sampler cannot be used afterwards."""
        await self._adapter.aclose()

    @property
    def counts(self) -> CallCounts:
        """Calls, attempts, retries, failures and tokens since the start, failed waves included."""
        return self._ledger.counts()

    def describe(self) -> dict[str, object]:
        """What identifies this configuration in a screening's record: no key, no address beyond the host and a
        mark of its path.

        Sampling values are what is sent; whether a server obeys all of them cannot be seen from here.
        """
        neutral = self._wire.neutral
        return {
            "sampler": self._adapter.name,
            "model": self._settings.model,
            "temperature": self._wire.temperature,
            **self._adapter.describe(),
            "max_output_tokens": self._settings.max_output_tokens,
            "thinking": "disabled",
            **({"answers_as": sorted(self._settings.answering_models)} if self._settings.accepted_names else {}),
            "prompts": self._prompts.version,
            "host": self._settings.host,
            **({"path": mark} if (mark := self._settings.path_mark) else {}),
            "own_server": self._settings.elsewhere,
            "top_p": neutral and neutral.top_p,
            "top_k": neutral and neutral.top_k,
            "min_p": neutral and neutral.min_p,
        }

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for the settings page: what these settings mean on the wire."""
        return self._wire.notes + cache_notes(self._settings, self._prompts)

    def price(self, usage: Usage) -> Decimal | None:
        """US dollars at list price; None where there is none, as for every service but Anthropic's."""
        return None if self._settings.elsewhere else cost_usd(self._settings.model, usage)

    async def preflight(self) -> Preflight:
        """One call with a harmless text; a second, without temperature, where the first was refused."""
        begun = time.monotonic()
        model, temperature = self._settings.model, self._wire.temperature
        try:
            draw = await self._harmless(self._wire)
        except SamplerError as error:
            seconds = time.monotonic() - begun
            cured = error.kind == "bad_request" and temperature is not None and await self._works_without_temperature()
            return preflight_of_error(error, model=model, works_without_temperature=cured, seconds=seconds)
        return preflight_of_answer(draw, model=model, seconds=time.monotonic() - begun)

    async def _harmless(self, wire: Dialect) -> Draw:
        node = FIRST_NODE if FIRST_NODE in self._prompts.nodes else self._prompts.nodes[0]
        request = DrawRequest(node=node, text=HARMLESS, first=0, count=1, urgent=True)
        (draw,) = await self._draw_wave(request, wire)
        return draw

    async def _works_without_temperature(self) -> bool:
        try:
            await self._harmless(replace(self._wire, temperature=None))
        except SamplerError:
            return False
        return True

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        """``request.count`` concurrent calls, their draws in request order. A server that bills nothing is spared what
        no longer matters: once the first answers are enough the others are broken off.

        SamplerError when a call fails for good or the node's deadline passes; then there are no draws,
        and what was paid for is on the request's bill and in `counts`.
        """
        return await self._draw_wave(request, self._wire)

    async def _draw_wave(self, request: DrawRequest, wire: Dialect) -> list[Draw]:
        calls = [self._prepare(request, wire) for _ in range(request.count)]
        return await self._within_deadline(request, lambda: self._wave(calls, request))

    def _prepare(self, request: DrawRequest, wire: Dialect) -> PreparedCall:
        return prepare_call(request, self._settings, wire, self._prompts, self._rng)

    def _expectation(self, call: PreparedCall) -> Expected:
        return Expected(
            models=self._settings.answering_models, words=call.words, seen=self._seen, least_tokens=call.least_tokens
        )

    async def _within_deadline(self, request: DrawRequest, work: Callable[[], Awaitable[T]]) -> T:
        """Work as one wave: its calls share rank and deadline."""
        deadline_s = self._settings.node_deadline_s
        try:
            async with self._gate.wave(urgent=request.urgent, deadline_s=deadline_s):
                return await work()
        except TimeoutError:
            raise SamplerError("deadline", f"The node's draws did not arrive within {deadline_s:g} seconds.") from None

    async def _wave(self, calls: Sequence[PreparedCall], request: DrawRequest) -> list[Draw]:
        begun: set[int] = set()
        tasks = [asyncio.create_task(self._call(call, request, place, begun)) for place, call in enumerate(calls)]
        try:
            enough = breaks_off(self._settings, request)
            draws = await (_until_enough(tasks, begun, enough) if enough else _settle_all(tasks, begun))
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return draws

    async def _call(self, call: PreparedCall, request: DrawRequest, place: int, begun: set[int]) -> Draw:
        def send(attempt: int) -> Awaitable[Response]:
            begun.add(place)
            return self._adapter.send(call, attempt)

        self._ledger.count_call()
        reply = await self._attempts.reply(send, request.bill)
        draw = self._adapter.draw(reply, self._expectation(call))
        self._ledger.count_answer(draw.usage)
        if request.bill is not None:
            request.bill.record_answer(place, draw)
        return draw


class HttpAdapter:
    """One POST in a `WireFormat`. Plain HTTP instead of a vendor's library: that one adds retries and headers of its
    own, and what is needed of it here is one request whose body must be read within bounds.

    ValueError without a server, since no format has an address of its own, or for an unknown format.
    """

    def __init__(self, settings: ModelSettings, wire_format: WireFormat | None = None) -> None:
        if settings.base_url is None:
            raise ValueError(f"{settings.protocol} needs a base URL")
        found = wire_format or FORMATS.get(settings.protocol)
        if found is None:
            raise ValueError(f"no wire format is called {settings.protocol}")
        self.name: str = settings.protocol
        self.format = found
        self._settings = settings
        self._url = f"{settings.base_url.rstrip('/').removesuffix('/v1')}{found.path}"
        self._session: aiohttp.ClientSession | None = None

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def describe(self) -> Mapping[str, object]:
        """Nothing beyond its name."""
        return {}

    async def send(self, call: PreparedCall, attempt: int) -> Response:
        """One request and its reply, as `Adapter` says."""
        return await self.post(self.format.write(call, self._settings), attempt)

    async def post(self, asked: Mapping[str, object], attempt: int) -> Response:
        """The body as one request, and what arrived, within bounds."""
        import aiohttp  # only processes that ask such a server wait for it

        if self._session is None:
            self._session = aiohttp.ClientSession(auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None))
        headers = {
            "authorization": f"Bearer {self._settings.api_key or 'none'}",
            "accept-encoding": "identity",
            "x-stainless-retry-count": str(attempt),
        }
        try:
            async with self._session.post(self._url, json=asked, headers=headers, allow_redirects=False) as response:
                body = await read_bounded(
                    response.content.iter_chunked(CHUNK_BYTES), response.headers.get("content-encoding")
                )
                named = {name.lower(): value for name, value in response.headers.items()}
                return Response(status=response.status, headers=named, body=body)
        except aiohttp.ClientError:
            raise AttemptFailed("connection") from None

    def draw(self, reply: Mapping[str, Any], expected: Expected) -> Draw:
        """The draw that a reply makes."""
        return self.format.read(reply, expected)


class HttpSampler(ModelSampler):
    """A model behind a server that speaks one of `FORMATS`."""

    adapter = HttpAdapter


def default_gate(settings: ModelSettings, limiter: Limiter | None = None) -> RateGate:
    """A gate for one process; ``limiter``, where given, is shared with others and replaces its own bucket."""
    limit = settings.requests_per_minute
    return RateGate(
        concurrency=settings.concurrency,
        limiter=limiter or (None if limit is None else at_most(limit)),
        pause_cap_s=settings.pause_cap_s,
    )


def breaks_off(settings: ModelSettings, request: DrawRequest) -> Callable[[Sequence[Draw]], bool] | None:
    """The test that ends a wave early; None for a service, which bills calls even if nobody waits for them."""
    return request.enough if settings.breaks_off and settings.elsewhere else None


async def _until_enough(
    tasks: Sequence[asyncio.Task[Draw]], begun: Collection[int], enough: Callable[[Sequence[Draw]], bool]
) -> list[Draw]:
    """As `_settle_all`, but no longer than until the first draws, in the order of the tasks, are enough."""
    whole = asyncio.ensure_future(_settle_all(tasks, begun))
    first: list[Draw] = []
    try:
        for task in tasks:
            if not task.done():
                await asyncio.wait([whole, task], return_when=asyncio.FIRST_COMPLETED)
            if not task.done() or task.cancelled() or task.exception() is not None:
                return await whole  # it failed: the wave ends as any other does
            first.append(task.result())
            if enough(first):
                return first
        return first
    finally:
        whole.cancel()
        await asyncio.gather(whole, return_exceptions=True)


async def _settle_all(tasks: Sequence[asyncio.Task[Draw]], begun: Collection[int]) -> list[Draw]:
    """All draws in the order of the tasks, or the first error in that order.

    After an ordinary error the calls of the places in ``begun`` are let finish: they are under way and will be charged.
    Those that still wait to be sent are not: a server that answers nobody would be asked for each in turn. An error
    that stops the batch ends the wave at once.
    """
    pending: set[asyncio.Task[Draw]] = set(tasks)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
        errors = [task.exception() for task in done if not task.cancelled()]
        for error in errors:
            if error is not None and not (isinstance(error, SamplerError) and not error.stops_batch):
                raise error
        if any(errors):
            _cancel(task for place, task in enumerate(tasks) if place not in begun)
    failed = [error for task in tasks if not task.cancelled() and (error := task.exception())]
    if failed:
        raise failed[0]
    return [task.result() for task in tasks]


def _cancel(tasks: Iterable[asyncio.Task[Draw]]) -> None:
    for task in tasks:
        task.cancel()


def sampler_of(settings: ModelSettings, prompts: PromptSet, *, gate: RateGate | None = None) -> ModelSampler:
    """The sampler for these settings, over the protocol they name; imports its library only when one is made."""
    if settings.protocol == "messages":
        from screening.models.anthropic import AnthropicSampler

        return AnthropicSampler(settings, prompts, gate=gate)
    if settings.protocol == "logprobs":
        from screening.models.logprobs import LogprobsSampler

        return LogprobsSampler(settings, prompts, gate=gate)
    return HttpSampler(settings, prompts, gate=gate)


async def preflight(settings: ModelSettings, prompts: PromptSet) -> Preflight:
    """Ask once, with a sampler that is opened and closed for this call: for processes that do not screen."""
    async with sampler_of(settings, prompts) as sampler:
        return await sampler.preflight()
