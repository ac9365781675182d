"""When a person first looked at a case of the inbox: claimed and opened, as the audit log has it."""

from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, and_, exists, func, select

from storage.schema import Moment, audit_events

LOOKS = ("text_viewed", "ahead_opened")
"""What the log says when a text comes before somebody's eyes: served when asked for, or sent ahead and then opened."""


def looks_at(case_id: ColumnElement[str]) -> tuple[Any, ColumnElement[bool]]:
    """The log's events, and the condition that one of them is a look at this case by whoever had claimed it.

    A text that a researcher reads in a list is no look: nobody has taken the case for that.
    """
    view, taken = audit_events.alias(), audit_events.alias()
    claimed = exists().where(
        taken.c.subject == view.c.subject, taken.c.actor == view.c.actor, taken.c.action == "claimed"
    )
    return view, and_(view.c.subject == case_id, view.c.action.in_(LOOKS), claimed)


def first_look(case_id: ColumnElement[str]) -> ScalarSelect[Any]:
    """When it was first looked at; NULL where nobody has."""
    view, looked = looks_at(case_id)
    return select(func.min(view.c.at, type_=Moment)).where(looked).scalar_subquery()


def is_unseen(case_id: ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that nobody has looked at it yet."""
    view, looked = looks_at(case_id)
    return ~exists(select(view.c.seq).where(looked))
