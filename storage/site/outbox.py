"""Messages on their way out: kept until they are sent, one per recipient, event, tier and interval, with counts.

A message holds an event, a tier and a number: never a text, the id of a case or a person, or a label. Its id stays the
same over all its tries, so that whoever receives it can tell a repetition.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, insert, or_, select, update

from screening.review.actors import SYSTEM, Acting
from screening.review.policy import Action, require
from screening.review.triage import Tier
from storage.audit_log import append
from storage.database import Database
from storage.identifiers import new_id
from storage.schema import notification_recipients, notifications
from storage.settings_store import SiteSettings, current_in
from storage.site.recipients import MINUTES_A_DAY, Kind, Recipient, active_recipients, is_told

TAKEN_FOR = timedelta(seconds=60)
"""A message whose sender said nothing for so long is sent by another."""
GIVE_UP_AFTER = timedelta(hours=24)
PASSED_ON_AFTER = 3
"""Failed tries after which the next in the on-call order is told as well, without waiting."""
_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=10), timedelta(minutes=15)
_LONGEST_PAUSE_URGENT = timedelta(minutes=1)
"""P0, faults: what is down for an hour must not be found up a quarter of an hour late."""
_out = notifications.c
CLOCKS_AGREE_WITHIN = timedelta(minutes=1)
"""A moment later than that was written by a clock that was set back since."""
_WAITING = and_(_out.sent_at.is_(None), _out.given_up_at.is_(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """What there is to tell: ``count`` cases of a tier arrived, are overdue or have a follow-up that is; or a fault
    began or is over.
    """

    event: str  # arrived | overdue | follow_up | fault | test
    tier: Tier | None = None
    what: str | None = None
    count: int = 1

    @property
    def urgent(self) -> bool:
        """Whether quiet hours do not hold it back: P0, faults and tests."""
        return self.tier in (None, Tier.P0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message to send, with where to. ``target`` and ``secret`` are for the sender alone."""

    id: str
    recipient_id: str
    kind: Kind
    target: str
    secret: str | None
    notice: Notice
    created_at: datetime
    attempt: int


def tell(conn: Connection, recipient: Recipient, notice: Notice, now: datetime) -> None:
    """Put a notice into the outbox: into the message that waits for its interval to pass or to be tried again, or as a
    new one.
    """
    same = and_(
        _out.recipient_id == recipient.id,
        _out.event == notice.event,
        _out.tier == notice.tier if notice.tier is not None else _out.tier.is_(None),
        _out.what == notice.what if notice.what is not None else _out.what.is_(None),
    )
    unsent = and_(same, _WAITING, _out.attempts == 0)
    if conn.execute(update(notifications).where(unsent).values(count=_out.count + notice.count)).rowcount:
        return
    if _merge_into_failing(conn, same, notice.count, now):
        return
    settings = current_in(conn).settings
    before = and_(same, _out.given_up_at.is_(None), _out.created_at <= now + CLOCKS_AGREE_WITHIN)
    last = conn.execute(select(_out.not_before).where(before).order_by(_out.not_before.desc()).limit(1)).scalar()
    interval = timedelta(minutes=settings.notify_minutes[int(notice.tier)]) if notice.tier is not None else None
    earliest = now if last is None or interval is None else max(now, last + interval)
    earliest = _allowed_moment(earliest, notice, recipient, settings)
    row = {"event": notice.event, "tier": notice.tier, "what": notice.what, "count": notice.count}
    times = {"created_at": now, "not_before": earliest, "attempts": 0}
    conn.execute(insert(notifications).values(id=new_id(now), recipient_id=recipient.id, **row, **times))


