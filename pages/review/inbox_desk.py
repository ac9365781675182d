"""The case in a reviewer's hands: claimed, opened, saved, revealed, left; and found again after a reload.

What the browser forgets is in the database: the lease, the draft, the rating. The session only keeps what would
otherwise be read twice, since every reading of a text is a line in the audit log.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import streamlit as st

from screening.review.actors import Acting, Actor
from screening.review.policy import Forbidden
from screening.review.rating_form import RatingForm
from screening.review.triage import Tier
from storage.database import Database
from storage.review import claims, inbox, ratings
from storage.review.adjudication import has_asked
from storage.review.claims import Claim, LeaseLost
from storage.review.drafts import Note, notes
from storage.review.evidence import CaseText, Evidence, NearText, Shown, open_named, open_next, reveal_evidence, show
from storage.review.queue import counts
from storage.review.ratings import Rating, take_back
from storage.review.standing import Place, Standing, standing
from storage.schema import ERASED
from storage.settings_store import SiteSettings
from storage.visibility import is_erased_now

_DESK = "inbox_desk"
_MEMORY = "inbox_memory"
_ID = re.compile("[0-9a-f]{32}")
REMEMBERED = 60
"""Requests of the browser whose answers are kept: a request that comes twice is done once."""

RENEW_BELOW = 0.9
"""A sign of activity renews the lease once this share of it or less is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """Who is at the page, when, and of which upload alone the next case is."""

    db: Database
    person: Actor
    site: SiteSettings
    now: datetime
    batch: str | None = None

    @property
    def by(self) -> Acting:
        """This person at this moment: the value that services take as ``by``."""
        return self.person.at(self.now)

    @property
    def lease(self) -> timedelta:
        """How long a claim lasts at this site."""
        return timedelta(minutes=self.site.lease_minutes)


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """One case on the desk. ``claim`` is the last one known; ``mine`` is the reading, once it is saved.

    ``text`` is None while covered, ``evidence`` until the reveal. ``others`` are other people's readings after it;
    ``asked`` says whether this person asked for a second opinion.
    """

    case_id: str
    claim: Claim | None = None
    text: CaseText | None = None
    mine: Rating | None = None
    evidence: Evidence | None = None
    others: tuple[Rating, ...] = ()
    left: tuple[Note, ...] = ()
    near: tuple[NearText, ...] = ()
    asked: bool = False

    @property
    def only_named(self) -> bool:
        """Whether only the address names the case: this person neither holds it nor has read it."""
        return self.claim is None and self.mine is None and self.text is None

    @property
    def busy(self) -> bool:
        """Whether a case must be read or left before the next one."""
        return self.mine is None and not self.only_named


@dataclass(slots=True, kw_only=True)
class LastSaved:
    """The reading saved last, which may still be taken back."""

    case_id: str
    rating: Rating
    name: str


@dataclass(slots=True, kw_only=True)
class Memory:
    """What a session knows besides the case: what was asked last and what was answered, the last save, whether the
    rest of the page is ``behind`` what was done at the desk, and what was ``shown`` on it last.
    """

    answers: dict[str, dict[str, object]] = field(default_factory=dict)
    last: LastSaved | None = None
    said: str = ""
    asked: tuple[str, ...] = ()
    behind: bool = False
    shown: dict[str, Any] = field(default_factory=dict)

    @property
    def answers_now(self) -> dict[str, dict[str, object]]:
        """The answers to what was asked last: the browser asks again for whatever it has no answer to."""
        return {request: self.answers[request] for request in self.asked if request in self.answers}

    def answer(self, request: str, *, ok: bool, words: str = "") -> None:
        """Remember what came of a request."""
        self.answers[request] = {"ok": ok, "words": words}
        while len(self.answers) > REMEMBERED:
            del self.answers[next(iter(self.answers))]


def memory() -> Memory:
    """The memory of this session."""
    if _MEMORY not in st.session_state:
        st.session_state[_MEMORY] = Memory()
    found: Memory = st.session_state[_MEMORY]
    return found


def say(words: str) -> None:
    """Keep one line, which the next run shows."""
    memory().said = words


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
    if desk is None or desk.case_id != case_id or _is_behind_erasure(here, desk):
        desk = _find(here, case_id)
    return keep(desk)


