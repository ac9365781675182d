"""The guard of `socket_guard.py` guards."""

import asyncio
import socket

import pytest

from tests.socket_guard import NotLoopback, SocketGuard

ELSEWHERE = "192.0.2.1"
"""Reserved for documentation: nobody has it."""


async def test_other_machines_are_refused_however_they_are_asked_and_loopback_is_reached(
    socket_guard: SocketGuard,
) -> None:
    with socket.socket() as stream, pytest.raises(NotLoopback):
        stream.connect((ELSEWHERE, 443))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagram, pytest.raises(NotLoopback):
        datagram.sendto(b"x", (ELSEWHERE, 53))
    with pytest.raises(NotLoopback):
        socket.getaddrinfo("example.org", 443)
    with pytest.raises(NotLoopback):
        await asyncio.open_connection(ELSEWHERE, 443)
    assert socket_guard.refused[:3] == [ELSEWHERE, ELSEWHERE, "example.org"] and ELSEWHERE in socket_guard.refused[3:]
    socket_guard.refused.clear()
    with socket.create_server(("127.0.0.1", 0)) as server:
        for host in ("127.0.0.1", "localhost"):
            socket.create_connection((host, server.getsockname()[1]), timeout=5).close()
