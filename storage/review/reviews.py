"""Reviews: filled in as a draft, stored once under a lease, changed with a reason, taken back in time; and what became
of one's own.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Select, case, delete, insert, select, update

from screening.review.policy import Acting, Action, Actor, Forbidden, require
from screening.review.review_form import FORM_VERSION, Disposition, ReviewForm, ReviewLabel, needs_disposition
from screening.review.triage import Priority
from storage.audit_log import append
from storage.database import Database, record, upsert
from storage.review.adjudication import Method, Next, resettle, settle, take_request_back, versions_in
from storage.review.claims import LEASE, Claim, Incomplete, LeaseLost, NotAvailable, claim, has_lease, holds, lock_entry
from storage.review.follow_ups import For, open_follow_up
from storage.schema import (
    UNASSIGNED,
    adjudications,
    cases,
    drafts,
    follow_ups,
    inbox_entries,
    reviews,
    unblindings,
    undone_reviews,
)
from storage.settings_store import SiteSettings, current
from storage.visibility import accepted_label, is_blind, is_erased, see_reviews

_entry = inbox_entries.c


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """One version of one person's review. ``blind``: given before the AI's view was served."""

    id: str
    case_id: str
    reviewer: str
    version: int
    blind: bool
    review_round: str
    form: ReviewForm
    form_version: int
    reason: str | None
    at: datetime


def submit_review(
    db: Database, by: Acting, case_id: str, token: str, form: ReviewForm, submission_id: str
) -> Next | None:
    """Store a review by whoever holds the case, give the case back, and settle it; returns what happens to it next.

    A repeated ``submission_id``, which becomes the review's id, is harmless: None, since the case may have moved on.
    Raises Incomplete, and LeaseLost without the current token; the form is then kept as a draft unless it is too long.
    """
    require(by.actor, Action.REVIEW, by.id)
    try:
        with db.write() as conn:
            return _submit(conn, by, case_id, token, form, submission_id)
    except LeaseLost:
        with suppress(ValueError):
            save_draft(db, by, case_id, form.model_dump(mode="json"))
        raise


def _submit(
    conn: Connection, by: Acting, case_id: str, token: str, form: ReviewForm, submission_id: str
) -> Next | None:
    review_round = conn.execute(
        update(inbox_entries).where(holds(by, case_id, token)).values(UNASSIGNED).returning(_entry.review_round)
    ).scalar()
    if review_round is None:
        if _is_stored(conn, by.actor, case_id, submission_id):
            return None
        raise LeaseLost("this case is not assigned to you any more; what you filled in is kept as a draft")
    if review_round == "third":  # the claim has seen to all of this; it is checked again where it counts
        require(by.actor, Action.ADJUDICATE)
    for reviewer in conn.execute(select(reviews.c.reviewer).where(reviews.c.case_id == case_id)).scalars().all():
        require(by.actor, Action.SECOND_REVIEW, reviewer)
    _require_disposition(conn, case_id, form, settings := current(conn).settings)
    blind = is_blind(conn, by.actor, case_id, first=True)
    _insert(conn, by, case_id, form, submission_id, version=1, review_round=review_round, blind=blind)
    following = settle(conn, by, case_id, review_round, form, settings)
    open_follow_up(conn, by, case_id, form.disposition)
    append(conn, by, "reviewed", case_id, {"review": submission_id, "blind": blind, "next": following.value}, *_DECIDED)
    return following


_DECIDED = (reviews, adjudications, inbox_entries)
"""In what a review decides something."""


def _require_disposition(
    conn: Connection, case_id: str, form: ReviewForm, settings: SiteSettings, before: str | None = None
) -> None:
    """What a revised review keeps as it was (``before``) may have left the list since."""
    priority = Priority(conn.execute(select(_entry.priority).where(_entry.case_id == case_id)).scalar_one())
    if form.disposition is Disposition.UNDECIDED:
        if needs_disposition(form.label, priority):
            raise Incomplete("choose a disposition: what happens next")
    elif form.disposition not in settings.dispositions and form.disposition.value != before:
        raise Incomplete("this disposition is not on the list of this site any more: choose another one")


def revise(db: Database, by: Acting, case_id: str, form: ReviewForm, reason: str, submission_id: str) -> Next | None:
    """A new version of the actor's own review, without a lease; the earlier ones stay. Returns what `submit_review`
    does. Raises Forbidden when they have none, Incomplete, and NotAvailable for an erased case.
    """
    if not reason.strip():
        raise Incomplete("enter a reason for the change")
    with db.write() as conn:
        lock_entry(conn, case_id)
        before = _last(conn, by.actor, case_id)
        require(by.actor, Action.REVIEW, None if before is None else before.reviewer)
        if _is_stored(conn, by.actor, case_id, submission_id):
            return None
        if is_erased(conn, case_id):
            raise NotAvailable("what this case held was deleted: its reviews stay as they are")
        settings, was = current(conn).settings, ReviewLabel(before.label)
        _require_disposition(conn, case_id, form, settings, before.fields["disposition"])
        known = {"version": before.version + 1, "review_round": before.review_round, "reason": reason.strip()}
        blind = is_blind(conn, by.actor, case_id, first=False)
        _insert(conn, by, case_id, form, submission_id, blind=blind, **known)
        following = resettle(conn, by, case_id, form, was, reason.strip(), settings)
        open_follow_up(conn, by, case_id, form.disposition)
        append(conn, by, "revised", case_id, {"review": submission_id, "next": following.value}, *_DECIDED)
    return following


def _last(conn: Connection, actor: Actor, case_id: str) -> Any:
    own = reviews.c.case_id == case_id, reviews.c.reviewer == actor.id
    return conn.execute(select(reviews).where(*own).order_by(reviews.c.version.desc()).limit(1)).first()


def _is_stored(conn: Connection, actor: Actor, case_id: str, submission_id: str) -> bool:
    """Whether this submission is in already; Forbidden when the id belongs to something else."""
    row = conn.execute(select(reviews.c.reviewer, reviews.c.case_id).where(reviews.c.id == submission_id)).first()
    if row is not None and (row.reviewer, row.case_id) != (actor.id, case_id):
        raise Forbidden(actor, Action.REVIEW)
    return row is not None


def _insert(conn: Connection, by: Acting, case_id: str, form: ReviewForm, review_id: str, **rest: Any) -> None:
    """Store the review, in the place of the draft that it was made from."""
    fields = form.model_dump(mode="json", exclude={"label", "certainty"}) | {"form_version": FORM_VERSION}
    row = {"id": review_id, "case_id": case_id, "reviewer": by.id, "at": by.now, "fields": fields, **rest}
    row |= {"label": form.label.value, "certainty": form.certainty}
    priority = select(_entry.priority).where(_entry.case_id == case_id).scalar_subquery()
    conn.execute(insert(reviews).values(row | {"priority": priority}))
    conn.execute(delete(drafts).where(drafts.c.case_id == case_id, drafts.c.reviewer == by.id))


def review_of(row: Any) -> Review:
    fields = dict(row.fields)
    form_version = fields.pop("form_version")
    form = ReviewForm.model_validate({**fields, "label": row.label, "certainty": row.certainty})
    return record(Review, row, form=form, form_version=form_version)


def reviews_in(conn: Connection, case_ids: Sequence[str]) -> dict[str, list[Review]]:
    """All reviews of these cases, each case's in the order they were given, inside the caller's transaction."""
    found: dict[str, list[Review]] = {case_id: [] for case_id in case_ids}
    query = select(reviews).where(reviews.c.case_id.in_(case_ids))
    for row in conn.execute(query.order_by(reviews.c.at, reviews.c.version, reviews.c.id)):
        found[row.case_id].append(review_of(row))
    return found


def my_review(db: Database, actor: Actor, case_id: str) -> Review | None:
    """The last version of the actor's own review of a case; None where they gave none. Raises Forbidden."""
    require(actor, Action.VIEW_REVIEWS, actor.id)
    with db.read() as conn:
        row = _last(conn, actor, case_id)
    return None if row is None else review_of(row)


