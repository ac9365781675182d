"""SIGKILL at any moment, to the app, the workers or both, or while a file is taken in: nothing is lost, doubled, or
asked again once committed.
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from jobs.uploads import Upload
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from storage.batches import counts
from storage.batches.batches import Progress, progress
from storage.batches.counts import kinds
from storage.batches.intake import last_row, read_rejected, takes_rows
from storage.database import Database
from storage.schema import audit_events, cases, inbox_entries, node_runs, pending_cases, screenings
from tests.free_port import free_port
from tests.jobs.files import hand_over, settings, write_posts
from tests.jobs.processes import NotingStub, Workers, app_program, serves, wait_for
from tests.jobs.taking_in import started
from tests.storage.recount import recount, recount_kinds
from tests.stub_server import StubPlan, TextRule

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

TIMES = 2 if "SECOND_LOOK_FULL" in os.environ else 1
ROWS, REJECTED_EVERY = 150 * TIMES, 50
ROUNDS = ((("worker",),) * 4 + (("app",),) * 3 + (("app", "worker"),) * 2) * TIMES
PLAN = StubPlan(
    latency_s=0.2,
    jitter_s=0.15,
    weights={"safe": 0.97, "escalate": 0.03},
    texts=(
        TextRule(contains="want to die", weights={"unsafe": 0.97, "escalate": 0.03}),
        TextRule(contains="pointless", weights={"unsafe": 0.15, "escalate": 0.8, "safe": 0.05}),
    ),
)
SLOWEST_S = 8.0


@dataclass(kw_only=True)
class Site:
    """An app and its workers, started and killed."""

    apps: Workers
    workers: Workers
    url: str
    options: dict[str, Any]
    most_workers: int
    meanwhile: Callable[[], None]
    port: int = field(default_factory=free_port)

    def start(self) -> None:
        """Whatever is missing."""
        if not self.apps.alive:
            self.apps.start(self.url, self.options, app_program(self.port))
        while len(self.workers.alive) < self.most_workers:
            self.workers.start(self.url, self.options)

    def up(self) -> None:
        """Wait until all of them serve and work."""
        wait_for(self._is_up, 120)

    def _is_up(self) -> bool:
        self.meanwhile()
        return (serves(self.port) or self.apps.dead()) and all(map(self.workers.is_up, range(len(self.workers.alive))))

    def kill(self, victim: str) -> None:
        """Kill the app, or the worker that has lived longest; it must not have ended by itself."""
        processes = self.apps if victim == "app" else self.workers
        assert not processes.dead(0), f"the {victim} ended by itself:\n{processes.log_of(0)[-4000:]}"
        processes.kill(0)


def test_app_and_workers_killed_again_and_again_over_one_batch(
    db: Database,
    database_url: str,
    apps: Workers,
    workers: Workers,
    stub: Callable[[StubPlan], NotingStub],
    tmp_path: Path,
) -> None:
    service = stub(PLAN)
    most_workers = 1 if db.kind == "sqlite" else 2
    options = {
        "ANTHROPIC_BASE_URL": service.url,
        "ANTHROPIC_API_KEY": "k",
        "requests_per_minute": 1_000_000,
        "cases_in_flight": 6 // most_workers,
        "data_directory": tmp_path / "data",
    }
    accepted = write_posts(tmp_path / "posts.csv", ROWS, REJECTED_EVERY)
    upload = hand_over(db, tmp_path / "posts.csv", settings(database_url, options))

    def brake() -> None:
        service.plan = slower(progress(db, str(upload.batch_id)))

    site = Site(
        apps=apps, workers=workers, url=database_url, options=options, most_workers=most_workers, meanwhile=brake
    )
    started = time.monotonic()
    kills = _kill_again_and_again(site, db, upload, random.Random(20))
    found, killed = progress(db, str(upload.batch_id)), time.monotonic() - started
    assert 0 < found.pending < accepted, "all or nothing was screened by the last kill"
    service.plan = PLAN.model_copy(update={"latency_s": 0.0, "jitter_s": 0.0})
    site.start()
    wait_for(lambda: progress(db, str(upload.batch_id)).finished_at is not None and serves(site.port), 120)
    wait_for(lambda: not list(upload.path.parent.iterdir()), 60)
    _each_row_once(db, str(upload.batch_id), accepted)
    asked_in_vain = _nothing_committed_asked_again(db, service)
    took = f"{killed:.0f} s, done after {time.monotonic() - started:.0f} s, {found.pending} were pending"
    print(f"{db.kind}: {dict(kills)} in {took}; {asked_in_vain}")


def slower(found: Progress) -> StubPlan:
    """The fewer cases are left the later the service answers: the batch outlasts the kills on any machine."""
    pending = found.pending if found.accepted else ROWS
    slowness = max(1.0, (ROWS / 2 / max(pending, 1)) ** 2)
    return PLAN.model_copy(update={"latency_s": min(slowness * PLAN.latency_s, SLOWEST_S)})


def _kill_again_and_again(site: Site, db: Database, upload: Upload, rng: random.Random) -> Counter[str]:
    kills: Counter[str] = Counter()
    for number, victims in enumerate(rng.sample(ROUNDS, len(ROUNDS))):
        site.start()
        if number % 2:
            site.up()
            wait_for(lambda: progress(db, str(upload.batch_id)).rows_in > 0 or site.apps.dead(), 120)
            time.sleep(rng.uniform(0.0, 0.7))
        else:
            time.sleep(rng.uniform(0.0, 3.0))  # while they start
        site.meanwhile()
        kills["while rows come in"] += takes_rows(db, str(upload.batch_id))
        for victim in rng.sample(victims, len(victims)):
            site.kill(victim)
            kills[victim] += 1
    site.apps.end()
    site.workers.end()
    assert kills["app"] == 5 * TIMES and kills["worker"] == 6 * TIMES and kills["while rows come in"], kills
    return kills


def _each_row_once(db: Database, batch_id: str, accepted: int) -> None:
    found = progress(db, batch_id)
    assert (found.accepted, found.rejected) == (accepted, ROWS - accepted)
    assert found.safe + found.unsafe + found.human_review + found.pending == accepted
    refused = [(one.row, one.line, one.external_id, one.reason) for one in read_rejected(db, LOCAL_USER, batch_id)]
    empty = range(REJECTED_EVERY, ROWS + 1, REJECTED_EVERY)
    assert refused == [(row, row + 1, f"p{row}", "empty_text") for row in empty]
    with db.read() as conn:
        taken_in = conn.execute(select(cases.c.row, cases.c.external_id).order_by(cases.c.id)).all()
        assert list(map(tuple, taken_in)) == [(row, f"p{row}") for row in range(1, ROWS + 1) if row not in empty]
        outcomes = Counter(dict(conn.execute(select(screenings.c.case_id, func.count()).group_by("case_id")).all()))
        assert set(outcomes.values()) == {1} and len(outcomes) == accepted == len(set(_ids(conn, cases.c.id)))
        assert not _ids(conn, pending_cases.c.case_id)
        to_people = select(screenings.c.case_id).where(screenings.c.outcome == "human_review")
        assert set(conn.execute(to_people).scalars()) <= set(_ids(conn, inbox_entries.c.case_id))
        assert recount(conn, batch_id) == counts.totals(conn, [batch_id])[batch_id]
        assert recount_kinds(conn, batch_id) == kinds(conn, batch_id)
        reasons = Counter(conn.execute(select(screenings.c.reason)).scalars())
    assert reasons["repeated_failure"] <= accepted * 0.05, f"kills from outside are blamed on the cases: {reasons}"
    assert reasons["identified"] > accepted / 2


def _nothing_committed_asked_again(db: Database, service: NotingStub) -> str:
    """No request for a node's draws on a text after the run that stands was complete."""
    query = select(cases.c.text, node_runs.c.node, node_runs.c.calls, node_runs.c.ended_at).join(
        cases, cases.c.id == node_runs.c.case_id
    )
    runs = db.rows(query)
    assert len(runs) >= ROWS * 0.9
    for run in runs:
        asked = service.asked_at[run.node, run.text]
        assert len(asked) >= run.calls
        # Of a draw batch that was broken off some requests are still on their way; who starts again takes seconds.
        assert max(asked) <= run.ended_at.timestamp() + 0.5, f"{run.node} asked again after its run was committed"
    committed = sum(run.calls for run in runs)
    asked_for = sum(map(len, service.asked_at.values()))
    return f"{asked_for} calls for {committed} committed"


