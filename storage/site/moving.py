"""A whole site from its embedded database into an empty PostgreSQL: every row as it is, counted and proved there."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, Table, delete, func, insert, select

from screening.review.actors import SYSTEM
from storage import audit_log
from storage.audit_log import Anchor
from storage.database import Database, revision_of
from storage.schema import metadata
from storage.site import audit_check
from storage.site.table_dump import CHUNK, continue_sequences

PLACED_IN_ANOTHER_DATABASE = ("process_heartbeats", "duties")
"""Tables of who works on the old database just now, and the index of texts: they begin anew."""


class MoveRefused(ValueError):
    """The databases are not such that the one can be moved into the other, or what arrived is not what left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """What arrived: rows per table, and where the audit log ends."""

    rows: Mapping[str, int]
    anchor: Anchor


def move(source: Database, target: Database, now: datetime) -> Moved:
    """Fill ``target`` from ``source`` in one transaction, then check counts and the audit chain. Raises MoveRefused.

    Nobody may work on the source meanwhile, or what they do stays behind: it is read as it is at one moment. It is
    not changed. A target that already holds cases, people or settings is left alone.
    """
    if (source.kind, target.kind) != ("sqlite", "postgresql"):
        raise MoveRefused("a site moves from an embedded database (sqlite:///…) to a PostgreSQL")
    if not source.exists():
        raise MoveRefused("there is no such database to move from")
    target.prepare()
    with source.read() as old, target.write() as new:
        _require_fitting(old, new)
        moved = Moved(rows=_fill(old, new), anchor=audit_log.anchor_in(old))
        found = {table.name: _count(new, table) for table in _tables()}
        if found != moved.rows:
            raise MoveRefused("row counts differ: nothing was kept")
    proof = audit_check.verify(target, [moved.anchor])
    if not proof.ok:
        raise MoveRefused(f"the audit log is not whole: event {proof.seq} {proof.problem}; do not use this database")
    with target.write() as new:
        audit_log.append(new, SYSTEM.at(now), "moved", None, {"events": moved.anchor.count})
    return moved


def _tables() -> list[Table]:
    """Each after those that it refers to."""
    return [table for table in metadata.sorted_tables if table.name not in PLACED_IN_ANOTHER_DATABASE]


def _require_fitting(old: Connection, new: Connection) -> None:
    revisions = [revision_of(conn) for conn in (old, new)]
    if revisions[0] != revisions[1]:
        raise MoveRefused("bring the old database up to date first: start this version on it once")
    in_use = ("cases", "accounts", "settings_versions", "audit_events")
    if any(_count(new, metadata.tables[name]) for name in in_use):
        raise MoveRefused("the new database is not empty: move into a new one")


def _fill(old: Connection, new: Connection) -> dict[str, int]:
    rows = {}
    for table in _tables():
        new.execute(delete(table))  # what migrations put there, and triggers meanwhile
        rows[table.name] = _copy(old, new, table)
        continue_sequences(new, table)
    return rows


def _copy(old: Connection, new: Connection, table: Table) -> int:
    stored = [column for column in table.columns if column.computed is None]
    count = 0
    found = old.execute(select(*stored).order_by(*table.primary_key.columns).execution_options(yield_per=CHUNK))
    for part in found.mappings().partitions():
        new.execute(insert(table), [dict(row) for row in part])
        count += len(part)
    return count


def _count(conn: Connection, table: Table) -> int:
    return int(conn.execute(select(func.count()).select_from(table)).scalar_one())
