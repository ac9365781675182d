"""Further processes of a test, which begin with nothing of this one's, and ports for them."""

import multiprocessing
import random
import signal
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from types import ModuleType
from unittest.mock import patch


@contextmanager
def processes(count: int) -> Iterator[ProcessPoolExecutor]:
    """So many, started anew; one that dies fails the test. The main module is not run again in them: where a page was
    drawn before, it is the page, and each process would draw it once more.
    """
    own = patch.dict(sys.modules, {"__main__": ModuleType("__main__")})
    with own, ProcessPoolExecutor(count, multiprocessing.get_context("spawn")) as pool:
        yield pool


def usual_handlers() -> None:
    """For a child that is to be stopped: a suite started by nohup or in the background hands down ignored signals."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


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
