"""A fault that passes leaves nothing behind: no case waits for a person when it is over, on either database."""

import asyncio
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from errno import EROFS
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from commands.__main__ import main
from jobs.process import LASTS_S, LOST, Patience
from pages.batches.intake_runs import IntakeRuns
from serve import obstacle_of
from storage import database as database_module
from storage.batches.batch_state import BatchState
from storage.batches.batches import progress
from storage.batches.counts import totals
from storage.batches.pending import pending_cases
from storage.database import Database, Fault, passing_fault
from storage.schema import case_errors, screenings
from storage.site.audit_check import verify
from tests.jobs import files
from tests.jobs.files import write_posts
from tests.jobs.running import HeldBack, batch, count, job_of
from tests.storage.recount import recount
from tests.test_fault_matrix import busy


class Unwritable(Database):
    """A real database whose disk takes nothing for a while: SQLite then refuses with its own error."""

    refusing: str | None = None

    @contextmanager
    def write(self) -> Iterator[Connection]:
        with super().write() as connection:
            if self.refusing:
                with closing(sqlite3.connect(":memory:", isolation_level=None)) as tiny:
                    tiny.execute(self.refusing)
                    try:
                        tiny.execute("CREATE TABLE more (text)")
                        tiny.execute("CREATE TABLE still_more (text)")
                    except sqlite3.Error as refused:
                        raise DBAPIError.instance("INSERT", {}, refused, sqlite3.Error) from refused
            yield connection


class Interrupted(Database):
    """A real database whose connections are cut now and then, as by a restart of the server."""

    writes = 0

    @contextmanager
    def write(self) -> Iterator[Connection]:
        self.writes += 1
        with super().write() as connection:
            if self.kind == "postgresql" and self.writes % 3 == 2:
                connection.connection.driver_connection.close()  # type: ignore[union-attr]
            yield connection


def test_an_upload_is_taken_in_whatever_is_lost_on_the_way(
    database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "REPEATABLE_BUSY_TIMEOUT_S", 0.5)
    write_posts(tmp_path / "posts.csv", 600)
    chosen = files.settings(database_url, {"sampler": "simulated", "data_directory": tmp_path})
    with closing(Database(database_url)) as db:
        upload = files.hand_over(db, tmp_path / "posts.csv", chosen)
    with closing(Interrupted(database_url, repeatable=True)) as db:
        runs = IntakeRuns(db, chosen)
        runs.start(upload)
        if db.kind == "sqlite":
            with busy(database_url):
                time.sleep(2 * database_module.REPEATABLE_BUSY_TIMEOUT_S)
        runs.wait()
        found = progress(db, str(upload.batch_id))
        assert runs.stopped(str(upload.batch_id)) is None
        assert (found.rows_in, found.accepted, found.state) == (600, 588, BatchState.RUNNING)


def refused(state: str | None, *, lost: bool = False) -> Exception:
    """As a server refuses a statement."""
    error = type("Refused", (psycopg.OperationalError,), {"sqlstate": state})("no")
    made = DBAPIError.instance("SELECT 1", {}, error, psycopg.Error, connection_invalidated=lost)
    return made if isinstance(made, Exception) else error


@pytest.mark.parametrize(
    ("states", "fault"),
    [
        (("57014", "40001", "40P01", "55P03"), Fault.STATEMENT),
        (("53000", "53100", "53200", "53300"), Fault.BUSY),
        ((None, "57P01", "57P03"), Fault.AWAY),
        (("23505", "42P01", "22P02"), None),
    ],
)
def test_what_passes_is_told_from_what_does_not(states: tuple[str | None, ...], fault: Fault | None) -> None:
    assert {passing_fault(refused(state)) for state in states} == {fault}
    assert passing_fault(ValueError("53000")) is None


def test_a_damaged_or_read_only_file_is_told_in_a_sentence(
    sqlite_url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    file, torn, no_database = Path(sqlite_url.removeprefix("sqlite:///")), tmp_path / "torn.db", tmp_path / "none.db"
    size = file.stat().st_size
    torn.write_bytes(file.read_bytes()[:8_192] + b"x" * (size - 8_192))
    no_database.write_bytes(b"x" * size)
    for path in (torn, no_database):
        assert main(["verify-audit", "--database", f"sqlite:///{path}"]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and "damaged" in said and "restore the last backup" in said
    with closing(Database(f"sqlite:///{no_database}")) as db, pytest.raises(DBAPIError) as damaged:
        db.rows(select(screenings.c.case_id))
    with caplog.at_level("WARNING"):
        for _ in range(20):
            assert Patience(lambda: 5_000.0).wait_after(damaged.value) is not None
    assert len(caplog.records) == 1, "once a minute, however many pieces of work meet it"
    assert "damaged" in str(obstacle_of(f"sqlite:///{no_database}"))
    assert obstacle_of(f"sqlite:///{file}") is None and obstacle_of("postgresql://a@b/c") is None
    assert "cannot be written" in str(obstacle_of(f"sqlite:///{file}/in/a/file.db"))


def test_what_keeps_failing_is_raised_in_the_end() -> None:
    now = [0.0]
    cancelled = Patience(clock=lambda: now[0])
    assert cancelled.wait_after(refused("57014")) is not None
    now[0] += LASTS_S + 1
    assert cancelled.wait_after(refused("57014")) is None
    full, read_only, lost = (Patience(clock=lambda: now[0]) for _ in range(3))
    for _ in range(100):
        now[0] += LASTS_S
        assert full.wait_after(refused("53100")) is not None, "a full disk is waited for, however long"
        assert read_only.wait_after(OSError(EROFS, "no")) is not None, "and one that cannot be written"
    assert [lost.wait_after(refused(None, lost=True)) is None for _ in range(LOST)] == [*[False] * (LOST - 1), True]
    assert Patience().wait_after(ValueError()) is None


async def test_of_two_starts_of_one_case_at_one_moment_one_counts_and_the_other_is_lost(
    postgresql_db: Database, postgresql_url: str
) -> None:
    """As where a worker was taken for dead; each call counts once, and no bug is told of."""
    batch_id = batch(postgresql_db, 4)
    with closing(Database(postgresql_url)) as elsewhere:
        for case_id in pending_cases(postgresql_db, 4):
            starts = [(job_of(db, gate := HeldBack()), gate) for db in (postgresql_db, elsewhere)]
            both = [asyncio.create_task(job.screen_case(case_id)) for job, _ in starts]
            for _, gate in starts:
                await gate.asked.wait()
            for _, gate in starts:
                gate.go.set()
            await asyncio.gather(*both)
    told = progress(postgresql_db, batch_id)
    assert (told.pending, told.failed) == (0, 0)
    assert count(postgresql_db, screenings) == 4
    assert set(postgresql_db.values(select(case_errors.c.kind))) <= {"run_lost", "interrupted"}
    with postgresql_db.read() as conn:
        assert recount(conn, batch_id) == totals(conn, [batch_id])[batch_id]
    assert verify(postgresql_db).ok
