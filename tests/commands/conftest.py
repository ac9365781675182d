"""A command run in this process, and a stub of the Messages API beside it: real HTTP through the real library."""

import json
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from commands.__main__ import main
from tests.stub_server import StubPlan, StubServer
from tests.stub_server.server import stubs_beside


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def report(self) -> Any:
        """What it wrote as JSON: all, or its last line."""
        return json.loads(self.out if self.out.startswith("{\n") else self.out.splitlines()[-1])


Run = Callable[..., Said]
StartStub = Callable[[StubPlan], StubServer]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command with these words, whatever it ends with."""

    def run(*words: object) -> Said:
        capsys.readouterr()
        return Said(main([str(word) for word in words]), *capsys.readouterr())

    return run


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> Iterator[StartStub]:
    """Start a stub with a plan; the command line's settings then point at it."""

    def begin(plan: StubPlan) -> StubServer:
        server = start(plan)
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", "test-key")
        monkeypatch.setenv("SECOND_LOOK_REQUESTS_PER_MINUTE", "1000000")
        return server

    with stubs_beside(StubServer) as start:
        yield begin
