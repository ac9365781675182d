"""The whole database as one file, taken while everybody works, and back into an empty database of the same kind.

The file is a zip: a manifest (kind, revision of the tables, rows per table, end of the audit log) and the data, for
SQLite a copy by its online backup, for PostgreSQL one file of JSON lines per table from a single snapshot. It holds
every text in the clear: its owner alone may read it, and where it is kept is as sensitive as the database.
"""

import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import IO
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, delete

from screening.review.actors import SYSTEM
from storage import audit_log
from storage.audit_log import Anchor
from storage.database import MIGRATIONS, Database, revision_of
from storage.migrations import upgrade
from storage.site import audit_check
from storage.site.table_dump import counts_of, insert_lines, lines_of, names_of, tables_of

FORMAT = 1
_MANIFEST, _COPY = "manifest.json", "database.sqlite"


class BackupRefused(ValueError):
    """The file is no backup, does not fit the database, or what came out of it is not what went in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What a backup holds. ``rows`` counts per table; ``anchor`` is where the audit log ended."""

    kind: str
    revision: str
    rows: Mapping[str, int]
    anchor: Anchor
    made_at: datetime

    def as_json(self) -> str:
        """The content of the manifest's file."""
        body = asdict(self) | {"format": FORMAT, "made_at": self.made_at.isoformat()}
        return json.dumps(body, indent=1)

    @classmethod
    def from_json(cls, content: bytes) -> "Manifest":
        """What `as_json` wrote; BackupRefused for anything else."""
        try:
            body = json.loads(content)
            if body.pop("format") != FORMAT:
                raise BackupRefused("the backup was made by another version")
            moment = datetime.fromisoformat(body.pop("made_at"))
            return cls(anchor=Anchor(**body.pop("anchor")), made_at=moment, **body)
        except (KeyError, TypeError, ValueError) as wrong:
            raise wrong if isinstance(wrong, BackupRefused) else BackupRefused("not a backup") from wrong


def back_up(db: Database, to: Path, now: datetime) -> Manifest:
    """Write a backup to a new file that only its owner may read. Work on the database goes on meanwhile.

    Raises FileExistsError rather than replace a file. A file that is not complete never has the name asked for.
    """
    if to.exists():
        raise FileExistsError(f"{to.name} is there already")
    to.parent.mkdir(parents=True, exist_ok=True)
    with db.write() as conn:
        audit_log.append(conn, SYSTEM.at(now), "backup_begun", None, {})
    with _nameless(to.parent) as file:
        with ZipFile(file, "w", ZIP_DEFLATED) as archive:
            manifest = (_copy_sqlite if db.kind == "sqlite" else _dump)(db, archive, now)
            archive.writestr(_MANIFEST, manifest.as_json())
        file.flush()
        os.fsync(file.fileno())
        _name(file, to)
    return manifest


@contextmanager
def _nameless(folder: Path) -> Iterator[IO[bytes]]:
    """A file of its owner's without a name: whatever kills the process, nothing of it is left. Where the system or the
    file system has none such, one whose name is gone at the end.
    """
    try:
        file = os.fdopen(os.open(folder, os.O_RDWR | os.O_TMPFILE, 0o600), "w+b")
    except (AttributeError, OSError):
        with (
            tempfile.TemporaryDirectory(dir=folder, prefix=".unfinished-backup-") as own,  # mode 700
            open(Path(own) / "backup.zip", "x+b", opener=partial(os.open, mode=0o600)) as file,
        ):
            yield file
    else:
        with file:
            yield file


def _name(file: IO[bytes], to: Path) -> None:
    """Give it its name, which never replaces a file that appeared meanwhile. Raises FileExistsError."""
    named = isinstance(file.name, str)
    folder = os.open(to.parent, os.O_RDONLY)
    try:
        source = file.name if named else f"/proc/self/fd/{file.fileno()}"
        os.link(source, to.name, dst_dir_fd=folder, follow_symlinks=True)
    except FileExistsError:
        raise
    except OSError:
        if not named:
            raise
        to.touch(mode=0o600, exist_ok=False)  # a file system without hard links: the name is taken first
        Path(file.name).replace(to)
    finally:
        os.close(folder)


def restore(db: Database, source: Path, now: datetime) -> Manifest:
    """Fill an empty database from a backup, check rows and audit log, and bring the tables up to date.

    Raises BackupRefused for another kind, a database that is not empty, and whatever does not add up: of a refused
    restore nothing is kept, except that a broken audit log on PostgreSQL shows only once the tables are filled.
    """
    try:
        with ZipFile(source) as archive:
            manifest = Manifest.from_json(archive.read(_MANIFEST))
            _require_fitting(db, manifest)
            (_restore_sqlite if db.kind == "sqlite" else _restore_tables)(db, archive, manifest)
    except (BadZipFile, KeyError) as wrong:
        raise BackupRefused("not a backup, or a damaged one") from wrong
    db.prepare()
    with db.write() as conn:
        made = manifest.made_at.isoformat()
        audit_log.append(conn, SYSTEM.at(now), "restored", None, {"made_at": made, "events": manifest.anchor.count})
    return manifest


