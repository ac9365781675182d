"""One database, SQLite or PostgreSQL, with the same promises: a read is one snapshot, a write is one transaction."""

import logging
import sqlite3
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import fields
from enum import StrEnum
from errno import ENOSPC, EROFS
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, TypeVarTuple

from sqlalchemy import ColumnElement, Connection, Engine, Table, and_, create_engine, event, inspect, make_url, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import URL, ExceptionContext, Row
from sqlalchemy.exc import ArgumentError, DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.sql.selectable import TypedReturnsRows

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

BUSY_TIMEOUT_S, REPEATABLE_BUSY_TIMEOUT_S = 30, 3
"""How long a SQLite writer waits for the one before it; far more than any transaction here takes. The worker, which
tries again by itself, waits less at a time, so that it can be stopped."""
CONNECT_TIMEOUT_S = 10

MIGRATIONS = Path(__file__).parent / "migrations"
NEWEST_REVISION = max(file.name for file in (MIGRATIONS / "versions").glob("[0-9]*.py"))[:4]
_PREPARE_LOCK = 5_326_021_147
"""PostgreSQL's advisory lock of migrations: an arbitrary number of their own."""


class Database:
    """The engine behind one URL; threads may share it, processes each make their own.

    SQLite runs in WAL mode with foreign keys on and ``synchronous=FULL``: a commit has reached the disk when it
    returns, because a clinician's rating cannot be asked for again after a power cut. With ``repeatable`` the last
    commits before a power cut may be lost, never one in their middle (``synchronous=NORMAL``): for the worker,
    whose cases are simply screened again. The death of a process loses nothing either way.
    """

    def __init__(self, url: str, *, pool_size: int = 10, repeatable: bool = False) -> None:
        self._url = _read_address(url)
        self.kind: Literal["sqlite", "postgresql"] = self._url.get_backend_name()  # type: ignore[assignment]
        name = self._url.database if self.kind == "sqlite" else None
        self._path = None if name in (None, "", ":memory:") else Path(str(name))
        log = logging.getLogger("sqlalchemy.engine")
        if log.getEffectiveLevel() < logging.INFO:
            log.setLevel(logging.INFO)  # at DEBUG it would log the rows it fetched, with their texts
        options = {"pool_size": pool_size, "max_overflow": 2 * pool_size, "hide_parameters": True}
        if self.kind == "sqlite":
            self._engine = _sqlite(self._url, options, repeatable=repeatable)
            self._reading = self._engine.execution_options(reads_only=True)
        else:
            self._engine = create_engine(
                self._url.set(drivername="postgresql+psycopg"),
                pool_pre_ping=not repeatable,  # who tries again by itself need not ask before each transaction
                connect_args={"connect_timeout": CONNECT_TIMEOUT_S},
                **options,
            )
            event.listen(self._engine, "handle_error", _without_values)
            self._reading = self._engine.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        self._shared = _Shared()
        self._generation = 0
        event.listen(self._engine, "do_connect", self._note_generation)
        event.listen(self._engine, "checkin", self._close_if_older)

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A connection that sees one moment of the database throughout; it cannot change anything lastingly."""
        shared = self._shared
        if not shared.wanted:
            with self._reading.connect() as connection:
                yield connection
            return
        connection = shared.current = shared.current or self._reading.connect()
        shared.readers[connection] += 1
        try:
            yield connection
        except DBAPIError:  # PostgreSQL takes no statement after one that failed
            shared.current = None if shared.current is connection else shared.current
            raise
        finally:
            shared.readers[connection] -= 1
            shared.close_unread()

    def rows(self, query: TypedReturnsRows[*Ts], given: Mapping[str, Any] | None = None) -> Sequence[Row[*Ts]]:
        """All rows that answer one question, asked by itself."""
        with self.read() as connection:
            return connection.execute(query, given).all()

    def row(self, query: TypedReturnsRows[*Ts], given: Mapping[str, Any] | None = None) -> Row[*Ts]:
        """The one row that answers it. Raises where there is none, or more than one."""
        with self.read() as connection:
            return connection.execute(query, given).one()

    def values(self, query: TypedReturnsRows[T], given: Mapping[str, Any] | None = None) -> list[T]:
        """The first column of every row."""
        with self.read() as connection:
            return list(connection.execute(query, given).scalars())

    def value(self, query: TypedReturnsRows[T], given: Mapping[str, Any] | None = None) -> T:
        """The first column of the one row. Raises where there is none, or more than one."""
        with self.read() as connection:
            return connection.execute(query, given).scalar_one()

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction: committed when the block ends, rolled back when it raises."""
        self._shared.forget()  # nothing is held open while a writer waits
        try:
            with self._engine.begin() as connection:
                yield connection
        finally:
            self._shared.forget()

    @contextmanager
    def one_snapshot(self) -> Iterator[None]:
        """The reads of this block in this thread share one connection and one snapshot: the one of the first read, and
        after a write of the block the one of the first read after that. For a short block, since it does not see what
        others write meanwhile.
        """
        outer, self._shared.wanted = self._shared.wanted, True
        try:
            yield
        finally:
            self._shared.wanted = outer
            if not outer:
                self._shared.forget()

    def prepare(self) -> None:
        """Bring the tables up to date; safe when several processes start at once, quick when nothing is to do."""
        if self._path is not None:
            try:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._path.touch(mode=0o600)
            except (PermissionError, NotADirectoryError, FileExistsError) as error:
                raise OSError(EROFS, error.strerror, error.filename) from error  # as `passing_fault` tells it
        with self.write() as connection:
            if self.kind == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _PREPARE_LOCK})
            if revision_of(connection) != NEWEST_REVISION:
                _upgrade(connection)

    def exists(self) -> bool:
        """Whether there is something to open: a file that is there, or a server, which is not asked."""
        return self._path is None or self._path.is_file()

    def damage(self) -> str | None:
        """What is wrong with the file of an embedded database, all of which is read; None where nothing is."""
        if self.kind == "postgresql":
            return None
        with self.read() as connection:
            found = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
        return None if found == "ok" else found

    @property
    def file(self) -> Path:
        if self._path is None:
            raise ValueError("only an embedded database is a file")
        return self._path

    @property
    def lock_file(self) -> Path:
        """Where the one worker of an embedded database holds its lock."""
        return self.file.with_name(self.file.name + ".worker-lock")

    @property
    def conninfo(self) -> str:
        """The libpq URL with which other libraries reach the same PostgreSQL, password included."""
        if self.kind != "postgresql":
            raise ValueError("only PostgreSQL is reached by other libraries")
        return self._url.set(drivername="postgresql").render_as_string(hide_password=False)

    def forget(self) -> None:
        """Empty SQLite's own log after an erasure: it may still hold it. PostgreSQL does so as it vacuums."""
        if self.kind == "sqlite":
            with self._engine.connect() as connection:
                connection.exec_driver_sql("COMMIT")
                connection.exec_driver_sql("PRAGMA busy_timeout = 2000")  # readers may keep it busy: then a later one
                connection.exec_driver_sql("PRAGMA wal_checkpoint(TRUNCATE)")
                connection.exec_driver_sql(f"PRAGMA busy_timeout = {1_000 * BUSY_TIMEOUT_S}")
                connection.exec_driver_sql("BEGIN")

    def close(self) -> None:
        """Close all connections: those in use as soon as they are given back."""
        self._generation += 1
        self._engine.dispose()

    def _note_generation(self, _dialect: object, record: ConnectionPoolEntry, *_how: object) -> None:
        record.info["born"] = self._generation

    def _close_if_older(self, _connection: object, record: ConnectionPoolEntry) -> None:
        """Close a connection that was opened before `close`: the pool it goes back to is no longer used."""
        if record.info.get("born", self._generation) != self._generation:
            record.invalidate()


