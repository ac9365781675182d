"""Who is told what, in which order, and what they are told: found in the tables, and kept until it went out. Whatever
way a case enters the inbox, somebody hears of it; nothing here runs when one is screened or entered, so that nothing
here can delay one. Nobody is told anything before an administrator adds somebody.

One message per recipient, event, priority and interval holds a number: never a text, the id of a case or a person, or a
label. Its id stays the same over all its tries, so that whoever receives it can tell a repetition. A target may hold a
password: it is written once, read by the sender alone, and shown without its secrets. All moments are those of the
site's one clock: a later one than now was written before it was set back, and holds nothing up.
"""

import secrets
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import Connection, Select, and_, case, delete, exists, func, or_, select, update

from screening.models.retries import pause_after
from screening.review.policy import SYSTEM, Acting, Action, Actor, require
from screening.review.review_form import Disposition
from screening.review.triage import Priority
from storage.audit_log import append, serialise
from storage.database import Database, record, upsert
from storage.schema.columns import Moment, new_id, shared_now
from storage.schema.review import follow_ups, inbox_entries
from storage.schema.site import TO_SEND, case_notices, notification_recipients, notifications
from storage.settings_store import SiteSettings, current
from storage.site import health
from storage.site.health import Fault

MOST_STEPS = 5
MINUTES_A_DAY = 24 * 60
_to, _out = notification_recipients.c, notifications.c


class Event(StrEnum):
    """What somebody may be told of."""

    ARRIVED_P0 = "arrived_p0"
    ARRIVED_P1 = "arrived_p1"
    OVERDUE = "overdue"
    FAULT = "fault"  # model or workers down, anchor of the audit log not written


class Kind(StrEnum):
    """How somebody is reached."""

    SERVICE = "service"  # mail, chat, pager, SMS
    WEBHOOK = "webhook"  # signed, to a server of the site's own
    MONITOR = "monitor"  # told every minute that all is well, and alarmed by silence


_LISTED = select(*(column for column in _to if column.name not in ("target", "secret"))).order_by(
    _to.step, _to.name, _to.id
)
"""The recipients as all but the sender may see them, in the on-call order; ``problem`` is why the last try failed."""


def is_told(one: Any, event: str, priority: Priority | None) -> bool:
    """Whether they are told of this: ``event`` is a message's, arrived, overdue, follow_up, fault or test."""
    arrived = Event.ARRIVED_P0 if priority is Priority.P0 else Event.ARRIVED_P1
    wanted = {"arrived": arrived, "overdue": Event.OVERDUE, "follow_up": Event.OVERDUE, "fault": Event.FAULT}
    return event not in wanted or wanted[event] in one.events


def add_recipient(
    db: Database,
    by: Acting,
    *,
    name: str,
    kind: Kind,
    target: str,
    shown: str,
    step: int = 1,
    events: Collection[Event] = frozenset(Event),
    quiet: tuple[int, int] | None = None,
) -> tuple[str, str | None]:
    """Add a recipient: the id, and the secret that signs a webhook's messages, told here and never again. ``step`` is
    the place in the on-call order, 1 first; quiet hours are minutes of the day. ValueError for what cannot be told
    anything, or is told already: a press made twice.
    """
    require(by.actor, Action.CHANGE_SETTINGS)
    if not name.strip() or len(name) > 80:
        raise ValueError("give the recipient a name of at most 80 characters")
    if not 1 <= step <= MOST_STEPS:
        raise ValueError(f"the on-call order has places 1 to {MOST_STEPS}")
    if quiet is not None and any(not 0 <= minute < MINUTES_A_DAY for minute in quiet):
        raise ValueError("quiet hours are times of a day")
    recipient_id, secret = new_id(by.now), secrets.token_hex(32) if kind is Kind.WEBHOOK else None
    quiet_from, quiet_to = quiet or (None, None)
    row = {
        "id": recipient_id,
        "name": name.strip(),
        "kind": kind.value,
        "target": target,
        "shown": shown,
        "secret": secret,
        "step": step,
        "events": sorted(events),
        "quiet_from": quiet_from,
        "quiet_to": quiet_to,
        "active": True,
    }
    with db.write() as conn:
        serialise(conn)
        same = _to.name == row["name"], _to.target == target, _to.active.is_(True)
        if conn.execute(select(_to.id).where(*same)).first() is not None:
            raise ValueError("a recipient of this name and address is there already")
        conn.execute(notification_recipients.insert().values(row))
        append(conn, by, "recipient_added", recipient_id, {"kind": kind.value, "step": step}, notification_recipients)
    return recipient_id, secret


