"""Refuses what would leave this machine, in the tests and in programs that they start."""

import ipaddress
from typing import Any


class NotLoopback(OSError):
    """A test tried to reach another machine."""


class SocketGuard:
    """Refuses connections, datagrams and name look-ups that leave the machine, and remembers where they were to go.

    It listens to the interpreter's own audit events, so no library can go round it by having imported something
    earlier. Connections made in C (libpq) and in processes that a test starts are not seen.
    """

    def __init__(self) -> None:
        self.refused: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """The audit hook: an exception from here stops what was about to be done."""
        if event in ("socket.connect", "socket.sendto"):
            address = arguments[1]
            if isinstance(address, tuple):
                self._require_loopback(address[0])
        elif event == "socket.sendmsg" and isinstance(arguments[1], tuple):
            self._require_loopback(arguments[1][0])
        elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
            self._require_loopback(arguments[0])

    def _require_loopback(self, host: str | bytes | None) -> None:
        name = host.decode() if isinstance(host, bytes) else host
        if name in (None, "", "localhost") or _is_loopback(str(name)):
            return
        self.refused.append(str(name))
        raise NotLoopback(f"tests stay on this machine: {name} refused")


def _is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name.partition("%")[0]).is_loopback
    except ValueError:
        return False
