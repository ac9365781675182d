"""The one place where a case enters the inbox, and where its outcome meets the entry that it may have by then.

A case whose text states a risk enters when it comes in, and one that could not be screened after a while: before they
have an outcome, with the cause. When it is screened after all, the same entry takes the place that the outcome gives
it, or leaves where nobody has opened it and nobody needs to read it.
"""

from collections.abc import Collection, Mapping
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import Connection, bindparam, delete, exists, func, select, update

from screening.labels import Label
from screening.review.actors import SYSTEM
from screening.review.triage import Placement, Priority, due_at, ordinary_why, research_coin, unscreened_placement
from storage.audit_log import Detail, append
from storage.database import insert_for
from storage.schema import (
    adjudications,
    audit_events,
    batches,
    cases,
    inbox_entries,
    second_review_requests,
)
from storage.settings_store import SiteSettings, current_in
from storage.visibility import unblind

_entry = inbox_entries.c
_KNOWN = (
    _entry.case_id,
    _entry.priority,
    _entry.review_round,
    _entry.assignee,
    _entry.assigned_until,
    _entry.lease_token,
)
_ENTRY = select(*_KNOWN, _entry.closed_at).where(_entry.case_id == bindparam("one")).with_for_update()
_SETTLE = update(inbox_entries).where(_entry.case_id == bindparam("one")).values(cause=None)


def enter(
    conn: Connection,
    case_id: str,
    placement: Placement,
    now: datetime,
    cause: str | None = None,
    *,
    settings: SiteSettings | None = None,
    research_order: bool | None = None,
) -> bool:
    """Open the case's entry, in the caller's transaction; False, and nothing is changed, where it has one.

    ``cause`` is why it could not be screened, where that is what brings it here; ``settings`` are those in force and
    ``research_order`` is its batch's, where the caller knows them.
    """
    if research_order is None:
        of_batch = select(batches.c.research_order).join(cases, cases.c.batch_id == batches.c.id)
        research_order = bool(conn.execute(of_batch.where(cases.c.id == case_id)).scalar())
    settings = settings or current_in(conn).settings
    row = {
        "case_id": case_id,
        "cause": cause,
        "entered_at": now,
        **_place(case_id, placement, now, settings, research_order=research_order),
    }
    return conn.execute(_enter_statement(conn.dialect.name), row).first() is not None


def enter_unscreened(
    conn: Connection, batch_id: str, found: Mapping[str, Collection[str]], cause: str, now: datetime
) -> None:
    """Open entries for cases of a batch that have no outcome and no entry, by the flags of each; ``cause`` is why."""
    if not found:
        return
    for case_id, flags in found.items():
        enter(conn, case_id, unscreened_placement(flags), now, cause)
    told: dict[str, Detail] = {"cases": len(found), "cause": cause}
    append(conn, SYSTEM.at(now), "entered_unscreened", batch_id, told, rows={inbox_entries: list(found)})


@cache
def _enter_statement(dialect: str) -> Any:
    """The statement, written once: an entry has its case's batch."""
    given = [bindparam(name, type_=_entry[name].type) for name in ("why", "cause", "entered_at", "priority", "due_at")]
    of_case = select(cases.c.id, cases.c.batch_id, *given)
    names = ["case_id", "batch_id", *(each.key for each in given)]
    entered = insert_for(dialect, inbox_entries).from_select(names, of_case.where(cases.c.id == bindparam("case_id")))
    return entered.on_conflict_do_nothing().returning(_entry.case_id)


