"""An embedded database tells whether anything was written; PostgreSQL tells whoever listens of new work."""

from collections.abc import Callable
from datetime import timedelta

import psycopg
import pytest
from sqlalchemy import insert

from screening.review.actors import LOCAL_USER
from storage.batches.batches import pause, resume, retry_failed
from storage.batches.pending import record_error
from storage.changes import NEW_WORK, Changes
from storage.database import Database
from storage.schema import settings_versions
from tests.storage.batch_of import LATER, NOW, batch, waiting


def test_a_commit_of_anybody_else_is_seen_once(sqlite_url: str) -> None:
    db = Database(sqlite_url)
    changes = Changes(db.file)
    assert not changes.poll()
    with db.write() as conn:
        conn.execute(insert(settings_versions), {"body": {}, "by": "x", "at": NOW})
        assert not changes.poll(), "not committed yet"
    assert changes.poll() and not changes.poll()
    with db.read() as conn:
        conn.exec_driver_sql("SELECT 1")
    assert not changes.poll()
    changes.close()
    db.close()


ACTS: tuple[Callable[[Database, str], object], ...] = (
    lambda db, _batch_id: batch(db, ["another text"]),
    lambda db, batch_id: resume(db, LOCAL_USER.at(LATER), batch_id),
    lambda db, batch_id: retry_failed(db, LOCAL_USER.at(LATER), batch_id),
)


@pytest.mark.parametrize("act", ACTS, ids=["new cases", "a batch goes on", "failed cases are taken up again"])
def test_whoever_listens_is_told_of_new_work(postgresql_db: Database, act: Callable[[Database, str], object]) -> None:
    batch_id = batch(postgresql_db, ["a text"])
    record_error(postgresql_db, waiting(postgresql_db)[0], "refused", "no", NOW)
    pause(postgresql_db, LOCAL_USER.at(NOW + timedelta(seconds=1)), batch_id)
    with psycopg.connect(postgresql_db.conninfo, autocommit=True) as listening:
        listening.execute(f"LISTEN {NEW_WORK}")
        act(postgresql_db, batch_id)
        assert list(listening.notifies(timeout=10, stop_after=1))
