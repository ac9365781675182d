"""Backup and restore: what comes back, in either kind of database, is what was there; or it is refused and nothing is
kept.
"""

import errno
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import func, select

from commands.__main__ import main
from screening.labels import Outcome
from screening.review.actors import LOCAL_USER
from storage.batches.batches import NewBatch, create_batch, progress
from storage.batches.pending import record_error
from storage.batches.results import results
from storage.database import Database
from storage.schema import audit_events, cases, metadata
from storage.site import audit_check
from storage.site.backup import NOT_COPIED, CopyRefused, back_up, restore
from tests.databases import copy_of, write
from tests.storage.batch_of import CONFIGURATION, LATER, NOW, batch, decide, record_start, waiting

TEXTS = ("A walk in the rain.", 'Zwölf "Boxkämpfer", \u2028 jagen\n\n=1+1', "nul \x00 and \ud83d alone", "four")


@pytest.fixture
def of_other_kind(db: Database, request: pytest.FixtureRequest) -> Iterator[Database]:
    """An empty database of the kind that ``db`` is not."""
    kind = "postgresql" if db.kind == "sqlite" else "sqlite"
    with closing(Database(request.getfixturevalue(f"{kind}_url"))) as made:
        yield made


@pytest.fixture
def again(sqlite_template: Path, tmp_path: Path) -> Iterator[Database]:
    """An empty embedded database beside ``db``."""
    with closing(Database(copy_of(sqlite_template, tmp_path / "again.db"))) as made:
        yield made


def _used(db: Database) -> str:
    """A database with a bit of everything in it."""
    batch_id = batch(db, TEXTS, audit_rate=1.0, references="SU--")
    first, second, third, _ = waiting(db)
    decide(db, first)
    decide(db, second, Outcome.HUMAN_REVIEW)
    record_start(db, third)
    record_error(db, third, "timeout", "no answer", LATER)
    of_64_bits = {"seed": 2**62, "intake": {"mapping": {"text": ["ä", None, 1.5]}}}
    create_batch(db, LOCAL_USER.at(NOW), NewBatch(name="b", configuration_version=CONFIGURATION.version, **of_64_bits))
    return batch_id


def _content(db: Database) -> dict[str, list[tuple[object, ...]]]:
    return {
        table.name: [tuple(row) for row in db.rows(select(table).order_by(*table.primary_key.columns))]
        for table in metadata.sorted_tables
        if table.name not in NOT_COPIED
    }


@pytest.mark.postgresql
def test_what_is_restored_is_what_was_backed_up_and_goes_on_from_there(
    db: Database, of_other_kind: Database, tmp_path: Path
) -> None:
    batch_id, file, again = _used(db), tmp_path / "kept" / "one.db", of_other_kind
    made = rows, end = back_up(db, file, NOW)
    before, content = _content(db), file.read_bytes()

    assert restore(again, file, LATER) == made

    after = _content(again)
    added = after["audit_events"].pop()
    assert after == before and added[3] == "restored" and file.read_bytes() == content
    assert rows["cases"] == 4 and rows["node_runs"] == 2
    assert audit_check.verify(again, [end]).ok
    assert list(results(again, LOCAL_USER.at(NOW), batch_id)) == list(results(db, LOCAL_USER.at(NOW), batch_id))
    assert progress(again, batch_id) == progress(db, batch_id)
    record_error(again, waiting(again)[0], "timeout", "a sequence not set would give a number that is taken", LATER)
    batch(again, ["five"])
    for case_id in waiting(again):
        decide(again, case_id, Outcome.UNSAFE)
    assert audit_check.verify(again, [end]).ok


@pytest.mark.parametrize("links", [True, False], ids=["hard links", "none"])
def test_only_its_owner_may_read_a_backup_and_no_file_is_replaced(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EPERM, "no hard links here")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    file = tmp_path / "kept" / "one.db"
    back_up(db, file, NOW)
    content = file.read_bytes()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        back_up(db, file, NOW)
    assert file.read_bytes() == content and list(file.parent.iterdir()) == [file]


def _sql(statement: str) -> Callable[[Path], None]:
    def change(file: Path) -> None:
        with closing(sqlite3.connect(file)) as connection:
            connection.execute(statement)
            connection.commit()

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_sql("UPDATE audit_events SET actor = 'somebody else' WHERE seq = 1"), "event 1 was changed"),
        (None, "event 1 was changed"),
        (_sql("DELETE FROM audit_events WHERE seq = 2"), "event 2 is missing"),
        (_sql("UPDATE cases SET text = 'another' WHERE row = 1"), "audit log is not whole"),
        (_sql("UPDATE alembic_version SET version_num = '9999'"), "later version"),
        (_sql("DROP TABLE alembic_version"), "not a backup"),
        (lambda file: file.write_bytes(file.read_bytes()[: file.stat().st_size // 2]), "damaged"),
        (lambda file: file.write_text("hello"), "not a backup"),
        (lambda file: file.write_bytes(b""), "not a backup"),
    ],
)
def test_what_does_not_add_up_is_refused_and_nothing_is_kept(
    db: Database, again: Database, tmp_path: Path, change: Callable[[Path], None] | None, why: str
) -> None:
    """A log that was altered before the backup is found in it too: ``change`` None."""
    _used(db)
    if change is None:
        write(db, audit_events.update().where(audit_events.c.seq == 1).values(actor="somebody else"))
    file = tmp_path / "one.db"
    back_up(db, file, NOW)
    if change is not None:
        change(file)
    with pytest.raises(CopyRefused, match=why):
        restore(again, file, LATER)
    assert not any(_content(again).values())


@pytest.mark.postgresql
def test_the_command_line_moves_a_site_to_a_server_and_fills_no_database_twice(
    sqlite_url: str, postgresql_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    target = ("--database", postgresql_url)
    with closing(Database(sqlite_url)) as db:
        _used(db)
    monkeypatch.setenv("SECOND_LOOK_DATA_DIRECTORY", str(tmp_path / "var"))
    assert main(["backup", "--database", sqlite_url]) == 0
    (file,) = (tmp_path / "var").glob("backup-*.db")
    assert main(["restore", "--from", str(file), *target]) == 0
    told = capsys.readouterr().out
    assert str(file) in told and "restored and checked" in told and "4 cases" in told
    other = tmp_path / "other"
    for refused, why in (
        (["restore", "--from", str(file), *target], "not empty"),
        (["restore", "--from", str(tmp_path / "none.db"), *target], "none.db"),
        (["backup", "--database", f"sqlite:///{tmp_path}/none.db", "--to", str(other / "a.db")], "no such database"),
    ):
        assert main(refused) == 2 and why in capsys.readouterr().err
    assert not other.exists()
    with closing(Database(postgresql_url)) as moved:
        assert moved.value(select(func.count()).select_from(cases)) == 4 and audit_check.verify(moved).ok