def set_active(db: Database, by: Acting, recipient_id: str, active: bool) -> None:
    """Tell them from now on, or no longer; what is on its way to somebody switched off is dropped. Twice is once."""
    require(by.actor, Action.CHANGE_SETTINGS)
    with db.write() as conn:
        switched = update(notification_recipients).where(_to.id == recipient_id, _to.active.is_not(active))
        if not conn.execute(switched.values(active=active)).rowcount:
            return
        if not active:
            waiting = TO_SEND, _out.recipient_id == recipient_id
            conn.execute(update(notifications).where(*waiting).values(given_up_at=by.now, error="switched off"))
        append(conn, by, "recipient_switched", recipient_id, {"active": active}, notification_recipients)


def remove_recipient(db: Database, by: Acting, recipient_id: str) -> None:
    """Forget them with their target and all that was sent to them; the audit log keeps that it was. Twice is once."""
    require(by.actor, Action.CHANGE_SETTINGS)
    with db.write() as conn:
        conn.execute(select(_to.id).where(_to.id == recipient_id).with_for_update())
        conn.execute(delete(notifications).where(_out.recipient_id == recipient_id))
        if conn.execute(delete(notification_recipients).where(_to.id == recipient_id)).rowcount:
            append(conn, by, "recipient_removed", recipient_id, {}, notification_recipients)


def list_recipients(db: Database, actor: Actor) -> Sequence[Any]:
    require(actor, Action.CHANGE_SETTINGS)
    return db.rows(_LISTED)


def active_recipients(conn: Connection) -> Sequence[Any]:
    """Those that are told, inside the caller's transaction."""
    return conn.execute(_LISTED.where(_to.active.is_(True), _to.kind != Kind.MONITOR.value)).all()


def told_of_urgent(db: Database) -> Sequence[Any]:
    """Who is told of a P0 case that arrives; a monitor is told of nothing. For whoever signs in."""
    with db.read() as conn:
        return [one for one in active_recipients(conn) if Event.ARRIVED_P0 in one.events]


def waiting_messages(db: Database, actor: Actor) -> int:
    """How many messages wait to go out, those that wait for quiet hours to end among them."""
    require(actor, Action.CHANGE_SETTINGS)
    return int(db.value(select(func.count()).where(TO_SEND)))


