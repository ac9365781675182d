"""Deleting what people wrote: asked for by name, or past its time."""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Connection,
    Delete,
    Select,
    SelectBase,
    Table,
    Update,
    and_,
    case,
    delete,
    exists,
    false,
    func,
    insert,
    or_,
    select,
    union_all,
    update,
)

from screening.review.actors import SYSTEM, Acting, Actor
from screening.review.policy import Action, require
from storage.audit_log import append
from storage.audit_rows import Rows
from storage.batches.batch_state import TAKES_ROWS
from storage.database import Database, record
from storage.identifiers import new_id
from storage.review.claims import UNASSIGNED
from storage.review.worklist import is_listed
from storage.schema import (
    ERASED,
    acknowledgements,
    audit_events,
    batches,
    cases,
    drafts,
    erasure_requests,
    follow_ups,
    inbox_entries,
    metadata,
    notifications,
    pending_cases,
    rejected_rows,
    screenings,
    sessions,
)
from storage.settings_store import SiteSettings, current, current_in
from storage.visibility import was_erased

AT_ONCE = 500
"""Texts erased by one statement, and in one round of retention: the next round goes on."""
_request, _row = erasure_requests.c, rejected_rows.c


class By(StrEnum):
    """What names the cases to erase."""

    CASE = "case"
    EXTERNAL_ID = "external_id"
    GROUP = "group"


