"""The vendor's library: its client, for live calls and message batches, and the sending of one live call."""

import json
import logging
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Any, cast

import anthropic
import httpx2
from anthropic import AsyncAnthropic, DefaultAioHttpClient

from screening.models.retries import Response
from screening.models.settings import ANTHROPIC_URL, ModelSettings
from screening.models.wire import LARGEST_BODY, AttemptFailed, UnreadableBody, read_bounded
from screening.pipeline.draws import SamplerError


class Messages:
    """Sends requests of the Messages API, to Anthropic or a server of one's own; the library neither retries nor reads
    the reply.
    """

    def __init__(self, settings: ModelSettings, url: str) -> None:
        self._url = cast(str, httpx2.URL(url))  # the library would take words apart anew for each call
        longest = max(settings.call_timeout_s, settings.node_deadline_s)  # ours is the shorter one: see `Attempts`
        self._client = client_for(settings, largest=LARGEST_BODY, timeout_s=longest)

    async def aclose(self) -> None:
        await self._client.close()

    async def post(self, asked: Mapping[str, object], attempt: int) -> Response:
        """One request, and what came back. AttemptFailed where nothing did, SamplerError for what no retry cures.

        By the library's way to any address, with the body as bytes: its method for messages copies and looks through
        every part of it, for each of a node's many draws.
        """
        try:
            return _response(
                await self._client.post(
                    self._url,
                    cast_to=httpx2.Response,
                    content=json.dumps(asked, ensure_ascii=False).encode(),
                    options={"headers": {"x-stainless-retry-count": str(attempt)}},
                )
            )
        except anthropic.APITimeoutError:
            raise AttemptFailed("timeout") from None
        except anthropic.APIConnectionError as error:
            raise AttemptFailed("malformed" if isinstance(error.__cause__, UnreadableBody) else "connection") from None
        except anthropic.APIStatusError as error:
            return _response(error.response)
        except anthropic.AnthropicError as error:
            # The library's message may quote the response, and so the text: only the type is told.
            raise SamplerError("service", f"The call failed: {type(error).__name__}.") from None


def _response(raw: httpx2.Response) -> Response:
    headers = {name.lower(): value for name, value in raw.headers.items()}
    return Response(status=raw.status_code, headers=headers, body=raw.content)


def client_for(
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
    """The certificates that the system trusts, as the library finds them; reading them takes longer than all else that
    a model begins with.
    """
    return httpx2.create_ssl_context()
