"""Other texts of the same author or group, for whoever has a case before them: texts alone, nothing of any outcome."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, select

from screening.review.actors import Acting
from screening.review.policy import Action, require
from storage.audit_log import append
from storage.database import Database, record
from storage.review.evidence import CaseText, owns_text
from storage.schema import cases

EACH_WAY = 3
"""Texts before this one in its file, and after it, the nearest."""
_case = cases.c


@dataclass(frozen=True, slots=True, kw_only=True)
class NearTexts:
    """The nearest texts of the group in the order of the file, before the case and after it."""

    before: tuple[CaseText, ...]
    after: tuple[CaseText, ...]


def count_near(db: Database, by: Acting, case_id: str, token: str | None = None) -> int:
    """How many texts `reveal_near_texts` would show. Raises as it does."""
    with db.read() as conn:
        own = _of(conn, by, case_id, token)
        return 0 if own is None else sum(len(conn.execute(query).all()) for query in _near(own, _case.id))


def reveal_near_texts(db: Database, by: Acting, case_id: str, token: str | None = None) -> NearTexts:
    """The texts themselves, for whoever may read the case's own. Raises Forbidden, KeyError for an unknown case.

    Each text is in the audit log as ``near_text_viewed`` with the case for which it was read: it is no look at a case
    of the inbox, and nobody has taken it.
    """
    with db.write() as conn:
        own = _of(conn, by, case_id, token)
        if own is None:
            return NearTexts(before=(), after=())
        columns = _case.id, _case.external_id, _case.text, _case.reply
        before, after = (
            tuple(record(CaseText, row, case_id=row.id) for row in conn.execute(query))
            for query in _near(own, *columns)
        )
        for shown in (*before, *after):
            append(conn, by, "near_text_viewed", shown.case_id, {"beside": case_id})
    return NearTexts(before=before[::-1], after=after)


def _of(conn: Connection, by: Acting, case_id: str, token: str | None) -> Any:
    """Where the case stands; None where it has no group."""
    require(by.actor, Action.VIEW_TEXT, by.id if owns_text(conn, by, case_id, token) else None)
    columns = _case.batch_id, _case.group_name, _case.row
    row = conn.execute(select(*columns).where(_case.id == case_id)).first()
    if row is None:
        raise KeyError(case_id)
    return row if row.group_name is not None and row.group_name.strip() else None


def _near(own: Any, *columns: ColumnElement[Any]) -> tuple[Select[Any], Select[Any]]:
    """Before it, the nearest first, and after it."""
    group = select(*columns).where(and_(_case.group_name == own.group_name, _case.batch_id == own.batch_id))
    return (
        group.where(_case.row < own.row).order_by(_case.row.desc()).limit(EACH_WAY),
        group.where(_case.row > own.row).order_by(_case.row).limit(EACH_WAY),
    )
