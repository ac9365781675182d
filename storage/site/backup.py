"""A site's database copied into another one, of either kind: a backup is a copy in a file of its own, a restore the way
back, and a move to a server both.

A copy holds every text in the clear: its owner alone may read it. It is read at one moment while everybody works, and
counted and proved where it arrives.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection, Table, func, insert, select, text
from sqlalchemy.exc import DatabaseError

from screening.review.policy import SYSTEM
from storage import audit_log
from storage.audit_log import Anchor
from storage.database import NEWEST_REVISION, Database, revision_of
from storage.schema import metadata

CHUNK = 1_000
NOT_COPIED = frozenset({"process_heartbeats", "duties"})
"""Who works on the other database just now."""


class CopyRefused(ValueError):
    """The source is no database of this version, the target is not empty, or what arrived is not what left."""


Copied = tuple[Mapping[str, int], Anchor]
"""Rows per table, and where the audit log ended."""


def back_up(db: Database, to: Path, now: datetime) -> Copied:
    """Write a copy to a new file, which has its name once it is whole. Raises FileExistsError."""
    if to.exists():
        raise FileExistsError(f"{to.name} is there already")
    to.parent.mkdir(parents=True, exist_ok=True)
    with db.write() as conn:
        audit_log.append(conn, SYSTEM.at(now), "backup_begun", None, {})
    with tempfile.TemporaryDirectory(dir=to.parent, prefix=".unfinished-backup-") as own:  # mode 700
        whole = Path(own) / "copy.db"
        with closing(Database(f"sqlite:///{whole}")) as target:
            target.prepare()  # mode 600
            with db.read() as old, target.write() as new:
                made = _copy(old, new)
        with closing(sqlite3.connect(whole)) as one_file:
            one_file.execute("PRAGMA journal_mode=DELETE")
        _name(whole, to)
    return made


def restore(db: Database, source: Path, now: datetime) -> Copied:
    """Fill an empty database from a backup, of which a copy is brought up to date first. CopyRefused, and nothing is
    kept, where it is none, is damaged or of a later version, or where rows or audit log do not add up.
    """
    with tempfile.TemporaryDirectory(dir=source.parent, prefix=".unfinished-restore-") as own:
        copy = Path(own) / "copy.db"
        shutil.copyfile(source, copy)  # which is then brought up to date, and written to by being opened
        with closing(Database(f"sqlite:///{copy}")) as copied:
            _require_backup(copied)
            db.prepare()
            with copied.read() as old, db.write() as new:
                if filled := [table.name for table in _tables() if _count(new, table)]:
                    raise CopyRefused(f"the database is not empty ({filled[0]}): restore into a new one")
                rows, anchor = _copy(old, new)
                proof = audit_log.verify(new, [anchor])
                if not proof.ok:
                    raise CopyRefused(f"the audit log is not whole: event {proof.seq} {proof.problem}")
                audit_log.append(new, SYSTEM.at(now), "restored", None, {"events": anchor.count})
    return rows, anchor


def _require_backup(copied: Database) -> None:
    try:
        with copied.read() as conn:
            revision = revision_of(conn)
        if revision is None:
            raise CopyRefused("not a backup")
        if revision > NEWEST_REVISION:
            raise CopyRefused("the backup was made by a later version of this program")
        if (damage := copied.damage()) is not None:
            raise CopyRefused(f"the backup is damaged ({damage})")
        copied.prepare()
    except DatabaseError as wrong:
        raise CopyRefused("not a backup, or a damaged one") from wrong


def _copy(old: Connection, new: Connection) -> Copied:
    rows = {table.name: _fill(old, new, table) for table in _tables()}
    if differing := [table.name for table in _tables() if _count(new, table) != rows[table.name]]:
        raise CopyRefused(f"row counts differ in {', '.join(differing)}")
    return rows, audit_log.anchor(old)


def _tables() -> list[Table]:
    """Each after those that it refers to."""
    return [table for table in metadata.sorted_tables if table.name not in NOT_COPIED]


def _fill(old: Connection, new: Connection, table: Table) -> int:
    stored = [column for column in table.columns if column.computed is None]
    found = old.execute(select(*stored).order_by(*table.primary_key.columns).execution_options(yield_per=CHUNK))
    count = 0
    for part in found.mappings().partitions():
        new.execute(insert(table), [dict(row) for row in part])
        count += len(part)
    if new.dialect.name == "postgresql":
        _continue_sequences(new, table)
    return count


def _continue_sequences(conn: Connection, table: Table) -> None:
    """Let PostgreSQL number the table's next rows after those that it holds."""
    for column in table.primary_key.columns:
        owned = {"table": table.name, "column": column.name}
        if sequence := conn.execute(text("SELECT pg_get_serial_sequence(:table, :column)"), owned).scalar():
            highest = conn.execute(select(func.coalesce(func.max(column), 0))).scalar_one()
            conn.execute(select(func.setval(sequence, highest + 1, False)))


def _count(conn: Connection, table: Table) -> int:
    return int(conn.execute(select(func.count()).select_from(table)).scalar_one())


def _name(whole: Path, to: Path) -> None:
    """Give it its name, which never replaces a file that appeared meanwhile. Raises FileExistsError."""
    try:
        os.link(whole, to)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links: the name is taken first
        to.touch(mode=0o600, exist_ok=False)
        whole.replace(to)
