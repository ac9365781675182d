"""The case on a reviewer's desk: claimed, opened, saved, revealed, left; and found again after a reload or a restart.

What a browser forgets is in the database: the lease, the draft, the review. An open page only keeps what would
otherwise be read twice, since every review of a text is a line in the audit log.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from pages.ui.auth import Unidentified
from pages.ui.context import singleton
from screening.review.policy import Acting, Actor, Forbidden
from screening.review.triage import Priority
from storage.database import Database
from storage.review import adjudication, claims, inbox, queue, reviews
from storage.review.claims import Claim, LeaseLost
from storage.review.evidence import CaseText, Evidence, open_next, reveal_text
from storage.review.inbox import Place, Standing, standing
from storage.review.reviews import Review
from storage.schema import ERASED
from storage.settings_store import SiteSettings
from storage.site.accounts import SessionEnded
from storage.visibility import is_erased

REMEMBERED = 60
"""Actions of a page whose answers are kept: an action that comes twice is done once."""
MOST_PAGES = 10_000
RENEW_BELOW = 0.9
"""A sign of activity renews the lease once this share of it or less is left."""
GONE_AFTER, FORGOTTEN_AFTER = timedelta(seconds=60), timedelta(hours=1)
LOOK_EVERY = timedelta(seconds=5)
NOTE = "The page was closed, or lost its connection, with the case open."


@dataclass(frozen=True, slots=True, kw_only=True)
class Desk:
    """One case on the desk. ``claim`` is the last one known; ``mine`` is the review, once it is saved.

    ``text`` is None while covered, ``evidence`` until the reveal. ``others`` are other people's reviews after it;
    ``asked`` says whether this person asked for a second opinion.
    """

    case_id: str
    claim: Claim | None = None
    text: CaseText | None = None
    mine: Review | None = None
    evidence: Evidence | None = None
    others: tuple[Review, ...] = ()
    left: Sequence[Any] = ()
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
class OpenPage:
    """An inbox that is open in somebody's browser: the ``desk`` of it, once it is ``known``, what was answered, the
    desk that was saved ``last`` and may still be taken back, one line to say; and when it last asked what is new, with
    which case, and whether that was its last word.
    """

    who: Callable[[], Actor]
    asked_at: datetime | None = None
    on_desk: str | None = None
    left: bool = False
    desk: Desk | None = None
    known: bool = False
    answers: dict[str, dict[str, object]] = field(default_factory=dict)
    last: Desk | None = None
    said: str = ""
    break_put_off: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, action: str, *, ok: bool, words: str = "") -> None:
        self.answers[action] = {"ok": ok, "words": words}
        while len(self.answers) > REMEMBERED:
            del self.answers[next(iter(self.answers))]

    def lay(self, desk: Desk | None) -> None:
        """Put this on the desk; None clears it."""
        self.desk, self.known = desk, True


class OpenPages:
    """Those of this process, by person and the page's own id; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known = OrderedDict[tuple[str, str], OpenPage]()
        self._looked_at: datetime | None = None

    def find(self, person: str, page_id: str, who: Callable[[], Actor]) -> OpenPage:
        """The page of this person, a new one where it is not known; ``who`` says who is signed in there now."""
        with self._lock:
            page = self._known.setdefault((person, page_id), OpenPage(who=who))
            self._known.move_to_end((person, page_id))
            page.who = who
            while len(self._known) > MOST_PAGES:
                self._known.popitem(last=False)
        return page

    def on_other_desks(self, person: str, page: OpenPage, now: datetime) -> set[str]:
        """The cases on the desks of this person's other pages that are still open."""
        with self._lock:
            others = [each for key, each in self._known.items() if key[0] == person and each is not page]
        open_ones = [one for one in others if not one.left and one.asked_at and now - one.asked_at <= GONE_AFTER]
        return {one.desk.case_id for one in open_ones if one.desk is not None}

    def give_back(self, db: Database, now: datetime) -> int:
        """Release what lies open in pages that are gone, looked for now and then; how many cases that was."""
        with self._lock:
            if self._looked_at is not None and timedelta() <= now - self._looked_at < LOOK_EVERY:
                return 0
            self._looked_at = now
            gone = list(self._abandoned_cases(now))
        return sum(_give_back(db, page, case_id, now) for page, case_id in gone)

    def _abandoned_cases(self, now: datetime) -> Iterator[tuple[OpenPage, str]]:
        """Each case that is only on the desks of pages of its reviewer that are gone, once: a page of somebody else may
        name it too, as one from whom it was taken.
        """
        asked = {key: page for key, page in self._known.items() if page.asked_at is not None}
        gone = {key: page for key, page in asked.items() if page.asked_at and now - page.asked_at > GONE_AFTER}
        alive = {(key[0], page.on_desk) for key, page in asked.items() if key not in gone}
        for key, page in gone.items():
            case_id, page.on_desk = page.on_desk, None
            if page.asked_at and now - page.asked_at > FORGOTTEN_AFTER:
                del self._known[key]
            if case_id is not None and (key[0], case_id) not in alive:
                yield page, case_id


def _give_back(db: Database, page: OpenPage, case_id: str, now: datetime) -> bool:
    with suppress(SessionEnded, Unidentified, Forbidden, LeaseLost):  # who is gone gave it back
        by = page.who().at(now)
        if (claim := _held(db, by, case_id)) is not None:
            inbox.release(db, by, case_id, claim.token, NOTE)
            return True
    return False


def _held(db: Database, by: Acting, case_id: str) -> Claim | None:
    return next((claim for claim in claims.my_claims(db, by) if claim.case_id == case_id), None)


