"""A request's head has a bound, with a real server; what a body brings has its own (`pages.ui.auth`)."""

import socket
from collections.abc import Iterator
from itertools import count

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from pages.ui.request_heads import LARGEST, bound_heads
from tests.pages.ui.served import serve

HEAD = b"POST / HTTP/1.1\r\nHost: x\r\n"


async def _size(request: Request) -> PlainTextResponse:
    return PlainTextResponse(f"{len(await request.body())} and {len(request.headers.get('x-long', ''))}")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A real server that reads requests as the app's does."""
    bound_heads()
    with serve(Starlette(routes=[Route("/", _size, methods=["POST"])]), http="httptools") as found:
        yield found


def _answer(port: int, parts: Iterator[bytes]) -> bytes:
    """What comes back, while the server takes what is sent and until it hangs up."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as line:
        try:
            for part in parts:
                line.sendall(part)
        except OSError:
            pass
        found = b""
        try:
            while more := line.recv(65_536):
                found += more
        except OSError:
            pass
    return found


def _flood(begin: bytes, more: bytes) -> Iterator[bytes]:
    """So much of it that nobody can want to keep it: 100 times what is permitted."""
    yield begin
    for _ in range(100 * LARGEST // len(more)):
        yield more


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (HEAD + b"X-Long: ", b"a" * 10_000),
        (HEAD, b"X-Many: a\r\n" * 1_000),
        (b"POST /", b"a" * 10_000),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-After: a\r\n" * 1_000),
    ],
)
def test_a_head_without_end_is_refused(port: int, begin: bytes, more: bytes) -> None:
    sent = count()
    answer = _answer(port, (part for part in _flood(begin, more) if next(sent) >= 0))
    assert not answer or answer.startswith(b"HTTP/1.1 400"), answer[:100]
    assert next(sent) < 100 * LARGEST // len(more), "the line was cut before all of it was taken"


def test_a_long_head_and_a_large_body_are_taken(port: int) -> None:
    body = b"b" * 3_000_000
    head = HEAD + b"X-Long: " + b"a" * 40_000 + b"\r\nConnection: close\r\nContent-Length: 3000000\r\n\r\n"
    answer = _answer(port, iter([head, body]))
    assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"3000000 and 40000")


def test_a_large_body_in_chunks_is_taken(port: int) -> None:
    head = HEAD + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = [b"186a0\r\n" + b"b" * 100_000 + b"\r\n"] * 30
    answer = _answer(port, iter([head, *chunks, b"0\r\n\r\n"]))
    assert answer.startswith(b"HTTP/1.1 200") and answer.endswith(b"3000000 and 0")
