"""Pages of rows that hold texts: so many rows, fewer where the texts are long, so that memory is bounded by both."""

from typing import Any

from sqlalchemy import Connection, Row, Select

ROWS = 500
CHARACTERS = 4_000_000
"""A page ends with the row that reaches so many."""
_AT_ONCE = 10


def text_page(conn: Connection, query: Select[Any]) -> list[Row[Any]]:
    """The next rows of an ordered query; none only where there are none left."""
    page: list[Row[Any]] = []
    characters = 0
    with conn.execute(query.limit(ROWS).execution_options(yield_per=_AT_ONCE)) as rows:
        for row in rows:
            page.append(row)
            characters += sum(len(value) for value in row if isinstance(value, str))
            if characters >= CHARACTERS:
                break
    return page
