"""When a person first looked at a case of the inbox: claimed and opened, as the audit log has it."""

from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, ScalarSelect, and_, exists, func, select

from storage.schema import Moment, audit_events

LOOKS = ("opened", "text_viewed")
"""What the log says when a text comes before somebody's eyes."""


def looks_at(case_id: ColumnElement[str]) -> tuple[Any, ColumnElement[bool]]:
    """The log's events, and the condition that one of them is a look at this case by whoever had claimed it.

    A text that a researcher reads in a list is no look, nor one that was read before its reader claimed it, and so
    perhaps before it came to the inbox: nobody has taken the case for that.
    """
    view, taken = audit_events.alias(), audit_events.alias()
    same = taken.c.subject == view.c.subject, taken.c.actor == view.c.actor
    claimed = exists().where(*same, taken.c.action.in_(("claimed", "opened")), taken.c.seq <= view.c.seq)
    return view, and_(view.c.subject == case_id, view.c.action.in_(LOOKS), claimed)


def first_look(case_id: ColumnElement[str]) -> ScalarSelect[Any]:
    """When it was first looked at; NULL where nobody has."""
    view, looked = looks_at(case_id)
    return select(func.min(view.c.at, type_=Moment)).where(looked).scalar_subquery()


def is_unseen(case_id: ColumnElement[str]) -> ColumnElement[bool]:
    """The condition that nobody has looked at it yet."""
    view, looked = looks_at(case_id)
    return ~exists(select(view.c.seq).where(looked))


def was_seen_after(case_id: ColumnElement[str], moment: ColumnElement[datetime]) -> ColumnElement[bool]:
    """The condition that somebody has looked at it since then, for the first time or again."""
    view, looked = looks_at(case_id)
    return exists(select(view.c.seq).where(looked, view.c.at > moment))