AT_ONCE = 1_000
"""Cases told of in one transaction: the next look tells of the rest."""
ARRIVED, OVERDUE, FOLLOW_UP = "arrived", "overdue", "follow_up"
EVENTS = (ARRIVED, OVERDUE, FOLLOW_UP)
TAKEN_FOR = timedelta(seconds=60)
"""A message whose sender said nothing for so long is sent by another."""
GIVE_UP_AFTER = timedelta(hours=24)
PASSED_ON_AFTER = 3
"""Failed tries after which the next in the on-call order is told as well, without waiting."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 10.0, 900.0
_LONGEST_PAUSE_URGENT_S = 60.0
"""P0, faults: what is down for an hour must not be found up a quarter of an hour late."""
_entry, _told, _late = inbox_entries.c, case_notices.c, follow_ups.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """``count`` cases of a priority arrived, are overdue or have a follow-up that is; or a fault began or is over."""

    event: str  # arrived | overdue | follow_up | fault | test
    priority: Priority | None = None
    what: str | None = None
    count: int = 1

    @property
    def urgent(self) -> bool:
        """Whether quiet hours do not hold it back: P0, faults and tests."""
        return self.priority in (None, Priority.P0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message(Notice):
    """One to send, with where to. ``target`` and ``secret`` are for the sender alone."""

    id: str
    recipient_id: str
    kind: Kind
    target: str
    secret: str | None
    created_at: datetime
    attempts: int


def collect(db: Database, now: datetime) -> int:
    """Put into the outbox what is to be told and was not; the number of new notices. Without recipients only faults are
    kept. It writes only where there is something: nearly always there is not.
    """
    with db.read() as conn:
        recipients, moment = active_recipients(conn), shared_now(conn, now)
        before = moment - timedelta(minutes=current(conn).settings.notify_next_after_minutes)
        last = max((one.step for one in recipients if is_told(one, FOLLOW_UP, None)), default=0)
        queries = {event: _to_tell(event, moment, before, last) for event in EVENTS if recipients}
        cases = any(conn.execute(query.limit(1)).first() for query in queries.values())
        if not cases and not health.changes(conn, moment):
            return 0
    with db.write() as conn:
        faults = sorted(health.changes(conn, moment).items())
        told = sum(_change_fault(conn, one, moment, down=down, cause=cause) for one, (down, cause) in faults)
        return told + sum(_tell_cases(conn, recipients, event, query, moment) for event, query in queries.items())


def _waiting(event: str, now: datetime) -> Select[Any]:
    """The cases of which there is something to tell: the ``priority`` of each, and ``since``, the last moment that
    makes it new to whoever was told before it.

    An arrival is told of an urgent case until somebody has opened it. A target that passes is told of a case that
    nobody has read and nobody has open, so also of an urgent one that was opened and released: nobody would hear of
    it any more. An urgent follow-up that is overdue is told like a P0 case, any other like a P1 case.
    """
    if event == FOLLOW_UP:
        contact = _late.disposition == Disposition.CONTACT_NOW.value
        priority = func.min(case((contact, Priority.P0.value), else_=Priority.P1.value)).label("priority")
        late = select(_late.case_id, priority, func.max(_late.due_at, type_=Moment).label("since"))
        return late.where(_late.closed_at.is_(None), _late.due_at <= now).group_by(_late.case_id)
    urgent = _entry.priority <= Priority.P1
    opened = case((urgent, _entry.last_opened_at)).label("since")  # of an arrival nobody opened it
    entries = select(_entry.case_id, _entry.priority, opened).where(_entry.closed_at.is_(None))
    if event == ARRIVED:
        return entries.where(urgent, _entry.first_opened_at.is_(None))
    free = or_(_entry.lease_token.is_(None), _entry.assigned_until <= now)
    return entries.where(_entry.due_at <= now, _entry.review_round == "first", free)


def _to_tell(event: str, now: datetime, before: datetime, last: int) -> Select[Any]:
    """Those of which nobody was told yet, only as less urgent ones, or before what is new, with 0 as the place of the
    on-call order; and urgent ones of which nothing is new and somebody was told a while ago, with the place reached.
    A follow-up is told no further than to the ``last`` place, as whoever acts just now is not told every few minutes.
    """
    waits = _waiting(event, now).subquery().c
    known = and_(_told.case_id == waits.case_id, _told.event == event)
    # NULL where nobody ever opened it
    new = or_(_told.case_id.is_(None), _told.priority > waits.priority, func.coalesce(waits.since > _told.at, False))
    again = and_(waits.priority <= Priority.P1, or_(_told.at <= before, _told.at > now))
    if event == FOLLOW_UP:
        new, again = or_(new, _told.at > now), and_(again, _told.step < last)
    step = case((new, 0), else_=_told.step).label("step")
    query = select(waits.case_id, waits.priority, step).outerjoin(case_notices, known)
    return query.where(or_(new, again)).order_by(waits.priority, step)


def _tell_cases(conn: Connection, recipients: Sequence[Any], event: str, query: Select[Any], now: datetime) -> int:
    """New ones to the first in the order, urgent ones that still wait to the next; the last one is told again."""
    counted, rows = Counter[tuple[int, int]](), []
    for case_id, priority, step in conn.execute(query.limit(AT_ONCE)).all():
        steps = sorted({one.step for one in recipients if is_told(one, event, Priority(priority))})
        following = next((one for one in steps if one > step), steps[-1] if steps else 0)
        counted[priority, following] += 1
        rows.append({"case_id": case_id, "event": event, "priority": priority, "step": following, "at": now})
    if rows:
        upsert(conn, case_notices, rows)
    for (priority, step), count in sorted(counted.items()):
        notice = Notice(event=event, priority=Priority(priority), count=count)
        _tell_all(conn, (one for one in recipients if one.step == step), notice, now)
    return len(rows)


def keep_fault(db: Database, fault: Fault, now: datetime, *, down: bool, cause: str | None = None) -> None:
    """Record that the fault began, for this cause, or is over, where that is new; and tell people once."""
    known = health.find_lasting(db, fault)
    if down is (known is not None) and (known is None or cause in (None, known.cause)):
        return
    with db.write() as conn:
        _change_fault(conn, fault, shared_now(conn, now), down=down, cause=cause)


def _change_fault(conn: Connection, fault: Fault, now: datetime, *, down: bool, cause: str | None) -> bool:
    """Whether that is new; then all who are told of faults are told: the very first may be who cannot be reached."""
    new = health.keep(conn, fault, now, down=down, cause=cause)
    if new:
        notice = Notice(event="fault", what=fault.value if down else f"{fault.value}_over")
        _tell_all(conn, active_recipients(conn), notice, now)
    return new


def _tell_all(conn: Connection, recipients: Iterable[Any], notice: Notice, now: datetime) -> None:
    for recipient in recipients:
        if is_told(recipient, notice.event, notice.priority):
            _tell(conn, recipient, notice, now)


def _tell(conn: Connection, recipient: Any, notice: Notice, now: datetime) -> None:
    """Put a notice into the outbox: into the message that waits for its interval to pass or to be tried again, so that
    a channel that was down for hours does not bring as many messages as it was told; or as a new one.
    """
    told = {"event": notice.event, "priority": notice.priority, "what": notice.what}
    same = and_(_out.recipient_id == recipient.id, *(_out[name] == value for name, value in told.items()))
    waiting = select(notifications).where(same, TO_SEND, _out.taken_until.is_(None))
    found = conn.execute(waiting.order_by(_out.attempts, _out.id.desc()).limit(1).with_for_update()).first()
    if found is not None:
        changed: dict[str, Any] = {"count": _out.count + notice.count}
        if found.attempts:  # it says something else than was tried: a new message, also for the next in the order
            not_before = now if found.created_at > now else found.not_before
            changed |= {"id": new_id(now), "created_at": now, "not_before": not_before}
            changed |= {"attempts": min(found.attempts, PASSED_ON_AFTER - 1)}
        conn.execute(update(notifications).where(_out.id == found.id).values(changed))
        return
    settings, earliest = current(conn).settings, now
    if notice.priority is not None:
        sent = select(func.max(_out.not_before, type_=Moment)).where(same, _out.given_up_at.is_(None))
        last = conn.execute(sent.where(_out.created_at <= now)).scalar()
        interval = timedelta(minutes=settings.notify_minutes[int(notice.priority)])
        earliest = now if last is None else max(now, last + interval)
    row = told | {"id": new_id(now), "recipient_id": recipient.id, "count": notice.count, "attempts": 0}
    moments = {"created_at": now, "not_before": _allowed_moment(earliest, notice, recipient, settings)}
    conn.execute(notifications.insert().values(row | moments))


def _allowed_moment(moment: datetime, notice: Notice, recipient: Any, settings: SiteSettings) -> datetime:
    """The moment, or the end of the recipient's quiet hours where those hold the notice back."""
    if notice.urgent or recipient is None or recipient.quiet_from is None:
        return moment
    return after_quiet(moment, (recipient.quiet_from, recipient.quiet_to), settings.time_zone)


