"""What has become of a case that somebody has on their desk: a page that lies open may be behind the times."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from sqlalchemy import select

from screening.review.actors import Acting
from screening.review.policy import Action, require
from screening.review.rating_form import RatingLabel
from storage.database import Database
from storage.review.adjudication import Next
from storage.review.claims import has_lease, is_kept_in
from storage.review.follow_ups import FollowUp, open_of
from storage.schema import inbox_entries, ratings
from storage.visibility import was_erased


class Place(StrEnum):
    """Where a case is, as one reader needs to know it."""

    HELD = "held"  # in this person's hands, with this token
    ELSEWHERE = "elsewhere"  # in this person's hands, with another token: taken up again in another page
    KEPT = "kept"  # nobody's, and set aside by this person or handed to them: given to nobody else until then
    FREE = "free"  # nobody's: the lease is over
    TAKEN = "taken"  # in somebody else's hands, or kept for them
    READ = "read"  # read by this person
    CLOSED = "closed"  # closed, and not by a reading of this person's
    ERASED = "erased"  # nobody reads it any more


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """``at`` and ``label`` are those of this person's own last reading; ``closed`` says whether the case is, ``until``
    how long it is kept for them.
    """

    place: Place
    closed: bool = False
    at: datetime | None = None
    label: RatingLabel | None = None
    until: datetime | None = None


_ENTRY = select(inbox_entries, was_erased(inbox_entries.c.case_id).label("erased"))


def standing(db: Database, by: Acting, case_id: str, token: str | None) -> Standing:
    """Where the case is now, without its text and with no label but this person's own. Raises Forbidden, KeyError."""
    require(by.actor, Action.CLAIM_NEXT)
    own = ratings.c.case_id == case_id, ratings.c.reviewer == by.id
    with db.read() as conn:
        entry = conn.execute(_ENTRY.where(inbox_entries.c.case_id == case_id)).first()
        mine = conn.execute(
            select(ratings.c.label, ratings.c.at).where(*own).order_by(ratings.c.version.desc()).limit(1)
        ).first()
    if entry is None:
        raise KeyError(case_id)
    if entry.erased:
        return Standing(place=Place.ERASED, closed=True)
    leased = has_lease(entry, by.now) and entry.closed_at is None
    if leased and entry.assignee == by.id:
        return Standing(place=Place.HELD if entry.lease_token == token else Place.ELSEWHERE)
    closed = entry.closed_at is not None
    if mine is not None:
        return Standing(place=Place.READ, closed=closed, at=mine.at, label=RatingLabel(mine.label))
    kept = is_kept_in(entry, by.now)
    if kept and entry.assignee == by.id and not closed:
        return Standing(place=Place.KEPT, until=entry.assigned_until)
    return Standing(place=Place.CLOSED if closed else Place.TAKEN if leased or kept else Place.FREE, closed=closed)


def what_follows(db: Database, by: Acting, case_id: str) -> tuple[Next, tuple[FollowUp, ...]]:
    """What is still to happen with a case that this person has read: it is over only where it is closed and no
    follow-up is open. Raises Forbidden, KeyError.
    """
    require(by.actor, Action.RATE, by.id)
    with db.read() as conn:
        entry = conn.execute(_ENTRY.where(inbox_entries.c.case_id == case_id)).first()
        if entry is None:
            raise KeyError(case_id)
        waits = {"third": Next.SENIOR}.get(entry.reading, Next.SECOND_READING)
        following = waits if entry.closed_at is None else Next.CLOSED
        return following, open_of(conn, by.actor, case_id)
