"""What people are to do beside the queue. What a disposition asks for stays on the inbox until somebody closes it; the
worklist of a batch until it is acknowledged; and cases are sent to review by a choice.

Who is told of a follow-up learns something of the review. While the case is still to be read by others it is therefore
shown to its reviewer and to whoever sees to it; of the rest only the number is said.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, exists, func, insert, or_, select, true, update

from screening.labels import Outcome
from screening.review.policy import Acting, Action, Actor, is_allowed, require
from screening.review.review_form import Disposition
from screening.review.triage import Reach, audit_placement
from storage.audit_log import append
from storage.batches.entries import enter
from storage.database import Database, insert_once
from storage.review.claims import NOW, Incomplete
from storage.schema import accounts, acknowledgements, batches, cases, follow_ups, inbox_entries, screenings
from storage.settings_store import current
from storage.site.accounts import is_reviewer
from storage.visibility import is_in_review, is_yet_to_review, unblind, was_erased

_one = follow_ups.c


class For(StrEnum):
    """What a follow-up is for: one of the dispositions that ask for one, or a review that nobody else could give."""

    CONTACT_NOW = Disposition.CONTACT_NOW.value
    CARE_TEAM = Disposition.CARE_TEAM.value
    PROTECTIVE_SERVICES = Disposition.PROTECTIVE_SERVICES.value
    SECOND_REVIEW = "second_review"


_SOON = (For.CONTACT_NOW.value, For.SECOND_REVIEW.value)


class How(StrEnum):
    """How a follow-up was closed."""

    DONE = "done"
    HANDED_ON = "handed_on"  # to somebody outside this program, named in the note
    NOT_NEEDED = "not_needed"  # a review was corrected, say


class NotOpen(Exception):
    """The follow-up was closed in the meantime, or does not exist."""


def open_follow_up(conn: Connection, by: Acting, case_id: str, what: Disposition | For) -> bool:
    """Open one where the disposition asks for it and the case has none open for the same, in the transaction of the
    review: what is urgent has its own hour, whatever else was asked for. And where a review needs another one that
    nobody else could give, which so stays in sight.

    Whoever read the case sees to it until they hand it on. Taking the disposition back closes nothing: somebody may
    have begun to act, and says so or closes it as not needed.
    """
    minutes = follow_up_minutes(what, current(conn).settings.follow_up_minutes)
    same = _one.case_id == case_id, _one.disposition == what.value, _one.closed_at.is_(None)
    if minutes is None or conn.execute(select(_one.id).where(*same)).first() is not None:
        return False
    row = {"case_id": case_id, "disposition": what.value, "opened_by": by.id, "opened_at": by.now, "who": by.id}
    conn.execute(insert(follow_ups).values(**row, due_at=by.now + timedelta(minutes=minutes)))
    append(conn, by, "follow_up_opened", case_id, {})
    return True


def follow_up_minutes(what: Disposition | For, minutes: tuple[float, float]) -> float | None:
    """By when somebody sees to what it asks for; None where it asks for nothing.

    >>> [follow_up_minutes(Disposition(each), (60, 1440)) for each in ("contact_now", "care_team", "monitor")]
    [60, 1440, None]
    """
    if what.value not in {each.value for each in For}:
        return None
    return minutes[0] if what.value in _SOON else minutes[1]


def open_ones(db: Database, by: Acting, limit: int = 50) -> Sequence[Any]:
    """One's own, those one opened, for seniors all that give no review away: the earliest due first, each with who sees
    to it (``who_name``) and its case's ``external_id`` and ``where_to_act``. Raises Forbidden.
    """
    require(by.actor, Action.FOLLOW_UP, by.id)
    return db.rows(_shown(by.actor, limit))


def open_of(conn: Connection, actor: Actor, case_id: str) -> Sequence[Any]:
    """Those of one case that this person may see, in the caller's transaction."""
    return conn.execute(_shown(actor, limit=len(For)).where(_one.case_id == case_id)).all()


def count_open(db: Database, by: Acting) -> Any:
    """How many are ``open``, how many of them this person may not see (``others``), and how many of those are ``left``
    with nobody who reviews; of each how many are overdue, as ``open_overdue``. Raises Forbidden.
    """
    require(by.actor, Action.FOLLOW_UP, by.id)
    return db.row(_counted(by.actor), {"now": by.now})


