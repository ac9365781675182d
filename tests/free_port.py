"""A port of this machine that nobody uses."""

import random
import socket
from contextlib import suppress


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def lasting_port() -> int:
    """A free port that the system gives to nobody else, so that one program after the other can have it."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port of a hundred is free")
