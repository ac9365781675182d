"""A limit on the size of request heads: httptools, which parses them, has none, and would keep all that is sent."""

from collections.abc import Callable
from functools import cache
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST = 65_536
"""The most bytes that may arrive before a head, a part of a body or a request is complete; uvicorn's other parser has
the same limit. Bytes that arrive in the same read as one of these are not counted."""


@cache
def bound_heads() -> None:
    """Have this process answer 400 and hang up where more arrives."""
    for name in ("on_headers_complete", "on_body", "on_message_complete"):
        setattr(HttpToolsProtocol, name, _noting(getattr(HttpToolsProtocol, name)))
    HttpToolsProtocol.data_received = _bounding(HttpToolsProtocol.data_received)  # type: ignore[method-assign, assignment]


def _noting(take: Callable[..., None]) -> Callable[..., None]:
    """The same, and start counting again."""

    def note(connection: Any, *parts: bytes) -> None:
        connection.unread = 0
        take(connection, *parts)

    return note


def _bounding(receive: Callable[[HttpToolsProtocol, bytes], None]) -> Callable[[HttpToolsProtocol, bytes], None]:
    """The same, and refuse the request once too much was counted."""

    def take(connection: Any, data: bytes) -> None:
        connection.unread = getattr(connection, "unread", 0) + len(data)
        receive(connection, data)
        if connection.unread > LARGEST and not connection.transport.is_closing():
            connection.send_400_response("The head of the request is too large.")

    return take
