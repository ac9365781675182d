"""A read is one snapshot, a write is one transaction, and migrations make the tables of the schema, on both kinds."""

import sqlite3
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import psycopg
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import func, insert, inspect, select, text
from sqlalchemy.exc import DBAPIError, OperationalError

from screening.review.policy import LOCAL_USER
from storage.batches.batches import pause, resume, retry_failed
from storage.batches.pending import record_error
from storage.database import MIGRATIONS, NEWEST_REVISION, Changes, Database, insert_once, is_lost_connection
from storage.schema import NEW_WORK, metadata, settings_versions
from tests.databases import prepare, write
from tests.processes import processes
from tests.storage.batch_of import LATER, NOW, batch, waiting

T = TypeVar("T")
ROW = {"body": {"a": 1}, "by": "x", "at": NOW}
COUNT = select(func.count()).select_from(settings_versions)


def _count(db: Database) -> int:
    return db.value(COUNT)


def _add(db: Database) -> None:
    write(db, insert(settings_versions), ROW)


def _in_use(db: Database) -> int:
    return int(db._engine.pool.checkedout())  # type: ignore[attr-defined]


def _from_another_thread(do: Callable[[], T]) -> T:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(copy_context().run, do).result()


def test_a_read_sees_one_moment_throughout_and_changes_nothing(db: Database) -> None:
    with db.read() as reading:
        assert reading.execute(COUNT).scalar() == 0
        _add(db)
        assert reading.execute(COUNT).scalar() == 0
    assert _count(db) == 1
    try:
        with db.read() as conn:
            conn.execute(insert(settings_versions), ROW)
    except DBAPIError:
        assert db.kind == "postgresql"  # which refuses; SQLite lets it go at the end
    assert _count(db) == 1


def test_reads_of_one_moment_share_it_until_they_write_themselves(db: Database) -> None:
    with db.one_snapshot():
        assert _count(db) == 0
        _from_another_thread(lambda: _add(db))
        assert _count(db) == 0  # somebody else's: not in this moment
        assert _from_another_thread(lambda: _count(db)) == 1
        _add(db)
        assert _count(db) == 2
        with db.one_snapshot():  # one in one is the same
            _from_another_thread(lambda: _add(db))
            assert _count(db) == 2
    assert (_count(db), _in_use(db)) == (3, 0)
    with db.one_snapshot():
        with db.read() as reading:  # one that is under way outlives a write
            assert reading.execute(COUNT).scalar() == 3
            for after in (4, 5):
                _add(db)
                assert (reading.execute(COUNT).scalar(), _count(db), _in_use(db)) == (3, after, 2)
        with db.write() as writing:  # one inside a write is of the moment before it
            assert _in_use(db) == 1 and writing.execute(insert(settings_versions), ROW)  # alone: others are given back
            assert _count(db) == 5
        assert _count(db) == 6
        _from_another_thread(lambda: _add(db))
        with pytest.raises(DBAPIError), db.read() as conn:  # a statement that fails ends the moment
            conn.execute(text("SELECT nothing FROM nowhere"))
        assert _count(db) == 7
    assert _in_use(db) == 0


def test_a_connection_that_the_server_ended_is_lost_and_the_next_is_not(
    postgresql_db: Database, postgresql_url: str
) -> None:
    """As by a restart. So is one to a server that is not there, and none that waited too long."""
    with pytest.raises(OperationalError) as lost, postgresql_db.write() as conn:
        mine = conn.execute(text("SELECT pg_backend_pid()")).scalar_one()
        write(postgresql_db, text("SELECT pg_terminate_backend(:pid)"), {"pid": mine})
        conn.execute(insert(settings_versions), ROW)
    assert is_lost_connection(lost.value)
    assert _count(postgresql_db) == 0
    with pytest.raises(OperationalError) as slow, postgresql_db.write() as conn:
        conn.execute(text("SET LOCAL statement_timeout = 1"))
        conn.execute(text("SELECT pg_sleep(60)"))
    nowhere = Database(postgresql_url.replace("host=", "host=/nowhere"))
    with pytest.raises(OperationalError) as missing, nowhere.read():
        pass
    assert is_lost_connection(missing.value) and not is_lost_connection(slow.value)
    nowhere.close()


