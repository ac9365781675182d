"""Stubs in a thread beside a test, so that the test may block."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from tests.stub_server.plan import StubPlan
from tests.stub_server.server import StubServer

Stub = TypeVar("Stub", bound=StubServer)


@contextmanager
def stubs_beside(kind: type[Stub]) -> Iterator[Callable[[StubPlan], Stub]]:
    """Starts stubs of this kind; all end with the test."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    begun: list[Stub] = []

    def start(plan: StubPlan) -> Stub:
        server = kind(plan)
        asyncio.run_coroutine_threadsafe(server.__aenter__(), loop).result(10)
        begun.append(server)
        return server

    yield start
    for server in begun:
        asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
