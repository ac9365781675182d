"""Deleting what people wrote: asked for by name, or past its time."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import ColumnElement, Connection, SelectBase, Table, case, false, func, or_, select, true, update

from screening.review.policy import SYSTEM, Acting, Action, Actor, require
from storage.audit_log import append
from storage.batches.batch_state import TAKES_ROWS
from storage.database import Database
from storage.review.follow_ups import is_listed
from storage.schema.columns import ERASED, metadata, new_id
from storage.schema.engine import screenings
from storage.schema.intake import batches, cases, pending_cases, rejected_rows
from storage.schema.review import UNASSIGNED, acknowledgements, drafts, erasure_requests, follow_ups, inbox_entries
from storage.schema.site import TO_SEND, audit_events, notifications, sessions
from storage.settings_store import SiteSettings, current
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
        conn.execute(erasure_requests.insert().values(**row, requested_by=by.id, requested_at=by.now))
        append(conn, by, "erasure_requested", request_id, {"by": which.by.value, "cases": len(ids)})
        if current(conn).settings.erasure_by_two:
            return replace(_what_goes(conn, which, ids), waits_for=request_id)
        done = _carry_out(conn, by, request_id, which, ids)
    db.forget()
    return done


def open_requests(db: Database, actor: Actor) -> Sequence[Any]:
    """The rows of the requests that wait for a second person, the oldest first. Raises Forbidden."""
    require(actor, Action.ERASE)
    undone = _request.done_at.is_(None), _request.withdrawn_at.is_(None)
    return db.rows(select(erasure_requests).where(*undone).order_by(_request.requested_at))


def confirm(db: Database, by: Acting, request_id: str) -> Erasure:
    """Carry out what somebody else asked for. Raises Forbidden, NotErased."""
    require(by.actor, Action.ERASE)
    with db.write() as conn:
        row = _waiting_request(conn, request_id)
        if row.requested_by == by.id:
            raise NotErased("somebody else has to confirm what you asked for")
        which = Selection(by=By(row.kind), value=row.value)
        done = _carry_out(conn, by, request_id, which, _possible(conn, which))
    db.forget()
    return done


def withdraw(db: Database, by: Acting, request_id: str) -> None:
    """Take back or turn down a request; nothing is erased. Raises Forbidden, NotErased."""
    require(by.actor, Action.ERASE)
    with db.write() as conn:
        values = {"withdrawn_at": by.now, "value": _hash(_waiting_request(conn, request_id).value)}
        conn.execute(update(erasure_requests).where(_request.id == request_id).values(values))
        append(conn, by, "erasure_withdrawn", request_id, {})


def _waiting_request(conn: Connection, request_id: str) -> Any:
    row = conn.execute(select(erasure_requests).where(_request.id == request_id).with_for_update()).first()
    if row is None or row.done_at is not None or row.withdrawn_at is not None:
        raise NotErased("there is no such request that waits")
    return row


def _hash(value: str) -> str:
    return hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()


def _carry_out(conn: Connection, by: Acting, request_id: str, which: Selection, ids: Sequence[str]) -> Erasure:
    gone = _what_goes(conn, which, ids)
    erase_rows(conn, ids, request_id, by.now)
    _blank(conn, _refused_by_id(which))
    done = {"done_by": by.id, "done_at": by.now, "cases": len(ids), "value": _hash(which.value)}
    conn.execute(update(erasure_requests).where(_request.id == request_id).values(done))
    told, rows = {"cases": gone.cases, "rejected": gone.rejected}, {cases: ids, inbox_entries: ids}
    append(conn, by, "erased", request_id, told, rows=rows)
    return gone


def erase_rows(conn: Connection, ids: Sequence[str], request_id: str | None, now: datetime) -> int:
    """Empty these cases and take them out of the inbox; the refused rows of their id go too: how many those were."""
    refused = 0
    for some in _parts(ids):  # the log has digests of cases and entries: the event of the erasure has the new ones
        refused += _blank(conn, _are_refused_beside(some))
        its = batches.c.id.in_(select(cases.c.batch_id).where(cases.c.id.in_(some)))
        for row in conn.execute(select(batches.c.id, batches.c.intake).where(its)).all():  # a file may name a person
            told = row.intake | {name: None for name in ("sheet", "warnings") if name in row.intake}
            conn.execute(update(batches).where(batches.c.id == row.id).values(name=ERASED, intake=told))
        open_now = inbox_entries.c.case_id.in_(some), inbox_entries.c.closed_at.is_(None)
        conn.execute(update(inbox_entries).where(*open_now).values(closed_at=now, **UNASSIGNED))
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
        conn.execute(table.delete().where(its))
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


def _parts(ids: Sequence[str]) -> Iterator[Sequence[str]]:
    return (ids[start : start + AT_ONCE] for start in range(0, len(ids), AT_ONCE))


def _named_cases(conn: Connection, which: Selection) -> list[str]:
    named = {
        By.CASE: cases.c.id == which.value,
        By.EXTERNAL_ID: _of_the_id(cases.c.external_id, which.value, cases.c.turns.is_not(None)),
        By.GROUP: cases.c.group_name == which.value,
    }[which.by]
    query = select(cases.c.id).where(named, cases.c.erased_at.is_(None)).order_by(cases.c.id)
    return list(conn.execute(query).scalars())


def _of_the_id(column: ColumnElement[Any], value: str, conversation: ColumnElement[bool]) -> ColumnElement[bool]:
    """Rows of this id, and of a conversation of this id all cases that its turns became: "7", "7 turn 3", "7 reply"."""
    turns = or_(*(column.startswith(f"{value} {part}", autoescape=True) for part in ("turn ", "reply")))
    return or_(column == value, conversation & turns)


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


def _refused_by_id(which: Selection) -> ColumnElement[bool]:
    """Rows that were refused and kept as they were in the file, by the id that they had there."""
    if which.by is not By.EXTERNAL_ID:
        return false()
    return _of_the_id(_row.external_id, which.value, _row.reason == "no_judged_turn")


def _are_refused_beside(ids: Sequence[str] | SelectBase) -> ColumnElement[bool]:
    """Refused rows of the same file and id as one of these cases: a `duplicate` has the very words."""
    same = cases.c.id.in_(ids), cases.c.batch_id == _row.batch_id, cases.c.external_id == _row.external_id
    return (
        _row.batch_id.in_(select(cases.c.batch_id).where(cases.c.id.in_(ids)))
        & select(cases.c.id).where(*same).exists()
    )


def _find_refused(conn: Connection, which: Selection, ids: Sequence[str]) -> set[tuple[str, int]]:
    """The refused rows that go, by batch and row."""
    conditions = _refused_by_id(which), *map(_are_refused_beside, _parts(ids))
    queries = (select(_row.batch_id, _row.row).where(rows) for rows in conditions)
    return {(row.batch_id, row.row) for query in queries for row in conn.execute(query)}


def _blank(conn: Connection, rows: ColumnElement[bool]) -> int:
    """Refused rows keep their place and reason, so that a batch's numbers still add up."""
    gone = {"external_id": ERASED, "detail": "", "original_json": None}
    return conn.execute(update(rejected_rows).where(rows).values(gone)).rowcount


