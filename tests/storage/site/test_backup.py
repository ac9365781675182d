"""Backup and restore: what comes back is what was there, or it is refused and nothing is left behind."""

import errno
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4
from zipfile import ZIP_DEFLATED, ZipFile

import psycopg
import pytest
from sqlalchemy import func, insert, select

from commands.__main__ import main
from screening.labels import Outcome
from screening.review.actors import LOCAL_USER
from storage.batches.pending import record_error
from storage.batches.results import results
from storage.database import Database
from storage.schema import audit_events, case_starts, cases, metadata
from storage.site import audit_check
from storage.site.backup import BackupRefused, back_up, restore
from tests.databases import write
from tests.storage.batch_of import LATER, NOW, batch, decide, record_start, waiting

TEXTS = ("A walk in the rain.", 'Zwölf "Boxkämpfer", \u2028 jagen\n\n=1+1', "nul \x00 and \ud83d alone", "four")


ROOT = Path(__file__).parents[3]
_KILLED = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch
from storage.database import Database
from storage.site.backup import back_up

at, url, to = sys.argv[1:]
with patch(f"storage.site.backup.{at}", lambda *_: os.kill(os.getpid(), signal.SIGKILL)):
    back_up(Database(url), Path(to), datetime.now(UTC))
"""


@pytest.fixture
def fresh(db: Database, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], Database]]:
    """Makes databases of the same kind as ``db`` in which there is nothing, not even tables."""
    with ExitStack() as stack:

        def make() -> Database:
            name = f"fresh_{uuid4().hex}"
            url = f"sqlite:///{tmp_path / name}.db"
            if db.kind == "postgresql":
                server = str(request.getfixturevalue("postgresql_server"))
                with psycopg.connect(server, autocommit=True) as admin:
                    admin.execute(f"CREATE DATABASE {name}")
                stack.callback(_drop, server, name)
                url = server.replace("/postgres?", f"/{name}?", 1)
            made = Database(url)
            stack.callback(made.close)
            return made

        yield make


def _drop(server: str, name: str) -> None:
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _used(db: Database) -> str:
    """A database with a bit of everything in it."""
    batch_id = batch(db, TEXTS, audit_rate=1.0, references="SU--")
    first, second, third, _ = waiting(db)
    decide(db, first)
    decide(db, second, Outcome.HUMAN_REVIEW)
    record_start(db, third, "worker", NOW)
    record_error(db, third, "timeout", "no answer", LATER)
    return batch_id


def _content(db: Database) -> dict[str, list[tuple[object, ...]]]:
    return {table.name: sorted(map(tuple, db.rows(select(table))), key=repr) for table in metadata.sorted_tables}


def test_what_is_restored_is_what_was_backed_up_and_goes_on_from_there(
    db: Database, fresh: Callable[[], Database], tmp_path: Path
) -> None:
    batch_id = _used(db)
    file = tmp_path / "kept" / "one.zip"
    manifest = back_up(db, file, NOW)
    before, again = _content(db), fresh()

    assert restore(again, file, LATER) == manifest

    after = _content(again)
    added = after["audit_events"].pop()
    assert after == before and added[3] == "restored"
    assert manifest.rows["cases"] == 4 and manifest.rows["node_runs"] == 2
    assert audit_check.verify(again, [manifest.anchor]).ok
    assert list(results(again, LOCAL_USER.at(NOW), batch_id)) == list(results(db, LOCAL_USER.at(NOW), batch_id))
    with again.write() as conn:  # a sequence that had not been set would give a number that is taken
        start = {"case_id": waiting(again)[0], "worker": "w", "at": LATER}
        for _ in range(3):
            conn.execute(insert(case_starts), start)
    decide(again, waiting(again)[0], Outcome.UNSAFE)


def test_only_its_owner_may_read_a_backup_and_no_file_is_replaced(db: Database, tmp_path: Path) -> None:
    _used(db)
    file = tmp_path / "one.zip"
    back_up(db, file, NOW)
    content = file.read_bytes()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with pytest.raises(FileExistsError):
        back_up(db, file, NOW)
    assert file.read_bytes() == content


@pytest.mark.parametrize("lacking", ["files without a name", "hard links"])
def test_a_folder_whose_file_system_lacks_something_takes_a_backup_too(
    sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    db, file = Database(sqlite_url), tmp_path / "backups" / "one.zip"
    db.prepare()
    _used(db)
    monkeypatch.delattr(os, "O_TMPFILE")
    if lacking == "hard links":
        monkeypatch.setattr(os, "link", _refuse)
    back_up(db, file, NOW)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600 and list(file.parent.iterdir()) == [file]
    content = file.read_bytes()
    with pytest.raises(FileExistsError):
        back_up(db, file, LATER)
    assert file.read_bytes() == content and list(file.parent.iterdir()) == [file]
    again = Database(f"sqlite:///{tmp_path / 'again.db'}")
    assert restore(again, file, LATER).rows["cases"] == len(TEXTS)
    for each in (db, again):
        each.close()


def _refuse(*_: object, **__: object) -> None:
    raise PermissionError(errno.EPERM, "no hard links here")


@pytest.mark.parametrize("at", ["_describe", "ZipFile.writestr", "os.fsync"])
def test_a_killed_backup_leaves_nothing_in_the_clear_and_nothing_in_the_way(
    db: Database, tmp_path: Path, at: str
) -> None:
    """SIGKILL in its middle and at its end, in a process of its own: the folders are as they were."""
    _used(db)
    folder, kept = tmp_path / "backups", tmp_path / "backups" / "one.zip"
    folder.mkdir()
    before = {path.name for path in tmp_path.iterdir() if not path.name.endswith(("-wal", "-shm"))}
    url = db._url.render_as_string(hide_password=False)
    killed = subprocess.run([sys.executable, "-c", _KILLED, at, url, str(kept)], cwd=ROOT, check=False)
    assert killed.returncode == -signal.SIGKILL
    after = {path.name for path in tmp_path.iterdir() if not path.name.endswith(("-wal", "-shm"))}
    assert after == before and not list(folder.iterdir())
    assert back_up(db, kept, LATER).rows["cases"] == len(TEXTS)


def test_a_backup_while_others_write_is_one_moment(db: Database, fresh: Callable[[], Database], tmp_path: Path) -> None:
    """Every commit adds one case and one event: a copy that mixed two moments would not have as many of each."""
    batch(db, ["first"])
    ended = threading.Event()

    def write() -> None:
        while not ended.is_set():
            batch(db, ["another"])

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    try:
        manifests = [back_up(db, tmp_path / f"{number}.zip", NOW) for number in range(5)]
    finally:
        ended.set()
        for writer in writers:
            writer.join()
    assert manifests[-1].rows["batches"] > 1
    for number in (0, 4):
        again = fresh()
        restore(again, tmp_path / f"{number}.zip", LATER)
        with again.read() as conn:
            assert conn.scalar(select(func.count()).select_from(cases)) == manifests[number].rows["cases"]


def test_a_database_that_is_not_empty_is_left_alone(db: Database, tmp_path: Path) -> None:
    _used(db)
    back_up(db, tmp_path / "one.zip", NOW)
    before = _content(db)
    with pytest.raises(BackupRefused, match="not empty"):
        restore(db, tmp_path / "one.zip", LATER)
    assert _content(db) == before


def _altered(file: Path, to: Path, change: Callable[[str, bytes], bytes]) -> Path:
    with ZipFile(file) as source, ZipFile(to, "w", ZIP_DEFLATED) as altered:
        for name in source.namelist():
            altered.writestr(name, change(name, source.read(name)))
    return to


def _manifest(**changes: object) -> Callable[[str, bytes], bytes]:
    def change(name: str, content: bytes) -> bytes:
        return json.dumps(json.loads(content) | changes).encode() if name == "manifest.json" else content

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_manifest(rows={"cases": 5}), "row counts differ"),
        (_manifest(anchor={"count": 9, "last_hash": "0" * 64}), "audit log is not whole"),
        (_manifest(anchor={"count": 2, "last_hash": "0" * 64}), "audit log is not whole"),
        (_manifest(revision="9999"), "later version"),
        (_manifest(kind="oracle"), "cannot be restored"),
        (_manifest(format=2), "another version"),
        (_manifest(anchor=None), "not a backup"),
    ],
)  # fmt: skip
def test_a_backup_that_does_not_add_up_is_refused(
    db: Database, fresh: Callable[[], Database], tmp_path: Path, change: Callable[[str, bytes], bytes], why: str
) -> None:
    _used(db)
    back_up(db, tmp_path / "one.zip", NOW)
    altered = _altered(tmp_path / "one.zip", tmp_path / "altered.zip", change)
    with pytest.raises(BackupRefused, match=why):
        restore(fresh(), altered, LATER)


def test_a_text_changed_in_the_audit_log_is_found(db: Database, fresh: Callable[[], Database], tmp_path: Path) -> None:
    _used(db)
    write(db, audit_events.update().where(audit_events.c.seq == 1).values(actor="somebody else"))
    back_up(db, tmp_path / "one.zip", NOW)
    with pytest.raises(BackupRefused, match="event 1 was changed"):
        restore(fresh(), tmp_path / "one.zip", LATER)


def test_what_is_no_backup_is_refused(fresh: Callable[[], Database], tmp_path: Path) -> None:
    (tmp_path / "text.zip").write_text("hello")
    with ZipFile(tmp_path / "other.zip", "w") as other:
        other.writestr("a", "b")
    for name in ("text.zip", "other.zip"):
        with pytest.raises(BackupRefused):
            restore(fresh(), tmp_path / name, LATER)


def test_a_refused_restore_of_an_embedded_database_leaves_no_file(sqlite_url: str, tmp_path: Path) -> None:
    db = Database(sqlite_url)
    _used(db)
    back_up(db, tmp_path / "one.zip", NOW)
    db.close()
    altered = _altered(tmp_path / "one.zip", tmp_path / "altered.zip", _manifest(rows={}))
    folder = tmp_path / "new"
    with pytest.raises(BackupRefused):
        restore(Database(f"sqlite:///{folder}/again.db"), altered, LATER)
    assert list(folder.iterdir()) == []


def test_the_command_line_backs_up_and_restores(
    db: Database, database_url: str, fresh: Callable[[], Database], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    _used(db)
    monkeypatch.setenv("SECOND_LOOK_DATA_DIRECTORY", str(tmp_path / "var"))
    assert main(["backup", "--database", database_url]) == 0
    (file,) = (tmp_path / "var").glob("backup-*.zip")
    again = fresh()
    target = again.conninfo if again.kind == "postgresql" else f"sqlite:///{again.file}"
    assert main(["restore", "--from", str(file), "--database", target]) == 0
    told = capsys.readouterr().out
    assert str(file) in told and "restored and checked" in told and "4 cases" in told
    assert main(["restore", "--from", str(file), "--database", target]) == 2
    assert "not empty" in capsys.readouterr().err


def test_nothing_to_back_up_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["backup", "--database", f"sqlite:///{tmp_path}/none.db", "--to", str(tmp_path / "a.zip")]) == 2
    assert "no such database" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