def reveal_reviews(db: Database, by: Acting, case_id: str) -> tuple[Review, ...]:
    """All versions of all reviews of a case, in the order they were given. Raises Forbidden, Unread."""
    with db.write() as conn:
        see_reviews(conn, by, case_id)
        return tuple(reviews_in(conn, [case_id])[case_id])


def my_reviews(db: Database, actor: Actor, *, limit: int = 50, before: datetime | None = None) -> Sequence[Any]:
    """One's reviews, the last version of one a case, the newest first, at most ``limit``; all before a moment where one
    is given. Each row has the case's ``external_id``; the label that was ``accepted``, None while the case is open, and
    then which review it ``waits_for``; neither where the case was erased. Raises Forbidden.
    """
    require(actor, Action.VIEW_REVIEWS, actor.id)
    query = _newest(actor.id, limit)
    return db.rows(query if before is None else query.where(reviews.c.at < before))


@lru_cache
def _newest(reviewer: str, limit: int) -> Select[Any]:
    """Somebody's reviews, the newest first: written once, asked each time the inbox asks."""
    entry, after = inbox_entries.c, reviews.alias().c
    superseded = select(after.id).where(
        after.case_id == reviews.c.case_id, after.reviewer == reviewer, after.version > reviews.c.version
    )
    return (
        select(reviews, cases.c.external_id, accepted_label(reviews.c.case_id).label("accepted"))
        .add_columns(case((entry.closed_at.is_(None), entry.review_round)).label("waits_for"))
        .join(cases, cases.c.id == reviews.c.case_id)
        .join(inbox_entries, entry.case_id == reviews.c.case_id)
        .where(reviews.c.reviewer == reviewer, ~superseded.exists())
        .order_by(reviews.c.at.desc(), reviews.c.id.desc())
        .limit(limit)
    )


