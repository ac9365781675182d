"""The vendor's library: its client, the sending of one live call, and message batches, which are many calls handed in
at once and answered within a day at half the price.

Every body is read within bounds, and every result of a message batch exactly as a live reply is. Results are asked for
where the batch was handed in: the library would send the key to whatever address a reply names for them.
"""

import json
import logging
import random
import re
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import cache
from typing import Any, Literal, Self, cast

import anthropic
import httpx2
from anthropic import AsyncAnthropic, DefaultAioHttpClient, DefaultAsyncHttpxClient
from anthropic.types.messages import MessageBatch as MessageBatch

from screening.models.retries import Response, judge_status
from screening.models.settings import ANTHROPIC_URL, ModelSettings
from screening.models.wire import (
    LARGEST_BODY,
    AttemptFailed,
    Expected,
    PreparedCall,
    SeenIds,
    UnreadableBody,
    json_object,
    message_draw,
    prepare_call,
    read_bounded,
    write_message,
)
from screening.pipeline.config import NodeConfig
from screening.pipeline.draws import TOO_LONG, Draw, DrawRequest, SamplerError, Usage
from screening.pipeline.files import PromptSet, usage_per_call

LARGEST_RESULTS = 64 * 1024 * 1024
LONG_CACHE = {"type": "ephemeral", "ttl": "1h"}
"""A round may take longer than the five minutes for which prompts are cached otherwise."""
_BATCH_TIMEOUT_S = 300.0
_MOST_LISTED = 1_000
"""Message batches of the account that are looked through for one of which no id came back."""


class Messages:
    """Sends requests of the Messages API, to Anthropic or a server of one's own."""

    def __init__(self, settings: ModelSettings, url: str) -> None:
        self._url = cast(str, httpx2.URL(url))  # the library would take words apart anew for each call
        longest = max(settings.call_timeout_s, settings.node_deadline_s)  # ours is the shorter one: see `Attempts`
        self._client = _client(settings, largest=LARGEST_BODY, timeout_s=longest)

    async def aclose(self) -> None:
        await self._client.close()

    async def post(self, asked: Mapping[str, object], attempt: int) -> Response:
        """One request, and what came back. AttemptFailed where nothing did, SamplerError for what no retry cures.

        By the library's way to any address, with the body as bytes: its method for messages copies and looks through
        every part of it, for each of a node's many draws.
        """
        content = json.dumps(asked, ensure_ascii=False).encode()
        options = {"headers": {"x-stainless-retry-count": str(attempt)}}
        return await _ask(self._client, "post", self._url, content=content, options=options)


async def _ask(client: AsyncAnthropic, way: Literal["get", "post"], url: str, **sent: Any) -> Response:
    """What came back, whatever its status. Nothing is quoted: the library's message may quote the text."""
    try:
        raw: httpx2.Response = await getattr(client, way)(url, cast_to=httpx2.Response, **sent)
    except anthropic.APITimeoutError:
        raise AttemptFailed("timeout") from None
    except anthropic.APIConnectionError as error:
        raise AttemptFailed("malformed" if isinstance(error.__cause__, UnreadableBody) else "connection") from None
    except anthropic.APIStatusError as error:
        raw = error.response
    except anthropic.AnthropicError as error:
        raise SamplerError("service", f"The call failed: {type(error).__name__}.") from None
    headers = {name.lower(): value for name, value in raw.headers.items()}
    return Response(status=raw.status_code, headers=headers, body=raw.content)


def _client(
    settings: ModelSettings, *, largest: int, timeout_s: float, over: type[httpx2.AsyncClient] = DefaultAioHttpClient
) -> AsyncAnthropic:
    """The library's client: it neither retries nor follows redirects, and reads no body beyond ``largest`` bytes."""

    async def limit_body(response: Any) -> None:
        """Read the body within bounds before the library does, which would decompress whatever comes."""
        try:
            body = await read_bounded(response.stream, response.headers.get("content-encoding"), largest)
        finally:
            await response.stream.aclose()
        response.headers.pop("content-encoding", None)
        response.headers.pop("content-length", None)
        response.stream = httpx2.ByteStream(body)

    log = logging.getLogger("anthropic")
    if log.getEffectiveLevel() < logging.INFO:
        log.setLevel(logging.INFO)  # its debug log prints whole requests, and so the text
    return AsyncAnthropic(
        api_key=settings.api_key or "none",
        base_url=settings.base_url or ANTHROPIC_URL,
        max_retries=0,
        timeout=timeout_s,
        default_headers={"accept-encoding": "identity", "anthropic-version": settings.version_header},
        http_client=over(follow_redirects=False, event_hooks={"response": [limit_body]}, verify=_trusted()),
        open_telemetry=False,
    )


@cache
def _trusted() -> ssl.SSLContext:
    """The certificates that the system trusts; reading them takes longer than all else that a model begins with."""
    return httpx2.create_ssl_context()


