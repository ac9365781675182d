"""The Message Batches endpoint: many calls handed in at once, answered within a day at half the price.

Plain HTTP: what is needed of a library here is five requests whose bodies must be read within bounds, and the library
would send the key to whatever address a reply names for its results. They are asked for where they were handed in.
Every result is read exactly as a live reply is.
"""

import io
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Self

from screening.models.retries import final_error
from screening.models.settings import ANTHROPIC_URL, ModelSettings, dialect
from screening.models.wire import (
    LARGEST_BODY,
    Expected,
    PreparedCall,
    SeenIds,
    UnreadableBody,
    json_object,
    message_draw,
    prepare_call,
)
from screening.pipeline.config import NodeConfig
from screening.pipeline.cost import usage_per_call
from screening.pipeline.draws import TOO_LONG, Draw, DrawRequest, SamplerError, Usage
from screening.pipeline.files import PromptSet

if TYPE_CHECKING:
    import aiohttp

DEFAULT_VERSION = "2023-06-01"
LONG_CACHE = {"type": "ephemeral", "ttl": "1h"}
_TIMEOUT_S = 300.0
_PAGE, _MOST_PAGES = 100, 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request of a message batch: who is asked what, under which id. Equal ``seed`` and id make equal calls."""

    custom_id: str
    seed: str
    request: DrawRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceBatch:
    """A message batch as the service sees it; ``canceling``: it was asked to end it."""

    id: str
    ended: bool
    canceling: bool
    created_at: str
    total: int
    processed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One result: a draw with its reply's id, or the kind of failure."""

    draw: Draw | None = None
    reply_id: str | None = None
    error: str | None = None


class MessageBatches:
    """The endpoint under one configuration's settings; close it."""

    def __init__(self, settings: ModelSettings, prompts: PromptSet) -> None:
        self._settings, self._prompts, self._wire = settings, prompts, dialect(settings)
        base = (settings.base_url or ANTHROPIC_URL).rstrip("/").removesuffix("/v1")
        self._url = f"{base}/v1/messages/batches"
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def prepare(self, asked: Asked) -> PreparedCall:
        """The call of a request, with the random number and code words that its seed and id give."""
        rng = random.Random(f"{asked.seed}:{asked.custom_id}")  # noqa: S311 - the seed is the operating system's
        return prepare_call(asked.request, self._settings, self._wire, self._prompts, rng)

    def usual_usage(self, nodes: Sequence[NodeConfig], characters: float) -> Usage:
        """About what one call takes for a text of so many characters, before any was made."""
        return usage_per_call(self._prompts, nodes, characters)

    async def create(self, asked: Sequence[Asked]) -> str:
        """Hand these calls in; returns the service's id of the batch. SamplerError where it may not have arrived."""
        made = await self._json("POST", self._url, {"requests": [self._entry(one) for one in asked]})
        return _id_of(made)

    async def find(self, batch_id: str) -> ServiceBatch:
        """The batch of this id, as the service sees it now."""
        return _service_batch(await self._json("GET", f"{self._url}/{batch_id}"))

    async def list_batches(self) -> list[ServiceBatch]:
        """What the account has handed in, the newest first, as far as it is listed."""
        found: list[ServiceBatch] = []
        after = ""
        for _ in range(_MOST_PAGES):
            page = await self._json("GET", f"{self._url}?limit={_PAGE}{after}")
            found += [_service_batch(one) for one in page.get("data") or []]
            if not page.get("has_more") or not found:
                break
            after = f"&after_id={found[-1].id}"
        return found

    async def cancel(self, batch_id: str) -> None:
        """Ask the service to end it; what is answered already stays."""
        await self._json("POST", f"{self._url}/{batch_id}/cancel", {})

    async def results(self, batch_id: str) -> AsyncGenerator[tuple[str, Mapping[str, Any]]]:
        """Custom id and result of each line, in whatever order they come; lines that are no plain JSON are left out."""
        import aiohttp

        try:
            async with self._request("GET", f"{self._url}/{batch_id}/results", None) as response:
                await _judge(response)
                async for line in _lines(response):
                    if (found := _result(line)) is not None:
                        yield found
        except (aiohttp.ClientError, TimeoutError):
            raise SamplerError("connection", "The service broke off in the middle of the results.") from None

    def read(self, asked: Asked, result: Mapping[str, Any], seen: SeenIds) -> Line:
        """A result as a draw, by the same checks as a live reply, or as the failure it is."""
        message = result.get("message")
        if result.get("type") == "succeeded" and isinstance(message, dict):
            call, models = self.prepare(asked), self._settings.answering_models
            expected = Expected(models=models, words=call.words, seen=seen, least_tokens=call.least_tokens)
            return Line(draw=message_draw(message, expected), reply_id=str(message.get("id"))[:100])
        if result.get("type") == "errored":
            return Line(error=_error_kind(result.get("error")))
        return Line(
            error=str(result.get("type"))[:20] if result.get("type") in ("expired", "canceled") else "malformed"
        )

    def _entry(self, asked: Asked) -> dict[str, object]:
        call = self.prepare(asked)
        return {
            "custom_id": asked.custom_id,
            "params": {
                "model": self._settings.model,
                "max_tokens": self._settings.max_output_tokens,
                "system": [_with_long_cache(block) for block in call.system],
                "messages": [{"role": "user", "content": call.user}],
                "thinking": {"type": "disabled"},
                **call.extra_body,
            },
        }

    def _request(self, method: str, url: str, body: object) -> Any:
        import aiohttp

        if self._session is None:
            self._session = aiohttp.ClientSession(
                auto_decompress=False, timeout=aiohttp.ClientTimeout(total=None, sock_read=_TIMEOUT_S, sock_connect=30)
            )
        headers = {
            "x-api-key": self._settings.api_key or "none",
            "anthropic-version": self._wire.api_version or DEFAULT_VERSION,
            "accept-encoding": "identity",
        }
        if body is None:
            return self._session.request(method, url, headers=headers, allow_redirects=False)
        whole = io.BytesIO(json.dumps(body).encode())  # read piece by piece: it may be tens of megabytes
        headers["content-type"] = "application/json"
        return self._session.request(method, url, headers=headers, allow_redirects=False, data=whole)

    async def _json(self, method: str, url: str, body: object = None) -> Mapping[str, Any]:
        import aiohttp

        try:
            async with self._request(method, url, body) as response:
                await _judge(response)
                return json_object(await _read_bounded(response))
        except (aiohttp.ClientError, TimeoutError):
            raise SamplerError("connection", "The service cannot be reached.") from None
        except UnreadableBody:
            raise SamplerError("malformed", "The service's answer could not be read.") from None