TIME_TO_TAKE_BACK = timedelta(seconds=30)
_BY_ITSELF = (Method.SINGLE, Method.AGREEMENT)
"""How a review closes its case without anybody's decision."""
ON_THE_WAY = timedelta(seconds=10)
"""What a press in time may take to arrive."""


class TooLate(NotAvailable):
    """The review is not taken back any more; the message says why."""


def take_back(db: Database, by: Acting, case_id: str, review_id: str, lease: timedelta = LEASE) -> Claim:
    """The case in this person's hands again, and the review as their draft: both or, when it raises, neither.

    It is too late once the time is over, the AI's view was served to them, they changed the review, the case was
    erased or decided on, or somebody else has it, is about to open it or has read it. A repeated press finds the case
    in their hands and gives it to them again. Raises Forbidden, TooLate, NotAvailable.
    """
    with db.write() as conn:
        entry = lock_entry(conn, case_id)
        row = conn.execute(select(reviews).where(reviews.c.id == review_id)).first()
        if row is not None and entry is not None:
            require(by.actor, Action.REVIEW, row.reviewer)
            _require_untouched(conn, row, entry, by.now)
            _move(conn, row, by.now)
            theirs = {"assignee": by.id, "assigned_by": by.id, "assigned_until": by.now}
            if row.review_round == "first" and entry.first_due_at is not None:
                theirs |= {"due_at": entry.first_due_at, "first_due_at": None}
            opened = update(inbox_entries).where(inbox_entries.c.case_id == case_id)
            conn.execute(opened.values(closed_at=None, review_round=row.review_round, **theirs))
            append(conn, by, "review_undone", case_id, {"review": review_id}, reviews, adjudications, inbox_entries)
        else:
            mine = undone_reviews.c.review_id == review_id, undone_reviews.c.reviewer == by.id
            if conn.execute(select(undone_reviews.c.review_id).where(*mine)).first() is None:
                raise TooLate("there is no such review of yours")
        return claim(conn, by, case_id, lease)


