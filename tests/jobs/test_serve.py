"""`make run`: app and worker live and die together, and either comes back when it is killed."""

import json
import os
import signal
import socket
from contextlib import suppress
from pathlib import Path

import pytest

import serve
from screening.settings import Settings
from storage.batches.batches import progress
from storage.database import Database
from tests.jobs.processes import Workers, serves, wait_for
from tests.jobs.running import batch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


def _port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def _children(pid: int) -> dict[str, int]:
    """The app's and the worker's process."""
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(OSError):
            command = Path(f"/proc/{child}/cmdline").read_bytes()
            found["worker" if b"worker.py" in command else "app"] = int(child)
    return found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are looked up in /proc")
def test_what_is_killed_comes_back_and_nothing_outlives_a_killed_supervisor(
    sqlite_url: str, workers: Workers, tmp_path: Path
) -> None:
    db, port = Database(sqlite_url), _port()
    batch_id = batch(db, 400)
    options = {"sampler": "simulated", "simulated_latency_s": 0.3, "data_directory": tmp_path, "log_format": "json"}
    workers.start(sqlite_url, options, ("serve.py", "--port", str(port)))
    pid = workers.alive[-1].pid
    wait_for(lambda: progress(db, batch_id).pending < 400 and serves(port), 90)
    first = _children(pid)
    os.kill(first["worker"], signal.SIGKILL)
    left = progress(db, batch_id).pending
    wait_for(lambda: _children(pid).get("worker") not in (None, first["worker"]), 30)
    wait_for(lambda: progress(db, batch_id).pending < left - 10, 60)
    children = _children(pid)
    assert children["app"] == first["app"] and serves(port)
    os.kill(first["app"], signal.SIGKILL)
    wait_for(lambda: _children(pid).get("app") not in (None, first["app"]) and serves(port), 60)
    told = [json.loads(line) for line in workers.log_of().splitlines() if line.startswith("{")]
    assert [one["message"].split(" ended")[0] for one in told if one["name"] == "serve"] == ["the worker", "the app"]
    children = _children(pid)
    workers.kill()
    wait_for(lambda: not any(Path(f"/proc/{child}").exists() for child in children.values()), 30)
    assert not serves(port)
    workers.start(sqlite_url, options | {"simulated_latency_s": 0}, ("serve.py", "--port", str(port)))
    wait_for(lambda: progress(db, batch_id).finished_at is not None and serves(port), 90)
    workers.kill(sign=signal.SIGTERM)
    db.close()


@pytest.mark.parametrize(
    ("file", "given", "port"),
    [
        (None, None, ""),
        (None, "8601", "8601"),
        ("SECOND_LOOK_SEED=7\n", None, ""),
        ("# for programs\nsecond_look_api_port = '8602'  # here\n", None, "8602"),
        ("SECOND_LOOK_API_PORT=8602", "8601", "8601"),
        ("SECOND_LOOK_API_PORT=8602", "", "8602"),
        ("SECOND_LOOK_API_PORT=\n", None, ""),
    ],
)
def test_the_api_s_port_is_set_where_every_setting_may_stand(
    file: str | None, given: str | None, port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serve, "HERE", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SECOND_LOOK_API_PORT", raising=False)
    if file is not None:
        (tmp_path / ".env").write_text(file)
    if given is not None:
        monkeypatch.setenv("SECOND_LOOK_API_PORT", given)
    assert serve.set_to(serve.API_PORT) == port == str(Settings().api_port or ""), "app and worker read the same"


def test_a_port_that_another_program_has_ends_it(sqlite_url: str, workers: Workers, tmp_path: Path) -> None:
    """It had started app and worker again and again, as if the other program's answers were the app's."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        workers.start(sqlite_url, {"data_directory": tmp_path}, ("serve.py", "--port", str(port)))
        wait_for(lambda: workers.dead(0), 60)
    assert workers.alive[0].returncode == 1 and f"port {port} is taken" in workers.log_of(0)
