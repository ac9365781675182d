"""The Messages API, at Anthropic or at a server of one's own: one request through the service's own library."""

import json
import logging
import ssl
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Any, cast

import anthropic
import httpx2
from anthropic import AsyncAnthropic, DefaultAioHttpClient

from screening.models.http import ModelSampler
from screening.models.retries import AttemptFailed, Response
from screening.models.settings import ANTHROPIC_URL, ModelSettings, dialect
from screening.models.wire import LARGEST_BODY, Expected, PreparedCall, UnreadableBody, message_draw, read_bounded
from screening.pipeline.draws import Draw, SamplerError


class MessagesAdapter:
    """Sends one message; the library neither retries nor reads the reply."""

    name = "anthropic"

    def __init__(self, settings: ModelSettings) -> None:
        self._settings = settings
        longest = max(settings.call_timeout_s, settings.node_deadline_s)  # ours is the shorter one: see `Attempts`
        self._client = client_for(settings, dialect(settings).api_version, largest=LARGEST_BODY, timeout_s=longest)
        address = f"{(settings.base_url or ANTHROPIC_URL).rstrip('/')}/v1/messages"
        self._address = cast(str, httpx2.URL(address))  # the library would take words apart anew for each call

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.close()

    def describe(self) -> Mapping[str, object]:
        """The version header."""
        return {"api_version": str(self._client.default_headers["anthropic-version"])}

    async def send(self, call: PreparedCall, attempt: int) -> Response:
        """One request and its reply, as `Adapter` says."""
        try:
            return _response(await self._post(call, attempt))
        except anthropic.APITimeoutError:
            raise AttemptFailed("timeout") from None
        except anthropic.APIConnectionError as error:
            if isinstance(error.__cause__, UnreadableBody):
                raise AttemptFailed("malformed") from None
            raise AttemptFailed("connection") from None
        except anthropic.APIStatusError as error:
            return _response(error.response)
        except anthropic.AnthropicError as error:
            # The library's message may quote the response, and so the text: only the type is told.
            raise SamplerError("service", f"The call failed: {type(error).__name__}.") from None

    async def _post(self, call: PreparedCall, attempt: int) -> httpx2.Response:
        """By the library's way to any address, with the body as bytes: its method for messages copies and looks through
        every part of it, for each of a node's many draws.
        """
        return await self._client.post(
            self._address,
            cast_to=httpx2.Response,
            content=self._body(call),
            options={"headers": {"x-stainless-retry-count": str(attempt)}},
        )

    def _body(self, call: PreparedCall) -> bytes:
        """The request as JSON; the long fixed prompt in it is encoded once and not for every draw."""
        body = {
            "model": self._settings.model,
            "max_tokens": self._settings.max_output_tokens,
            "messages": [{"role": "user", "content": call.user}],
            "thinking": {"type": "disabled"},
            **call.extra_body,
        }
        fixed, fresh = call.system
        beside = {name: value for name, value in fixed.items() if name != "text"}
        first = _json(beside)[:-1] + b', "text": ' + _fixed(str(fixed["text"])) + b"}"
        return _json(body)[:-1] + b', "system": [' + first + b", " + _json(fresh) + b"]}"

    def draw(self, reply: Mapping[str, Any], expected: Expected) -> Draw:
        """The draw that a message makes."""
        return message_draw(reply, expected)


class AnthropicSampler(ModelSampler):
    """A model behind the Messages API."""

    adapter = MessagesAdapter


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


@lru_cache(maxsize=64)
def _fixed(prompt: str) -> bytes:
    return _json(prompt)


def _response(raw: httpx2.Response) -> Response:
    headers = {name.lower(): value for name, value in raw.headers.items()}
    return Response(status=raw.status_code, headers=headers, body=raw.content)


def client_for(
    settings: ModelSettings,
    api_version: str | None,
    *,
    largest: int,
    timeout_s: float,
    over: type[httpx2.AsyncClient] = DefaultAioHttpClient,
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
    headers = {"accept-encoding": "identity"} | ({} if api_version is None else {"anthropic-version": api_version})
    return AsyncAnthropic(
        api_key=settings.api_key or "none",
        base_url=settings.base_url or ANTHROPIC_URL,
        max_retries=0,
        timeout=timeout_s,
        default_headers=headers,
        http_client=over(follow_redirects=False, event_hooks={"response": [limit_body]}, verify=_trusted()),
        open_telemetry=False,
    )


@cache
def _trusted() -> ssl.SSLContext:
    """The certificates that the system trusts, as the library finds them; reading them takes longer than all else that
    a sampler begins with.
    """
    return httpx2.create_ssl_context()