def test_what_a_database_refuses_is_no_lost_connection_and_inserted_once_says_whether_it_was(db: Database) -> None:
    unknown = "INSERT INTO rejected_rows (batch_id, row, reason, detail) VALUES ('none', 1, 'empty', '')"
    for statement in (unknown, "INSERT INTO settings_versions (version) VALUES (1)", "SELECT nothing FROM nowhere"):
        with pytest.raises(DBAPIError) as refused, db.write() as conn:
            conn.execute(text(statement))
        assert not is_lost_connection(refused.value)
    assert not is_lost_connection(ValueError())
    with pytest.raises(ValueError, match="no address of a database"):
        Database("mysql://host/name")
    with db.write() as conn:
        assert [insert_once(conn, settings_versions, {"version": 1, **ROW}) for _ in range(2)] == [True, False]


def test_a_connection_in_use_while_all_are_closed_is_closed_when_it_is_given_back(db: Database) -> None:
    """A thread of an app or a worker that ends may still be reading."""
    with db.read() as conn:
        late = conn.connection.driver_connection
        assert late is not None
        db.close()
        conn.execute(text("SELECT 1"))
    with pytest.raises((sqlite3.ProgrammingError, psycopg.OperationalError), match="closed"):
        late.execute("SELECT 1")
    with db.read() as conn:
        again = conn.connection.driver_connection
    with db.read() as conn:
        assert conn.connection.driver_connection is again  # a later one is kept as ever
    db.close()


def test_a_writer_waits_for_the_writer_before_it_and_its_commit_is_seen_once(sqlite_url: str) -> None:
    db = Database(sqlite_url)
    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), timeout=0)
    changes = Changes(db.file)
    assert not changes.poll()
    with db.write() as conn:
        conn.execute(insert(settings_versions), ROW)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("BEGIN IMMEDIATE")
        assert not changes.poll(), "not committed yet"
    assert changes.poll() and not changes.poll()
    assert _count(db) == 1 and not changes.poll()
    other.execute("BEGIN IMMEDIATE")
    for each in (other, changes, db):
        each.close()  # type: ignore[attr-defined]


def test_whoever_listens_is_told_of_new_work(postgresql_db: Database) -> None:
    """New cases, a batch that goes on, failed cases that are taken up again."""
    db, by = postgresql_db, LOCAL_USER.at(LATER)
    batch_id = batch(db, ["a text"])
    record_error(db, waiting(db)[0], "refused", "no", NOW)
    pause(db, LOCAL_USER.at(NOW + timedelta(seconds=1)), batch_id)
    with psycopg.connect(db.conninfo, autocommit=True) as listening:
        listening.execute(f"LISTEN {NEW_WORK}")
        for act, given in ((batch, [["another text"]]), (resume, [by, batch_id]), (retry_failed, [by, batch_id])):
            act(db, *given)  # type: ignore[operator]
            assert list(listening.notifies(timeout=10, stop_after=1)), act


def test_a_migrated_database_has_the_tables_and_indexes_of_the_schema(db: Database) -> None:
    with db.read() as conn:
        options = {"compare_type": True, "compare_server_default": True}
        context = MigrationContext.configure(conn, opts=options)
        assert compare_metadata(context, metadata) == []
        assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [NEWEST_REVISION] == [context.get_current_revision()]
        found = inspect(conn)
        assert set(metadata.tables) < set(found.get_table_names())
        for table in metadata.tables.values():
            migrated = {
                index["name"]: f"{db.kind}_where" in index.get("dialect_options", {})
                for index in found.get_indexes(table.name)
                if not index.get("duplicates_constraint")
            }
            partial = {index.name: index.dialect_options[db.kind]["where"] is not None for index in table.indexes}
            assert migrated == partial, table.name


@pytest.mark.slow
def test_processes_that_start_at_once_prepare_one_file_that_outlives_a_power_cut_and_is_nobody_elses(
    tmp_path: Path,
) -> None:
    path = tmp_path / "new" / "fresh.db"
    with processes(2) as pool:
        list(pool.map(prepare, [f"sqlite:///{path}"] * 4))
    database = Database(f"sqlite:///{path}")
    with database.read() as conn:
        assert set(metadata.tables) < set(inspect(conn).get_table_names())
        pragmas = ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        found = [conn.exec_driver_sql(f"PRAGMA {pragma}").scalar() for pragma in pragmas]
    assert found == ["wal", 2, 1, 30_000]
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    database.close()