def _what_goes(conn: Connection, which: Selection, ids: Sequence[str]) -> Erasure:
    """With the times of backups since the first of it may have been stored."""
    refused = _find_refused(conn, which, ids)
    stored = [select(cases.c.created_at).where(cases.c.id == min(ids))] if ids else []
    stored += [select(batches.c.created_at).where(batches.c.id == one) for one in {batch_id for batch_id, _ in refused}]
    backups = list[datetime]()
    if stored:
        since = min(conn.execute(query).scalar_one() for query in stored)
        taken = select(audit_events.c.at).where(audit_events.c.action == "backup_begun", audit_events.c.at >= since)
        backups += conn.execute(taken.order_by(audit_events.c.seq)).scalars()
    return Erasure(cases=len(ids), rejected=len(refused), backups=tuple(backups))


REFUSED = "rejected rows"
_Rows = dict[str, tuple[Table, ColumnElement[bool]]]


def would_go(db: Database, by: Acting) -> Mapping[str, int]:
    """A dry run: how much of each kind is past its time now, by the site's settings. Raises Forbidden."""
    require(by.actor, Action.VIEW_SETTINGS)
    with db.read() as conn:
        settings = current(conn).settings
        found = _old_rows(settings, by.now)
        if (texts := _old_texts(settings, by.now)) is not None:  # with the refused rows that go with them
            _, refused = found.get(REFUSED, (rejected_rows, false()))
            found[REFUSED] = rejected_rows, refused | _are_refused_beside(texts)
            found = {"texts": (cases, cases.c.id.in_(texts)), **found}
        counts = {name: select(func.count()).select_from(table).where(old) for name, (table, old) in found.items()}
        return {name: count for name, query in counts.items() if (count := conn.execute(query).scalar_one())}