def _merge_into_failing(conn: Connection, same: ColumnElement[bool], count: int, now: datetime) -> bool:
    """Whether there were such messages that failed before and wait for their next try: they are one from now on, so
    that a channel that was down for hours does not bring as many messages as it was told. It says something else than
    was tried before, so it has an id of its own; and whoever comes next in the order hears of it as of a new one.
    """
    failing = and_(same, _WAITING, _out.attempts > 0, _out.taken_until.is_(None))
    rows = conn.execute(
        select(_out.id, _out.count.label("cases"), _out.attempts, _out.created_at, _out.not_before)
        .where(failing)
        .order_by(_out.id.desc())
    ).all()
    if not rows:
        return False
    first, *others = rows
    conn.execute(
        update(notifications)
        .where(_out.id == first.id)
        .values(
            id=new_id(now),
            count=sum(row.cases for row in rows) + count,
            created_at=now,
            not_before=now if first.created_at > now + CLOCKS_AGREE_WITHIN else first.not_before,
            attempts=min(first.attempts, PASSED_ON_AFTER - 1),
        )
    )
    gone = update(notifications).where(_out.id.in_([row.id for row in others]))
    conn.execute(gone.values(given_up_at=now, error="told in a later one"))
    return True


def _allowed_moment(moment: datetime, notice: Notice, recipient: Recipient | None, settings: SiteSettings) -> datetime:
    """The moment, or the end of the recipient's quiet hours where those hold the notice back."""
    if notice.urgent or recipient is None or recipient.quiet is None:
        return moment
    return after_quiet(moment, recipient.quiet, settings.time_zone)


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
        tell(conn, found, Notice(event="test"), by.now)
        append(conn, by, "notification_test", recipient_id, {})


def somebody(db: Database) -> bool:
    """Whether anybody is told of anything, or a message waits: one question, asked all the time."""
    with db.read() as conn:
        return bool(conn.execute(_somebody()).scalar())


@cache
def _somebody() -> Select[Any]:
    """The question, written once."""
    told = exists().where(notification_recipients.c.active.is_(True))
    return select(or_(told, exists().where(_WAITING)))


def take_due(db: Database, now: datetime, limit: int = 20) -> tuple[Message, ...]:
    """The messages that are due, now being sent by the caller: each ends in `record_sent`, `record_failed` or
    `record_needless`, or is due again a while later. Those tried least come first, so that a channel that fails keeps
    none of another's waiting; then the most urgent.
    """
    due = and_(_WAITING, *_is_due(now))
    with db.read() as conn:  # nothing is written while nothing is due
        if conn.execute(select(_out.id).where(due).limit(1)).first() is None:
            return ()
    order = (_out.attempts, _out.tier.is_(None), _out.tier, _out.not_before)
    with db.write() as conn:
        ids = conn.execute(select(_out.id).where(due).order_by(*order).limit(limit)).scalars().all()
        taken = _out.id.in_(ids)
        conn.execute(update(notifications).where(taken).values(taken_until=now + TAKEN_FOR, attempts=_out.attempts + 1))
        joined = select(notifications, notification_recipients).join(notification_recipients)
        rows = conn.execute(joined.where(taken).order_by(*order)).mappings().all()
    return tuple(_message(row) for row in rows)


def _is_due(now: datetime) -> tuple[ColumnElement[bool], ...]:
    """Its moment has come and nobody sends it just now. What a clock that ran ahead put off until then is due."""
    ahead = now + CLOCKS_AGREE_WITHIN
    free = _out.taken_until.is_(None), _out.taken_until <= now, _out.taken_until > ahead + TAKEN_FOR
    return or_(_out.not_before <= now, _out.created_at > ahead), or_(*free)


def _message(row: Mapping[Any, Any]) -> Message:
    tier = row[_out.tier]
    notice = Notice(
        event=row[_out.event], tier=None if tier is None else Tier(tier), what=row[_out.what], count=row[_out.count]
    )
    to = notification_recipients.c
    return Message(
        id=row[_out.id],
        recipient_id=row[_out.recipient_id],
        kind=Kind(row[to.kind]),
        target=row[to.target],
        secret=row[to.secret],
        notice=notice,
        created_at=row[_out.created_at],
        attempt=row[_out.attempts],
    )


def record_sent(db: Database, message: Message, now: datetime) -> None:
    """The other side took it."""
    with db.write() as conn:
        conn.execute(update(notifications).where(_out.id == message.id).values(sent_at=now, error=None))
        record_state(conn, message.recipient_id, None, now)
        append(conn, SYSTEM.at(now), "notification_sent", message.id, _details(message))