class MessageBatches:
    """The endpoint under one configuration's settings; close it. Every method raises SamplerError for what fails."""

    def __init__(self, settings: ModelSettings, prompts: PromptSet) -> None:
        self._settings, self._prompts = settings, prompts
        # The client for live calls warns of large bodies.
        over = DefaultAsyncHttpxClient
        self._client = _client(settings, largest=LARGEST_RESULTS, timeout_s=_BATCH_TIMEOUT_S, over=over)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    def usual_usage(self, nodes: Sequence[NodeConfig], characters: float) -> Usage:
        return usage_per_call(self._prompts, nodes, characters)

    async def create(self, seed: str, requests: Mapping[str, DrawRequest]) -> str:
        """Hand these calls in, by custom id; returns the service's id. After an error they may have arrived still."""
        entries = [{"custom_id": one, "params": self._body(seed, one, request)} for one, request in requests.items()]
        return _batch(await self._json("post", "", body={"requests": entries})).id

    async def find(self, service_id: str) -> MessageBatch:
        return _batch(await self._json("get", f"/{service_id}"))

    async def list_since(self, earliest: datetime) -> list[MessageBatch]:
        page = await self._json("get", f"?limit={_MOST_LISTED}")
        return [batch for batch in map(_batch, page.get("data") or []) if batch.created_at >= earliest]

    async def cancel(self, service_id: str) -> None:
        """Ask the service to end it; what is answered already stays."""
        await self._json("post", f"/{service_id}/cancel")

    async def results(self, service_id: str) -> list[tuple[str, Mapping[str, Any]]]:
        """Custom id and result of each line, in whatever order they come; lines that are no plain JSON are left out."""
        found: list[tuple[str, Mapping[str, Any]]] = []
        for line in (await self._answer("get", f"/{service_id}/results")).split(b"\n"):
            with suppress(UnreadableBody):
                whole = json_object(line) if len(line) <= LARGEST_BODY else {}
                custom_id, result = whole.get("custom_id"), whole.get("result")
                if isinstance(custom_id, str) and isinstance(result, dict):
                    found.append((custom_id, result))
        return found

    def read(
        self, seed: str, custom_id: str, request: DrawRequest, result: Mapping[str, Any], seen: SeenIds
    ) -> tuple[Draw | None, str]:
        """A result as a draw with its reply's id, by the same checks as a live reply; or None and what failed."""
        message, kind = result.get("message"), result.get("type")
        if kind == "succeeded" and isinstance(message, dict):
            call, models = self._prepare(seed, custom_id, request), self._settings.answering_models
            expected = Expected(models=models, words=call.words, seen=seen, least_tokens=call.least_tokens)
            return message_draw(message, expected), str(message.get("id"))[:100]
        if kind == "errored":
            return None, _error_kind(result.get("error"))
        return None, kind if kind in ("expired", "canceled") else "malformed"

    def _prepare(self, seed: str, custom_id: str, request: DrawRequest) -> PreparedCall:
        """The call of a request: equal seed and id make equal random numbers and code words."""
        rng = random.Random(f"{seed}:{custom_id}")  # noqa: S311 - the seed is the operating system's
        return prepare_call(request, self._settings, self._prompts, rng)

    def _body(self, seed: str, custom_id: str, request: DrawRequest) -> Mapping[str, object]:
        call = self._prepare(seed, custom_id, request)
        kept = [{**block, "cache_control": LONG_CACHE} if "cache_control" in block else block for block in call.system]
        return write_message(replace(call, system=kept), self._settings)

    async def _json(self, way: Literal["get", "post"], path: str, **sent: Any) -> Mapping[str, Any]:
        try:
            return json_object(await self._answer(way, path, **sent))
        except UnreadableBody:
            raise _failed("malformed") from None

    async def _answer(self, way: Literal["get", "post"], path: str, **sent: Any) -> bytes:
        try:
            answer = await _ask(self._client, way, f"/v1/messages/batches{path}", **sent)
            if answer.status >= 300:
                raise judge_status(answer.status, answer.body)
        except AttemptFailed as failure:
            raise _failed(failure.kind) from None
        return answer.body


def _failed(kind: str) -> SamplerError:
    said = {
        "malformed": "The service's answer could not be read.",
        "connection": "The service cannot be reached.",
        "timeout": "The service did not answer in time.",
    }
    return SamplerError(kind, said.get(kind, "The service failed, or limits our rate."))


def _batch(told: object) -> MessageBatch:
    """What the service says of a batch; its id becomes part of an address."""
    with suppress(ValueError):
        found = MessageBatch.model_validate(told)
        if re.fullmatch(r"[A-Za-z0-9_-]{1,100}", found.id):
            return found
    raise _failed("malformed")


def _error_kind(error: object) -> str:
    """What the service says of one request that failed: too long for the model, our fault, or its own."""
    inner = error.get("error", error) if isinstance(error, Mapping) else {}
    kind = inner.get("type") if isinstance(inner, Mapping) else None
    if kind == "request_too_large":
        return TOO_LONG
    if kind == "invalid_request_error":
        return judge_status(400, str(inner.get("message")).encode()).kind
    return "server_error"
