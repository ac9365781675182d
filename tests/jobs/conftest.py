"""Tests of the jobs run on both kinds of database, with real worker processes and a real stub of the service."""

from pathlib import Path

import pytest

from tests.jobs.processes import stub, workers

__all__ = ["stub", "workers"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slow ones begin first, so that no process is left alone with one in the end."""
    here = Path(__file__).parent
    items.sort(key=lambda item: here not in item.path.parents or item.get_closest_marker("slow") is None)
