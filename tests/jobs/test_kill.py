"""SIGKILL to each program at some moment: nothing is lost, doubled, or asked again once committed."""

import json
import os
import random
import signal
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, text

import serve
from screening.review.policy import LOCAL_USER
from screening.settings import Settings
from storage.batches.batch_state import standing
from storage.batches.batches import progress
from storage.batches.counts import kinds
from storage.batches.intake import last_row, read_rejected, takes_rows
from storage.database import Database
from storage.schema import audit_events, cases, inbox_entries, node_runs, pending_cases, screenings
from tests.jobs.files import batch_from, hand_over, settings, take_in, write_posts
from tests.jobs.processes import Forked, NotingStub, Workers, serves, wait_for
from tests.jobs.running import batch
from tests.processes import free_port
from tests.storage.recount import recount, recount_kinds
from tests.stub_server import StubPlan, TextRule

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

TIMES = 4 if "SECOND_LOOK_FULL" in os.environ else 1
ROWS, REJECTED_EVERY = 60 * TIMES, 30
PLAN = StubPlan(
    latency_s=0.05,
    jitter_s=0.1,
    weights={"safe": 0.97, "escalate": 0.03},
    texts=(
        TextRule(contains="want to die", weights={"unsafe": 0.97, "escalate": 0.03}),
        TextRule(contains="pointless", weights={"unsafe": 0.15, "escalate": 0.8, "safe": 0.05}),
    ),
)


def test_workers_killed_over_one_batch_lose_and_double_nothing(
    db: Database, database_url: str, workers: Workers, stub: Callable[[StubPlan], NotingStub], tmp_path: Path
) -> None:
    """On a server two of them, of which the one that has lived longer is killed each time."""
    service, many, rng = stub(PLAN), 1 if db.kind == "sqlite" else 2, random.Random(20)
    options = {
        "ANTHROPIC_BASE_URL": service.url,
        "ANTHROPIC_API_KEY": "k",
        "requests_per_minute": 1_000_000,
        "cases_in_flight": 6 // many,
    }
    accepted = write_posts(tmp_path / "posts.csv", ROWS, REJECTED_EVERY)
    batch_id = batch_from(db, tmp_path / "posts.csv", settings(database_url, options))
    for kill in range(2 * TIMES):
        while len(workers.alive) < many:
            workers.fork(database_url, options)
        left = accepted * (1 - (kill + 1) / (2 * TIMES + 2))
        wait_for(lambda left=left: workers.dead(0) or progress(db, batch_id).pending < left, 120)  # type: ignore[misc]
        time.sleep(rng.uniform(0.0, 0.2))
        assert not workers.dead(0), workers.log_of(0)
        workers.kill(0)
    assert progress(db, batch_id).pending > 0, "all was screened by the last kill"
    service.plan = PLAN.model_copy(update={"latency_s": 0.0, "jitter_s": 0.0})
    workers.fork(database_url, options)
    wait_for(lambda: progress(db, batch_id).finished_at is not None, 120)
    _each_row_has_one_outcome(db, batch_id, accepted)
    _nothing_committed_was_asked_again(db, service)


def _each_row_has_one_outcome(db: Database, batch_id: str, accepted: int) -> None:
    _each_row_is_in_once(db, batch_id, ROWS, REJECTED_EVERY)
    with db.read() as conn:
        outcomes = Counter(dict(conn.execute(select(screenings.c.case_id, func.count()).group_by("case_id")).all()))
        assert set(outcomes.values()) == {1} and len(outcomes) == accepted == len(set(_ids(conn, cases.c.id)))
        assert not _ids(conn, pending_cases.c.case_id)
        to_people = select(screenings.c.case_id).where(screenings.c.outcome == "human_review")
        assert set(conn.execute(to_people).scalars()) <= set(_ids(conn, inbox_entries.c.case_id))
        reasons = Counter(_ids(conn, screenings.c.reason))
    assert reasons["repeated_failure"] <= accepted * 0.05, f"kills from outside are blamed on the cases: {reasons}"
    assert reasons["identified"] > accepted / 2


def _each_row_is_in_once(db: Database, batch_id: str, rows: int, rejected_every: int) -> None:
    empty = range(rejected_every, rows + 1, rejected_every)
    refused = [(one.row, one.line, one.external_id, one.reason) for one in read_rejected(db, LOCAL_USER, batch_id)]
    assert refused == [(row, row + 1, f"p{row}", "empty_text") for row in empty]
    found = db.rows(select(cases.c.row, cases.c.external_id, cases.c.text).order_by(cases.c.row))
    assert [row.row for row in found] == [row for row in range(1, rows + 1) if row not in empty]
    assert all(row.external_id == f"p{row.row}" and f"day {row.row}." in row.text for row in found)
    with db.read() as conn:
        assert recount(conn, batch_id) == standing(conn, batch_id).totals
        assert recount_kinds(conn, batch_id) == kinds(conn, batch_id)


def _nothing_committed_was_asked_again(db: Database, service: NotingStub) -> None:
    """No request for a node's draws on a text after the run that stands was complete."""
    query = select(cases.c.text, node_runs.c.node, node_runs.c.calls, node_runs.c.ended_at).join(
        cases, cases.c.id == node_runs.c.case_id
    )
    runs = db.rows(query)
    assert len(runs) >= ROWS * 0.9
    for run in runs:
        asked = service.asked_at[run.node, run.text]
        assert len(asked) >= run.calls
        # Of a draw batch that was broken off some requests are still on their way; who starts again takes a moment.
        assert max(asked) <= run.ended_at.timestamp() + 0.5, f"{run.node} asked again after its run was committed"


def _ids(conn: Any, column: Any) -> list[str]:
    return list(conn.execute(select(column)).scalars())


