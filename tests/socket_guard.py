"""Refuses what would leave this machine, in the tests and in programs that they start.

`python -m tests.socket_guard LOG MODULE …` runs a module so, and notes what it tried beyond: one host a line in LOG. It
finds what it would without an internet: each attempt fails.
"""

import ipaddress
import runpy
import sys
from pathlib import Path
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


if __name__ == "__main__":
    log, module = Path(sys.argv[1]), sys.argv[2]
    guard = SocketGuard()

    def noted(event: str, arguments: tuple[object, ...]) -> None:
        """The guard, with its refusals on disk."""
        try:
            guard(event, arguments)
        except NotLoopback:
            with log.open("a", encoding="utf-8") as lines:
                lines.write(f"{event} {guard.refused[-1]}\n")
            raise

    log.touch()
    sys.addaudithook(noted)
    sys.argv = [module, *sys.argv[3:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