def _ids(conn: Any, column: Any) -> list[str]:
    return list(conn.execute(select(column)).scalars())


FILE_ROWS, FILE_REJECTED_EVERY = 3_000 * TIMES, 40
LEAST_HITS, MOST_KILLS = 4 * TIMES, 8 * TIMES


@pytest.fixture
def chosen(database_url: str, tmp_path: Path) -> Settings:
    """The settings of every process of this test."""
    return settings(database_url, {"data_directory": tmp_path / "data"})


@pytest.fixture
def upload(db: Database, chosen: Settings, tmp_path: Path) -> Upload:
    """A file handed over, of which nothing is in."""
    write_posts(tmp_path / "posts.csv", FILE_ROWS, FILE_REJECTED_EVERY)
    return hand_over(db, tmp_path / "posts.csv", chosen)


@pytest.fixture
def start(chosen: Settings) -> Iterator[Callable[[], ForkServerProcess]]:
    """Starts processes that take in what is unfinished and end with the test."""
    begun: list[ForkServerProcess] = []

    def one() -> ForkServerProcess:
        begun.append(started(chosen))
        return begun[-1]

    yield one
    for process in begun:
        _kill(process)


def test_a_file_is_taken_in_whole_however_often_the_process_dies(
    db: Database, start: Callable[[], ForkServerProcess], upload: Upload
) -> None:
    batch_id, rng, kills, hits = str(upload.batch_id), random.Random(8), 0, 0
    while kills < MOST_KILLS:
        before, process = last_row(db, batch_id), start()
        _some_moment(db, batch_id, before, [process], rng)
        if not process.is_alive():
            break
        _kill(process)
        kills += 1
        hits += 0 < last_row(db, batch_id) < FILE_ROWS
    else:
        process = start()
    process.join(120)
    assert process.exitcode == 0
    print(f"{db.kind}: {kills} kills, {hits} of them with part of the file in")
    assert hits >= LEAST_HITS
    _each_row_taken_in_once(db, upload)