class _Shared(threading.local):
    """What the reads of one thread share in a block of `one_snapshot`: a connection, none before the first read and
    after a write.
    """

    def __init__(self) -> None:
        self.wanted, self.readers = False, Counter[Connection]()
        self.current: Connection | None = None

    def forget(self) -> None:
        """Have the next read open a new snapshot; reads that are under way end on theirs."""
        self.current = None
        self.close_unread()

    def close_unread(self) -> None:
        for one in [one for one, reads in self.readers.items() if not reads and one is not self.current]:
            del self.readers[one]
            one.close()


Source = Database | Connection
"""What a function works on: the database, or the connection of a caller who does more in the same moment."""


def reading(source: Source) -> AbstractContextManager[Connection]:
    """The caller's connection, or one for this block."""
    return nullcontext(source) if isinstance(source, Connection) else source.read()


def writing(source: Source) -> AbstractContextManager[Connection]:
    """The caller's transaction, or one of its own for this block."""
    return nullcontext(source) if isinstance(source, Connection) else source.write()


def record(kind: type[T], row: Any, /, **given: Any) -> T:
    """A record of this dataclass, each field the row's column of its name, but for those that are ``given``."""
    columns = row._mapping
    named = {one.name: columns[one.name] for one in fields(kind) if one.name in columns and one.name not in given}  # type: ignore[arg-type]
    return kind(**named, **given)