FILE_ROWS, FILE_REJECTED_EVERY = 1_600 * TIMES, 40


@pytest.fixture
def start(database_url: str, tmp_path: Path) -> Iterator[Callable[[], Forked]]:
    """Starts processes that take in what is unfinished and end with the test."""
    begun: list[Forked] = []

    def one() -> Forked:
        begun.append(Forked(take_in, settings(database_url, {"data_directory": tmp_path / "data"})))
        return begun[-1]

    yield one
    for process in begun:
        _kill(process)


def _kill(process: Forked) -> None:
    process.send_signal(signal.SIGKILL)
    process.wait(30)


def test_a_file_is_taken_in_once_by_two_processes_however_often_either_dies(
    db: Database, database_url: str, start: Callable[[], Forked], tmp_path: Path
) -> None:
    """One that outlived its app beside the one that was started for it."""
    write_posts(tmp_path / "posts.csv", FILE_ROWS, FILE_REJECTED_EVERY)
    upload = hand_over(db, tmp_path / "posts.csv", settings(database_url, {"data_directory": tmp_path / "data"}))
    batch_id, rng, hits = str(upload.batch_id), random.Random(9), 0
    both = [start(), start()]
    while hits < 2 * TIMES:
        before = last_row(db, batch_id)
        wait_for(lambda before=before: last_row(db, batch_id) > before or both[0].poll() is not None, 60)  # type: ignore[misc]
        both[0].wait(rng.uniform(0.0, 0.05))
        assert all(process.poll() is None for process in both), "one ended before the file was in"
        number = rng.randrange(2)
        _kill(both[number])
        hits += 0 < last_row(db, batch_id) < FILE_ROWS
        both[number] = start()
    for process in both:
        _kill(process)
    assert takes_rows(db, batch_id), "the file was in before the last kill"
    both = [start(), start()]
    for process in both:
        assert process.wait(120) == 0 and not takes_rows(db, batch_id)
    _each_row_is_in_once(db, batch_id, FILE_ROWS, FILE_REJECTED_EVERY)
    assert set(db.values(select(pending_cases.c.row))) == set(db.values(select(cases.c.row)))
    audited = dict(map(tuple, db.rows(select(audit_events.c.action, func.count()).group_by("action"))))
    assert audited["intake_closed"] == 1 and not list(upload.path.parent.iterdir())


WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


def test_a_worker_whose_statements_hang_ends_within_ten_seconds(
    postgresql_db: Database, postgresql_url: str, workers: Workers
) -> None:
    """A thread that waits for a lock cannot be interrupted: the process ends without it."""
    batch(postgresql_db, 20)
    with postgresql_db.write() as holding:
        holding.execute(text("LOCK TABLE pending_cases IN EXCLUSIVE MODE"))
        workers.fork(postgresql_url, {"sampler": "simulated"}, ("worker.py",))
        workers.up()
        wait_for(lambda: holding.execute(text(WAITING)).scalar_one() > 0, 60)
        process = workers.alive[-1]
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        assert time.monotonic() - began < 10


def _children(pid: int) -> dict[str, int]:
    found = {}
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with suppress(OSError):
            command = Path(f"/proc/{child}/cmdline").read_bytes()
            found["worker" if b"worker.py" in command else "app"] = int(child)
    return found


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="processes are looked up in /proc")
def test_app_and_worker_that_are_killed_come_back_and_outlive_no_killed_supervisor(
    sqlite_url: str, workers: Workers, tmp_path: Path
) -> None:
    db, port = Database(sqlite_url), free_port()
    options = {"sampler": "simulated", "simulated_latency_s": 0.3, "data_directory": tmp_path, "log_format": "json"}
    accepted = write_posts(tmp_path / "posts.csv", ROWS, REJECTED_EVERY)
    batch_id = str(hand_over(db, tmp_path / "posts.csv", settings(sqlite_url, options)).batch_id)
    workers.start(sqlite_url, options, ("serve.py", "--port", str(port)))
    pid = workers.alive[-1].pid
    wait_for(lambda: 0 < progress(db, batch_id).pending < accepted and serves(port), 90)
    first = _children(pid)
    for name, other in (("worker", "app"), ("app", "worker")):
        before = _children(pid)
        os.kill(before[name], signal.SIGKILL)
        wait_for(lambda name=name: _children(pid).get(name) not in (None, first[name]), 30)  # type: ignore[misc]
        assert _children(pid)[other] == before[other]
    wait_for(lambda: serves(port), 60)
    told = [json.loads(line) for line in workers.log_of().splitlines() if line.startswith("{")]
    assert [one["message"].split(" ended")[0] for one in told if one["name"] == "serve"] == ["the worker", "the app"]
    children = _children(pid)
    workers.kill()
    wait_for(lambda: not any(Path(f"/proc/{child}").exists() for child in children.values()), 30)
    assert not serves(port)
    workers.fork(sqlite_url, {"sampler": "simulated"})
    wait_for(lambda: progress(db, batch_id).finished_at is not None, 60)
    _each_row_has_one_outcome(db, batch_id, accepted)
    db.close()


def test_what_serve_starts_and_that_a_port_which_another_program_has_ends_it(
    sqlite_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It had started app and worker again and again, as if the other program's answers were the app's."""
    started = [serve.commands(Settings(_env_file=None, api_port=port), 1) for port in (None, 8602)]
    assert [command.get("api", ())[3:] for command in started] == [(), ("--port", "8602")]
    monkeypatch.setattr(serve, "GIVEN_UP_WITHIN_S", 0.1)
    with closing(socket.create_server(("127.0.0.1", 0))) as other:
        port = other.getsockname()[1]
        assert serve.serve(Settings(_env_file=None, DATABASE_URL=sqlite_url), port) == 1
    assert f"port {port} is taken" in caplog.text
