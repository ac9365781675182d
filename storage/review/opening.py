"""A case taken and shown in one transaction: what a reader waits for between a key and an urgent text.

It is one line in the audit log. With the text come the nearest of the same person in its file (see `same_person`).
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import Connection

from screening.review.actors import Acting
from screening.review.policy import Action, require
from screening.review.triage import Tier
from storage.database import Database
from storage.review.claims import LEASE, OPENED, Claim, claim_in, claim_next_in, new_token
from storage.review.drafts import Note, notes_of_unread
from storage.review.evidence import CaseText, NearText, near_texts, owns_text, reveal_text_in, text_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """The text of a case, and the same person's nearest texts in its file."""

    text: CaseText
    near: tuple[NearText, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened(Shown):
    """A case now held by its reader, and what readers before them left beside it."""

    claim: Claim
    left: tuple[Note, ...]


def open_next(
    db: Database,
    by: Acting,
    lease: timedelta = LEASE,
    tiers: Collection[Tier] | None = None,
    token: Callable[[], str] = new_token,
    batch: str | None = None,
) -> Opened | None:
    """Take the next case, as `claims.claim_next` does, and show it. None where none is free. Raises Forbidden."""
    require(by.actor, Action.CLAIM_NEXT)
    require(by.actor, Action.VIEW_TEXT, by.id)
    with db.write() as conn:
        claim = claim_next_in(conn, by, lease, tiers, token(), batch, OPENED)
        return None if claim is None else _opened(conn, claim)


def open_named(
    db: Database, by: Acting, case_id: str, lease: timedelta = LEASE, token: Callable[[], str] = new_token
) -> Opened:
    """Take a chosen case, as `claims.claim` does, and show it. Raises as that does."""
    with db.write() as conn:
        return _opened(conn, claim_in(conn, by, case_id, lease, token(), OPENED))


def _opened(conn: Connection, claim: Claim) -> Opened:
    case_id = claim.case_id
    text, near = text_in(conn, case_id), near_texts(conn, case_id)
    return Opened(claim=claim, text=text, left=notes_of_unread(conn, case_id), near=near)


def show(db: Database, by: Acting, case_id: str, token: str | None = None) -> Shown:
    """The same of a case that they hold (by the token), have rated, or may see. Raises Forbidden, KeyError."""
    with db.write() as conn:
        require(by.actor, Action.VIEW_TEXT, by.id if owns_text(conn, by, case_id, token) else None)
        return Shown(text=reveal_text_in(conn, by, case_id), near=near_texts(conn, case_id))