def _result(line: bytes) -> tuple[str, Mapping[str, Any]] | None:
    try:
        whole = json_object(line)
    except UnreadableBody:
        return None
    custom_id, result = whole.get("custom_id"), whole.get("result")
    return (custom_id, result) if isinstance(custom_id, str) and isinstance(result, dict) else None


def _with_long_cache(block: Mapping[str, object]) -> dict[str, object]:
    """The block with an hour of cache time, not five minutes: a wave may take longer than those."""
    return {**block, "cache_control": LONG_CACHE} if "cache_control" in block else dict(block)


async def _judge(response: "aiohttp.ClientResponse") -> None:
    """SamplerError for anything but 200; nothing is quoted."""
    if response.status == 200:
        return
    if response.status == 429:
        raise SamplerError("rate_limited", "The service limits our rate.")
    if response.status in (408, 409, 425) or response.status >= 500:
        overloaded = response.status in (503, 529)
        raise SamplerError("overloaded" if overloaded else "server_error", "The service failed.")
    raise final_error(response.status, await _read_bounded(response))


async def _read_bounded(response: "aiohttp.ClientResponse", limit: int = 16 * LARGEST_BODY) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_chunked(65_536):
        body += chunk
        if len(body) > limit:
            raise UnreadableBody("too large")
    return bytes(body)


async def _lines(response: "aiohttp.ClientResponse") -> AsyncIterator[bytes]:
    """The lines of a body, never holding more than one that is too long to be a reply; such a line is left out."""
    kept, skipping = bytearray(), False
    async for chunk in response.content.iter_chunked(65_536):
        *whole, rest = (bytes(kept) + chunk).split(b"\n")
        for line in whole:
            if line.strip() and not skipping and len(line) <= LARGEST_BODY:
                yield line
            skipping = False
        skipping = skipping or len(rest) > LARGEST_BODY
        kept = bytearray(b"" if skipping else rest)
    if kept.strip() and not skipping:
        yield bytes(kept)