def after_quiet(moment: datetime, quiet: tuple[int, int], time_zone: str) -> datetime:
    """The moment, or the end of the quiet hours that it lies in; they may go over midnight.

    >>> from datetime import UTC
    >>> after_quiet(datetime(2026, 1, 1, 23, 0, tzinfo=UTC), (22 * 60, 7 * 60), "UTC").isoformat()
    '2026-01-02T07:00:00+00:00'
    >>> after_quiet(datetime(2026, 1, 1, 12, 0, tzinfo=UTC), (22 * 60, 7 * 60), "UTC").hour
    12
    """
    begin, end = quiet
    local = moment.astimezone(ZoneInfo(time_zone))
    minute = local.hour * 60 + local.minute
    inside = begin <= minute < end if begin <= end else minute >= begin or minute < end
    if not inside:
        return moment
    whole = local.replace(second=0, microsecond=0)
    return (whole + timedelta(minutes=(end - minute) % MINUTES_A_DAY)).astimezone(moment.tzinfo)


def send_test(db: Database, by: Acting, recipient_id: str) -> None:
    """A message to this recipient alone that says it is a test. ValueError where they were switched off or removed."""
    require(by.actor, Action.CHANGE_SETTINGS)
    with db.write() as conn:
        found = next((one for one in active_recipients(conn) if one.id == recipient_id), None)
        if found is None:
            raise ValueError("this recipient was switched off or removed meanwhile")
        _tell(conn, found, Notice(event="test"), shared_now(conn, by.now))
        append(conn, by, "notification_test", recipient_id, {})


