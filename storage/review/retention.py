"""How long each kind of data is kept: what is older is erased by itself, where the site has set a time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Delete,
    Select,
    Table,
    Update,
    delete,
    exists,
    false,
    func,
    or_,
    select,
    union_all,
    update,
)

from screening.review.actors import SYSTEM, Acting
from screening.review.policy import Action, require
from storage.audit_log import append
from storage.database import Database
from storage.erased import ERASED, was_erased
from storage.review.erasure import abandoned_cases, are_refused_beside, emptied, erase_rows
from storage.review.worklist import is_listed
from storage.schema import (
    acknowledgements,
    cases,
    drafts,
    follow_ups,
    inbox_entries,
    notifications,
    pending_cases,
    rejected_rows,
    screenings,
    sessions,
)
from storage.schema.intake import batches
from storage.settings_store import SiteSettings, current, current_in

REFUSED = "rejected rows"
AT_ONCE = 500
"""Texts erased in one round: the next round goes on."""
_Rows = tuple[Table, ColumnElement[bool]]


def would_go(db: Database, by: Acting) -> Mapping[str, int]:
    """A dry run: how much of each kind is past its time now, by the site's settings. Raises Forbidden."""
    require(by.actor, Action.VIEW_SETTINGS)
    with db.read() as conn:
        settings = current_in(conn).settings
        counted = {
            name: conn.execute(select(func.count()).select_from(table).where(old)).scalar_one()
            for name, (table, old) in _all_that_is_old(settings, by.now).items()
        }
    return {name: count for name, count in counted.items() if count}


def _all_that_is_old(settings: SiteSettings, now: datetime) -> Mapping[str, _Rows]:
    """The texts, with the refused rows that go with them, and the other kinds."""
    others = _old_rows(settings, now)
    if (texts := _old_texts(settings, now)) is None:
        return others
    _, old = others.get(REFUSED, (rejected_rows, false()))
    refused = old | are_refused_beside(texts)
    return {"texts": (cases, cases.c.id.in_(texts)), **others, REFUSED: (rejected_rows, refused)}


def expire(db: Database, now: datetime) -> Mapping[str, int]:
    """Erase what is past its time; how much of each kind went. Nothing where the site has set no time."""
    settings = current(db).settings
    if not any((settings.keep_texts_days, *_days(settings).values())):
        return {}
    gone = Counter[str]()
    with db.write() as conn:
        if ids := _next_texts(conn, settings, now):
            gone += Counter({"texts": len(ids), REFUSED: erase_rows(conn, ids, None, now)})
        for name, (table, old) in _old_rows(settings, now).items():
            gone += Counter({name: conn.execute(_end_of(table, old)).rowcount})
        if gone:
            append(conn, SYSTEM.at(now), "expired", None, dict(gone), rows=emptied(ids))
    if gone:
        db.forget()
    return gone


def _next_texts(conn: Connection, settings: SiteSettings, now: datetime) -> Sequence[str]:
    if (texts := _old_texts(settings, now)) is None:
        return ()
    return conn.execute(texts.limit(AT_ONCE)).scalars().all()


def _days(settings: SiteSettings) -> Mapping[str, int | None]:
    return {
        "drafts": settings.keep_drafts_days,
        REFUSED: settings.keep_rejected_days,
        "messages": settings.keep_messages_days,
        "sessions": settings.keep_sessions_days,
    }


def _old_texts(settings: SiteSettings, now: datetime) -> CompoundSelect[str] | None:
    """Cases settled or abandoned so long ago, and read, acknowledged and followed up so long ago where people have to.
    None where texts are kept.
    """
    if settings.keep_texts_days is None:
        return None
    before = now - timedelta(days=settings.keep_texts_days)
    return union_all(_settled_cases(before), _abandoned_cases(before))


def _settled_cases(before: datetime) -> Select[str]:
    seen = acknowledgements.c
    acknowledged = exists().where(seen.case_id == screenings.c.case_id, seen.at < before)
    settled = select(screenings.c.case_id).where(screenings.c.completed_at < before, or_(~is_listed(), acknowledged))
    return _done_with(settled, screenings.c.case_id, before)


def _abandoned_cases(before: datetime) -> Select[str]:
    return _done_with(abandoned_cases(before), pending_cases.c.case_id, before)


def _done_with(found: Select[str], case_id: ColumnElement[str], before: datetime) -> Select[str]:
    """Those of them that nobody has to do anything about any more, and that are not erased yet."""
    entry, follow_up = inbox_entries.c, follow_ups.c
    followed = select(follow_up.case_id).where(or_(follow_up.closed_at.is_(None), follow_up.closed_at >= before))
    return found.outerjoin(inbox_entries, entry.case_id == case_id).where(
        or_(entry.case_id.is_(None), entry.closed_at < before), ~was_erased(case_id), case_id.not_in(followed)
    )


def _old_rows(settings: SiteSettings, now: datetime) -> Mapping[str, _Rows]:
    """The other kinds that have a time: which rows of which table are past it."""
    before = {name: now - timedelta(days=days) for name, days in _days(settings).items() if days}
    long_ago = select(batches.c.id).where(batches.c.created_at < before.get(REFUSED, now))
    sent = or_(notifications.c.sent_at.is_not(None), notifications.c.given_up_at.is_not(None))
    found = {
        "drafts": (drafts, drafts.c.updated_at < before.get("drafts", now)),
        REFUSED: (rejected_rows, rejected_rows.c.batch_id.in_(long_ago) & rejected_rows.c.original_json.is_not(None)),
        "messages": (notifications, sent & (notifications.c.created_at < before.get("messages", now))),
        "sessions": (sessions, sessions.c.seen_at < before.get("sessions", now)),
    }
    return {name: rows for name, rows in found.items() if name in before}


def _end_of(table: Table, old: ColumnElement[bool]) -> Update | Delete:
    """Refused rows keep their place and reason, so that a batch's numbers still add up; all else goes."""
    if table is rejected_rows:
        return update(table).where(old).values(original_json=None, external_id=ERASED, detail="")
    return delete(table).where(old)