def _is_behind_erasure(here: Here, desk: Desk) -> bool:
    """Whether the desk of a case that is read still has words of it that were erased; of one that is not read it is
    said where it stands, and nothing is shown.
    """
    had = desk.mine is not None and desk.text is not None and desk.text.text != ERASED
    return had and is_erased_now(here.db, desk.case_id)


def keep(desk: Desk) -> Desk:
    """Keep the case on the desk for the next run."""
    st.session_state[_DESK] = desk
    return desk


def lay(desk: Desk) -> Desk:
    """Put another case on the desk and in the address."""
    st.query_params["case"] = desk.case_id
    return keep(desk)


def clear() -> None:
    """Clear the desk and the address."""
    st.session_state.pop(_DESK, None)
    st.query_params.pop("case", None)


def _find(here: Here, case_id: str) -> Desk:
    held = next((claim for claim in claims.my_claims(here.db, here.by) if claim.case_id == case_id), None)
    if held is not None:
        return open_desk(here, held)
    desk = Desk(case_id=case_id)
    mine = my_rating(here, case_id)
    return desk if mine is None else _with_text(here, replace(desk, mine=mine))


def my_rating(here: Here, case_id: str) -> Rating | None:
    """This person's own reading of a case, where there is one."""
    try:
        return ratings.my_rating(here.db, here.person, case_id)
    except Forbidden:
        return None


def place(here: Here, desk: Desk) -> Standing:
    """Where the case of an unread desk is now; the desk takes up a lease that another page of theirs renewed, and that
    the case has become more urgent: it may be screened while somebody reads it.
    """
    held = next((claim for claim in claims.my_claims(here.db, here.by) if claim.case_id == desk.case_id), None)
    if held is None:
        return standing(here.db, here.by, desk.case_id, None)
    known = desk.claim
    if known is not None and held.tier < known.tier:
        say("This case has become more urgent.")
    if held != known:
        same = desk.text is not None or (known is not None and known.token == held.token)
        keep(replace(desk, claim=held) if same else open_desk(here, held))
    return Standing(place=Place.HELD)


def is_in_hand(here: Here, desk: Desk | None) -> bool:
    """Whether a case must be read or left before another is opened: not one that went to somebody else meanwhile."""
    return desk is not None and desk.busy and place(here, desk).place is Place.HELD


def renew(here: Here, desk: Desk) -> Desk:
    """Renew the lease after a sign of activity, once a part of it has passed."""
    claim = desk.claim
    if desk.mine or claim is None or not here.now < claim.expires_at <= here.now + RENEW_BELOW * here.lease:
        return desk
    try:
        claim = claims.renew(here.db, here.by, desk.case_id, claim.token, here.lease)
    except LeaseLost:
        claim = None
    return keep(replace(desk, claim=claim))


def open_desk(here: Here, claim: Claim) -> Desk:
    """A case just claimed, its text loaded unless this person wants texts covered."""
    desk = _lay_out(here, claim)
    return desk if covers_texts() else uncover(here, desk)


def _lay_out(here: Here, claim: Claim) -> Desk:
    return Desk(case_id=claim.case_id, claim=claim, asked=has_asked(here.db, here.person, claim.case_id))


def covers_texts() -> bool:
    """Whether this person wants texts covered until they open them."""
    return st.query_params.get("cover") == "1"


def uncover(here: Here, desk: Desk) -> Desk:
    """The desk with the text on it; a line in the audit log, and one more text read since midnight UTC."""
    return keep(_with_text(here, desk))


def _with_text(here: Here, desk: Desk) -> Desk:
    if desk.text is not None:
        return desk
    return _with(desk, show(here.db, here.by, desk.case_id, desk.claim.token if desk.claim else None))


def _with(desk: Desk, shown: Shown) -> Desk:
    return replace(desk, text=shown.text, near=shown.near, left=shown.left)


def take_next(here: Here, tiers: Collection[Tier] | None) -> Desk | None:
    """Put the next case on the desk. None when none is free."""
    desk = _open_next(here, tiers)
    if desk is None:
        clear()
        return None
    return lay(desk)


