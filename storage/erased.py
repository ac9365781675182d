"""Which cases were erased: they hold nothing any more, nobody reads them again, and no words are stored of them."""

from sqlalchemy import ColumnElement, Connection, exists, literal, select

from storage.schema import erased_cases


def was_erased(case_id: ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that a case was erased."""
    return exists().where(erased_cases.c.case_id == case_id)


def is_erased(conn: Connection, case_id: str) -> bool:
    """Whether this one was."""
    return bool(conn.execute(select(was_erased(literal(case_id)))).scalar())
