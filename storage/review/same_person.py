"""What the same person wrote besides: the nearest texts of theirs in the file, without anything of any outcome.

Only where the file's column of groups names people: a group of topics, say, is not a person.
"""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, select

from screening.datasets.columns import names_people
from storage.schema import batches, cases

EACH_WAY = 3
"""Texts before this one in its file, and after it, the nearest."""
_case = cases.c


@dataclass(frozen=True, slots=True, kw_only=True)
class NearText:
    """One of them; ``before``: it stands before the case in the file."""

    external_id: str
    text: str
    before: bool


def near_texts(conn: Connection, case_id: str) -> tuple[NearText, ...]:
    """In the order of the file, for a caller who has seen to it that the actor may read the case's own text."""
    columns = _case.batch_id, _case.group_name, _case.row, batches.c.intake
    own = conn.execute(select(*columns).join(batches, batches.c.id == _case.batch_id).where(_case.id == case_id)).one()
    if not (own.group_name or "").strip() or not names_people(own.intake.get("group_column") or ""):
        return ()
    before, after = (conn.execute(query).all() for query in _near(own, _case.external_id, _case.text))
    told = [*((row, True) for row in reversed(before)), *((row, False) for row in after)]
    return tuple(NearText(external_id=row.external_id, text=row.text, before=first) for row, first in told)


def _near(own: Any, *columns: ColumnElement[Any]) -> tuple[Select[Any], Select[Any]]:
    """Before it, the nearest first, and after it."""
    group = select(*columns).where(and_(_case.group_name == own.group_name, _case.batch_id == own.batch_id))
    return (
        group.where(_case.row < own.row).order_by(_case.row.desc()).limit(EACH_WAY),
        group.where(_case.row > own.row).order_by(_case.row).limit(EACH_WAY),
    )