def somebody(db: Database) -> bool:
    """Whether anybody is told of anything, or a message waits: one question, asked all the time."""
    told = exists().where(_to.active.is_(True))
    return bool(db.value(select(or_(told, exists().where(TO_SEND)))))


def take_due(db: Database, now: datetime, limit: int = 20) -> tuple[Message, ...]:
    """The messages that are due and nobody sends just now, from now on being sent by the caller: each ends in
    `record_try`, or is due again a while later. Those tried least come first, so that a channel that fails keeps none
    of another's waiting; then the most urgent. Each counts only the cases of which there still is something to tell;
    one that would tell what is no longer so is not sent, and the next one need not wait for its interval.
    """
    with db.read() as conn:  # nothing is written while nothing is due
        moment = shared_now(conn, now)
        until = _out.taken_until
        free = or_(until.is_(None), until <= moment, until > moment + TAKEN_FOR)
        due = and_(TO_SEND, free, or_(_out.not_before <= moment, _out.created_at > moment))
        if conn.execute(select(_out.id).where(due).limit(1)).first() is None:
            return ()
    order = (_out.attempts, _out.priority.is_(None), _out.priority, _out.not_before)
    with db.write() as conn:
        ids = conn.execute(select(_out.id).where(due).order_by(*order).limit(limit)).scalars().all()
        taken = update(notifications).where(_out.id.in_(ids))
        conn.execute(taken.values(taken_until=moment + TAKEN_FOR, attempts=_out.attempts + 1))
        joined = select(notifications, _to.kind, _to.target, _to.secret).join(notification_recipients)
        rows = conn.execute(joined.where(_out.id.in_(ids)).order_by(*order)).all()
        found = [
            record(Message, row, kind=Kind(row.kind), priority=None if row.priority is None else Priority(row.priority))
            for row in rows
        ]
        still = [replace(message, count=_count_still(conn, message, moment)) for message in found]
        for message, now_so in zip(found, still, strict=True):
            if not now_so.count:
                _record(conn, "notification_needless", message, moment, given_up_at=moment, error="no longer so")
    return tuple(message for message in still if message.count)


