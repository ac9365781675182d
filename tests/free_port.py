"""A port of this machine that nobody uses."""

import socket


def free_port() -> int:
    """A free TCP port on loopback, as the operating system gives it."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])
