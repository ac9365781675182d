"""What reviews make of a case: another review, by rule, coin or request; agreement; a senior's decision; amendments."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import Connection, Integer, Select, bindparam, func, insert, select, update

from screening.labels import Outcome
from screening.review.policy import LOCAL_USER, SYSTEM, Acting, Action, Actor, require
from screening.review.review_form import ReviewForm, ReviewLabel
from screening.review.triage import Priority, floor, second_review_coin
from storage.audit_log import append
from storage.batches.entries import open_again
from storage.database import Database, Source, Stale, reading, record
from storage.review.claims import Incomplete, NotAvailable, has_lease, is_open, lock_entry
from storage.review.follow_ups import For, open_follow_up
from storage.review.program_texts import tell_again
from storage.schema.engine import screenings
from storage.schema.intake import cases
from storage.schema.review import (
    LATER_REVIEW,
    UNASSIGNED,
    adjudications,
    inbox_entries,
    reviews,
    second_review_requests,
    skips,
)
from storage.schema.site import accounts
from storage.settings_store import SecondReviewRule, SiteSettings
from storage.site.accounts import is_reviewer
from storage.visibility import is_erased, see_reviews


class Why(StrEnum):
    """Why another review was asked for."""

    ASKED = "asked"
    RULE = "rule"
    SAMPLED = "sampled"
    DISAGREEMENT = "disagreement"


def second_review_due(
    conn: Connection, actor: Actor, case_id: str, form: ReviewForm, settings: SiteSettings, before: ReviewLabel | None
) -> Why | None:
    """Why the case needs a second review after this one, or None. ``before`` is the label that it revises. What a rule
    or a person asks for stays needed where nobody else could give it; the coin then does not apply.
    """
    if conn.execute(_requests_of(case_id)).first() is not None:
        return Why.ASKED
    by_rule = _matching_rules(form, settings, before) & set(settings.second_review_rules)
    if by_rule or _is_doubtful(conn, case_id, form.label):
        return Why.RULE
    drawn = second_review_coin(case_id) < settings.second_review_rate
    return Why.SAMPLED if drawn and others(conn, actor, case_id) else None


def _requests_of(case_id: str) -> Select[Any]:
    found = select(second_review_requests.c.id).where(second_review_requests.c.case_id == case_id).limit(1)
    return found.where(second_review_requests.c.why == Why.ASKED.value)


def has_asked(db: Source, actor: Actor, case_id: str) -> bool:
    """Whether this person asked for a second opinion of the case. Raises Forbidden."""
    require(actor, Action.REVIEW, actor.id)
    with reading(db) as conn:
        by_them = second_review_requests.c.asked_by == actor.id
        return conn.execute(_requests_of(case_id).where(by_them)).first() is not None


def _is_doubtful(conn: Connection, case_id: str, label: ReviewLabel) -> bool:
    """Whether a review needs another one whatever the site has set: of safe in a P0 case, in one that the agents
    labeled unsafe, or in one whose text states a risk; of unsafe where they labeled it safe, since it is one of the few
    that an estimate of the misses rests on, and most of these are reviewers' errors where misses are rare.
    """
    row = conn.execute(
        select(cases.c.flags, inbox_entries.c.priority, screenings.c.outcome)
        .join(inbox_entries, inbox_entries.c.case_id == cases.c.id)
        .outerjoin(screenings, screenings.c.case_id == cases.c.id)
        .where(cases.c.id == case_id)
    ).one()
    if label is not ReviewLabel.SAFE:
        return label is ReviewLabel.UNSAFE and row.outcome == Outcome.SAFE.value
    stated = floor([flag for part in dict(row.flags or {}).values() for flag in part]) <= Priority.P1
    return stated or row.priority == Priority.P0 or row.outcome == Outcome.UNSAFE.value


def _matching_rules(form: ReviewForm, settings: SiteSettings, before: ReviewLabel | None) -> set[SecondReviewRule]:
    rules = {SecondReviewRule(form.label.value)}
    if form.certainty <= settings.unsure_at:
        rules.add(SecondReviewRule.UNSURE)
    if before is ReviewLabel.UNSAFE and form.label is not before:
        rules.add(SecondReviewRule.SOFTENED)
    return rules


def others(conn: Connection, reviewer: Actor, case_id: str) -> bool:
    """Whether anybody else could review it: the case never comes again to who declined it."""
    declined = select(skips.c.reviewer).where(skips.c.case_id == case_id, skips.c.reason == "declined")
    others = is_reviewer(), accounts.c.id != reviewer.id, accounts.c.id.not_in(declined)
    return conn.execute(select(accounts.c.id).where(*others)).first() is not None


def request(conn: Connection, by: str, case_id: str, why: Why, now: datetime) -> None:
    """Record that another review was asked for, in the caller's transaction."""
    conn.execute(insert(second_review_requests).values(case_id=case_id, why=why.value, asked_by=by, at=now))