def _error_kind(error: object) -> str:
    """What the service says of one request that failed: too long for the model, its own fault, or ours."""
    inner = error.get("error", error) if isinstance(error, Mapping) else {}
    kind = inner.get("type") if isinstance(inner, Mapping) else None
    if kind in ("invalid_request_error", "request_too_large"):
        words = str(inner.get("message") if isinstance(inner, Mapping) else "").encode()
        return TOO_LONG if kind == "request_too_large" else final_error(400, words).kind
    return "server_error"


def _id_of(made: Mapping[str, Any]) -> str:
    found = made.get("id")
    if not isinstance(found, str) or not found or not found.replace("_", "").replace("-", "").isalnum():
        raise SamplerError("malformed", "The service's answer could not be read.")
    return found[:100]


def _service_batch(made: Mapping[str, Any]) -> ServiceBatch:
    counts = made.get("request_counts") or {}
    numbers = {name: count for name, count in counts.items() if isinstance(count, int)}
    return ServiceBatch(
        id=_id_of(made),
        ended=made.get("processing_status") == "ended",
        canceling=made.get("processing_status") == "canceling",
        created_at=str(made.get("created_at")),
        total=sum(numbers.values()),
        processed=sum(count for name, count in numbers.items() if name != "processing"),
    )


# How many answers to buy at once where each further round costs hours: the cheapest plan for known stopping times.

ROUND_PRICE = 2.0
"""What one further round of a case is worth, in calls."""
FEWEST_TIMES = 20
"""Stopping times below which nothing is guessed from them."""
FEWEST_DRAWN = 10
"""Answers up to which a node that nothing is known of asks for no more than the earliest decision takes."""


def next_wave(times: Sequence[int], drawn: int, least: int, budget: int, round_price: float = ROUND_PRICE) -> int:
    """How many answers to ask for now, after ``drawn``: at least ``least``, at most what the budget leaves.

    The plan c₁ < c₂ < … of totals that minimises E[calls bought + round_price · rounds], where the number of calls
    that a node needs is one of ``times`` above ``drawn``, all alike probable. Where these are too few: half as many
    again as there are, so that rounds stay few whatever a text needs.

    >>> next_wave([], 0, 5, 100), next_wave([], 16, 1, 100)
    (5, 8)
    >>> next_wave([5] * 10 + [11] * 90, 0, 5, 100), next_wave([5] * 90 + [40] * 10, 0, 5, 100)
    (11, 5)
    """
    needed = tuple(sorted(time for time in times if time > drawn))
    if len(needed) < FEWEST_TIMES:
        wave = max(least, drawn // 2 if drawn >= FEWEST_DRAWN else 0)
    else:
        wave = max(_plan(needed, drawn, least, round_price)[0] - drawn, least)
    return min(wave, max(budget - drawn, least))


def rounds_left(times: Sequence[int], drawn: int, least: int, round_price: float = ROUND_PRICE) -> int | None:
    """Rounds until even the longest of these times is reached; None where they are too few to tell.

    >>> rounds_left([5] * 90 + [40] * 10, 0, 5)
    2
    """
    needed = tuple(sorted(time for time in times if time > drawn))
    if len(needed) < FEWEST_TIMES:
        return None
    rounds = 0
    while needed:
        drawn, least, rounds = _plan(needed, drawn, least, round_price)[0], 1, rounds + 1
        needed = tuple(time for time in needed if time > drawn)
    return rounds


@lru_cache(maxsize=4096)
def _plan(needed: tuple[int, ...], drawn: int, least: int, round_price: float) -> tuple[int, float]:
    """The total to buy up to next, of equally cheap ones the smallest, and the expected price from here on."""
    prices = {}
    for total in sorted({max(drawn + least, time) for time in needed}):
        later = tuple(time for time in needed if time > total)
        rest = len(later) / len(needed) * _plan(later, total, 1, round_price)[1] if later else 0.0
        prices[total] = round(total - drawn + round_price + rest, 9)
    return min(prices.items(), key=itemgetter(1))
