"""Chat completions as OpenAI defined them, which vLLM, llama.cpp, Ollama and others speak: one request over aiohttp.

Plain HTTP instead of the vendor's library: that one adds retries and headers of its own, and what is needed of it here
is a single POST whose body must be read within bounds.
"""

from collections.abc import Mapping
from typing import Any

import aiohttp

from screening.models.http import ModelSampler
from screening.models.retries import AttemptFailed, Response
from screening.models.settings import ModelSettings
from screening.models.wire import Expected, PreparedCall, completion_draw, read_bounded
from screening.pipeline.draws import Draw

_CHUNK = 16_384


class ChatAdapter:
    """Sends one chat completion. ValueError without a server: this protocol has no address of its own."""

    name = "chat"

    def __init__(self, settings: ModelSettings) -> None:
        if settings.base_url is None:
            raise ValueError("chat completions need a base URL")
        self._settings = settings
        self._url = f"{settings.base_url.rstrip('/').removesuffix('/v1')}/v1/chat/completions"
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
        return await self.post(self.body(call), attempt)

    async def post(self, asked: Mapping[str, object], attempt: int) -> Response:
        """The body as one request, and what arrived, within bounds."""
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
                    response.content.iter_chunked(_CHUNK), response.headers.get("content-encoding")
                )
                named = {name.lower(): value for name, value in response.headers.items()}
                return Response(status=response.status, headers=named, body=body)
        except aiohttp.ClientError:
            raise AttemptFailed("connection") from None

    def body(self, call: PreparedCall) -> dict[str, object]:
        """What is sent for one draw."""
        system = "\n\n".join(str(block["text"]) for block in call.system)
        return {
            "model": self._settings.model,
            "max_tokens": self._settings.max_output_tokens,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": call.user}],
            **call.extra_body,
        }

    def draw(self, reply: Mapping[str, Any], expected: Expected) -> Draw:
        """The draw that a completion makes."""
        return completion_draw(reply, expected)


class ChatSampler(ModelSampler):
    """A model behind OpenAI-compatible chat completions."""

    adapter = ChatAdapter
