"""Which cases were erased: they hold nothing any more, nobody reads them again, and no words are stored of them."""

from typing import Final

from sqlalchemy import ColumnElement, Connection, exists, literal, select

from storage.database import Database
from storage.schema import erased_cases

ERASED: Final = "[erased]"
"""What stands where a text or an id stood."""


def was_erased(case_id: ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that a case was erased."""
    return exists().where(erased_cases.c.case_id == case_id)


def is_erased(conn: Connection, case_id: str) -> bool:
    """Whether this one was."""
    return bool(conn.execute(select(was_erased(literal(case_id)))).scalar())


def is_erased_now(db: Database, case_id: str) -> bool:
    """The same, for a page that keeps the text of a case from one run to the next."""
    with db.read() as conn:
        return is_erased(conn, case_id)
