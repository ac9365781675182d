"""SIGKILL while a file is taken in: every row of it is in once, in order, whoever goes on with it."""

import random
from collections.abc import Callable, Iterator
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
from sqlalchemy import func, select

from jobs.uploads import Upload
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from storage.batches import counts
from storage.batches.counts import kinds
from storage.batches.intake import last_row, read_rejected, takes_rows
from storage.database import Database
from storage.schema import audit_events, cases, pending_cases
from tests.jobs.files import hand_over, settings, write_posts
from tests.jobs.processes import wait_for
from tests.jobs.taking_in import started
from tests.storage.recount import recount, recount_kinds

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ROWS, REJECTED_EVERY = 6_000, 40
LEAST_HITS, MOST_KILLS = 8, 16


@pytest.fixture
def chosen(database_url: str, tmp_path: Path) -> Settings:
    """The settings of every process of this test."""
    return settings(database_url, {"data_directory": tmp_path / "data"})


@pytest.fixture
def upload(db: Database, chosen: Settings, tmp_path: Path) -> Upload:
    """A file handed over, of which nothing is in."""
    write_posts(tmp_path / "posts.csv", ROWS, REJECTED_EVERY)
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
        hits += 0 < last_row(db, batch_id) < ROWS
    else:
        process = start()
    process.join(120)
    assert process.exitcode == 0
    print(f"{db.kind}: {kills} kills, {hits} of them with part of the file in")
    assert hits >= LEAST_HITS
    _each_row_once(db, upload)


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
        hits += 0 < last_row(db, batch_id) < ROWS
        both[number] = start()
    _kill(both.pop(rng.randrange(2)))
    assert takes_rows(db, batch_id), "the file was in before the last kill"
    both.append(start())
    for process in both:
        process.join(120)
        assert process.exitcode == 0 and not takes_rows(db, batch_id)
    _each_row_once(db, upload)


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


def _each_row_once(db: Database, upload: Upload) -> None:
    batch_id, refused = str(upload.batch_id), set(range(REJECTED_EVERY, ROWS + 1, REJECTED_EVERY))
    with db.read() as conn:
        found = conn.execute(select(cases.c.row, cases.c.external_id, cases.c.text).order_by(cases.c.row)).all()
        pending = set(conn.execute(select(pending_cases.c.row)).scalars())
        assert recount(conn, batch_id) == counts.totals(conn, [batch_id])[batch_id]
        assert recount_kinds(conn, batch_id) == kinds(conn, batch_id)
        audited = conn.execute(select(audit_events.c.action, func.count()).group_by("action")).all()
    rows = [row.row for row in found]
    assert rows == sorted(set(range(1, ROWS + 1)) - refused) and set(rows) == pending
    assert all(row.external_id == f"p{row.row}" and f"day {row.row}." in row.text for row in found)
    assert [row.row for row in read_rejected(db, LOCAL_USER, batch_id)] == sorted(refused)
    assert dict(map(tuple, audited))["intake_closed"] == 1
    assert not list(upload.path.parent.iterdir())
