"""The migrations make exactly the tables that the code speaks of."""

from pathlib import Path

from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import inspect

from storage.database import MIGRATIONS, NEWEST_REVISION, Database
from storage.schema import metadata
from tests.processes import processes


def _is_ours(name: str | None, kind: str, _parents: object) -> bool:
    """The embedded database's own index of words is no table of the schema."""
    return kind != "table" or not str(name).startswith("open_text_parts")


def test_a_migrated_database_has_the_tables_of_the_schema(db: Database) -> None:
    with db.read() as conn:
        options = {"compare_type": True, "compare_server_default": True, "include_name": _is_ours}
        context = MigrationContext.configure(conn, opts=options)
        assert compare_metadata(context, metadata) == []
        assert set(metadata.tables) < set(inspect(conn).get_table_names())


def test_indexes_and_uniqueness_are_migrated_too(db: Database) -> None:
    with db.read() as conn:
        found = inspect(conn)
        for table in metadata.tables.values():
            migrated = {
                index["name"]: f"{db.kind}_where" in index.get("dialect_options", {})
                for index in found.get_indexes(table.name)
                if not index.get("duplicates_constraint")
            }
            partial = {index.name: index.dialect_options[db.kind]["where"] is not None for index in table.indexes}
            assert migrated == partial, table.name


def test_the_newest_revision_is_told_by_the_names_of_the_files(db: Database) -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [NEWEST_REVISION]
    with db.read() as conn:
        assert MigrationContext.configure(conn).get_current_revision() == NEWEST_REVISION


def _prepare(url: str) -> None:
    database = Database(url)
    database.prepare()
    database.close()


def test_processes_that_start_at_once_prepare_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new' / 'fresh.db'}"
    with processes(3) as pool:
        list(pool.map(_prepare, [url] * 6))
    database = Database(url)
    with database.read() as conn:
        assert set(metadata.tables) < set(inspect(conn).get_table_names())
    database.close()
