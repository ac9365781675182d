"""Tests of the jobs run on both kinds of database, with real worker processes and a real stub of the service."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from jobs.agents import Agents
from screening.settings import Settings
from tests.jobs.processes import stub, workers
from tests.jobs.running import MakeAgents

__all__ = ["stub", "workers"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow ones begin first, so that no process is left alone with one in the end."""
    here = Path(__file__).parent
    items.sort(key=lambda item: here not in item.path.parents or item.get_closest_marker("slow") is None)


@pytest.fixture
async def agents_of() -> AsyncIterator[MakeAgents]:
    """Makes agents whose connections are closed when the test ends, however it ends: what one leaves open would fail
    whichever test of the process is next.
    """
    async with AsyncExitStack() as stack:

        def make(settings: Settings) -> Agents:
            agents = Agents(settings)
            stack.push_async_callback(agents.aclose)
            return agents

        yield make
