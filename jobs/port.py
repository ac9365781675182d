"""What a runner of screening jobs is, whichever engine is behind it."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

Clock = Callable[[], datetime]
INTERACTIVE_PLACES = 4
"""Cases that somebody waits for which a worker takes beside the most it may of batches: no batch ever fills it."""


def system_clock() -> datetime:
    """The time now, in UTC."""
    return datetime.now(UTC)


class Runner(Protocol):
    """Takes pending cases until told to stop. Pause, resume and cancel are facts on the batch that it reads."""

    async def run(self) -> None:
        """Work until `stop`; cases in flight end at their next committed node."""
        ...

    def stop(self) -> None:
        """Ask `run` to come to an end."""
        ...