def _open_next(here: Here, tiers: Collection[Tier] | None) -> Desk | None:
    """What they hold already, else the case due next: with its text, unless they want texts covered."""
    if (held := _find_left_behind(here)) is not None:
        return open_desk(here, held)
    if covers_texts():
        claim = claims.claim_next(here.db, here.by, here.lease, tiers, batch=here.batch)
        return None if claim is None else open_desk(here, claim)
    opened = open_next(here.db, here.by, here.lease, tiers, batch=here.batch)
    return None if opened is None else _with(_lay_out(here, opened[0]), opened[1])


def _find_left_behind(here: Here) -> Claim | None:
    """A case that this person holds and has not read, after a reload for instance; not before a more urgent one."""
    held = claims.my_claims(here.db, here.by)
    if not held:
        return None
    free = counts(here.db, here.by, None).free_by_tier
    return None if any(number and tier < held[0].tier for tier, number in free.items()) else held[0]


def take(here: Here, case_id: str) -> None:
    """Put a chosen case on the desk. Raises Forbidden, NotAvailable."""
    if covers_texts():
        lay(open_desk(here, claims.claim(here.db, here.by, case_id, here.lease)))
    else:
        claim, shown = open_named(here.db, here.by, case_id, here.lease)
        lay(_with(_lay_out(here, claim), shown))


def save(here: Here, case_id: str, token: str, form: RatingForm, rating_id: str) -> None:
    """Store the reading. Raises LeaseLost, Forbidden."""
    ratings.submit_rating(here.db, here.by, case_id, token, form, submission_id=rating_id)
    mine = my_rating(here, case_id)
    desk: Desk | None = st.session_state.get(_DESK)
    if mine is not None and desk is not None and desk.case_id == case_id:
        keep(replace(desk, mine=mine, evidence=None))
        name = desk.text.external_id if desk.text else ""
        memory().last = LastSaved(case_id=case_id, rating=mine, name=name)


def revise(here: Here, desk: Desk, form: RatingForm, reason: str, rating_id: str) -> None:
    """Store a changed reading with its reason. Raises ReasonNeeded."""
    ratings.revise(here.db, here.by, desk.case_id, form, reason, submission_id=rating_id)
    keep(replace(desk, mine=my_rating(here, desk.case_id)))
    last = memory().last
    if last is not None and last.case_id == desk.case_id:
        memory().last = None  # what it says is out of date, and nothing can be taken back


def undo(here: Here, case_id: str, rating_id: str) -> None:
    """Take the last reading back, so that the case is theirs and unread. NotAvailable once that is too late."""
    lay(open_desk(here, take_back(here.db, here.by, case_id, rating_id, here.lease)))
    memory().last = None


def open_at_once(here: Here, desk: Desk) -> None:
    """Show the evidence of a P0 case before the reading, which is then not blind."""
    shown = reveal_evidence(here.db, here.by, desk.case_id, open_at_once=True)
    keep(replace(desk, evidence=shown))


def reveal(here: Here, desk: Desk) -> None:
    """Show what the engine and other readers said, once this person's own reading is saved; where they took it back in
    another page meanwhile, the case as it is now.
    """
    if my_rating(here, desk.case_id) is None:
        keep(_find(here, desk.case_id))
        return
    shown = reveal_evidence(here.db, here.by, desk.case_id)
    given = ratings.reveal_ratings(here.db, here.by, desk.case_id)
    others = tuple({each.reviewer: each for each in given if each.reviewer != here.person.id}.values())
    left = notes(here.db, here.by, desk.case_id)
    keep(replace(desk, evidence=shown, others=others, left=left))


def show_read(here: Here, case_id: str) -> None:
    """Put a case that this person has read on the desk; its evidence comes with the reveal."""
    mine = my_rating(here, case_id)
    if mine is not None:
        lay(_with_text(here, Desk(case_id=case_id, mine=mine)))


def finish(here: Here, desk: Desk | None) -> None:
    """Leave nothing with this person."""
    inbox.release_all(here.db, here.by, note="session ended")
    if desk is None or not desk.busy:
        clear()