def _describe(db: Database, conn: Connection, rows: Mapping[str, int], now: datetime) -> Manifest:
    revision = revision_of(conn)
    if revision is None:
        raise BackupRefused("there is nothing to back up: the database has no tables yet")
    return Manifest(kind=db.kind, revision=revision, rows=rows, anchor=audit_log.anchor_in(conn), made_at=now)


def _dump(db: Database, archive: ZipFile, now: datetime) -> Manifest:
    rows: dict[str, int] = {}
    with db.read() as conn:
        for table in tables_of(conn):
            rows[table.name] = 0
            with archive.open(f"{table.name}.jsonl", "w", force_zip64=True) as file:
                for line in lines_of(conn, table):
                    file.write(line.encode("ascii"))
                    rows[table.name] += 1
        return _describe(db, conn, rows, now)


def _copy_sqlite(db: Database, archive: ZipFile, now: datetime) -> Manifest:
    with _nameless_database(db.file.parent) as (target, content):
        with db.read() as conn:  # one moment: the copy is made inside the transaction that counts
            manifest = _describe(db, conn, counts_of(conn), now)
            conn.connection.driver_connection.backup(target)  # type: ignore[union-attr]
        _mark_without_log(content)
        with archive.open(_COPY, "w", force_zip64=True) as file:
            content.seek(0)
            shutil.copyfileobj(content, file)
    return manifest


@contextmanager
def _nameless_database(folder: Path) -> Iterator[tuple[sqlite3.Connection, IO[bytes]]]:
    """A database in a file whose name is gone before anything is in it, and the file's bytes: whatever kills the
    process, nothing of it is left.
    """
    with tempfile.NamedTemporaryFile(dir=folder, delete=False) as content:  # mode 600
        path = Path(content.name)
        try:
            connection = sqlite3.connect(path)
            connection.execute("PRAGMA journal_mode=OFF")  # a file beside it would have a name
            connection.execute("PRAGMA user_version").fetchone()  # opens the file
        finally:
            path.unlink()
        try:
            yield connection, content
        finally:
            connection.close()


def _mark_without_log(content: IO[bytes]) -> None:
    """Bytes 18 and 19 of its header: a database without a write-ahead log, for the copy is whole as it is."""
    content.seek(18)
    content.write(b"\x01\x01")
    content.flush()


@contextmanager
def _plain(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def _open(path: Path) -> Iterator[Database]:
    """A database file of ours, one file again when done: what is still in its log is written into it."""
    database = Database(f"sqlite:///{path}")
    try:
        yield database
    finally:
        database.close()
        with _plain(path) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")


def _require_fitting(db: Database, manifest: Manifest) -> None:
    if manifest.kind != db.kind:
        raise BackupRefused(f"a backup of {manifest.kind} cannot be restored into {db.kind}")
    if db.kind == "sqlite":
        beside = [db.file.with_name(db.file.name + ending) for ending in ("", "-wal")]
        filled = any(file.exists() and file.stat().st_size for file in beside)
    else:
        with db.read() as conn:
            filled = bool(names_of(conn))
    if filled:
        raise BackupRefused("the database is not empty: restore into a new one")
    try:
        ScriptDirectory(str(MIGRATIONS)).get_revision(manifest.revision)
    except CommandError as unknown:
        raise BackupRefused("the backup was made by a later version of this program") from unknown


def _restore_sqlite(db: Database, archive: ZipFile, manifest: Manifest) -> None:
    db.file.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=db.file.parent) as folder:
        copy = Path(folder) / _COPY
        with archive.open(_COPY) as content, copy.open("xb") as file:
            copy.chmod(0o600)
            shutil.copyfileobj(content, file)
        with _open(copy) as copied:
            with copied.read() as conn:
                _require_rows(counts_of(conn), manifest)
            _require_whole_log(copied, manifest)
        copy.replace(db.file)


def _restore_tables(db: Database, archive: ZipFile, manifest: Manifest) -> None:
    with db.write() as conn:
        upgrade(conn, manifest.revision)
        for table in tables_of(conn):
            conn.execute(delete(table))  # what migrations put there, and triggers meanwhile
            with archive.open(f"{table.name}.jsonl") as lines:
                insert_lines(conn, table, lines)
        _require_rows(counts_of(conn), manifest)
    _require_whole_log(db, manifest)


def _require_rows(found: Mapping[str, int], manifest: Manifest) -> None:
    differing = [name for name in found.keys() | manifest.rows.keys() if found.get(name) != manifest.rows.get(name)]
    if differing:
        raise BackupRefused(f"row counts differ from the manifest in {', '.join(sorted(differing))}")


def _require_whole_log(db: Database, manifest: Manifest) -> None:
    found = audit_check.verify(db, [manifest.anchor])
    if not found.ok:
        raise BackupRefused(f"the audit log is not whole: event {found.seq} {found.problem}; do not use this database")
