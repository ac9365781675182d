"""A stub of the Messages API beside the command line: real HTTP through the real library, in a thread of its own."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.stub_server.plan import StubPlan
from tests.stub_server.server import StubServer


def _serve(plan: StubPlan, ready: "threading.Event", found: list[StubServer], ended: threading.Event) -> None:
    async def run() -> None:
        async with StubServer(plan) as stub:
            found.append(stub)
            ready.set()
            while not ended.is_set():  # noqa: ASYNC110 - the event is another thread's
                await asyncio.sleep(0.02)

    asyncio.run(run())


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[StubPlan], StubServer]]:
    """Start a stub with a plan; the command line's settings then point at it."""
    with ExitStack() as stack:

        def start(plan: StubPlan) -> StubServer:
            ready, ended, found = threading.Event(), threading.Event(), list[StubServer]()
            thread = threading.Thread(target=_serve, args=(plan, ready, found, ended))
            thread.start()
            stack.callback(thread.join, 10)
            stack.callback(ended.set)
            assert ready.wait(10)
            monkeypatch.setenv("ANTHROPIC_BASE_URL", found[0].url)
            monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
            monkeypatch.setenv("SECOND_LOOK_REQUESTS_PER_MINUTE", "1000000")
            return found[0]

        yield start
