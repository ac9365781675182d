"""Real worker and app processes to start and kill, and a stub of the service that notes who asked what and when."""

import multiprocessing
import os
import runpy
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from tests.stub_server import StubPlan, StubServer
from tests.stub_server.answering import read_asked
from tests.stub_server.server import stubs_beside

ROOT = Path(__file__).parents[2]


class NotingStub(StubServer):
    """The stub with the time of every request, by node and text."""

    def __init__(self, plan: StubPlan) -> None:
        super().__init__(plan)
        self.asked_at: dict[tuple[str, str], list[float]] = defaultdict(list)

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        asked = read_asked(await request.json())
        self.asked_at[asked.node, asked.text].append(time.time())
        return await super()._messages(request)


ONCE = ["tests.jobs.files", "worker", "jobs.procrastinate", "screening.models.anthropic"]
"""What is imported once, for all processes that are forked."""


class Forked:
    """A process forked from one that has everything imported; it has what a `subprocess.Popen` has."""

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(ONCE)
        self._process: ForkServerProcess = context.Process(target=function, args=arguments, daemon=True)
        self._process.start()
        self.pid = int(self._process.pid or 0)

    def poll(self) -> int | None:
        """What it ended with; None while it lives."""
        return self._process.exitcode

    def send_signal(self, sign: int) -> None:
        """Whether it lives or not."""
        if self.poll() is None:
            os.kill(self.pid, sign)

    def wait(self, timeout: float) -> int | None:
        """Until it has ended, but no longer than so many seconds."""
        self._process.join(timeout)
        return self.poll()


def run_program(arguments: tuple[str, ...], environment: Mapping[str, str], log: Path) -> None:
    """As a python that is started with these arguments."""
    os.environ.clear()
    os.environ.update(environment)
    written = os.open(log, os.O_WRONLY | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(written, stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    module, sys.argv = arguments[0] == "-m", list(arguments[arguments[0] == "-m" :])
    run = runpy.run_module if module else runpy.run_path
    run(sys.argv[0], run_name="__main__")


class Workers:
    """Worker processes of this test, or apps. ``options`` are settings without their prefix."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.alive: list[Any] = []

    def start(self, database_url: str, options: Mapping[str, Any], program: tuple[str, ...] = ("worker.py",)) -> int:
        """Start one; returns its number in `alive`."""
        with self._next_log().open("wb") as log:
            command, env = [sys.executable, *program], environment(database_url, options)
            return self._keep(subprocess.Popen(command, cwd=ROOT, env=env, stderr=log, stdout=log))

    def fork(self, database_url: str, options: Mapping[str, Any], program: tuple[str, ...] = ("worker.py",)) -> int:
        """The same in a twentieth of the time, where how the program starts is not what is tried."""
        return self._keep(Forked(run_program, program, environment(database_url, options), self._next_log()))

    def _next_log(self) -> Path:
        self._log = self._folder / f"worker-{secrets.token_hex(4)}.log"
        self._log.touch()
        return self._log

    def _keep(self, process: Any) -> int:
        process.log = self._log
        self.alive.append(process)
        return len(self.alive) - 1

    def up(self, number: int = -1) -> None:
        """Wait until it has prepared its database and begins to work."""
        wait_for(lambda: self.is_up(number), 60)

    def is_up(self, number: int = -1) -> bool:
        assert not self.dead(number), self.log_of(number)
        return "screening what is pending" in self.log_of(number)

    def log_of(self, number: int = -1) -> str:
        log: Path = self.alive[number].log
        return log.read_text(encoding="utf-8", errors="replace")

    def dead(self, number: int = -1) -> bool:
        return bool(self.alive[number].poll() is not None)

    def kill(self, number: int = -1, sign: int = signal.SIGKILL) -> None:
        """End it, by default without warning, and wait until it is gone."""
        process = self.alive.pop(number)
        process.send_signal(sign)
        process.wait(timeout=30)

    def end(self) -> None:
        while self.alive:
            self.kill()


def app_program(port: int) -> tuple[str, ...]:
    return ("app.py", "--port", str(port))


def serves(port: int) -> bool:
    """Whether the app on this port answers that it is well."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/_stcore/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def environment(database_url: str, options: Mapping[str, Any]) -> dict[str, str]:
    names = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
    kept = {name: os.environ[name] for name in names if name in os.environ}
    settings = {f"SECOND_LOOK_{name.upper()}": str(value) for name, value in options.items() if name.islower()}
    given = {name: str(value) for name, value in options.items() if not name.islower()}
    return kept | settings | given | {"DATABASE_URL": database_url, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "ignore"}


def wait_for(condition: Callable[[], bool], within_s: float) -> float:
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < within_s, "it did not happen in time"
        time.sleep(0.05)
    return time.monotonic() - started


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    started = Workers(tmp_path)
    yield started
    started.end()


@pytest.fixture
def stub() -> Iterator[Callable[[StubPlan], NotingStub]]:
    """Starts stubs, each in a thread of its own, so that a test may block."""
    with stubs_beside(NotingStub) as start:
        yield start
