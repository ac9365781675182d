"""Follow-ups that are overdue, as people outside the pages are told of them: a number, not whose or of which text."""

from datetime import datetime
from typing import Any

from sqlalchemy import Select, and_, case, func, or_, select

from screening.review.rating_form import Disposition
from screening.review.triage import Tier
from storage.schema import case_notices, follow_ups
from storage.site.outbox import CLOCKS_AGREE_WITHIN

FOLLOW_UP = "follow_up"
_one, _notice = follow_ups.c, case_notices.c
_tier = func.min(case((_one.disposition == Disposition.CONTACT_NOW.value, Tier.P0.value), else_=Tier.P1.value))
"""An urgent one is told like a P0 case, any other like a P1 case."""


def to_tell(now: datetime, before: datetime, last: int) -> Select[Any]:
    """Cases with such a one, each with the place of the on-call order that was reached: 0 where one became overdue
    since that was told, or that was told by a clock that ran ahead. Those of which all places up to the ``last`` were
    told, or one after ``before``, are left out: who acts just now is not told every few minutes.
    """
    ahead = _notice.at > now + CLOCKS_AGREE_WITHIN
    new = or_(_notice.case_id.is_(None), _notice.at < func.max(_one.due_at), ahead)
    step = case((new, 0), else_=_notice.step).label("step")
    told = and_(_notice.case_id == _one.case_id, _notice.event == FOLLOW_UP)
    late = select(_one.case_id, _tier.label("tier"), step).outerjoin(case_notices, told).where(*_late(now))
    by_case = late.group_by(_one.case_id, _notice.case_id, _notice.at, _notice.step)
    return by_case.having(or_(new, and_(_notice.at <= before, _notice.step < last))).order_by(_tier)


def count_late(now: datetime, tier: Tier, most: int) -> Select[int]:
    """How many cases have one that is told as of this tier, at most so many."""
    cases = select(_one.case_id).where(*_late(now)).group_by(_one.case_id).having(_tier == tier.value).limit(most)
    return select(func.count()).select_from(cases.subquery())


def _late(now: datetime) -> tuple[Any, ...]:
    return _one.closed_at.is_(None), _one.due_at <= now