def record_needless(db: Database, message: Message, now: datetime) -> None:
    """What it would have told is no longer so: it is not sent, and the next one need not wait for its interval."""
    with db.write() as conn:
        values = {"given_up_at": now, "taken_until": None, "error": "no longer so"}
        conn.execute(update(notifications).where(_out.id == message.id).values(values))
        append(conn, SYSTEM.at(now), "notification_needless", message.id, _details(message))


def record_failed(db: Database, message: Message, problem: str, now: datetime) -> None:
    """It did not go out: tried again after a growing pause, outside quiet hours, given up after a day. After some
    tries whoever comes next in the on-call order is told as well.
    """
    longest = _LONGEST_PAUSE_URGENT if message.notice.urgent else _LONGEST_PAUSE
    again = now + min(_FIRST_PAUSE * 2 ** min(message.attempt - 1, 10), longest)
    gone = now - message.created_at > GIVE_UP_AFTER or message.notice.event == "test"
    with db.write() as conn:
        to = next((one for one in active_recipients(conn) if one.id == message.recipient_id), None)
        again = _allowed_moment(again, message.notice, to, current_in(conn).settings)
        row = {"not_before": again, "taken_until": None, "error": problem[:120]}
        row |= {"created_at": min(message.created_at, now)} | ({"given_up_at": now} if gone else {})
        conn.execute(update(notifications).where(_out.id == message.id).values(row))
        record_state(conn, message.recipient_id, problem[:120], now)
        if message.attempt == PASSED_ON_AFTER and message.notice.event != "test":
            for other in _next_after(conn, message):
                tell(conn, other, message.notice, now)
        append(conn, SYSTEM.at(now), "notification_failed", message.id, _details(message) | {"problem": problem[:80]})


def record_state(conn: Connection, recipient_id: str, problem: str | None, now: datetime) -> None:
    """Whether the last try to reach them failed, and why."""
    one = notification_recipients.c.id == recipient_id
    conn.execute(update(notification_recipients).where(one).values(problem=problem, tried_at=now))


def _details(message: Message) -> dict[str, Any]:
    """What the audit log says of a try: a tier and a number."""
    notice = message.notice
    told = {"event": notice.event, "tier": notice.tier, "what": notice.what, "count": notice.count}
    found = {name: value for name, value in told.items() if value is not None}
    return found | {"to": message.recipient_id, "attempt": message.attempt}


def _next_after(conn: Connection, message: Message) -> list[Recipient]:
    """Those at the next place of the order where somebody is told of such things."""
    everybody, notice = active_recipients(conn), message.notice
    step = next((one.step for one in everybody if one.id == message.recipient_id), None)
    told = [one for one in everybody if is_told(one, notice.event, notice.tier)]
    later = sorted({one.step for one in told if step is not None and one.step > step})
    return [one for one in told if later and one.step == later[0]]


def monitors(db: Database) -> tuple[tuple[str, str], ...]:
    """Id and address of the outside monitors that hear every minute that all is well."""
    to = notification_recipients.c
    query = select(to.id, to.target).where(to.kind == Kind.MONITOR.value, to.active.is_(True))
    return tuple((row.id, row.target) for row in db.rows(query))


def record_heartbeat(db: Database, recipient_id: str, problem: str | None, now: datetime) -> None:
    """Whether the monitor heard; the audit log is told when that changes, not every minute."""
    to = notification_recipients.c
    with db.write() as conn:
        before = conn.execute(select(to.problem, to.tried_at).where(to.id == recipient_id)).first()
        record_state(conn, recipient_id, problem, now)
        if before is not None and (before.tried_at is None or (before.problem is None) is not (problem is None)):
            action = "heartbeat_sent" if problem is None else "heartbeat_failed"
            append(conn, SYSTEM.at(now), action, recipient_id, {})


def link(settings: SiteSettings) -> str | None:
    """Where a message leads: the inbox, under the site's own address; None while the site has set none."""
    return f"{settings.public_address.rstrip('/')}/inbox" if settings.public_address else None
