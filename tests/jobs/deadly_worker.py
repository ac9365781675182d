"""worker.py, whose model kills the process on a certain text."""

import asyncio
import os
import signal
import sys
from collections.abc import Sequence

import worker
from jobs.agents import Agents
from screening.pipeline.draws import Draw, DrawRequest, DrawSource

DEADLY = "deadly to workers"


class Killing:
    """Kills its process on the deadly text, and else draws as the sampler it stands before."""

    def __init__(self, inner: DrawSource) -> None:
        self._inner = inner

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        if DEADLY in request.text.text:
            await asyncio.sleep(0.05)  # so that others are in flight when it strikes
            os.kill(os.getpid(), signal.SIGKILL)
        return await self._inner.draw(request)


if __name__ == "__main__":
    usual = Agents.sampler
    Agents.sampler = lambda agents, *given: Killing(usual(agents, *given))  # type: ignore[assignment, method-assign]
    sys.exit(worker.main())
