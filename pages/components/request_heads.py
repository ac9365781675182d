"""A bound on the heads of requests: httptools, which reads them, has none, and would keep whatever a stranger sends."""

from collections.abc import Callable
from functools import cache
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST = 65_536
"""Bytes that may come without a head, a part of a body or the end of a request among them: as uvicorn bounds them with
its other reader. What came in the same read as one of these is not counted."""


@cache
def bound_heads() -> None:
    """Answer 400 and hang up where more comes, in this process."""
    for name in ("on_headers_complete", "on_body", "on_message_complete"):
        setattr(HttpToolsProtocol, name, _noting(getattr(HttpToolsProtocol, name)))
    HttpToolsProtocol.data_received = _bounding(HttpToolsProtocol.data_received)  # type: ignore[method-assign, assignment]


def _noting(take: Callable[..., None]) -> Callable[..., None]:
    """The same, and that the request has come on."""

    def note(connection: Any, *parts: bytes) -> None:
        connection.unread = 0
        take(connection, *parts)

    return note


def _bounding(receive: Callable[[HttpToolsProtocol, bytes], None]) -> Callable[[HttpToolsProtocol, bytes], None]:
    """The same, until too much has come without it."""

    def take(connection: Any, data: bytes) -> None:
        connection.unread = getattr(connection, "unread", 0) + len(data)
        receive(connection, data)
        if connection.unread > LARGEST and not connection.transport.is_closing():
            connection.send_400_response("The head of the request is too large.")

    return take
