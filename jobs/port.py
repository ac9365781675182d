"""What a runner of screening jobs is, whichever engine is behind it."""

import os
import secrets
import socket
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

Clock = Callable[[], datetime]
INTERACTIVE_PLACES = 4
"""Cases that somebody waits for which a worker takes beside the most it may of batches: no batch ever fills it."""


def system_clock() -> datetime:
    """The time now, in UTC."""
    return datetime.now(UTC)


def worker_name(prefix: str = "") -> str:
    """A name of this process for the records and the shared limits.

    Two containers on one host may have its name and the same process number: the end is random, so that neither
    is taken for the other. Nobody who starts again finds its former self by it.
    """
    return f"{prefix}{socket.gethostname()}"[:40] + f"-{os.getpid()}-{secrets.token_hex(6)}"


class WorkerEnded(RuntimeError):
    """The engine's worker ended without being asked to: the process should end and be started again."""


class Runner(Protocol):
    """Takes pending cases until told to stop. Pause, resume and cancel are facts on the batch that it reads."""

    async def run(self) -> None:
        """Work until `stop`; cases in flight end at their next committed node."""
        ...

    def stop(self) -> None:
        """Ask `run` to come to an end."""
        ...
