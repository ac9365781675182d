"""The case in a reviewer's hands: claimed, opened, saved, revealed, left; and found again after a reload.

What the browser forgets is in the database: the lease, the draft, the rating. The session only keeps what would
otherwise be read twice, since every reading of a text is a line in the audit log.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import streamlit as st

from screening.review.actors import Actor
from screening.review.policy import Forbidden
from screening.review.rating_form import RatingForm
from screening.review.tiers import Tier
from storage.database import Database
from storage.identifiers import new_id
from storage.review import inbox, ratings
from storage.review.evidence import CaseText, Evidence, case_text, evidence
from storage.review.inbox import Claim, LeaseLost, NotAvailable
from storage.review.ratings import Rating, Receipt
from storage.site.settings_store import SiteSettings

_DESK = "inbox_desk"
_ID = re.compile("[0-9a-f]{32}")
UNOPENED = "claimed ahead, not opened"
"""Note on a case that was given back unread: storage asks for one at the urgent tiers, and it tells nobody anything."""

RENEW_BELOW = 0.9
"""A sign of activity renews the lease once this share of it or less is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """Who is at the page, and when."""

    db: Database
    person: Actor
    site: SiteSettings
    now: datetime

    @property
    def lease(self) -> timedelta:
        """How long a claim lasts at this site."""
        return timedelta(minutes=self.site.lease_minutes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """One case on the desk. ``claim`` is the last one known; ``mine`` is the reading, once it is saved.

    ``submission_id`` is made with the desk, so that a double press is one submit. ``text`` is None while covered.
    """

    case_id: str
    submission_id: str
    claim: Claim | None = None
    text: CaseText | None = None
    mine: Rating | None = None
    receipt: Receipt | None = None
    evidence: Evidence | None = None
    asked: bool = False

    def lost(self, now: datetime) -> bool:
        """Unread, and the lease is over."""
        return self.mine is None and (self.claim is None or self.claim.expires_at <= now)

    @property
    def only_named(self) -> bool:
        """The address names it and nothing of it is here: it is not in this person's hands."""
        return self.claim is None and self.mine is None and self.text is None

    @property
    def busy(self) -> bool:
        """Something to be read or left first."""
        return self.mine is None and not self.only_named


def named_case() -> str | None:
    """The case in the address; None where there is none, or something that cannot be one."""
    found = st.query_params.get("case", "")
    return found if _ID.fullmatch(found) else None


def current(here: Here) -> Desk | None:
    """The case that the address names, from the session or found again; None where there is none of theirs."""
    case_id = named_case()
    desk: Desk | None = st.session_state.get(_DESK)
    if case_id is None:
        return None
    if desk is None or desk.case_id != case_id:
        desk = _found(here, case_id)
    if desk.mine is None:
        desk = _kept_alive(here, desk)
    return keep(desk)


def keep(desk: Desk) -> Desk:
    """Put it on the desk."""
    st.session_state[_DESK] = desk
    return desk


def clear() -> None:
    """An empty desk."""
    st.session_state.pop(_DESK, None)
    st.query_params.pop("case", None)


def _found(here: Here, case_id: str) -> Desk:
    claims = [claim for claim in inbox.my_claims(here.db, here.person, here.now) if claim.case_id == case_id]
    if claims:
        return _opened(here, claims[0])
    desk = Desk(case_id=case_id, submission_id=new_id(here.now))
    mine = _my_rating(here, case_id)
    return desk if mine is None else _revealed(here, replace(desk, mine=mine))


def _my_rating(here: Here, case_id: str) -> Rating | None:
    try:
        return ratings.my_rating(here.db, here.person, case_id)
    except Forbidden:
        return None


def _kept_alive(here: Here, desk: Desk) -> Desk:
    """Renewed when a part of the lease has gone: whatever runs the page is a sign of activity."""
    claim = desk.claim
    if claim is None or not here.now < claim.expires_at <= here.now + RENEW_BELOW * here.lease:
        return desk
    try:
        return replace(desk, claim=inbox.renew(here.db, here.person, desk.case_id, claim.token, here.now, here.lease))
    except LeaseLost:
        return replace(desk, claim=None)


def _opened(here: Here, claim: Claim) -> Desk:
    desk = Desk(case_id=claim.case_id, submission_id=new_id(here.now), claim=claim)
    return desk if covered() else uncover(here, desk)


def covered() -> bool:
    """Whether this person wants texts covered until they open them."""
    return st.query_params.get("cover") == "1"


def uncover(here: Here, desk: Desk) -> Desk:
    """The desk with the text on it; a line in the audit log, and one more text read today."""
    token = desk.claim.token if desk.claim else None
    return replace(desk, text=case_text(here.db, here.person, desk.case_id, here.now, token))


def ahead(here: Here, desk: Desk | None) -> Claim | None:
    """A case that this person holds besides the one on the desk: claimed ahead, or left by a reload."""
    case_id = desk.case_id if desk else None
    held = inbox.my_claims(here.db, here.person, here.now)
    return next((claim for claim in held if claim.case_id != case_id), None)


def take_next(here: Here, desk: Desk | None, tiers: Collection[Tier] | None) -> bool:
    """The next case onto the desk: the one claimed ahead, else a new claim. False when none is free."""
    claim = ahead(here, desk) or inbox.claim_next(here.db, here.person, here.now, here.lease, tiers)
    if claim is None:
        clear()
        return False
    lay(_opened(here, claim))
    return True


def lay(desk: Desk) -> None:
    """Another case onto the desk, and into the address."""
    keep(desk)
    st.query_params["case"] = desk.case_id


def take(here: Here, case_id: str) -> None:
    """A chosen case onto the desk. Raises Forbidden, NotAvailable."""
    lay(_opened(here, inbox.claim(here.db, here.person, case_id, here.now, here.lease)))


def save(here: Here, desk: Desk, form: RatingForm, tiers: Collection[Tier] | None) -> None:
    """Store the reading, reveal the evidence, and claim the next case ahead. Raises LeaseLost, Forbidden."""
    token = desk.claim.token if desk.claim else ""
    receipt = ratings.submit_rating(
        here.db, here.person, desk.case_id, token, form, here.now, submission_id=desk.submission_id
    )
    keep(_revealed(here, replace(desk, mine=_my_rating(here, desk.case_id), receipt=receipt)))
    if ahead(here, desk) is None:
        inbox.claim_next(here.db, here.person, here.now, here.lease, tiers)


def revise(here: Here, desk: Desk, form: RatingForm, reason: str) -> None:
    """Store a changed reading with its reason. Raises ReasonNeeded."""
    receipt = ratings.revise(
        here.db, here.person, desk.case_id, form, reason, here.now, submission_id=desk.submission_id
    )
    mine = _my_rating(here, desk.case_id)
    keep(replace(desk, mine=mine, receipt=receipt, submission_id=new_id(here.now)))


def open_at_once(here: Here, desk: Desk) -> None:
    """The evidence of a P0 case before the reading, which then is not blind."""
    shown = evidence(here.db, here.person, desk.case_id, here.now, open_at_once=True)
    keep(replace(desk, evidence=shown))


def _revealed(here: Here, desk: Desk) -> Desk:
    """With text and evidence, and a submission id of its own for a revision."""
    text = desk.text or case_text(here.db, here.person, desk.case_id, here.now)
    shown = evidence(here.db, here.person, desk.case_id, here.now)
    return replace(desk, text=text, evidence=shown, submission_id=new_id(here.now))


def put_back_ahead(here: Here, desk: Desk | None) -> None:
    """Give back what was claimed ahead and never opened."""
    while (claim := ahead(here, desk)) is not None:
        inbox.release(here.db, here.person, claim.case_id, claim.token, here.now, note=UNOPENED)


def take_up_again(here: Here, desk: Desk) -> str | None:
    """The lost case once more; why not, where somebody else has it. The draft is there either way."""
    try:
        claim = inbox.claim(here.db, here.person, desk.case_id, here.now, here.lease)
    except (NotAvailable, Forbidden):
        return "Somebody else has this case now, or it is closed. What you filled in is kept as a draft."
    keep(uncover(here, replace(desk, claim=claim)) if desk.text is None else replace(desk, claim=claim))
    return None


def without_claim(desk: Desk) -> Desk:
    """The desk once the lease is known to be over."""
    return replace(desk, claim=None)


def with_second_reader(desk: Desk) -> Desk:
    """The desk after a second reader was asked for."""
    return replace(desk, asked=True)
