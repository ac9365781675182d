"""The label that clinicians accepted for a case: one definition for counts, lists, replays and exports."""

from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, Select, and_, exists, func, select

from storage.schema import adjudications, cases
from storage.visibility import is_in_review


def accepted_label(case_id: ColumnElement[str]) -> ScalarSelect[Any]:
    """The latest adjudication's label; NULL without one, and while the case is open again: its next reader is blind
    to what the readers before them said.
    """
    made = adjudications.alias().c  # whatever the query itself joins
    return (
        select(made.label)
        .where(made.case_id == case_id, ~is_in_review(made.case_id))
        .order_by(made.version.desc())
        .limit(1)
        .scalar_subquery()
    )


def accepted_labels(batch_id: str) -> Select[Any]:
    """The accepted label of each case of a batch that has one: `accepted_label`, each adjudication looked at once."""
    made = adjudications.c
    latest = (
        select(made.case_id, func.max(made.version).label("version"))
        .join(cases, cases.c.id == made.case_id)
        .where(cases.c.batch_id == batch_id)
        .group_by(made.case_id)
        .subquery()
        .c
    )
    same = and_(made.case_id == latest.case_id, made.version == latest.version)
    return select(made.case_id, made.label).join(latest.case_id.table, same).where(~is_in_review(made.case_id))


def is_accepted(case_id: ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that a case has an accepted label."""
    made = adjudications.alias().c
    return and_(exists().where(made.case_id == case_id), ~is_in_review(case_id))


def order_given() -> tuple[ColumnElement[Any], ...]:
    """The order in which labels were accepted: by their moments, and never one of a case before an earlier one of the
    same, whatever a clock that was set back has made of the moments.
    """
    made = adjudications.c
    latest = func.max(made.at).over(partition_by=made.case_id, order_by=made.version)
    return latest, made.case_id, made.version
