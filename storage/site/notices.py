"""What there is to tell, found in the tables: whatever way a case enters the inbox, somebody hears of it.

Nothing here runs when a case is screened or entered, so that nothing here can delay one.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, case, func, literal, not_, or_, select

from screening.review.rating_form import Disposition
from screening.review.triage import Tier
from storage.clock import shared_now
from storage.database import Database, insert_into
from storage.schema import case_notices, follow_ups, inbox_entries
from storage.settings_store import current_in
from storage.site import faults
from storage.site.faults import Fault
from storage.site.outbox import CLOCKS_AGREE_WITHIN, Notice, tell
from storage.site.recipients import Recipient, active_recipients, is_told

AT_ONCE = 1_000
"""Cases told of in one transaction: the next look tells of the rest."""
ARRIVED, OVERDUE, FOLLOW_UP = "arrived", "overdue", "follow_up"
EVENTS = (ARRIVED, OVERDUE, FOLLOW_UP)
_entry, _notice = inbox_entries.c, case_notices.c


def collect(db: Database, now: datetime) -> int:
    """Put into the outbox what is to be told and was not; the number of new notices. Without recipients only the
    beginnings and ends of faults are kept.

    Looks first and writes only where there is something: nearly always there is not.
    """
    with db.read() as conn:
        recipients = active_recipients(conn)
        moment = shared_now(conn, now)
        cases = bool(recipients) and _anything(conn, recipients, moment)
        fault = any(faults.changes(conn, moment))
    if not cases and not fault:
        return 0
    with db.write() as conn:
        told = _tell_faults(conn, recipients, moment)
        return told + (sum(_tell_cases(conn, recipients, event, moment) for event in EVENTS))


def still_so(db: Database, notice: Notice, now: datetime) -> Notice | None:
    """The notice as it is now, for whoever is about to send it: it counts only the cases of which there still is
    something to tell. None where no such case is left, where a fault is over, or is here again.
    """
    if notice.event == "fault":
        lasting = {one.fault.value for one in faults.open_faults(db)}
        name = str(notice.what)
        return notice if (name.removesuffix("_over") in lasting) is not name.endswith("_over") else None
    if notice.event not in EVENTS or notice.tier is None:
        return notice
    with db.read() as conn:
        left = conn.execute(_count(notice.event, notice.tier, notice.count, shared_now(conn, now))).scalar_one()
    return replace(notice, count=left) if left else None


def _count(event: str, tier: Tier, most: int, now: datetime) -> Select[int]:
    """Of how many cases of the tier there is that to tell, at most so many."""
    if event == FOLLOW_UP:
        return _count_late_follow_ups(now, tier, most)
    some = select(_entry.case_id).where(_entry.closed_at.is_(None), _entry.tier == tier, *_waits(event, now))
    return select(func.count()).select_from(some.limit(most).subquery())


def _anything(conn: Connection, recipients: Sequence[Recipient], now: datetime) -> bool:
    """Whether there is anything to tell of any case; asked all the time."""
    before = now - _wait(conn)
    queries = (query for event in EVENTS for query in _queries(event, recipients, now, before))
    return bool(recipients) and any(conn.execute(query.limit(1)).first() for query in queries)


def _queries(event: str, recipients: Sequence[Recipient], now: datetime, before: datetime) -> tuple[Select[Any], ...]:
    """The cases to tell of, each with its tier and the place of the on-call order that was reached."""
    if event == FOLLOW_UP:
        last = max((one.step for one in recipients if is_told(one, FOLLOW_UP, None)), default=0)
        return (_late_follow_ups(now, before, last),)
    return _to_tell(event, now), _to_repeat(event, now, before)


def _wait(conn: Connection) -> timedelta:
    return timedelta(minutes=current_in(conn).settings.notify_next_after_minutes)


def _to_tell(event: str, now: datetime) -> Select[Any]:
    """Open cases of which nobody was told yet, or only as less urgent ones; and urgent ones that are overdue and were
    opened since that was told: who opened it has given it back unread, and nobody would hear of it any more.
    """
    known = and_(_notice.case_id == _entry.case_id, _notice.event == event)
    new = or_(_notice.case_id.is_(None), _is_new_again(event))
    urgent = (_entry.tier <= Tier.P1,) if event == ARRIVED else ()
    joined = select(_entry.case_id, _entry.tier, literal(0).label("step")).outerjoin(case_notices, known)
    return joined.where(_entry.closed_at.is_(None), *urgent, new, *_waits(event, now)).order_by(_entry.tier)


def _is_new_again(event: str) -> ColumnElement[bool]:
    """Of a case that was told: it is more urgent than was told, or was opened since it was told as overdue."""
    risen = _notice.tier > _entry.tier
    if event == ARRIVED:
        return risen
    return or_(risen, and_(_entry.tier <= Tier.P1, _entry.last_opened_at > _notice.at))


def _waits(event: str, now: datetime) -> tuple[ColumnElement[bool], ...]:
    """What makes an open case one to tell of. An arrival is told until somebody has opened it; a target that passes is
    told of a case that nobody has read and nobody has open, so also of one that was opened and given back.
    """
    if event == ARRIVED:
        return (_entry.first_opened_at.is_(None),)
    free = or_(_entry.lease_token.is_(None), _entry.assigned_until <= now)
    return _entry.due_at <= now, _entry.reading == "first", free


def _to_repeat(event: str, now: datetime, before: datetime) -> Select[Any]:
    """Urgent cases of which somebody was told a while ago, nothing is new, and that still wait."""
    joined = select(_notice.case_id, _entry.tier, _notice.step).join(inbox_entries, _entry.case_id == _notice.case_id)
    long_ago = or_(_notice.at <= before, _notice.at > now + CLOCKS_AGREE_WITHIN)
    told = _notice.event == event, long_ago, not_(_is_new_again(event))
    urgent = _entry.closed_at.is_(None), _entry.tier <= Tier.P1
    return joined.where(*told, *urgent, *_waits(event, now)).order_by(_entry.tier)


def _tell_cases(conn: Connection, recipients: Sequence[Recipient], event: str, now: datetime) -> int:
    """New ones to the first in the order, urgent ones that still wait to the next; the last one is told again."""
    queries = _queries(event, recipients, now, now - _wait(conn))
    reached = [row for query in queries for row in conn.execute(query.limit(AT_ONCE))]
    if not reached:
        return 0
    counted, rows = Counter[tuple[int, int]](), []
    for case_id, tier, step in reached:
        following = _next_step(_subscribers(recipients, event, Tier(tier)), step)
        counted[tier, following] += 1
        rows.append({"case_id": case_id, "event": event, "tier": tier, "step": following, "at": now})
    _keep(conn, rows)
    for (tier, step), count in sorted(counted.items()):
        notice = Notice(event=event, tier=Tier(tier), count=count)
        _tell(conn, (one for one in _subscribers(recipients, event, Tier(tier)) if one.step == step), notice, now)
    return len(reached)


def _keep(conn: Connection, rows: Sequence[dict[str, Any]]) -> None:
    kept = insert_into(conn, case_notices).values(list({row["case_id"]: row for row in rows}.values()))
    changed = {name: kept.excluded[name] for name in ("tier", "step", "at")}
    conn.execute(kept.on_conflict_do_update(index_elements=["case_id", "event"], set_=changed))


def _subscribers(recipients: Iterable[Recipient], event: str, tier: Tier) -> list[Recipient]:
    return [one for one in recipients if is_told(one, event, tier)]


def _next_step(recipients: Sequence[Recipient], step: int) -> int:
    """The place in the order after this one; the last one again where there is none; 0 where nobody is to be told."""
    steps = sorted({one.step for one in recipients})
    return next((one for one in steps if one > step), steps[-1] if steps else 0)


def _tell_faults(conn: Connection, recipients: Sequence[Recipient], now: datetime) -> int:
    began, over = faults.changes(conn, now)
    for fault in sorted(began):
        if faults.begin(conn, fault, now):
            tell_fault(conn, recipients, fault.value, now)
    for fault in sorted(over):
        if faults.finish(conn, fault, now):
            tell_fault(conn, recipients, f"{fault.value}_over", now)
    return len(began) + len(over)


def keep_fault(db: Database, fault: Fault, now: datetime, *, down: bool) -> None:
    """Record that the fault began or is over, where that is new, and tell people once."""
    if down == faults.lasts(db, fault):
        return
    with db.write() as conn:
        if (faults.begin if down else faults.finish)(conn, fault, now):
            tell_fault(conn, active_recipients(conn), fault.value if down else f"{fault.value}_over", now)


def tell_fault(conn: Connection, recipients: Iterable[Recipient], what: str, now: datetime) -> None:
    """Tell everybody who is told of faults: it may be the very first in the order who cannot be reached."""
    _tell(conn, (one for one in recipients if is_told(one, "fault", None)), Notice(event="fault", what=what), now)


def _tell(conn: Connection, recipients: Iterable[Recipient], notice: Notice, now: datetime) -> None:
    for recipient in recipients:
        tell(conn, recipient, notice, now)


_one, _notice = follow_ups.c, case_notices.c
_tier = func.min(case((_one.disposition == Disposition.CONTACT_NOW.value, Tier.P0.value), else_=Tier.P1.value))
"""An urgent one is told like a P0 case, any other like a P1 case."""


def _late_follow_ups(now: datetime, before: datetime, last: int) -> Select[Any]:
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


def _count_late_follow_ups(now: datetime, tier: Tier, most: int) -> Select[int]:
    """How many cases have one that is told as of this tier, at most so many."""
    cases = select(_one.case_id).where(*_late(now)).group_by(_one.case_id).having(_tier == tier.value).limit(most)
    return select(func.count()).select_from(cases.subquery())


def _late(now: datetime) -> tuple[Any, ...]:
    return _one.closed_at.is_(None), _one.due_at <= now
