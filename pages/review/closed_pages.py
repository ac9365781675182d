"""Cases left open in a page that no longer asks: its tab was closed, its browser or its line is gone.

An open inbox says with each question which case is on its desk, in a hidden tab too. Once none of them has for a while
the case goes back, so that a tab closed over a P0 case keeps nobody from it for as long as a claim lasts. Whoever asks
next looks for it; where nobody asks, nobody waits.
"""

import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from pages.ui.auth import Unidentified
from pages.ui.context import singleton
from pages.ui.live import Seat, Seats
from screening.review.policy import Forbidden
from storage.database import Database
from storage.review import claims, inbox
from storage.review.claims import LeaseLost
from storage.site.accounts import SessionEnded

GONE_AFTER = timedelta(seconds=60)
LOOK_EVERY = timedelta(seconds=5)
NOTE = "The page was closed, or lost its connection, with the case open."


@dataclass(slots=True, kw_only=True)
class OpenInbox(Seat):
    """An open inbox, of one ``batch`` or of all; when it last asked, for whom, and with which case on its desk."""

    asked_at: datetime | None = None
    person: str | None = None
    on_desk: str | None = None
    batch: str | None = None

    def asks(self, now: datetime, person: str, on_desk: str | None) -> None:
        """Record that this page has asked, for whom, and for which case."""
        self.asked_at, self.person, self.on_desk = now, person, on_desk


class ClosedPages:
    """Looks for them every few seconds at most, however many ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._looked_at: datetime | None = None

    def give_back(self, db: Database, seats: Seats[OpenInbox], now: datetime) -> int:
        """Give back what lies open in pages that are gone; returns how many cases that was."""
        with self._lock:
            if self._looked_at is not None and timedelta() <= now - self._looked_at < LOOK_EVERY:
                return 0
            self._looked_at = now
        return sum(_give_back(db, seat, case_id, now) for seat, case_id in _abandoned_cases(seats, now))


@singleton
def closed_pages() -> ClosedPages:
    """The closed pages of this process."""
    return ClosedPages()


def _abandoned_cases(seats: Seats[OpenInbox], now: datetime) -> list[tuple[OpenInbox, str]]:
    """Each case that is only on the desks of pages of its reader that are gone, once: a page of somebody else may name
    it too, as one from whom it was taken.
    """
    known = [seat for seat in seats.all() if seat.on_desk is not None and seat.asked_at is not None]
    gone = [seat for seat in known if seat.asked_at is not None and now - seat.asked_at > GONE_AFTER]
    alive = {(seat.person, seat.on_desk) for seat in known if seat not in gone}
    found = []
    for seat in gone:
        case_id, seat.on_desk = seat.on_desk, None
        if case_id is not None and (seat.person, case_id) not in alive:
            found.append((seat, case_id))
    return found


def _give_back(db: Database, seat: OpenInbox, case_id: str, now: datetime) -> bool:
    with suppress(SessionEnded, Unidentified, Forbidden, LeaseLost):  # who is gone gave it back
        who = seat.who()
        for claim in claims.my_claims(db, who.at(now)):
            if claim.case_id == case_id:
                inbox.release(db, who.at(now), case_id, claim.token, NOTE)
                return True
    return False