def expire(db: Database, now: datetime) -> Mapping[str, int]:
    """Erase what is past its time; how much of each kind went. Nothing where the site has set no time."""
    settings = current(db).settings
    texts, others, gone = _old_texts(settings, now), _old_rows(settings, now), Counter[str]()
    if texts is None and not others:
        return {}
    with db.write() as conn:
        ids = () if texts is None else conn.execute(texts.limit(AT_ONCE)).scalars().all()
        if ids:
            gone += Counter({"texts": len(ids), REFUSED: erase_rows(conn, ids, None, now)})
        for name, (table, old) in others.items():
            count = _blank(conn, old) if name == REFUSED else conn.execute(table.delete().where(old)).rowcount
            gone += Counter({name: count})
        if gone:
            append(conn, SYSTEM.at(now), "expired", None, dict(gone), rows={cases: ids, inbox_entries: ids})
    if gone:
        db.forget()
    return gone


def _old_texts(settings: SiteSettings, now: datetime) -> Any:
    """Cases settled, or abandoned as their batch was cancelled, so long ago, of which nobody has had to read, see to or
    acknowledge anything since, and that are not erased yet. None where texts are kept.
    """
    if settings.keep_texts_days is None:
        return None
    before = now - timedelta(days=settings.keep_texts_days)
    entry, seen, follow_up = inbox_entries.c, acknowledgements.c, follow_ups.c
    acknowledged = select(seen.case_id).where(seen.case_id == screenings.c.case_id, seen.at < before).exists()
    settled = select(screenings.c.case_id).where(screenings.c.completed_at < before, ~is_listed() | acknowledged)
    cancelled = select(batches.c.id).where(batches.c.cancelled_at < before)
    abandoned = select(pending_cases.c.case_id).where(pending_cases.c.batch_id.in_(cancelled))
    followed = select(follow_up.case_id).where(or_(follow_up.closed_at.is_(None), follow_up.closed_at >= before))
    done, gone = (
        found.outerjoin(inbox_entries, entry.case_id == case_id).where(
            or_(entry.case_id.is_(None), entry.closed_at < before), ~was_erased(case_id), case_id.not_in(followed)
        )
        for found, case_id in ((settled, screenings.c.case_id), (abandoned, pending_cases.c.case_id))
    )
    return done.union_all(gone)


def _old_rows(settings: SiteSettings, now: datetime) -> _Rows:
    """The other kinds that have a time: which rows of which table are past it."""
    began = select(batches.c.created_at).where(batches.c.id == _row.batch_id).scalar_subquery()
    kinds = {
        "drafts": (settings.keep_drafts_days, drafts, drafts.c.updated_at, true()),
        REFUSED: (settings.keep_rejected_days, rejected_rows, began, _row.original_json.is_not(None)),
        "messages": (settings.keep_messages_days, notifications, notifications.c.created_at, ~TO_SEND),
        "sessions": (settings.keep_sessions_days, sessions, sessions.c.seen_at, true()),
    }
    return {
        name: (table, (at < now - timedelta(days=days)) & which)
        for name, (days, table, at, which) in kinds.items()
        if days
    }