class NotErased(ValueError):
    """It cannot be erased now; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which cases: one by its id, or all with an external id or of a group, whatever their batch."""

    by: By
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Erasure:
    """What was or would be erased: ``cases``, ``rejected`` rows. ``backups``: when backups were taken that may still
    hold it. ``waits_for`` is the request that somebody else must confirm; None where it is done, or only looked at.
    """

    cases: int
    rejected: int
    backups: tuple[datetime, ...]
    waits_for: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to erase that waits for a second person to confirm it."""

    id: str
    selection: Selection
    reason: str
    requested_by: str
    requested_at: datetime


def look(db: Database, actor: Actor, which: Selection) -> Erasure:
    """What would be erased; changes nothing. Raises Forbidden."""
    require(actor, Action.ERASE)
    with db.read() as conn:
        return _what_goes(conn, which, _named_cases(conn, which))


def erase(db: Database, by: Acting, which: Selection, reason: str) -> Erasure:
    """Erase, or ask for it where the site wants two people. Raises Forbidden, NotErased."""
    require(by.actor, Action.ERASE)
    if not reason.strip():
        raise NotErased("say why: who asked for it, and when")
    with db.write() as conn:
        ids = _possible(conn, which)
        request_id = new_id(by.now)
        row = {"id": request_id, "kind": which.by.value, "value": which.value, "reason": reason.strip()[:1_000]}
        conn.execute(insert(erasure_requests).values(**row, requested_by=by.id, requested_at=by.now))
        append(conn, by, "erasure_requested", request_id, {"by": which.by.value, "cases": len(ids)})
        if current_in(conn).settings.erasure_by_two:
            return replace(_what_goes(conn, which, ids), waits_for=request_id)
        done = _carry_out(conn, by, request_id, which, ids)
    _forget_pages(db)
    return done


def open_requests(db: Database, actor: Actor) -> tuple[Request, ...]:
    """The requests that wait for a second person, the oldest first. Raises Forbidden."""
    require(actor, Action.ERASE)
    undone = _request.done_at.is_(None), _request.withdrawn_at.is_(None)
    rows = db.rows(select(erasure_requests).where(*undone).order_by(_request.requested_at))
    return tuple(record(Request, row, selection=Selection(by=By(row.kind), value=row.value)) for row in rows)


def confirm(db: Database, by: Acting, request_id: str) -> Erasure:
    """Carry out what somebody else asked for. Raises Forbidden, NotErased."""
    require(by.actor, Action.ERASE)
    with db.write() as conn:
        row = _waiting_request(conn, request_id)
        if row.requested_by == by.id:
            raise NotErased("somebody else has to confirm what you asked for")
        which = Selection(by=By(row.kind), value=row.value)
        done = _carry_out(conn, by, request_id, which, _possible(conn, which))
    _forget_pages(db)
    return done


def withdraw(db: Database, by: Acting, request_id: str) -> None:
    """Take back or turn down a request; nothing is erased. Raises Forbidden, NotErased."""
    require(by.actor, Action.ERASE)
    with db.write() as conn:
        row = _waiting_request(conn, request_id)
        values = {"withdrawn_at": by.now, "value": _hash(row.value)}
        conn.execute(update(erasure_requests).where(_request.id == request_id).values(values))
        append(conn, by, "erasure_withdrawn", request_id, {})


def erase_rows(conn: Connection, ids: Sequence[str], request_id: str | None, now: datetime) -> int:
    """Empty these cases, in the caller's transaction, and take them out of the inbox: there is nothing to read.

    The refused rows of their id in the same file go too; returns how many.
    """
    refused = 0
    for some in _parts(ids):
        refused += _blank(conn, are_refused_beside(some))
        _forget_file_names(conn, select(cases.c.batch_id).where(cases.c.id.in_(some)))
        closed = {"closed_at": now, **UNASSIGNED}
        open_now = inbox_entries.c.case_id.in_(some), inbox_entries.c.closed_at.is_(None)
        conn.execute(update(inbox_entries).where(*open_now).values(closed))
        for name in sorted(metadata.tables):  # in one order, as a review that closes a case takes the same rows
            _empty(conn, metadata.tables[name], some)
        conn.execute(update(cases).where(cases.c.id.in_(some)).values(erased_at=now, erasure_request=request_id))
    return refused


def _empty(conn: Connection, table: Table, ids: Sequence[str]) -> None:
    """Delete or blank what people and models wrote about these cases, as the columns say (`schema.columns.erased_as`);
    refused rows and names of files are no case's.
    """
    if (case_id := table.c.get("id" if table is cases else "case_id")) is None:
        return
    its = case_id.in_(ids)
    if "erase" in table.info:
        conn.execute(delete(table).where(its))
        return
    left = {column: column.info["erase"] for column in table.columns if "erase" in column.info}
    blank = {
        column: case((column.is_not(None), value)) if column.nullable and value is not None else value
        for column, value in left.items()
        if not callable(value)
    }
    if blank:
        conn.execute(update(table).where(its).values(blank))
    key = tuple(table.primary_key.columns)
    for column in left.keys() - blank.keys():
        for row in conn.execute(select(column, *key).where(its)).all():
            this = (one == value for one, value in zip(key, row[1:], strict=True))
            conn.execute(update(table).where(*this).values({column: left[column](row[0])}))


def emptied(ids: Sequence[str]) -> Rows:
    """What `erase_rows` changed that the audit log has digests of: the event of the erasure has the new ones."""
    return {cases: ids, inbox_entries: ids}


def _parts(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE))


def _forget_file_names(conn: Connection, batch_ids: SelectBase) -> None:
    """A file, or a sheet of it, may be named after a person."""
    for found in conn.execute(select(batches.c.id, batches.c.intake).where(batches.c.id.in_(batch_ids))).all():
        told = found.intake | {name: None for name in ("sheet", "warnings") if name in found.intake}
        conn.execute(update(batches).where(batches.c.id == found.id).values(name=ERASED, intake=told))


def _carry_out(conn: Connection, by: Acting, request_id: str, which: Selection, ids: Sequence[str]) -> Erasure:
    gone = _what_goes(conn, which, ids)
    erase_rows(conn, ids, request_id, by.now)
    _blank(conn, _refused_by_id(which))
    done = {"done_by": by.id, "done_at": by.now, "cases": len(ids), "value": _hash(which.value)}
    conn.execute(update(erasure_requests).where(_request.id == request_id).values(done))
    told = {"cases": gone.cases, "rejected": gone.rejected}
    append(conn, by, "erased", request_id, told, rows=emptied(ids))
    return gone


def _named_cases(conn: Connection, which: Selection) -> list[str]:
    """The selected cases that are not erased yet."""
    named = {
        By.CASE: cases.c.id == which.value,
        By.EXTERNAL_ID: _of_the_id(cases.c.external_id, which.value, cases.c.turns.is_not(None)),
        By.GROUP: cases.c.group_name == which.value,
    }[which.by]
    query = select(cases.c.id).where(named, ~was_erased(cases.c.id)).order_by(cases.c.id)
    return list(conn.execute(query).scalars())


def _of_the_id(column: ColumnElement[Any], value: str, conversation: ColumnElement[bool]) -> ColumnElement[bool]:
    """Rows of this id, and of a conversation of this id all cases that its turns became: "7", "7 turn 3", "7 reply"."""
    turns = or_(*(column.startswith(f"{value} {part}", autoescape=True) for part in ("turn ", "reply")))
    return or_(column == value, and_(conversation, turns))


def _possible(conn: Connection, which: Selection) -> list[str]:
    """The selected cases. Raises NotErased while one of them is pending or rows of its batch still come in."""
    ids = _named_cases(conn, which)
    if not ids and not _find_refused(conn, which, ids):
        raise NotErased("nothing of this name is here, or all of it is deleted already")
    for some in _parts(ids):
        pending = select(pending_cases.c.batch_id).where(pending_cases.c.case_id.in_(some)).distinct()
        going = select(batches.c.id).where(batches.c.id.in_(pending), batches.c.cancelled_at.is_(None))
        if conn.execute(going).first() is not None:
            raise NotErased("a case is still being screened: wait, or cancel its batch first")
        of = select(cases.c.batch_id).where(cases.c.id.in_(some))
        if conn.execute(select(batches.c.id).where(batches.c.id.in_(of), TAKES_ROWS)).first() is not None:
            raise NotErased("rows of a batch still come in: wait, or cancel it first")
    return ids


def abandoned_cases(before: datetime) -> Select[str]:
    """The ids of cases that were still to be screened when their batch was cancelled before then: nobody takes them up
    any more.
    """
    cancelled = select(batches.c.id).where(batches.c.cancelled_at < before)
    return select(pending_cases.c.case_id).where(pending_cases.c.batch_id.in_(cancelled))


def _refused_by_id(which: Selection) -> ColumnElement[bool]:
    """Rows that were refused and kept as they were in the file, by the id that they had there."""
    if which.by is not By.EXTERNAL_ID:
        return false()
    return _of_the_id(_row.external_id, which.value, _row.reason == "no_judged_turn")


def are_refused_beside(ids: Sequence[str] | SelectBase) -> ColumnElement[bool]:
    """Refused rows of the same file and id as one of these cases: a `duplicate` has the very words."""
    same = cases.c.id.in_(ids), cases.c.batch_id == _row.batch_id, cases.c.external_id == _row.external_id
    return _row.batch_id.in_(select(cases.c.batch_id).where(cases.c.id.in_(ids))) & exists().where(*same)


def _find_refused(conn: Connection, which: Selection, ids: Sequence[str]) -> set[tuple[str, int]]:
    """The refused rows that go, by batch and row."""
    found = set[tuple[str, int]]()
    for rows in (_refused_by_id(which), *map(are_refused_beside, _parts(ids))):
        found.update((one.batch_id, one.row) for one in conn.execute(select(_row.batch_id, _row.row).where(rows)))
    return found


def _blank(conn: Connection, rows: ColumnElement[bool]) -> int:
    gone = {"external_id": ERASED, "detail": "", "original_json": None}
    return conn.execute(update(rejected_rows).where(rows).values(gone)).rowcount


def _what_goes(conn: Connection, which: Selection, ids: Sequence[str]) -> Erasure:
    refused = _find_refused(conn, which, ids)
    since = _first_stored(conn, ids, {batch_id for batch_id, _ in refused})
    return Erasure(cases=len(ids), rejected=len(refused), backups=() if since is None else _backups(conn, since))


def _first_stored(conn: Connection, ids: Sequence[str], refused_of: Collection[str]) -> datetime | None:
    """When the first of these cases, or of the refused rows of these batches, may have been stored."""
    stored = [select(cases.c.created_at).where(cases.c.id == min(ids))] if ids else []
    stored += [select(batches.c.created_at).where(batches.c.id == one) for one in refused_of]
    return min((conn.execute(query).scalar_one() for query in stored), default=None)


def _backups(conn: Connection, since: datetime) -> tuple[datetime, ...]:
    """The times of backups taken from then on."""
    taken = audit_events.c.action == "backup_begun", audit_events.c.at >= since
    return tuple(conn.execute(select(audit_events.c.at).where(*taken).order_by(audit_events.c.seq)).scalars())


def _waiting_request(conn: Connection, request_id: str) -> Any:
    row = conn.execute(select(erasure_requests).where(_request.id == request_id).with_for_update()).first()
    if row is None or row.done_at is not None or row.withdrawn_at is not None:
        raise NotErased("there is no such request that waits")
    return row


def _hash(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()


def _forget_pages(db: Database) -> None:
    """Write what an embedded database still holds in its log into its file, and overwrite the freed places."""
    db.forget()


REFUSED = "rejected rows"
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