def settle(
    conn: Connection,
    case_id: str,
    placement: Placement | None,
    label: Label | None,
    now: datetime,
    settings: SiteSettings,
    *,
    research_order: bool,
) -> bool:
    """What an outcome does to its case's place in the inbox, in the transaction that stores it; whether it did any.

    ``placement`` is where the outcome puts the case, None where nobody need read it; ``label`` is what the agents
    called it. The entry of a case that could not be screened before is changed in place, opened or not.
    """
    entry = conn.execute(_ENTRY, {"one": case_id}).first()
    if entry is None:
        return placement is not None and enter(
            conn, case_id, placement, now, settings=settings, research_order=research_order
        )
    if entry.closed_at is not None:
        _doubt(conn, entry, label, now, settings)
    elif _was_opened(conn, entry):
        _go_on(conn, entry, placement, now, settings, research_order=research_order)
    elif placement is None:
        conn.execute(delete(inbox_entries).where(_entry.case_id == case_id))
        append(conn, SYSTEM.at(now), "left_inbox", case_id, {"screened": True})
        return True
    else:
        changed = _place(case_id, placement, now, settings, research_order=research_order)
        conn.execute(update(inbox_entries).where(_entry.case_id == case_id).values(changed))
    conn.execute(_SETTLE, {"one": case_id})
    return True


def open_again(
    conn: Connection, case_id: str, review_round: str, now: datetime, settings: SiteSettings, **changed: str
) -> None:
    """Another review of the case is due, by a target of its own that begins now."""
    priority = Priority(conn.execute(select(_entry.priority).where(_entry.case_id == case_id)).scalar_one())
    again = {
        "review_round": review_round,
        "closed_at": None,
        "due_at": due_at(priority, now, settings.targets),
        **changed,
    }
    first = func.coalesce(_entry.first_due_at, _entry.due_at)
    conn.execute(update(inbox_entries).where(_entry.case_id == case_id).values(first_due_at=first, **again))


def _urgency(priority: Priority, now: datetime, settings: SiteSettings) -> dict[str, Any]:
    return {"priority": int(priority), "due_at": due_at(priority, now, settings.targets)}


def _place(
    case_id: str, placement: Placement, now: datetime, settings: SiteSettings, *, research_order: bool
) -> dict[str, Any]:
    """Where the case stands: as placed, or, in a set without living authors, with all others of it at random."""
    if not research_order:
        return {"why": placement.why.value, **_urgency(placement.priority, now, settings)}
    target = settings.targets[Priority.P3] * (1 + research_coin(case_id)) / 2
    return {"why": ordinary_why(Priority.P3).value, "priority": int(Priority.P3), "due_at": now + target}


def _was_opened(conn: Connection, entry: Any) -> bool:
    """Whether anybody has opened the text."""
    if entry.lease_token is not None or entry.review_round != "first":
        return True
    seen = (audit_events.c.subject == entry.case_id, audit_events.c.action.in_(("claimed", "opened", "text_viewed")))
    return conn.execute(select(exists().where(*seen))).scalar_one()


def _go_on(
    conn: Connection,
    entry: Any,
    placement: Placement | None,
    now: datetime,
    settings: SiteSettings,
    *,
    research_order: bool,
) -> None:
    """An opened case stays, in words that tell nothing of the outcome; it only ever becomes more urgent.

    Whoever holds it at that moment sees it become so: their review is then not blind.
    """
    priority = Priority(entry.priority)
    raised = placement is not None and placement.priority < priority and not research_order
    if raised and placement is not None:
        priority = placement.priority
        if entry.lease_token is not None and entry.assigned_until > now:
            unblind(conn, entry.assignee, [entry.case_id], now)
    changed: dict[str, Any] = {"why": ordinary_why(priority).value} | (
        _urgency(priority, now, settings) if raised else {}
    )
    conn.execute(update(inbox_entries).where(_entry.case_id == entry.case_id).values(changed))


def _doubt(conn: Connection, entry: Any, label: Label | None, now: datetime, settings: SiteSettings) -> None:
    """A case that one person closed as safe, and that the agents then call unsafe, is read by somebody else."""
    last = select(adjudications.c.label, adjudications.c.method).where(adjudications.c.case_id == entry.case_id)
    accepted = conn.execute(last.order_by(adjudications.c.version.desc()).limit(1)).first()
    if label is not Label.UNSAFE or accepted is None or tuple(accepted) != ("safe", "single"):
        return
    asked = {"case_id": entry.case_id, "why": "rule", "asked_by": SYSTEM.id, "at": now}
    conn.execute(second_review_requests.insert().values(asked))
    open_again(conn, entry.case_id, "second", now, settings, why=ordinary_why(Priority(entry.priority)).value)