@lru_cache
def _shown(actor: Actor, limit: int) -> Select[Any]:
    """Written once, as what counts them: asked at every run of the inbox."""
    # a look-up for each: joined, an embedded database may begin at the cases, and read all of them
    name = select(cases.c.external_id).where(cases.c.id == _one.case_id).scalar_subquery()
    where = select(cases.c.where_to_act).where(cases.c.id == _one.case_id).scalar_subquery()
    called = func.coalesce(accounts.c.display_name, _one.who)
    beside: list[Any] = [name.label("external_id"), where.label("where_to_act"), called.label("who_name")]
    shown = select(follow_ups, *beside).outerjoin(accounts, accounts.c.id == _one.who)
    return shown.where(_one.closed_at.is_(None), _is_visible(actor)).order_by(_one.due_at, _one.id).limit(limit)


@lru_cache
def _counted(actor: Actor) -> Select[Any]:
    others = ~_is_visible(actor)
    of = {"open": true(), "others": others, "left": and_(others, _is_left())}
    counts: list[Any] = [func.count().filter(which).label(name) for name, which in of.items()]
    counts += [func.count().filter(_one.due_at <= NOW, which).label(f"{name}_overdue") for name, which in of.items()]
    return select(*counts).where(_one.closed_at.is_(None))


def _is_left() -> ColumnElement[bool]:
    """The condition that whoever was to see to it is no reviewer any more, or is switched off."""
    return ~exists().where(accounts.c.id == _one.who, is_reviewer())


def take_over(db: Database, by: Acting) -> int:
    """See to all follow-ups whose person reviews no cases any more; how many these were. This person's own review of
    such a case is then not blinded. Raises Forbidden.
    """
    require(by.actor, Action.FOLLOW_UP, by.id)
    with db.write() as conn:
        left = select(_one.id, _one.case_id).where(_one.closed_at.is_(None), _one.who != by.id, _is_left())
        found = conn.execute(left.order_by(_one.id).with_for_update()).all()
        for one in found:
            _give(conn, by, one.id, one.case_id, by.id)
        for one in found:  # last: from here to the commit the log is locked
            append(conn, by, "follow_up_taken_over", one.case_id, {})
    return len(found)


def _give(conn: Connection, by: Acting, follow_up_id: int, case_id: str, to: str) -> None:
    """To see to it is to know of the review: theirs would not be blind."""
    conn.execute(update(follow_ups).where(_one.id == follow_up_id).values(who=to))
    unblind(conn, to, [case_id], by.now)


def hand_to(db: Database, by: Acting, follow_up_id: int, to: str, note: str) -> None:
    """Have a colleague see to it from now on. Raises Forbidden, NotOpen, Incomplete, KeyError for no such person."""
    with db.write() as conn:
        case_id, said = _require_open(conn, by.actor, follow_up_id, note)
        if conn.execute(select(accounts.c.id).where(accounts.c.id == to, is_reviewer())).first() is None:
            raise KeyError(to)
        conn.execute(update(follow_ups).where(_one.id == follow_up_id).values(note=said))
        _give(conn, by, follow_up_id, case_id, to)
        append(conn, by, "follow_up_handed", case_id, {"to": to})


def close(db: Database, by: Acting, follow_up_id: int, how: How, note: str) -> None:
    """It was seen to, or need not be any more. Raises Forbidden, NotOpen, Incomplete."""
    with db.write() as conn:
        case_id, said = _require_open(conn, by.actor, follow_up_id, note)
        closed = update(follow_ups).where(_one.id == follow_up_id)
        conn.execute(closed.values(closed_at=by.now, closed_by=by.id, how=how.value, note=said))
        append(conn, by, "follow_up_closed", case_id, {"how": how.value})


def closed_ones(db: Database, actor: Actor, case_id: str) -> Sequence[Any]:
    """How those of a case that this person may see ended, as their rows. Raises Forbidden."""
    require(actor, Action.FOLLOW_UP, actor.id)
    closed = _one.case_id == case_id, _one.closed_at.is_not(None), _is_visible(actor, _one.closed_by == actor.id)
    return db.rows(select(follow_ups).where(*closed).order_by(_one.id))


def _is_visible(actor: Actor, *part: ColumnElement[bool]) -> ColumnElement[bool]:
    """For whoever sees to it or had another part in it; for seniors also any of a case that does not
    wait for their own review.
    """
    mine = or_(_one.who == actor.id, _one.opened_by == actor.id, *part)
    return or_(mine, ~is_yet_to_review(actor, _one.case_id)) if is_allowed(actor, Action.FOLLOW_UP) else mine