def take_request_back(conn: Connection, case_id: str, at: datetime) -> None:
    """Forget what the program asked for by a rule at this moment, with the review that brought it about."""
    asked = second_review_requests.c
    by_rule = asked.case_id == case_id, asked.asked_by == SYSTEM.id, asked.at == at
    conn.execute(second_review_requests.delete().where(*by_rule))


_entry = inbox_entries.c


class Next(StrEnum):
    """What happens to a case after a review."""

    CLOSED = "closed"
    SECOND_REVIEW = "second_review"
    SENIOR = "senior"


class Method(StrEnum):
    """How an adjudication came about."""

    SINGLE = "single"
    AGREEMENT = "agreement"
    SENIOR = "senior"
    DISCUSSION = "discussion"
    AMENDMENT = "amendment"


@dataclass(frozen=True, slots=True, kw_only=True)
class Adjudication:
    """One version of a case's accepted label; ``by`` is an account, or the program where reviewers agreed."""

    case_id: str
    version: int
    label: ReviewLabel
    method: Method
    by: str
    reason: str | None
    review_ids: Sequence[str]
    at: datetime


def settle(
    conn: Connection, by: Acting, case_id: str, review_round: str, form: ReviewForm, settings: SiteSettings
) -> Next:
    """What a new review does to its case, in the transaction that stored it."""
    if review_round == "first":
        return _close_or_wait(conn, by, case_id, form, settings)
    if review_round != "second":
        return Next.SENIOR
    # every label that any version of any review gave: a first word that was changed after the reveal still counts, or
    # the AI's view would decide whether reviewers agree
    given = conn.execute(select(reviews.c.label).where(reviews.c.case_id == case_id).distinct()).all()
    if len(given) == 1:
        return close(conn, case_id, form.label, Method.AGREEMENT, SYSTEM.at(by.now), None)
    return _dispute(conn, case_id, by, settings)


def resettle(
    conn: Connection, by: Acting, case_id: str, form: ReviewForm, was: ReviewLabel, reason: str, settings: SiteSettings
) -> Next:
    """What a revised review does to its case: it never leaves a closed case with a label its reviewer took back."""
    entry = conn.execute(select(_entry.closed_at, _entry.review_round).where(_entry.case_id == case_id)).one()
    if entry.closed_at is None:
        return Next.SENIOR if entry.review_round == "third" else Next.SECOND_REVIEW
    accepted = versions_in(conn, case_id)[-1]
    if accepted.label is form.label:
        return Next.CLOSED
    if len(latest_reviews(conn, case_id)) > 1 or accepted.method is not Method.SINGLE:
        return _dispute(conn, case_id, by, settings)
    return _close_or_wait(conn, by, case_id, form, settings, was, reason)


def _close_or_wait(
    conn: Connection,
    by: Acting,
    case_id: str,
    form: ReviewForm,
    settings: SiteSettings,
    before: ReviewLabel | None = None,
    reason: str | None = None,
) -> Next:
    """One review closes the case unless another one is due. Where a rule asks for one and nobody else is there to give
    it, the case would wait for ever: it is closed, and that stays open.
    """
    why = second_review_due(conn, by.actor, case_id, form, settings, before)
    if why is Why.ASKED or (why is not None and others(conn, by.actor, case_id)):
        if why is not Why.ASKED:
            request(conn, SYSTEM.id, case_id, why, by.now)
        open_again(conn, case_id, "second", by.now, settings)
        return Next.SECOND_REVIEW
    if why is not None:
        open_follow_up(conn, by, case_id, For.SECOND_REVIEW)
    return close(conn, case_id, form.label, Method.SINGLE, by, reason)


def _dispute(conn: Connection, case_id: str, by: Acting, settings: SiteSettings) -> Next:
    request(conn, SYSTEM.id, case_id, Why.DISAGREEMENT, by.now)
    open_again(conn, case_id, "third", by.now, settings)
    return Next.SENIOR


def close(conn: Connection, case_id: str, label: ReviewLabel, method: Method, by: Acting, reason: str | None) -> Next:
    """Accept a label, a new version; the case leaves the inbox, and the program that handed it in is told."""
    last = conn.execute(select(func.max(adjudications.c.version)).where(adjudications.c.case_id == case_id)).scalar()
    row = {"case_id": case_id, "version": (last or 0) + 1, "label": label.value, "method": method.value}
    review_ids = [review.id for review in latest_reviews(conn, case_id)]
    conn.execute(insert(adjudications).values(**row, by=by.id, reason=reason, review_ids=review_ids, at=by.now))
    conn.execute(update(inbox_entries).where(_entry.case_id == case_id).values(closed_at=by.now, **UNASSIGNED))
    tell_again(conn, case_id, by.now)
    return Next.CLOSED


