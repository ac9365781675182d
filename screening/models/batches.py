"""Message batches: many calls handed in at once, answered within a day at half the price; by the vendor's library.

Every body is read within bounds and every result exactly as a live reply is. Results are asked for where the batch was
handed in: the library would send the key to whatever address a reply names for them.
"""

import random
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, Self

import anthropic
import httpx2
from anthropic import DefaultAsyncHttpxClient
from anthropic.types.messages import MessageBatch as MessageBatch

from screening.models.anthropic import client_for
from screening.models.retries import judge_status
from screening.models.settings import ModelSettings
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
    write_message,
)
from screening.pipeline.config import NodeConfig
from screening.pipeline.cost import usage_per_call
from screening.pipeline.draws import TOO_LONG, Draw, DrawRequest, SamplerError, Usage
from screening.pipeline.files import PromptSet

LARGEST_RESULTS = 64 * 1024 * 1024
LONG_CACHE = {"type": "ephemeral", "ttl": "1h"}
"""A round may take longer than the five minutes for which prompts are cached otherwise."""
_TIMEOUT_S = 300.0
_MOST_LISTED = 1_000
"""Message batches of the account that are looked through for one of which no id came back."""


class MessageBatches:
    """The endpoint under one configuration's settings; close it. Every method raises SamplerError for what fails."""

    def __init__(self, settings: ModelSettings, prompts: PromptSet) -> None:
        self._settings, self._prompts = settings, prompts
        # The one for live calls warns of large bodies.
        self._client = client_for(settings, largest=LARGEST_RESULTS, timeout_s=_TIMEOUT_S, over=DefaultAsyncHttpxClient)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._client.close()

    def usual_usage(self, nodes: Sequence[NodeConfig], characters: float) -> Usage:
        return usage_per_call(self._prompts, nodes, characters)

    async def create(self, seed: str, requests: Mapping[str, DrawRequest]) -> str:
        """Hand these calls in, by custom id; returns the service's id. After an error they may have arrived still."""
        entries = [
            {"custom_id": custom_id, "params": self._body(self._prepare(seed, custom_id, request))}
            for custom_id, request in requests.items()
        ]
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

    def _body(self, call: PreparedCall) -> Mapping[str, object]:
        kept = [{**block, "cache_control": LONG_CACHE} if "cache_control" in block else block for block in call.system]
        return write_message(replace(call, system=kept), self._settings)

    async def _json(self, way: Literal["get", "post"], path: str, **sent: Any) -> Mapping[str, Any]:
        try:
            return json_object(await self._answer(way, path, **sent))
        except UnreadableBody:
            raise _unreadable() from None

    async def _answer(self, way: Literal["get", "post"], path: str, **sent: Any) -> bytes:
        """The body that the service answers with, or SamplerError; nothing is quoted."""
        ask = getattr(self._client, way)
        try:
            answer: httpx2.Response = await ask(f"/v1/messages/batches{path}", cast_to=httpx2.Response, **sent)
            return answer.content
        except anthropic.APIStatusError as error:
            try:
                raise judge_status(error.status_code, error.response.content) from None
            except AttemptFailed as failed:
                raise SamplerError(failed.kind, "The service failed, or limits our rate.") from None
        except anthropic.APIConnectionError as error:
            if isinstance(error.__cause__, UnreadableBody):
                raise _unreadable() from None
            raise SamplerError("connection", "The service cannot be reached.") from None
        except anthropic.AnthropicError as error:
            raise SamplerError("service", f"The call failed: {type(error).__name__}.") from None


def _batch(told: object) -> MessageBatch:
    """What the service says of a batch; its id becomes part of an address."""
    try:
        found = MessageBatch.model_validate(told)
    except ValueError:
        raise _unreadable() from None
    if not re.fullmatch(r"[A-Za-z0-9_-]{1,100}", found.id):
        raise _unreadable()
    return found


def _unreadable() -> SamplerError:
    return SamplerError("malformed", "The service's answer could not be read.")


def _error_kind(error: object) -> str:
    """What the service says of one request that failed: too long for the model, our fault, or its own."""
    inner = error.get("error", error) if isinstance(error, Mapping) else {}
    kind = inner.get("type") if isinstance(inner, Mapping) else None
    if kind == "request_too_large":
        return TOO_LONG
    if kind == "invalid_request_error":
        return judge_status(400, str(inner.get("message")).encode()).kind
    return "server_error"