def _require_open(conn: Connection, actor: Actor, follow_up_id: int, note: str) -> tuple[str, str]:
    """The case of an open follow-up on which this person may act with this note, and all notes with it, a line each."""
    row = conn.execute(select(follow_ups).where(_one.id == follow_up_id).with_for_update()).first()
    if row is None or row.closed_at is not None:
        raise NotOpen("this follow-up is closed already")
    require(actor, Action.FOLLOW_UP, actor.id if actor.id in (row.who, row.opened_by) else row.who)
    if not note.strip():
        raise Incomplete("say in a note what was done, or what the next one should know")
    return str(row.case_id), "\n".join(filter(None, (row.note, note.strip())))


MOST = 500
"""Cases that one press may acknowledge, or send."""


def worklist(db: Database, actor: Actor, batch_id: str, limit: int = 50) -> tuple[Sequence[Any], int]:
    """The first to be acknowledged, in the file's order, not in review; and how many in all. Raises Forbidden."""
    require(actor, Action.ACKNOWLEDGE)
    ended = screenings.c
    waits = select(cases.c.id.label("case_id"), cases.c.row, cases.c.external_id, ended.node, ended.completed_at)
    waits = waits.select_from(screenings).join(cases, cases.c.id == ended.case_id)
    waits = waits.where(_waits(), ended.batch_id == batch_id)
    with db.read() as conn:
        rows = conn.execute(waits.order_by(cases.c.row).limit(limit)).all()
        return rows, conn.execute(waits.with_only_columns(func.count())).scalar_one()


def acknowledge(db: Database, by: Acting, case_ids: Sequence[str]) -> int:
    """Say that these were seen; returns how many nobody had acknowledged before. Raises Forbidden, ValueError."""
    require(by.actor, Action.ACKNOWLEDGE)
    if len(case_ids) > MOST:
        raise ValueError(f"at most {MOST} cases at a time")
    joined = select(cases.c.id).join(screenings, screenings.c.case_id == cases.c.id)
    with db.write() as conn:
        known = conn.execute(joined.where(cases.c.id.in_(case_ids), _waits()).order_by(cases.c.id)).scalars()
        seen = known.all()
        count = sum(insert_once(conn, acknowledgements, {"case_id": one, "by": by.id, "at": by.now}) for one in seen)
        unblind(conn, by.id, seen, by.now)
        for case_id in seen:  # last: from here to the commit the log is locked
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
    """Open an inbox entry for each of these cases that has an outcome and none yet.

    Priority and reason are an audit sample's, so a reviewer cannot tell who sent the case or why; it enters no audit
    estimate: whoever picks the cases would pick the answer. ``chances`` are the probabilities of those drawn at random
    from all that were not picked, ``controls`` of those mixed in from some; the others stand for none but themselves.
    Of ``shown`` cases the actor has seen the AI's view: their own review is not blind. ValueError for too many.
    """
    require(by.actor, Action.REQUEST_REVIEW)
    if len(case_ids) > MOST:
        raise ValueError(f"at most {MOST} cases at a time")
    known = {**(controls or {}), **(chances or {})}
    with db.write() as conn:
        named = select(cases.c.id).where(cases.c.id.in_(case_ids))
        gone = set(conn.execute(named.where(was_erased(cases.c.id))).scalars())
        opened, settings = list[str](), current(conn).settings
        settled = named.join(screenings, screenings.c.case_id == cases.c.id).where(~was_erased(cases.c.id))
        settled = settled.join(batches, batches.c.id == cases.c.batch_id)
        settled = settled.add_columns(cases.c.flags, batches.c.research_order)
        rows = conn.execute(settled.order_by(cases.c.id)).all()  # nor does the order show it
        for row in rows:
            place = audit_placement(row.id, settings.audit_urgent_share, row.flags["text"] + row.flags["reply"])
            entered = enter(conn, row.id, place, by.now, settings=settings, research_order=row.research_order)
            opened += [row.id] if entered else []
            sent_as = "drawn" if row.id in (chances or {}) else "control" if row.id in (controls or {}) else "picked"
            if entered or sent_as == "picked":
                of_case = update(inbox_entries).where(inbox_entries.c.case_id == row.id)
                conn.execute(of_case.values(sent_as=sent_as, chance=known.get(row.id)))
        unblind(conn, by.id, sorted(shown), by.now)
        numbers = {"asked": len(case_ids), "opened": len(opened)}
        append(conn, by, "second_look_requested", None, numbers, rows={inbox_entries: opened})
    undecided = len(set(case_ids).difference((row.id for row in rows), gone))
    return SecondLooks(opened=len(opened), there_before=len(rows) - len(opened), undecided=undecided, erased=len(gone))