def revision_of(connection: Connection) -> str | None:
    """The newest migration that the tables have; None for an empty database."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar()


def _upgrade(connection: Connection) -> None:
    """Bring the tables to the newest revision, in the transaction of the connection."""
    from alembic import command  # which takes longer to import than all else here
    from alembic.config import Config

    config = Config()  # no file is read
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


insert_into = postgresql.insert
"""An INSERT with ON CONFLICT, which SQLAlchemy's core lacks: both databases spell it alike, so SQLite's compiler writes
PostgreSQL's as its own.
"""


def begins(conn: Connection, column: ColumnElement[Any], words: str) -> ColumnElement[bool]:
    """The condition that the column starts with these words, written so that either database uses its index: SQLite
    compares bytes, PostgreSQL has an index of patterns.
    """
    if conn.dialect.name == "postgresql":
        return column.startswith(words, autoescape=True)
    return and_(column >= words, column < words + "\U0010ffff")


def upsert(
    connection: Connection, table: Table, rows: Mapping[str, Any] | Sequence[Mapping[str, Any]], *changed: str
) -> None:
    """Insert whole rows, each over the one that has its key, of which it changes all, or these columns alone."""
    made, keys = insert_into(table).values(rows), table.primary_key.columns
    names = changed or (column.name for column in table.columns if not column.primary_key)
    values = {name: made.excluded[name] for name in names}
    connection.execute(made.on_conflict_do_update(index_elements=list(keys), set_=values))


def insert_once(connection: Connection, table: Table, row: Mapping[str, Any]) -> bool:
    """Insert the row unless its key is there; whether it was. RETURNING tells: psycopg's row count means nothing."""
    return connection.execute(_once(table), dict(row)).first() is not None


@cache
def _once(table: Table) -> Any:
    """The statement, built once: a worker inserts each run and outcome with it."""
    return insert_into(table).on_conflict_do_nothing().returning(*table.primary_key.columns)


class Stale(Exception):
    """Somebody else changed in between what one works on: look at theirs first."""


class Fault(StrEnum):
    """A fault of the database that passes, or once somebody has seen to its disk: "the database is ..."."""

    AWAY = "away"  # it was not there to connect to
    LOST = "lost"  # it went away in the middle
    BUSY = "busy or full"
    STATEMENT = "keeping a statement from its end"  # cancelled, deadlocked, no lock
    READ_ONLY = "on a disk or in a folder that cannot be written: make it writable"
    DAMAGED = "damaged, or no database: stop the site, keep the file, and restore the last backup into a new one"


_SQLITE_FAULTS = {
    **dict.fromkeys((sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL), Fault.BUSY),
    **dict.fromkeys((sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PROTOCOL), Fault.BUSY),
    **dict.fromkeys((sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN), Fault.READ_ONLY),
    **dict.fromkeys((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB), Fault.DAMAGED),
}
_STATEMENT_STATES = frozenset({"57014", "40001", "40P01", "55P03"})
"""SQLSTATE: query canceled (a time-out), serialization failure, deadlock, lock not available."""
_AWAY_STATES = frozenset({"57P01", "57P02", "57P03"})
"""SQLSTATE: shut down, crashed, cannot connect now."""
_RESOURCES = "53"
"""Class of SQLSTATE: disk full, out of memory, too many connections."""


