"""What is put before people by a choice: the worklist of a batch, and cases that are sent to review."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, and_, exists, func, select, update

from screening.labels import Outcome
from screening.review.actors import Acting, Actor
from screening.review.policy import Action, require
from screening.review.triage import Reach, audit_placement
from storage.audit_log import append
from storage.batches.entries import enter
from storage.database import Database, insert_once
from storage.schema import acknowledgements, batches, cases, inbox_entries, screenings
from storage.settings_store import current_in
from storage.visibility import is_in_review, unblind, was_erased

MOST = 500
"""Cases that one press may acknowledge, or send."""


def worklist(db: Database, actor: Actor, batch_id: str, limit: int = 50) -> tuple[Sequence[Any], int]:
    """The first to be acknowledged, in the file's order, not in review; and how many in all. Raises Forbidden."""
    require(actor, Action.ACKNOWLEDGE)
    columns = (cases.c.id.label("case_id"), cases.c.row, cases.c.external_id)
    page = select(*columns, screenings.c.node, screenings.c.completed_at)
    joined = [
        query.select_from(screenings)
        .join(cases, cases.c.id == screenings.c.case_id)
        .where(_waits(), screenings.c.batch_id == batch_id)
        for query in (page.order_by(cases.c.row).limit(limit), select(func.count()))
    ]
    with db.read() as conn:
        rows, waiting = conn.execute(joined[0]).all(), conn.execute(joined[1]).scalar_one()
    return rows, int(waiting)


def acknowledge(db: Database, by: Acting, case_ids: Sequence[str]) -> int:
    """Say that these were seen; returns how many nobody had acknowledged before. Raises Forbidden, ValueError."""
    require(by.actor, Action.ACKNOWLEDGE)
    if len(case_ids) > MOST:
        raise ValueError(f"at most {MOST} cases at a time")
    joined = select(cases.c.id).join(screenings, screenings.c.case_id == cases.c.id)
    with db.write() as conn:
        known = conn.execute(joined.where(cases.c.id.in_(case_ids), _waits()).order_by(cases.c.id)).scalars()
        count = 0
        for case_id in known.all():
            count += insert_once(conn, acknowledgements, {"case_id": case_id, "by": by.id, "at": by.now})
            unblind(conn, by.id, [case_id], by.now)
            append(conn, by, "acknowledged", case_id, {})
    return count


def is_listed() -> ColumnElement[bool]:
    """The condition that an outcome is on the worklist of its batch, acknowledged or not."""
    lists = select(batches.c.id).where(batches.c.reach == Reach.LIST.value)
    return and_(screenings.c.outcome == Outcome.UNSAFE.value, screenings.c.batch_id.in_(lists))


def _waits() -> ColumnElement[bool]:
    done = exists().where(acknowledgements.c.case_id == cases.c.id)
    return and_(is_listed(), ~done, ~is_in_review(cases.c.id))


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondLooks:
    """Entries opened now, cases with an entry before, without an outcome as yet, and left out as erased."""

    opened: int
    there_before: int
    undecided: int
    erased: int = 0


def request_second_looks(
    db: Database,
    by: Acting,
    case_ids: Sequence[str],
    *,
    shown: Collection[str] = (),
    chances: Mapping[str, float] | None = None,
    controls: Mapping[str, float] | None = None,
) -> SecondLooks:
    """Open an inbox entry for each of these cases that has an outcome and none yet; returns how many these are.

    Priority and reason are an audit sample's, so a reviewer cannot tell who sent the case or why. A review asked for in
    this way enters no audit estimate: whoever picks the cases would pick the answer. ``chances`` are the probabilities
    of those that were drawn at random from all that were not picked, ``controls`` of those mixed in from some of these;
    the others were picked, and stand for none but themselves. Of ``shown`` cases the actor has seen the engine's view:
    a review of their own of these is not blind. Raises Forbidden, ValueError for too many cases.
    """
    require(by.actor, Action.REQUEST_REVIEW)
    if len(case_ids) > MOST:
        raise ValueError(f"at most {MOST} cases at a time")
    with db.write() as conn:
        named = select(cases.c.id).where(cases.c.id.in_(case_ids))
        gone = set(conn.execute(named.where(was_erased(cases.c.id))).scalars())
        opened, share = list[str](), current_in(conn).settings.audit_urgent_share
        settled = named.join(screenings, screenings.c.case_id == cases.c.id).where(~was_erased(cases.c.id))
        rows = conn.execute(settled.add_columns(cases.c.flags).order_by(cases.c.id)).all()  # nor does the order show it
        for row in rows:
            place = audit_placement(row.id, share, row.flags["text"] + row.flags["reply"])
            entered = enter(conn, row.id, place, by.now)
            opened += [row.id] if entered else []
            sent_as = "drawn" if row.id in (chances or {}) else "control" if row.id in (controls or {}) else "picked"
            if entered or sent_as == "picked":
                chance = {**(controls or {}), **(chances or {})}.get(row.id)
                of_case = update(inbox_entries).where(inbox_entries.c.case_id == row.id)
                conn.execute(of_case.values(sent_as=sent_as, chance=chance))
        unblind(conn, by.id, sorted(shown), by.now)
        numbers = {"asked": len(case_ids), "opened": len(opened)}
        append(conn, by, "second_look_requested", None, numbers, rows={inbox_entries: opened})
    undecided = len(set(case_ids).difference((row.id for row in rows), gone))
    return SecondLooks(opened=len(opened), there_before=len(rows) - len(opened), undecided=undecided, erased=len(gone))
