"""The guard of `socket_guard.py` guards."""

import asyncio
import socket
import urllib.error
import urllib.request

import pytest

from tests.socket_guard import NotLoopback, SocketGuard

ELSEWHERE = "192.0.2.1"
"""Reserved for documentation: nobody has it."""


def test_other_machines_are_refused_however_they_are_asked(socket_guard: SocketGuard) -> None:
    with socket.socket() as stream, pytest.raises(NotLoopback):
        stream.connect((ELSEWHERE, 443))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram, pytest.raises(NotLoopback):
        datagram.sendto(b"x", (ELSEWHERE, 53))
    with pytest.raises(NotLoopback):
        socket.getaddrinfo("example.org", 443)
    with pytest.raises(urllib.error.URLError):
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open("http://example.org/", timeout=1)
    assert socket_guard.refused == [ELSEWHERE, ELSEWHERE, "example.org", "example.org"]
    socket_guard.refused.clear()


async def test_asynchronous_connections_are_refused_too(socket_guard: SocketGuard) -> None:
    with pytest.raises(NotLoopback):
        await asyncio.open_connection(ELSEWHERE, 443)
    assert ELSEWHERE in socket_guard.refused
    socket_guard.refused.clear()


def test_loopback_is_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname(), timeout=5):
            pass
        with socket.create_connection(("localhost", server.getsockname()[1]), timeout=5):
            pass
