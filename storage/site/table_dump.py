"""All tables of a PostgreSQL database as JSON lines, read in one snapshot, and back again in one transaction."""

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from sqlalchemy import JSON, Connection, MetaData, Table, Text, bindparam, cast, func, insert, inspect, select, text
from sqlalchemy.sql.expression import table as named_table

CHUNK = 1_000
NOT_OURS = ("alembic_", "procrastinate_", "sqlite_")
"""Tables that are made anew: the migrations' mark, and the queue, which is filled from what is pending."""


def tables_of(conn: Connection) -> list[Table]:
    """The tables as they stand in the database, each after those that it refers to."""
    found = MetaData()
    found.reflect(conn, only=lambda name, _: not name.startswith(NOT_OURS))
    return found.sorted_tables


def names_of(conn: Connection) -> list[str]:
    """Their names alone, in any order: asked for in no time."""
    return [name for name in inspect(conn).get_table_names() if not name.startswith(NOT_OURS)]


def counts_of(conn: Connection) -> dict[str, int]:
    """How many rows each table has."""
    count = select(func.count())
    return {name: conn.execute(count.select_from(named_table(name))).scalar_one() for name in names_of(conn)}


def lines_of(conn: Connection, table: Table) -> Iterator[str]:
    """The table's rows, one JSON list a line: values of the stored columns in order, JSON values as their text."""
    columns = [cast(column, Text) if _is_json(column) else column for column in _stored_columns(table)]
    rows = conn.execute(select(*columns).execution_options(yield_per=CHUNK))
    for row in rows:
        yield json.dumps(list(row), ensure_ascii=True) + "\n"


def insert_lines(conn: Connection, table: Table, lines: Iterable[bytes]) -> None:
    """The rows that `lines_of` wrote, and the table's sequence set to go on after them."""
    stored = _stored_columns(table)
    named = [column.name for column in stored]
    values = {column.name: _value(column) for column in stored}
    rows = (dict(zip(named, json.loads(line), strict=True)) for line in lines)
    while chunk := list(islice(rows, CHUNK)):
        conn.execute(insert(table).values(values), chunk)
    continue_sequences(conn, table)


def _stored_columns(table: Table) -> list[Any]:
    """The columns without those that the database computes."""
    return [column for column in table.columns if column.computed is None]


def _is_json(column: Any) -> bool:
    return isinstance(column.type, JSON)


def _value(column: Any) -> Any:
    return cast(bindparam(column.name, type_=Text), column.type) if _is_json(column) else bindparam(column.name)


def continue_sequences(conn: Connection, table: Table) -> None:
    """Let PostgreSQL number the table's next rows after those that it holds."""
    for column in table.primary_key.columns:
        owned = {"table": table.name, "column": column.name}
        sequence = conn.execute(text("SELECT pg_get_serial_sequence(:table, :column)"), owned).scalar()
        if sequence is not None:
            highest = conn.execute(select(func.coalesce(func.max(column), 0))).scalar_one()
            conn.execute(select(func.setval(sequence, highest + 1, False)))