def _require_untouched(conn: Connection, row: Any, entry: Any, now: datetime) -> None:
    """Raises TooLate where the time is over, or anything rests on the review or has happened to its case since."""
    case_id = row.case_id
    if case_id != entry.case_id or now > row.at + TIME_TO_TAKE_BACK + ON_THE_WAY:
        raise TooLate("the time to take it back is over")
    if is_erased(conn, case_id):
        raise TooLate("what this case held was deleted")
    mine, given = reviews.c.reviewer == row.reviewer, select(reviews.c.id).where(reviews.c.case_id == case_id)
    if conn.execute(given.where(mine, reviews.c.version > 1)).first() is not None:
        raise TooLate("you have changed your review since")
    seen = select(unblindings.c.at).where(unblindings.c.case_id == case_id, unblindings.c.reviewer == row.reviewer)
    if conn.execute(seen).first() is not None:
        raise TooLate("you have seen the AI's result: edit your review instead")
    if conn.execute(given.where(~mine, reviews.c.at >= row.at)).first() is not None:
        raise TooLate("another reviewer has reviewed it since")
    resting = (made for made in versions_in(conn, case_id) if row.id in made.review_ids)
    if any(made.method not in _BY_ITSELF or made.at != row.at for made in resting):
        raise TooLate("its label was decided since")
    if has_lease(entry, now):
        raise TooLate("another reviewer has begun")


def _move(conn: Connection, row: Any, now: datetime) -> None:
    kept = {column.name: row._mapping[column.name] for column in undone_reviews.c if column.name != "review_id"}
    conn.execute(insert(undone_reviews).values(kept | {"review_id": row.id, "at": now}))
    for made in versions_in(conn, row.case_id):
        if row.id in made.review_ids:
            which = adjudications.c.case_id == row.case_id, adjudications.c.version == made.version
            conn.execute(delete(adjudications).where(*which))
    take_request_back(conn, row.case_id, row.at)
    one = follow_ups.c  # what asks for a person to act stays: somebody may have begun
    instead = one.disposition == For.SECOND_REVIEW, one.closed_at.is_(None), one.note.is_(None)
    theirs = one.case_id == row.case_id, one.opened_at == row.at, one.opened_by == row.reviewer
    conn.execute(delete(follow_ups).where(*theirs, *instead))
    conn.execute(delete(reviews).where(reviews.c.id == row.id))
    fields = {name: value for name, value in row.fields.items() if name != "form_version"}
    _keep_draft(conn, row.reviewer, row.case_id, fields | {"label": row.label, "certainty": row.certainty}, now)


LONGEST_DRAFT = 20_000
"""Characters of a draft as JSON, in any script: a form with a long note is a quarter of it."""


def save_draft(db: Database, by: Acting, case_id: str, body: Mapping[str, Any]) -> None:
    """Keep what this person has filled in so far, over what was kept. Raises Forbidden, ValueError for too long."""
    require(by.actor, Action.REVIEW, by.id)
    if len(json.dumps(dict(body), ensure_ascii=False)) > LONGEST_DRAFT:
        raise ValueError("the draft is too long to be kept")
    with db.write() as conn:
        _keep_draft(conn, by.id, case_id, body, by.now)


def _keep_draft(conn: Connection, reviewer: str, case_id: str, body: Mapping[str, Any], now: datetime) -> None:
    """As `save_draft`, in the caller's transaction. Of a case that was erased nothing is kept."""
    if is_erased(conn, case_id):
        return
    upsert(conn, drafts, {"case_id": case_id, "reviewer": reviewer, "body": dict(body), "updated_at": now})


def load_draft(db: Database, actor: Actor, case_id: str) -> Mapping[str, Any] | None:
    """What this person has filled in so far; None without a draft. Raises Forbidden."""
    require(actor, Action.REVIEW, actor.id)
    query = select(drafts.c.body).where(drafts.c.case_id == case_id, drafts.c.reviewer == actor.id)
    return next(iter(db.values(query)), None)