@singleton
def open_pages() -> OpenPages:
    return OpenPages()


@dataclass(frozen=True, slots=True, kw_only=True)
class Here:
    """Who is at the page, when, and what of the queue they want; ``covered``: texts only once they open them."""

    db: Database
    person: Actor
    site: SiteSettings
    now: datetime
    page: OpenPage
    priorities: Collection[Priority] | None = None
    batch: str | None = None
    covered: bool = False

    @property
    def by(self) -> Acting:
        """This person at this moment: the value that services take as ``by``."""
        return self.person.at(self.now)

    @property
    def desk(self) -> Desk | None:
        return self.page.desk


def open_case(here: Here, case_id: str | None) -> None:
    """Put a case that is named on the desk as it is: theirs, or only its name."""
    here.page.lay(None if case_id is None else _find(here, case_id))


def open_named(here: Here, case_id: str | None) -> None:
    """The same, unless it lies there."""
    if here.desk is None or here.desk.case_id != case_id:
        open_case(here, case_id)


def see(here: Here, case_id: str | None) -> None:
    """Bring the desk up to date before it is used: ``case_id`` is the case on it as the browser believes, which counts
    where the page is not known, as after a restart. Words that were erased meanwhile leave the desk of whoever read
    them; of a case that is not read it is said where it stands, and nothing is shown.
    """
    desk = here.desk
    if not here.page.known:
        open_case(here, case_id)
    elif desk and desk.mine and desk.text and desk.text.text != ERASED and is_erased(here.db, desk.case_id):
        open_case(here, desk.case_id)
    elif desk and desk.mine and (mine := my_review(here, desk.case_id)) != desk.mine:  # changed in another tab
        open_case(here, desk.case_id) if mine is None else here.page.lay(replace(desk, mine=mine))


def _find(here: Here, case_id: str) -> Desk:
    if (held := _held(here.db, here.by, case_id)) is not None:
        return lay_out(here, held)
    mine = my_review(here, case_id)
    desk = Desk(case_id=case_id, mine=mine)
    return desk if mine is None else with_text(here, desk)


def my_review(here: Here, case_id: str) -> Review | None:
    try:
        return reviews.my_review(here.db, here.person, case_id)
    except Forbidden:
        return None


def place(here: Here, desk: Desk) -> Standing:
    """Where the case of an unread desk is now; the desk takes up a renewed lease, and a rise in urgency."""
    if (held := _held(here.db, here.by, desk.case_id)) is None:
        return standing(here.db, here.by, desk.case_id, None)
    known = desk.claim
    if known is not None and held.priority < known.priority:
        here.page.said = "This case has become more urgent."
    if held != known:
        same = desk.text is not None or (known is not None and known.token == held.token)
        here.page.lay(replace(desk, claim=held) if same else lay_out(here, held))
    return Standing(place=Place.HELD)


def is_in_hand(here: Here) -> bool:
    """Whether a case must be read or left before another is opened: not one that went to somebody else meanwhile."""
    desk = here.desk
    return desk is not None and desk.busy and place(here, desk).place is Place.HELD


def renew(here: Here, desk: Desk) -> None:
    """Renew the lease after a sign of activity, once a part of it has passed."""
    claim = desk.claim
    lease = here.site.lease
    if desk.mine or claim is None or not here.now < claim.expires_at <= here.now + RENEW_BELOW * lease:
        return
    try:
        claim = claims.renew(here.db, here.by, desk.case_id, claim.token, lease)
    except LeaseLost:
        claim = None
    here.page.lay(replace(desk, claim=claim))


def lay_out(here: Here, claim: Claim, shown: CaseText | None = None) -> Desk:
    """A case just claimed, its text as it was ``shown``, else loaded unless this person wants texts covered."""
    asked = adjudication.has_asked(here.db, here.person, claim.case_id)
    desk = Desk(case_id=claim.case_id, claim=claim, asked=asked)
    return desk if shown is None and here.covered else with_text(here, desk, shown)


def with_text(here: Here, desk: Desk, shown: CaseText | None = None) -> Desk:
    """The desk with the text on it; a line in the audit log, and one more text read since midnight UTC."""
    if desk.text is not None:
        return desk
    token = desk.claim.token if desk.claim else None
    found = shown or reveal_text(here.db, here.by, desk.case_id, token, with_context=True)
    return replace(desk, text=found, left=found.left)


def open_next_desk(here: Here) -> Desk | None:
    """What they hold already, else the case due next: with its text, unless they want texts covered."""
    if (held := _find_left_behind(here)) is not None:
        return lay_out(here, held)
    wanted = here.db, here.by, here.site.lease, here.priorities
    if here.covered:
        claim = claims.claim_next(*wanted, batch=here.batch)
        return None if claim is None else lay_out(here, claim)
    opened = open_next(*wanted, batch=here.batch)
    return None if opened is None else lay_out(here, *opened)


def _find_left_behind(here: Here) -> Claim | None:
    """A case they hold unread, as after a reload; not before a more urgent one, nor one open elsewhere, or of another
    upload than is asked for.
    """
    if not (claimed := claims.my_claims(here.db, here.by, here.batch)):
        return None
    elsewhere = open_pages().on_other_desks(here.person.id, here.page, here.now)
    if not (held := [claim for claim in claimed if claim.case_id not in elsewhere]):
        return None
    free = queue.counts(here.db, here.by, None, here.batch).free_by_priority
    return None if any(number and priority < held[0].priority for priority, number in free.items()) else held[0]