def test_two_processes_over_one_file_take_it_in_once(
    db: Database, start: Callable[[], ForkServerProcess], upload: Upload
) -> None:
    """One that outlived its app beside the one that was started for it; now and then either dies."""
    batch_id, rng, hits = str(upload.batch_id), random.Random(9), 0
    both = [start(), start()]
    while hits < LEAST_HITS:
        _some_moment(db, batch_id, last_row(db, batch_id), both, rng)
        assert all(process.is_alive() for process in both), "one ended before the file was in"
        number = rng.randrange(2)
        _kill(both[number])
        hits += 0 < last_row(db, batch_id) < FILE_ROWS
        both[number] = start()
    _kill(both.pop(rng.randrange(2)))
    assert takes_rows(db, batch_id), "the file was in before the last kill"
    both.append(start())
    for process in both:
        process.join(120)
        assert process.exitcode == 0 and not takes_rows(db, batch_id)
    _each_row_taken_in_once(db, upload)


def _some_moment(
    db: Database, batch_id: str, before: int, processes: list[ForkServerProcess], rng: random.Random
) -> None:
    """Wait until some moment after more rows came in, now and then before; not where one ended by itself."""
    if rng.random() < 0.75:
        wait_for(lambda: last_row(db, batch_id) > before or not all(one.is_alive() for one in processes), 60)
    processes[0].join(rng.uniform(0.0, 0.1))


def _kill(process: ForkServerProcess) -> None:
    process.kill()
    process.join(30)


def _each_row_taken_in_once(db: Database, upload: Upload) -> None:
    batch_id, refused = str(upload.batch_id), set(range(FILE_REJECTED_EVERY, FILE_ROWS + 1, FILE_REJECTED_EVERY))
    with db.read() as conn:
        found = conn.execute(select(cases.c.row, cases.c.external_id, cases.c.text).order_by(cases.c.row)).all()
        pending = set(conn.execute(select(pending_cases.c.row)).scalars())
        assert recount(conn, batch_id) == counts.totals(conn, [batch_id])[batch_id]
        assert recount_kinds(conn, batch_id) == kinds(conn, batch_id)
        audited = conn.execute(select(audit_events.c.action, func.count()).group_by("action")).all()
    rows = [row.row for row in found]
    assert rows == sorted(set(range(1, FILE_ROWS + 1)) - refused) and set(rows) == pending
    assert all(row.external_id == f"p{row.row}" and f"day {row.row}." in row.text for row in found)
    assert [row.row for row in read_rejected(db, LOCAL_USER, batch_id)] == sorted(refused)
    assert dict(map(tuple, audited))["intake_closed"] == 1
    assert not list(upload.path.parent.iterdir())
