"""A connection to anything but loopback is refused, and fails the test that tried; none fails for being slow."""

import gc
import os
import pkgutil
import sys
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.databases import *  # noqa: F403 - the fixtures: one template and one server for all tests of a process
from tests.databases import choose_databases, in_memory
from tests.socket_guard import SocketGuard

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
if (memory := in_memory()) is not None:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", memory)  # where `tmp_path` is, of this process and its workers
os.environ.setdefault("SECOND_LOOK_AUDIT_KEY", "the key of every test, whatever its data directory")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs the server says so, whichever of its fixtures it asks for."""
    for item in items:
        if "postgresql_server" in getattr(item, "fixturenames", ()):
            item.add_marker("postgresql")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    choose_databases(metafunc)


gc.disable()


def pytest_collection_finish() -> None:
    """Thousands of tests stay in memory: the garbage collector need not walk over them each time."""
    gc.collect()
    gc.freeze()
    gc.enable()


PAUSES = (
    "screening.models.retries._FIRST_PAUSE_S",
    "screening.models.retries._LONGEST_PAUSE_S",
    "jobs.model_health.FIRST_PAUSE_S",
    "jobs.model_health.LONGEST_PAUSE_S",
)


@pytest.fixture
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who tries again after a fault waits a twentieth of what it waits in service."""
    for name in PAUSES:
        monkeypatch.setattr(name, pkgutil.resolve_name(name) / 20)


@pytest.fixture(scope="session")
def socket_guard() -> SocketGuard:
    """The guard of this process; a hook of the interpreter stays until it ends."""
    guard = SocketGuard()
    sys.addaudithook(guard)
    return guard


@pytest.fixture(autouse=True)
def _only_loopback(socket_guard: SocketGuard) -> Iterator[None]:
    """Also fails a test whose code caught the refusal."""
    yield
    refused, socket_guard.refused[:] = list(socket_guard.refused), []
    assert not refused, f"this test tried to reach {', '.join(refused)}"
