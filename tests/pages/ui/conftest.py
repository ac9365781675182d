"""A real app that can reach nothing but this machine."""

import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests.free_port import free_port

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, kw_only=True)
class Guarded:
    """A real app that can reach nothing but this machine."""

    address: str
    tried: Path

    def health(self) -> float:
        """Seconds until the app says that it is well."""
        begun = time.perf_counter()
        with urllib.request.urlopen(f"http://{self.address}/_stcore/health", timeout=30) as answer:
            assert answer.status == 200
        return time.perf_counter() - begun

    def status(self, path: str) -> int:
        """How a request is answered."""
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=30) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            return refused.code

    def connect(self, origin: str) -> ClientConnection:
        """A web socket as a browser on a page of this origin opens it."""
        return connect(
            f"ws://{self.address}/_stcore/stream", origin=Origin(origin), proxy=None, open_timeout=30, max_size=None
        )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """The app, started as `serve.py` starts it, behind a guard that refuses and notes what goes outside."""
    folder, port = tmp_path_factory.mktemp("guarded"), free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SECOND_LOOK_", "STREAMLIT_"))}
    environment = kept | {
        "DATABASE_URL": f"sqlite:///{folder / 'x.db'}",
        "SECOND_LOOK_DATA_DIRECTORY": str(folder / "data"),
        "SECOND_LOOK_SAMPLER": "simulated",
    }
    program = ("app", "--port", str(port))
    started = [sys.executable, "-m", "tests.guarded_program", str(folder / "tried"), *program]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(started, cwd=ROOT, env=environment, stdout=log, stderr=log)
    app = Guarded(address=f"127.0.0.1:{port}", tried=folder / "tried")
    try:
        for _ in range(1200):
            assert process.poll() is None, (folder / "log").read_text()
            try:
                app.health()
                break
            except OSError:
                time.sleep(0.1)
        yield app
    finally:
        process.terminate()
        process.wait(timeout=30)