def latest_reviews(conn: Connection, case_id: str) -> Sequence[Any]:
    """Each reviewer's last version on this case, in the order in which they first read it."""
    rows = conn.execute(
        select(reviews.c.id, reviews.c.reviewer, reviews.c.label)
        .where(reviews.c.case_id == case_id)
        .order_by(reviews.c.version, reviews.c.at, reviews.c.id)
    )
    return tuple({row.reviewer: row for row in rows}.values())


def versions_in(conn: Connection, case_id: str) -> Sequence[Adjudication]:
    """All versions of a case's label, the first one first, inside the caller's transaction."""
    return versions_of(conn, [case_id])[case_id]


def versions_of(conn: Connection, case_ids: Sequence[str]) -> dict[str, list[Adjudication]]:
    """`versions_in` for each of these cases, in one statement."""
    found: dict[str, list[Adjudication]] = {case_id: [] for case_id in case_ids}
    query = select(adjudications).where(adjudications.c.case_id.in_(case_ids)).order_by(adjudications.c.version)
    for row in conn.execute(query):
        made = record(Adjudication, row, label=ReviewLabel(row.label), method=Method(row.method))
        found[row.case_id].append(made)
    return found


def adjudicate(
    db: Database,
    by: Acting,
    case_id: str,
    label: ReviewLabel,
    reason: str,
    based_on: int | None = None,
    *,
    discussed: bool = False,
) -> Adjudication:
    """A senior's decision on an open case; with ``based_on``, the version that they were looking at, a new one of the
    label of a closed case. Pressed twice is once. Raises Incomplete, Stale, and NotAvailable where it is not open, or
    not closed; was erased; is unread or being read; or one of two reviewers who disagree would decide alone.
    """
    require(by.actor, Action.ADJUDICATE)
    if not reason.strip():
        raise Incomplete("say why")
    method = Method.AMENDMENT if based_on is not None else Method.DISCUSSION if discussed else Method.SENIOR
    with db.write() as conn:
        entry, made = lock_entry(conn, case_id), versions_in(conn, case_id)
        this = by.id, label, method, reason.strip()
        again = bool(made) and (made[-1].by, made[-1].label, made[-1].method, made[-1].reason) == this
        if based_on is None:
            if entry is None or entry.closed_at is not None:
                if again:
                    return made[-1]
                raise NotAvailable("this case is not open")
            _require_decidable(conn, by, entry, method)
        else:
            if entry is None or entry.closed_at is None:
                raise NotAvailable("only a closed case can be amended")
            if is_erased(conn, case_id):
                raise NotAvailable("what this case held was deleted: nothing more is decided on it")
            if again and made[-1].version == based_on + 1:
                return made[-1]
            if made[-1].version != based_on:
                raise Stale("the case was amended in the meantime")
        close(conn, case_id, label, method, by, reason.strip())
        new = versions_in(conn, case_id)[-1]
        action = "adjudicated" if based_on is None else "amended"
        append(conn, by, action, case_id, {"version": new.version, "method": method}, adjudications, inbox_entries)
        return new


def _require_decidable(conn: Connection, by: Acting, entry: Any, method: Method) -> None:
    if has_lease(entry, by.now) and entry.assignee != by.id:
        raise NotAvailable("somebody is reviewing this case at the moment")
    reviewers = [review.reviewer for review in latest_reviews(conn, entry.case_id)]
    if not reviewers:
        raise NotAvailable("nobody has reviewed this case yet")
    if method is Method.SENIOR and is_party(by.actor, reviewers):
        raise NotAvailable("you are one of the two reviewers: somebody else decides, or you do in a discussion")


def is_party(actor: Actor, reviewers: Sequence[str]) -> bool:
    """Whether they are one of the first two, who disagree; without sign-in the local user is all there is to decide."""
    return actor != LOCAL_USER and len(reviewers) > 1 and actor.id in reviewers[:2]


def reveal_versions(db: Database, by: Acting, case_id: str) -> Sequence[Adjudication]:
    """All versions of a case's label, the first one first, for whom its reviews are. Raises Forbidden, Unread."""
    with db.write() as conn:
        see_reviews(conn, by, case_id)
        return versions_in(conn, case_id)


_MINE = select(reviews.c.case_id).where(reviews.c.reviewer == bindparam("reviewer"))
_THIRD = (
    select(_entry.case_id, cases.c.external_id, _entry.priority, _entry.due_at)
    .add_columns(_entry.case_id.in_(_MINE).label("read_by_me"))
    .join(cases, cases.c.id == _entry.case_id)
    .where(is_open(), LATER_REVIEW, _entry.review_round == "third")
    .order_by(_entry.routine, _entry.due_at, _entry.case_id)
    .limit(bindparam("most", type_=Integer))
)
"""Written once: every open inbox of a senior asks every few seconds."""


def disagreements(db: Database, actor: Actor, limit: int = 50) -> Sequence[Any]:
    """The cases that wait for a senior, most urgent first, without labels: a third reads blind. Raises Forbidden."""
    require(actor, Action.ADJUDICATE)
    return db.rows(_THIRD, {"reviewer": actor.id, "most": limit})
