"""One model behind HTTP, whatever protocol its server speaks: a wire format says how a request and a reply read.

Bill, limits, retries and urgency stand around every call; the vendor's library or plain HTTP sends it.
"""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from screening.models.retries import AdaptiveLimit, Attempts, Limiter, RateGate, Response, at_most
from screening.models.settings import ANTHROPIC_URL, NEUTRAL, ModelSettings, is_local
from screening.models.wire import (
    ASKED_FOR_LOGPROBS,
    FORMATS,
    AttemptFailed,
    Expected,
    PreparedCall,
    SeenIds,
    prepare_call,
    read_bounded,
    told_distribution,
)
from screening.pipeline.draws import Answer, Draw, DrawRequest, LabelDistribution, Preflight, SamplerError, ScreenedText
from screening.pipeline.engine import MAIN
from screening.pipeline.files import PromptSet

if TYPE_CHECKING:
    import aiohttp

    from screening.models.anthropic import Messages

FIRST_NODE = "worker"
HARMLESS = ScreenedText(text="The museum opens at ten on weekdays and has a small cafe.")
CHUNK_BYTES = 16_384
T = TypeVar("T")


class HttpModel:
    """Draws from one model. Close it (``async with``); it belongs to one event loop.

    ``gate`` shares one process's limits between models; ``rng`` makes nonces and code words and is the operating
    system's unless a test needs to know them. ValueError as `describe`.
    """

    def __init__(
        self,
        settings: ModelSettings,
        prompts: PromptSet,
        *,
        gate: RateGate | None = None,
        rng: random.Random | None = None,
    ) -> None:
        self.described = describe(settings, prompts)
        self._format = FORMATS[settings.protocol]
        base = (settings.base_url or ANTHROPIC_URL).rstrip("/").removesuffix("/v1")
        self._server = _server(settings, f"{base}{self._format.path}")
        self._settings = settings
        self._prompts = prompts
        self._rng = rng or random.SystemRandom()
        self._gate = gate or default_gate(settings)
        self._seen = SeenIds(unique=not settings.elsewhere)
        self._attempts = Attempts(
            gate=self._gate,
            timeout_s=settings.call_timeout_s,
            retries=settings.max_retries,
            adaptive=AdaptiveLimit(settings.concurrency, settings.node_deadline_s) if settings.adaptive else None,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections; the model cannot be asked afterwards."""
        await self._server.aclose()

    async def preflight(self) -> Preflight:
        """One call with a harmless text: well only if a label comes. Where the request is refused the one cause that a
        site can remove by a setting is named.
        """
        model, begun = self._settings.model, time.monotonic()
        try:
            node = FIRST_NODE if FIRST_NODE in self._prompts.nodes else self._prompts.nodes[0]
            (draw,) = await self.draw(DrawRequest(node=node, text=HARMLESS, first=0, count=1, urgent=True))
        except SamplerError as error:
            seconds, message = time.monotonic() - begun, str(error)
            if error.kind == "bad_request" and "temperature" in self._settings.sampling:
                message += f" If {model} accepts no temperature, leave the temperature setting empty."
            return Preflight(ok=False, message=message, model=model, kind=error.kind, seconds=seconds)
        seconds = time.monotonic() - begun
        if draw.answer is Answer.LABEL:
            message = f"{model} answered with the label {draw.label} in {seconds:.1f} s."
        elif draw.answer is Answer.MISSHAPEN and draw.raw:
            message = f"{model} answered, but the answer does not count: {draw.raw}."
        else:
            message = f"{model} answered, but not with a label ({draw.answer}): it may be thinking first, or too small."
        return Preflight(ok=draw.answer is Answer.LABEL, message=message, model=model, kind=None, seconds=seconds)

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        """``request.count`` concurrent calls, their draws in request order. A server that bills nothing is spared what
        no longer matters: once the first answers are enough the others are broken off.

        SamplerError when a call fails for good or the node's deadline passes; then there are no draws, and what was
        paid for is on the request's bill.
        """
        calls = [self._prepare(request) for _ in range(request.count)]
        return await self._within_deadline(request, lambda: self._ask_all(calls, request))

    def distribution(self, request: DrawRequest) -> Awaitable[LabelDistribution] | None:
        """The label distribution at this node for this text in one call, where the protocol tells it; None, and nothing
        asked, elsewhere and for the second look, whose code words have several tokens. SamplerError as for draws.
        """
        if self._settings.protocol != "logprobs" or request.variant != MAIN:
            return None
        return self._within_deadline(request, lambda: self._read_off(request))

    async def _read_off(self, request: DrawRequest) -> LabelDistribution:
        call = self._prepare(request)
        asked = self._format.write(call, self._settings) | ASKED_FOR_LOGPROBS
        reply = await self._attempts.reply(lambda attempt: self._server.post(asked, attempt), request.bill)
        draw = self._format.read(reply, self._expectation(call))
        found = told_distribution(reply, draw, call.words, self._settings.sampling.get("temperature", 1.0))
        return replace(found, most_unknown=self._settings.most_unknown, usage=draw.usage)

    def _prepare(self, request: DrawRequest) -> PreparedCall:
        return prepare_call(request, self._settings, self._prompts, self._rng)

    def _expectation(self, call: PreparedCall) -> Expected:
        return Expected(
            models=self._settings.answering_models, words=call.words, seen=self._seen, least_tokens=call.least_tokens
        )

    async def _within_deadline(self, request: DrawRequest, work: Callable[[], Awaitable[T]]) -> T:
        """Work as one draw batch: its calls share rank and deadline."""
        deadline_s = self._settings.node_deadline_s
        try:
            async with self._gate.draw_batch(urgent=request.urgent, deadline_s=deadline_s):
                return await work()
        except TimeoutError:
            raise SamplerError("deadline", f"The node's draws did not arrive within {deadline_s:g} seconds.") from None

    async def _ask_all(self, calls: Sequence[PreparedCall], request: DrawRequest) -> list[Draw]:
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
        asked = self._format.write(call, self._settings)

        def send(attempt: int) -> Awaitable[Response]:
            begun.add(place)
            return self._server.post(asked, attempt)

        reply = await self._attempts.reply(send, request.bill)
        draw = self._format.read(reply, self._expectation(call))
        if request.bill is not None:
            request.bill.record_answer(place, draw)
        return draw


def describe(settings: ModelSettings, prompts: PromptSet) -> Mapping[str, object]:
    """What identifies a model in a screening's record: no key, no address beyond the host and a mark of its path.
    ValueError for an unknown protocol, and without a base URL where the protocol has no address of its own.

    Sampling values are what is sent; whether a server obeys all of them cannot be seen from here.
    """
    if settings.protocol not in FORMATS:
        raise ValueError(f"no wire format is called {settings.protocol}")
    messages, sampling = _is_messages(settings), settings.sampling
    named = settings.elsewhere if settings.protocol == "logprobs" else settings.base_url is not None
    if not (named or messages):
        raise ValueError(f"{settings.protocol} needs a server of one's own: set a base URL")
    return {
        "sampler": "anthropic" if messages else settings.protocol,
        "model": settings.model,
        "temperature": sampling.get("temperature"),
        **({"api_version": settings.version_header} if messages else {}),
        **({"most_unknown": settings.most_unknown} if settings.protocol == "logprobs" else {}),
        "max_output_tokens": settings.max_output_tokens,
        "thinking": "disabled",
        **({"answers_as": sorted(settings.answering_models)} if settings.accepted_names else {}),
        "prompts": prompts.version,
        "host": settings.host,
        **({"path": mark} if (mark := settings.path_mark) else {}),
        "own_server": settings.elsewhere,
        **{name: sampling.get(name) for name in NEUTRAL},
    }


class PlainServer:
    """Sends requests over plain HTTP. The key goes to this address alone: no redirect is followed, no cookie kept."""

    def __init__(self, settings: ModelSettings, url: str) -> None:
        self._key, self._url = settings.api_key or "none", url
        self._session: aiohttp.ClientSession | None = None

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def post(self, asked: Mapping[str, object], attempt: int) -> Response:
        """One request, and what came back. AttemptFailed where nothing did, UnreadableBody for a body out of bounds."""
        import aiohttp  # only processes that ask a server wait for it

        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # the gate limits
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                timeout=aiohttp.ClientTimeout(total=None),
                proxy=_proxy(self._url),
            )
        headers = {
            "authorization": f"Bearer {self._key}",
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


def _server(settings: ModelSettings, url: str) -> "PlainServer | Messages":
    if not _is_messages(settings):
        return PlainServer(settings, url)
    from screening.models.anthropic import Messages  # only processes that ask this one wait for its library

    return Messages(settings, url)


def _is_messages(settings: ModelSettings) -> bool:
    return settings.protocol == "messages"


def _proxy(url: str) -> str | None:
    """The proxy that the environment names for this address (``HTTPS_PROXY``, ``NO_PROXY``); none on private ones."""
    parts = urlsplit(url)
    if is_local(url) or proxy_bypass(parts.hostname or ""):
        return None
    return getproxies().get(parts.scheme)


def default_gate(settings: ModelSettings, limiter: Limiter | None = None) -> RateGate:
    """A gate for one process; ``limiter``, where given, is shared with others and replaces its own bucket."""
    limit = settings.requests_per_minute
    return RateGate(
        concurrency=settings.concurrency,
        limiter=limiter or (None if limit is None else at_most(limit)),
        pause_cap_s=settings.pause_cap_s,
    )


def breaks_off(settings: ModelSettings, request: DrawRequest) -> Callable[[Sequence[Draw]], bool] | None:
    """The test that ends a draw batch early; None for a service, which bills calls even if nobody waits for them."""
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
                return await whole  # it failed: the draw batch ends as any other does
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
    that stops the batch ends the draw batch at once.
    """
    pending: set[asyncio.Task[Draw]] = set(tasks)
    while pending:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_EXCEPTION)
        errors = [task.exception() for task in done if not task.cancelled()]
        for error in errors:
            if error is not None and not (isinstance(error, SamplerError) and not error.stops_batch):
                raise error
        for place, task in enumerate(tasks):
            if any(errors) and place not in begun:
                task.cancel()
    failed = [error for task in tasks if not task.cancelled() and (error := task.exception())]
    if failed:
        raise failed[0]
    return [task.result() for task in tasks]
