"""What the left of the inbox shows, as values for the browser; and the address where an open inbox asks for it again.

The browser asks every few seconds by plain HTTP. No script of a page runs for it, so that nothing of the case on the
desk is drawn again or loses the focus. An address is good for the browser it was made for, and who asks is looked up
again each time, which does not count as being there.
"""

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from pages.components import resources
from pages.components.http import LIVE
from pages.components.sign_in import Unidentified, browser_of
from pages.components.singletons import singleton
from pages.components.standstill import looks
from pages.review.inbox_words import (
    TIER_MARKS,
    TIER_MEANINGS,
    counts_words,
    due_words,
    late_words,
    list_name,
    span_words,
    state_words,
    waiting_words,
    why_words,
)
from screening.review.actors import Actor
from screening.review.policy import Action, Forbidden, is_allowed
from screening.review.triage import Tier
from storage.audit_log import record_refusal
from storage.database import Database
from storage.review import exposure
from storage.review.adjudication import disagreements
from storage.review.queue import Counts, Sort, State, Waiting, counts, queue, set_aside, sort_of
from storage.review.search import LONGEST, Search, find
from storage.site.accounts import SessionEnded

EVERY_S = 3.0
"""Seconds between two questions of an open inbox: what is new is seen within five."""
MOST_SEATS = 10_000
FEW_ROWS, MOST_ROWS = 8, 200
URGENT = (Tier.P0, Tier.P1)
_TAKEABLE = (State.FREE, State.MINE, State.SKIPPED, State.RESERVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """An open inbox: which browser it is in, and who sits there now. SessionEnded once nobody does."""

    browser: str
    who: Callable[[], Actor]


class Seats:
    """The open inboxes of this process. The oldest are forgotten beyond ``most``; threads may share it."""

    def __init__(self, most: int = MOST_SEATS) -> None:
        self._most, self._seats, self._lock = most, OrderedDict[str, Seat](), threading.Lock()

    def take(self, seat: Seat) -> str:
        """The address at which this browser, and no other, may ask."""
        token = secrets.token_urlsafe(24)
        with self._lock:
            self._seats[token] = seat
            while len(self._seats) > self._most:
                self._seats.popitem(last=False)
        return f"{LIVE}/{token}"

    def find(self, token: str, browser: str) -> Seat | None:
        """Who sits there; None where there is no such seat, or it was taken in another browser."""
        with self._lock:
            found = self._seats.get(token)
        return found if found and found.browser == browser else None


@singleton
def seats() -> Seats:
    """Those of this process."""
    return Seats()


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What of the queue is looked at: ``tiers`` None is all, ``rows`` how many lines, ``find`` what names a case or,
    with ``texts``, stands in its text.
    """

    tiers: Collection[Tier] | None = None
    rows: int = FEW_ROWS
    find: str = ""
    texts: bool = False
    sort: Sort = Sort.URGENT


def snapshot(db: Database, actor: Actor, now: datetime, view: View) -> Mapping[str, Any]:
    """Counts and list as this person may see them. Never any of a text."""
    found = counts(db, actor, now, view.tiers)
    return {
        "at": f"{now:%H:%M:%S} UTC",
        "words": counts_words(found),
        "empty": waiting_words(found),
        "still": looks().lines(db, now),
        "waits": found.open,
        "urgent": sum(found.open_by_tier[tier] for tier in URGENT) - _taken_count(found),
        "newest": None if found.newest_urgent is None else found.newest_urgent.timestamp(),
        "done": exposure.read_since(db, actor, now.replace(hour=0, minute=0, second=0, microsecond=0)),
        "late": late_words(sum(found.late_by_tier.values())),
        "pills": [_pill(found, tier, view.tiers) for tier in Tier],
        **_rows(db, actor, now, view, found),
        **_disputed_cases(db, actor, now),
    }


def _taken_count(found: Counts) -> int:
    """P0 and P1 cases that are not waiting for this person: in other hands, read by them, or set aside."""
    return sum(found.kept_by_tier[tier] for tier in URGENT)


def _pill(found: Counts, tier: Tier, chosen: Collection[Tier] | None) -> Mapping[str, Any]:
    return {
        "tier": tier.name,
        "mark": TIER_MARKS[tier],
        "meaning": TIER_MEANINGS[tier],
        "open": found.open_by_tier[tier],
        "late": late_words(found.late_by_tier[tier]),
        "on": chosen is not None and tier in chosen,
    }


def _rows(db: Database, actor: Actor, now: datetime, view: View, found: Counts) -> Mapping[str, Any]:
    browse = is_allowed(actor, Action.BROWSE_QUEUE)
    if browse and view.find:
        texts = view.texts and is_allowed(actor, Action.VIEW_TEXT)
        search = Search(words=view.find, texts=texts, tiers=view.tiers, sort=view.sort)
        waiting = find(db, actor, now, search, limit=MOST_ROWS)
        of = len(waiting)
    elif browse:
        waiting = queue(db, actor, now, view.tiers, limit=view.rows, sort=view.sort)
        of = found.open - found.outside_filter
    else:
        waiting = set_aside(db, actor, now) if is_allowed(actor, Action.CLAIM_NEXT) else ()
        of = len(waiting)
    named = is_allowed(actor, Action.CLAIM_NAMED, actor.id)
    return {"browse": browse, "rows": [_row(row, now, named=named) for row in waiting[: view.rows]], "of": of}


def _row(row: Waiting, now: datetime, *, named: bool) -> Mapping[str, Any]:
    return {
        "id": row.case_id,
        "name": list_name(row.external_id, row.case_id),
        "tier": row.tier.name,
        "mark": TIER_MARKS[row.tier],
        "meaning": TIER_MEANINGS[row.tier],
        "left": due_words(row.due_at, now),
        "late": row.due_at <= now,
        "why": why_words(row.why),
        "age": f"{span_words(now - row.entered_at)} old",
        "state": state_words(row.state),
        "mine": row.state is State.MINE,
        "free": named and row.state in _TAKEABLE,
    }


def _disputed_cases(db: Database, actor: Actor, now: datetime) -> Mapping[str, Any]:
    """Cases on which two readers disagree, for whoever decides them: each with the address of its page."""
    if not is_allowed(actor, Action.ADJUDICATE):
        return {"disputed": []}
    return {
        "disputed": [
            {
                "href": f"/case?case={each.case_id}",
                "name": list_name(each.external_id, each.case_id),
                "tier": each.tier.name,
                "left": due_words(each.due_at, now),
                "mine": each.read_by_me,
            }
            for each in disagreements(db, actor, limit=5)
        ]
    }


def view_of(query: Mapping[str, str]) -> View:
    """What an address asks to see; whatever cannot be read is as if it were not there.

    >>> view_of({"tiers": "P0,P9", "rows": "many"})
    View(tiers=[<Tier.P0: 0>], rows=8, find='', texts=False, sort=<Sort.URGENT: 'urgent'>)
    """
    tiers = [Tier[name] for name in query.get("tiers", "").split(",") if name in Tier.__members__]
    rows = query.get("rows", "")
    wanted = int(rows) if rows.isascii() and rows.isdigit() and len(rows) < 5 else FEW_ROWS
    return View(
        tiers=tiers or None,
        rows=max(1, min(wanted, MOST_ROWS)),
        find=query.get("find", "")[:LONGEST],
        texts=query.get("texts") == "1",
        sort=sort_of(query.get("sort", "")),
    )


async def _serve(request: Request) -> Response:
    seat = seats().find(request.path_params["token"], browser_of(request.cookies))
    if seat is None:
        return PlainTextResponse("This address has gone stale: open the page again.", status_code=404)
    try:
        found = await run_in_threadpool(_answer, seat, view_of(request.query_params))
    except (SessionEnded, Unidentified):
        return PlainTextResponse("Your session has ended: sign in again.", status_code=401)
    except Forbidden:
        return PlainTextResponse("Your role does not let you see the queue.", status_code=403)
    return JSONResponse(found, headers={"Cache-Control": "no-store"})


def _answer(seat: Seat, view: View) -> Mapping[str, Any]:
    db, who, now = resources.database(), seat.who(), resources.now()
    try:
        return snapshot(db, who, now, view)
    except Forbidden as refused:  # the browser asks no more after it
        record_refusal(db, who, refused.action, now)
        raise


ROUTE = Route(f"{LIVE}/{{token}}", _serve)