def passing_fault(error: BaseException) -> Fault | None:
    """The fault that this error stands for, if the database or its disk is at fault; None for every other error.

    A connection is lost where SQLAlchemy has given it up, or where the driver has no error code of the server.
    """
    if isinstance(error, PoolTimeout):
        return Fault.BUSY
    if isinstance(error, OSError) and error.errno in (EROFS, ENOSPC):
        return Fault.BUSY if error.errno == ENOSPC else Fault.READ_ONLY
    driver = error.orig if isinstance(error, DBAPIError) else error
    if (code := getattr(driver, "sqlite_errorcode", None)) is not None:
        return _SQLITE_FAULTS.get(code & 0xFF)
    if not isinstance(error, DBAPIError):
        return None
    state = getattr(error.orig, "sqlstate", "")
    if error.connection_invalidated:
        return Fault.LOST
    if state in _AWAY_STATES or (state is None and isinstance(error, OperationalError)):
        return Fault.AWAY
    if state in _STATEMENT_STATES:
        return Fault.STATEMENT
    return Fault.BUSY if state and state.startswith(_RESOURCES) else None


def is_lost_connection(error: BaseException) -> bool:
    """Whether PostgreSQL went away or could not be reached: what was being written is not to blame."""
    return passing_fault(error) in (Fault.LOST, Fault.AWAY)


def _without_values(context: ExceptionContext) -> None:
    """Keep only the first line of PostgreSQL's errors: their details quote the values of the row."""
    error = context.original_exception
    if (first := getattr(getattr(error, "diag", None), "message_primary", None)) is not None:
        error.args = (first,)
        if context.sqlalchemy_exception is not None:
            context.sqlalchemy_exception.args = (f"({type(error).__name__}) {first}",)


def _read_address(url: str) -> URL:
    """Raises ValueError, which quotes nothing: a part of a password may stand where a port was looked for."""
    with suppress(ArgumentError, ValueError):
        if (read := make_url(url)).get_backend_name() in ("sqlite", "postgresql"):
            return read
    raise ValueError("this is no address of a database: use sqlite:///path or postgresql://user:password@host/name")


def _sqlite(url: URL, options: dict[str, Any], *, repeatable: bool) -> Engine:
    synchronous, timeout_s = ("NORMAL", REPEATABLE_BUSY_TIMEOUT_S) if repeatable else ("FULL", BUSY_TIMEOUT_S)

    def on_connect(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # the driver must not begin transactions of its own
        for pragma in ("journal_mode=WAL", f"synchronous={synchronous}", "foreign_keys=ON", "secure_delete=ON"):
            connection.execute(f"PRAGMA {pragma}")

    def on_begin(connection: Connection) -> None:
        """Writers take the lock at once: a transaction that reads first and writes later could only fail."""
        reads_only = connection.get_execution_options().get("reads_only", False)
        connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")

    engine = create_engine(url, connect_args={"timeout": timeout_s}, **options)
    event.listen(engine, "connect", on_connect)
    event.listen(engine, "begin", on_begin)
    return engine


class Changes:
    """One connection of its own, for one thread. The counter moves with every commit of any other connection; of a
    database server nothing is known, and anything may have been written.
    """

    def __init__(self, file: Path | None) -> None:
        self._connection: sqlite3.Connection | None = None
        if file is not None:
            address = f"{file.absolute().as_uri()}?mode=ro"
            self._connection = sqlite3.connect(address, uri=True, isolation_level=None)
        self._last = self._counter()

    def poll(self) -> bool:
        """Whether there was a commit since the last call."""
        before, self._last = self._last, self._counter()
        return self._connection is None or before != self._last

    def _counter(self) -> int:
        if self._connection is None:
            return 0
        return int(self._connection.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        """Give the connection back."""
        if self._connection is not None:
            self._connection.close()
