"""What is sent to a database, and how the database finds it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Engine, event

from storage.database import Database


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
