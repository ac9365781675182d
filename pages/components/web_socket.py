"""What stands before Streamlit's web socket: who may open it, and which messages a browser may send.

Streamlit's own check of a foreign Origin asks an outside host for this machine's address, inside the event loop. So
a foreign Origin is refused before Streamlit sees it, and nothing here asks anybody anything.
"""

import asyncio
from urllib.parse import urlsplit

import streamlit as st
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.web.server.starlette.starlette_websocket import is_host_allowed

from pages.components.http import has_session_cookie

PAGE_MESSAGES = frozenset(
    {"rerun_script", "stop_script", "app_heartbeat", "file_urls_request", "backend_operation_request"}
)
"""The messages a page sends in normal use. Others are for developers: one empties the caches of all users."""

UNREADABLE = "unreadable"
REFUSED = 1008
"""Close code of RFC 6455: against the rules of this server."""

BUSY = 1013
MOST_STRANGERS = 100
"""Connections at a time of people who have not signed in."""
LARGEST_OF_STRANGERS = 64_000
STRANGERS_STAY_S = 300.0

_PORTS = {"http": 80, "https": 443}


class SocketGuard:
    """Refuses web sockets of other sites, and drops messages that only a developer's browser would send. Whoever has
    not signed in, where people must, gets one of a few places, for small messages and for a while: a page of theirs
    that stays open connects anew by itself.
    """

    def __init__(self, app: ASGIApp, *, sign_in: bool = False) -> None:
        self._app = app
        self._sign_in = sign_in
        self._strangers = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "websocket":
            await self._app(scope, receive, send)
        elif not own_page(scope):
            await _close(receive, send, REFUSED)
        elif not self._sign_in or has_session_cookie(scope):
            await self._app(scope, _of_pages(receive), send)
        elif self._strangers >= MOST_STRANGERS:
            await _close(receive, send, BUSY)
        else:
            self._strangers += 1
            try:
                await self._app(scope, _of_strangers(_of_pages(receive)), send)
            finally:
                self._strangers -= 1


async def _close(receive: Receive, send: Send, code: int) -> None:
    await receive()  # the handshake
    await send({"type": "websocket.close", "code": code})


def own_page(scope: Scope) -> bool:
    """Whether a handshake or an upload comes from a page of this very host and port, or of an Origin that the site
    names in server.corsAllowedOrigins, for a proxy that does not pass the Host on.

    A browser always says its Origin with these: a request without one, with two, or from a page without one is not.
    """
    origins, hosts = _headers(scope, b"origin"), _headers(scope, b"host")
    if len(origins) != 1 or len(hosts) != 1 or not is_host_allowed(hosts[0]):
        return False
    here, there = _place(f"//{hosts[0]}", origins[0].partition(":")[0]), _place(origins[0])
    return there is not None and (there == here or origins[0] in st.get_option("server.corsAllowedOrigins"))


def _headers(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for key, value in scope["headers"] if key == name]


def _place(address: str, scheme: str | None = None) -> tuple[str, int] | None:
    """Host and port; None where the address is not that of a web page."""
    try:
        parts = urlsplit(address)
        default = _PORTS.get(scheme or parts.scheme)
        if default is None or not parts.hostname or parts.path or parts.query or parts.fragment or "@" in parts.netloc:
            return None
        return parts.hostname.rstrip("."), parts.port or default
    except ValueError:
        return None


def _of_pages(receive: Receive) -> Receive:
    """The messages without those that no page sends; Streamlit ends a connection that sends anything else."""

    async def receive_known() -> Message:
        while True:
            message = await receive()
            if message["type"] != "websocket.receive" or message.get("bytes") is None:
                return message
            if _kind(message["bytes"]) in (*PAGE_MESSAGES, UNREADABLE):
                return message

    return receive_known


def _of_strangers(receive: Receive) -> Receive:
    """The messages until one is too large or the time is over; the connection then ends as if the browser had left."""
    until = asyncio.get_running_loop().time() + STRANGERS_STAY_S

    async def receive_small() -> Message:
        try:
            async with asyncio.timeout_at(until):
                message = await receive()
        except TimeoutError:
            return {"type": "websocket.disconnect", "code": REFUSED}
        large = len(message.get("bytes") or b"") > LARGEST_OF_STRANGERS
        return {"type": "websocket.disconnect", "code": REFUSED} if large else message

    return receive_small


def _kind(content: bytes) -> str | None:
    try:
        found: str | None = BackMsg.FromString(content).WhichOneof("type")
    except DecodeError:
        return UNREADABLE
    return found
