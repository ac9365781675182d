"""The label that clinicians accepted for a case: one definition for counts, lists, replays and exports."""

from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, and_, exists, select

from storage.blindness import waiting
from storage.schema import adjudications


def accepted_label(case_id: ColumnElement[str]) -> ScalarSelect[Any]:
    """The latest adjudication's label; NULL without one, and while the case is open again: its next reader is blind
    to what the readers before them said.
    """
    made = adjudications.alias().c  # whatever the query itself joins
    return (
        select(made.label)
        .where(made.case_id == case_id, ~waiting(made.case_id))
        .order_by(made.version.desc())
        .limit(1)
        .scalar_subquery()
    )


def is_accepted(case_id: ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that a case has an accepted label."""
    made = adjudications.alias().c
    return and_(exists().where(made.case_id == case_id), ~waiting(case_id))
