"""The next case and its text in one transaction: what a reader waits for between a key and an urgent text."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import timedelta

from screening.review.actors import Acting
from screening.review.policy import Action, require
from screening.review.triage import Tier
from storage.database import Database
from storage.review.claims import LEASE, Claim, claim_next_in, new_token
from storage.review.evidence import CaseText, reveal_text_in
from storage.review.notes import Note, notes_of_unread


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A case now held by its reader, its text, and what readers before them left beside it."""

    claim: Claim
    text: CaseText
    left: tuple[Note, ...]


def claim_and_reveal_next(
    db: Database,
    by: Acting,
    lease: timedelta = LEASE,
    tiers: Collection[Tier] | None = None,
    token: Callable[[], str] = new_token,
    batch: str | None = None,
) -> Opened | None:
    """As `claims.claim_next`, `evidence.reveal_text` and `notes.notes` one after the other, and in the audit log as
    these are: claimed, and its text viewed. None where no case is free. Raises Forbidden.
    """
    require(by.actor, Action.CLAIM_NEXT)
    require(by.actor, Action.VIEW_TEXT, by.id)
    with db.write() as conn:
        claim = claim_next_in(conn, by, lease, tiers, token(), batch)
        if claim is None:
            return None
        left = notes_of_unread(conn, claim.case_id)
        return Opened(claim=claim, text=reveal_text_in(conn, by, claim.case_id), left=left)
