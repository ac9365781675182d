"""Open pages that ask by plain HTTP what is new: the browser of each, and who is signed in there now.

No page script runs for such a question, so that nothing else on the page is drawn again. An address works only in the
browser that it was made for. Who asks is looked up each time; that does not count as activity.
"""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from pages.ui import context
from pages.ui.auth import Unidentified, browser_of
from pages.ui.format import seen_from, zone_name
from screening.review.actors import Actor
from screening.review.policy import Forbidden
from storage.audit_log import record_refusal
from storage.site.accounts import SessionEnded

MOST_SEATS = 10_000


@dataclass(slots=True, kw_only=True)
class Seat:
    """An open page: its browser, and ``who`` is signed in there now; SessionEnded once nobody is. ``case_id`` is the
    case that the page is about, if it is about one; ``zone`` is where its viewer is.
    """

    browser: str
    who: Callable[[], Actor]
    case_id: str | None = None
    zone: str | None = field(default_factory=zone_name)


class OfBrowser(Protocol):
    """What is for one browser."""

    @property
    def browser(self) -> str:
        """The browser, as `browser_of` tells it."""


B = TypeVar("B", bound=OfBrowser)
S = TypeVar("S", bound=Seat)


class Addresses(Generic[B]):
    """Entries with addresses that nobody can guess, ``under`` a path, each only for its own browser; in this process.
    Beyond ``most`` the oldest are forgotten. Threads may share it.
    """

    def __init__(self, under: str, most: int) -> None:
        self._under, self._most, self._known, self._lock = under, most, OrderedDict[str, B](), threading.Lock()

    def take(self, one: B) -> str:
        """Give this entry an address, and return that."""
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._known[token] = one
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return f"{self._under}/{token}"

    def find(self, token: str, browser: str) -> B | None:
        """What has this address; None where there is none, or it is another browser's."""
        with self._lock:
            found = self._known.get(token)
        return found if found and found.browser == browser else None

    def all(self) -> list[B]:
        """All that are known here, the oldest first."""
        with self._lock:
            return list(self._known.values())


class Seats(Addresses[S]):
    """The open pages of one kind in this process; some may be gone."""

    def __init__(self, under: str, most: int = MOST_SEATS) -> None:
        super().__init__(under, most)

    async def serve(self, request: Request, make: Callable[[S, Actor], Response]) -> Response:
        """What ``make`` answers the person of this request's seat; a refusal of the policy is in the audit log."""
        seat = self.find(request.path_params["token"], browser_of(request.cookies))
        if seat is None:
            return PlainTextResponse("This link has expired. Reload the page.", status_code=404)
        try:
            response = await run_in_threadpool(_answer, seat, make)
        except (SessionEnded, Unidentified):
            return PlainTextResponse("Your session has ended: sign in again.", status_code=401)
        except Forbidden as refused:
            words = refused.action.value.replace("_", " ")
            return PlainTextResponse(f"Your role does not let you {words}.", status_code=403)
        response.headers["Cache-Control"] = "no-store"
        return response


def _answer(seat: S, make: Callable[[S, Actor], Response]) -> Response:
    who = seat.who()
    try:
        with seen_from(seat.zone):
            return make(seat, who)
    except Forbidden as refused:  # the browser stops asking after this answer
        record_refusal(context.database(), who.at(context.now()), refused.action, seat.case_id)
        raise