def _count_still(conn: Connection, message: Message, now: datetime) -> int:
    """Of how many it is still so. Of none where a fault is over, or is here again."""
    if message.event == "fault":
        lasting, name = {one.fault for one in health.open_faults(conn)}, str(message.what)
        return message.count if (name.removesuffix("_over") in lasting) is not name.endswith("_over") else 0
    if message.event not in EVENTS:
        return message.count
    waits = _waiting(message.event, now).subquery().c
    some = select(waits.case_id).where(waits.priority == message.priority).limit(message.count).subquery()
    return conn.execute(select(func.count()).select_from(some)).scalar_one()


def record_try(db: Database, message: Message, problem: str | None, now: datetime) -> None:
    """It went out, or did not for this reason: then it is tried again after a growing pause, outside quiet hours, given
    up after a day. After some tries whoever comes next in the on-call order is told as well.
    """
    is_test, longest = message.event == "test", _LONGEST_PAUSE_URGENT_S if message.urgent else _LONGEST_PAUSE_S
    pause = timedelta(seconds=pause_after(message.attempts - 1, _FIRST_PAUSE_S, longest))
    with db.write() as conn:
        moment = shared_now(conn, now)
        record_state(conn, message.recipient_id, problem, moment)  # the person first, then their messages, the log last
        if problem is None:
            _record(conn, "notification_sent", message, moment, sent_at=moment, error=None)
            return
        everybody = active_recipients(conn)
        to = next((one for one in everybody if one.id == message.recipient_id), None)
        again = _allowed_moment(moment + pause, message, to, current(conn).settings)
        row = {"not_before": again, "error": problem[:120], "created_at": min(message.created_at, moment)}
        if is_test or moment - message.created_at > GIVE_UP_AFTER:
            row["given_up_at"] = moment
        if to is not None and message.attempts == PASSED_ON_AFTER and not is_test:
            later = [one for one in everybody if one.step > to.step and is_told(one, message.event, message.priority)]
            following = min((one.step for one in later), default=None)
            _tell_all(conn, (one for one in later if one.step == following), message, moment)
        _record(conn, "notification_failed", message, moment, problem[:80], **row)


def _record(
    conn: Connection, action: str, message: Message, now: datetime, problem: str | None = None, **values: Any
) -> None:
    """What became of a try: in its row, and in the audit log, which is told a priority and a number."""
    conn.execute(update(notifications).where(_out.id == message.id).values(taken_until=None, **values))
    told = {name: getattr(message, name) for name in ("event", "priority", "what", "count")}
    told |= {"to": message.recipient_id, "attempt": message.attempts, "problem": problem}
    append(conn, SYSTEM.at(now), action, message.id, {name: one for name, one in told.items() if one is not None})


def record_state(conn: Connection, recipient_id: str, problem: str | None, now: datetime) -> None:
    tried = update(notification_recipients).where(_to.id == recipient_id)
    conn.execute(tried.values(problem=problem and problem[:120], tried_at=now))


def monitors(db: Database) -> tuple[tuple[str, str], ...]:
    """Id and address of the outside monitors that hear every minute that all is well."""
    rows = db.rows(select(_to.id, _to.target).where(_to.kind == Kind.MONITOR.value, _to.active.is_(True)))
    return tuple((row.id, row.target) for row in rows)


def record_heartbeat(db: Database, recipient_id: str, problem: str | None, now: datetime) -> None:
    """Whether the monitor heard; the audit log is told when that changes, not every minute."""
    with db.write() as conn:
        before = conn.execute(select(_to.problem, _to.tried_at).where(_to.id == recipient_id)).first()
        record_state(conn, recipient_id, problem, now)
        if before is not None and (before.tried_at is None or (before.problem is None) is not (problem is None)):
            action = "heartbeat_sent" if problem is None else "heartbeat_failed"
            append(conn, SYSTEM.at(now), action, recipient_id, {})
