"""A case that keeps killing its worker, a service killed over a file, a worker told to stop, an app or worker that
is killed: nothing is lost, and what should come back does.
"""

import json
import os
import signal
import socket
import time
import urllib.parse
import urllib.request
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy import func, select, text

import serve
from jobs.screening_job import MOST_STARTS
from screening.datasets.mapping import ColumnMapping, FileMapping, mapping_json
from screening.labels import Label
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from storage.batches.batches import progress
from storage.batches.intake import takes_rows
from storage.database import Database
from storage.schema import cases, inbox_entries, screenings
from storage.site.accounts import Scope, make_program
from tests.free_port import free_port
from tests.jobs.files import SENTENCES
from tests.jobs.killing_worker import DEADLY
from tests.jobs.processes import Workers, serves, wait_for
from tests.jobs.running import batch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

CASES, POISONED = 40, 5


def test_a_case_that_kills_its_worker_three_times_ends_with_a_human(
    db: Database, database_url: str, workers: Workers
) -> None:
    texts = [f"{SENTENCES[row % 4]}, day {row}." for row in range(1, CASES + 1)]
    texts[POISONED - 1] = f"This text is {DEADLY}."
    batch_id, deaths = batch(db, texts), 0
    while progress(db, batch_id).finished_at is None:
        assert deaths <= MOST_STARTS, "killed once more than allowed"
        workers.start(database_url, {}, ("-m", "tests.jobs.killing_worker", database_url))
        wait_for(lambda: workers.dead() or progress(db, batch_id).finished_at is not None, 120)
        deaths += workers.alive[-1].poll() == -signal.SIGKILL  # who gave up by itself was not killed by the text
        workers.kill()
    assert deaths == MOST_STARTS
    ends = db.rows(select(cases.c.row, screenings.c.reason, screenings.c.outcome).join(cases))
    waiting = set(db.values(select(cases.c.row).join(inbox_entries)))
    assert len(ends) == CASES == len({end.row for end in ends})
    blamed = [(end.row, end.outcome) for end in ends if end.reason == "repeated_failure"]
    assert blamed == [(POISONED, "human_review")], f"others were blamed: {Counter(end.reason for end in ends)}"
    assert POISONED in waiting


ROWS = 3_000
VALUES = ("quiet", "grave")
"""Of the label column: what they stand for is in the mapping that the program sends with the file."""
MAPPING = mapping_json(
    FileMapping(
        columns=ColumnMapping(text="text", id="id", label="label"), labels={"quiet": Label.SAFE, "grave": Label.UNSAFE}
    )
)


def _is_up(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _rows_in(db: Database) -> int:
    return db.value(select(func.count()).select_from(cases))


def test_a_file_goes_on_where_the_service_was_killed(
    db: Database, database_url: str, workers: Workers, tmp_path: Path
) -> None:
    made = make_program(db, LOCAL_USER.at(datetime.now(UTC)), "chat", set(Scope), 100)
    port, folder = free_port(), tmp_path / "data" / "programs"
    address, options = f"http://127.0.0.1:{port}", {"sampler": "simulated", "data_directory": tmp_path / "data"}

    def start() -> None:
        workers.start(database_url, options, ("-m", "screening", "api", "--port", str(port)))
        wait_for(lambda: _is_up(address), 120)

    start()
    lines = (f"p{row},a quiet day by the river,{VALUES[row % 2]}" for row in range(ROWS))
    headers = {"Authorization": f"Bearer {made.token}", "Idempotency-Key": "f1"}
    asked = urllib.request.Request(
        f"{address}/api/v1/batches?name=a.csv&mapping={urllib.parse.quote(MAPPING)}",
        data="\n".join(("id,text,label", *lines)).encode(),
        headers=headers,
    )
    with urllib.request.urlopen(asked, timeout=60) as answer:
        assert answer.status == 202
    wait_for(lambda: _rows_in(db) > 0, 60)
    workers.kill()
    assert _rows_in(db) < ROWS, "it was killed in the middle"
    start()
    wait_for(lambda: _rows_in(db) == ROWS and not list(folder.iterdir()), 120)
    found = dict(db.rows(select(cases.c.reference, func.count()).group_by(cases.c.reference)))
    (batch_id,) = db.values(select(cases.c.batch_id).distinct())
    assert found == {"safe": ROWS // 2, "unsafe": ROWS // 2} and not takes_rows(db, batch_id)


WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


def test_a_worker_whose_statements_hang_ends_within_ten_seconds(
    postgresql_db: Database, postgresql_url: str, workers: Workers
) -> None:
    """A thread that waits for a lock cannot be interrupted: the process ends without it."""
    batch(postgresql_db, 20)
    with postgresql_db.write() as holding:
        holding.execute(text("LOCK TABLE pending_cases IN EXCLUSIVE MODE"))
        workers.start(postgresql_url, {"sampler": "simulated"})
        workers.up()
        wait_for(lambda: holding.execute(text(WAITING)).scalar_one() > 0, 60)
        process = workers.alive[-1]
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        assert time.monotonic() - began < 10


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
    db, port = Database(sqlite_url), free_port()
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


def test_the_api_is_started_where_its_port_is_set() -> None:
    started = [serve.commands(Settings(_env_file=None, api_port=port), 1) for port in (None, 8602)]
    assert [command.get("api", ())[3:] for command in started] == [(), ("--port", "8602")]


def test_a_port_that_another_program_has_ends_it(sqlite_url: str, workers: Workers, tmp_path: Path) -> None:
    """It had started app and worker again and again, as if the other program's answers were the app's."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        workers.start(sqlite_url, {"data_directory": tmp_path}, ("serve.py", "--port", str(port)))
        wait_for(lambda: workers.dead(0), 60)
    assert workers.alive[0].returncode == 1 and f"port {port} is taken" in workers.log_of(0)
