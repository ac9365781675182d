"""The left of the queue as values for the browser: where a page asks again, and what a closed one gives back."""

import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pages.review.inbox_words import (
    TIER_MARKS,
    TIER_MEANINGS,
    counts_words,
    due_words,
    late_words,
    list_name,
    read_words,
    state_words,
    waiting_words,
    why_words,
)
from pages.ui import context
from pages.ui.auth import Unidentified
from pages.ui.context import singleton
from pages.ui.format import duration, last_midnight, local_time
from pages.ui.http import LIVE
from pages.ui.live import Seat, Seats
from pages.ui.shell import standstill_lines
from screening.review.actors import Acting, Actor
from screening.review.policy import Action, Forbidden, is_allowed
from screening.review.triage import Tier
from storage.database import Database
from storage.review import claims, inbox, reports
from storage.review.adjudication import disagreements
from storage.review.claims import LeaseLost
from storage.review.queue import Counts, Sort, State, Waiting, counts, queue, reserved_cases, sort_of
from storage.review.search import LONGEST, find
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


EVERY_S = 3.0
"""Seconds between two questions of an open inbox: what is new is seen within five."""
FEW_ROWS, MOST_ROWS = 8, 200
LONGEST_ID = 32
URGENT = (Tier.P0, Tier.P1)
_TAKEABLE = (State.FREE, State.MINE, State.SKIPPED, State.RESERVED)


@singleton
def seats() -> Seats[OpenInbox]:
    """The open inboxes of this process."""
    return Seats(LIVE)


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
    batch: str | None = None


def snapshot(db: Database, by: Acting, view: View) -> Mapping[str, Any]:
    """Counts and list as this person may see them. Never any of a text."""
    found = counts(db, by, view.tiers, view.batch)
    read = reports.count_cases_read(db, by.actor, last_midnight(by.now))
    return {
        "at": local_time(by.now, by.now),
        "words": counts_words(found),
        "empty": waiting_words(found),
        "still": standstill_lines(db, by.now),
        "waits": found.open,
        "urgent": sum(found.open_by_tier[tier] for tier in URGENT) - _taken_count(found),
        "hidden": _hidden_p0(found),
        "p0": _p0_words(by.actor, found),
        "newest": None if found.newest_urgent is None else found.newest_urgent.timestamp(),
        "done": read,
        "read": read_words(read),
        "late": late_words(sum(found.late_by_tier.values())),
        "pills": [_pill(found, tier, view.tiers) for tier in Tier],
        **_rows(db, by, view, found),
        **_disputed_cases(db, by, found),
    }


def _taken_count(found: Counts) -> int:
    """P0 and P1 cases that are not waiting for this person: in other hands, read by them, or set aside."""
    return sum(found.kept_by_tier[tier] for tier in URGENT)


def _hidden_p0(found: Counts) -> int:
    """P0 cases that this person could be given and that their filter, of tiers or of one upload, leaves out."""
    return found.open_by_tier[Tier.P0] - found.kept_by_tier[Tier.P0] - found.free_by_tier[Tier.P0]


def _p0_words(actor: Actor, found: Counts) -> str:
    """What is said of a P0 case that has come in; empty while none is free for this person."""
    if found.open_by_tier[Tier.P0] == found.kept_by_tier[Tier.P0]:
        return ""
    came = f"{TIER_MARKS[Tier.P0]} A P0 case has come in"
    if not is_allowed(actor, Action.CLAIM_NEXT):
        return f"{came}."
    return f"{came}: take the next case." if found.free_by_tier[Tier.P0] else f"{came}, outside your filter."


def _pill(found: Counts, tier: Tier, chosen: Collection[Tier] | None) -> Mapping[str, Any]:
    return {
        "tier": tier.name,
        "mark": TIER_MARKS[tier],
        "meaning": TIER_MEANINGS[tier],
        "open": found.open_by_tier[tier],
        "late": late_words(found.late_by_tier[tier]),
        "on": chosen is not None and tier in chosen,
    }


def _rows(db: Database, by: Acting, view: View, found: Counts) -> Mapping[str, Any]:
    browse = is_allowed(by.actor, Action.BROWSE_QUEUE)
    texts_read = None
    if browse and view.find:
        texts = view.texts and is_allowed(by.actor, Action.VIEW_TEXT)
        waiting, texts_read = find(db, by, view.find, texts=texts, tiers=view.tiers, sort=view.sort, limit=MOST_ROWS)
        of = len(waiting)
    elif browse:
        waiting = queue(db, by, view.tiers, limit=view.rows, sort=view.sort, batch=view.batch)
        of = found.open - found.outside_filter
    else:
        waiting = reserved_cases(db, by) if is_allowed(by.actor, Action.CLAIM_NEXT) else ()
        of = len(waiting)
    named = is_allowed(by.actor, Action.CLAIM_NAMED, by.id)
    rows = [_row(row, by.now, named=named) for row in waiting[: view.rows]]
    return {"browse": browse, "rows": rows, "of": of, "texts_read": texts_read}


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
        "age": f"{duration(now - row.entered_at, least=60)} in queue",
        "state": state_words(row.state),
        "mine": row.state is State.MINE,
        "free": named and row.state in _TAKEABLE,
    }


def _disputed_cases(db: Database, by: Acting, found: Counts) -> Mapping[str, Any]:
    """Cases on which two readers disagree, for whoever decides them: each with the address of its page."""
    if not found.disputed or not is_allowed(by.actor, Action.ADJUDICATE):
        return {"disputed": []}
    return {
        "disputed": [
            {
                "href": f"/case?case={each.case_id}",
                "name": list_name(each.external_id, each.case_id),
                "tier": each.tier.name,
                "left": due_words(each.due_at, by.now),
                "mine": each.read_by_me,
            }
            for each in disagreements(db, by.actor, limit=5)
        ]
    }


def view_of(query: Mapping[str, str]) -> View:
    """What an address asks to see; whatever cannot be read is as if it were not there.

    >>> view_of({"tiers": "P0,P9", "rows": "many"})
    View(tiers=[<Tier.P0: 0>], rows=8, find='', texts=False, sort=<Sort.URGENT: 'urgent'>, batch=None)
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
        batch=query.get("batch", "")[:LONGEST_ID] or None,
    )


async def _serve(request: Request) -> Response:
    view, on_desk = view_of(request.query_params), request.query_params.get("case", "")[:LONGEST_ID] or None

    def answer(seat: OpenInbox, who: Actor) -> Response:
        db, now = context.database(), context.now()
        seat.asks(now, who.id, on_desk)
        closed_pages().give_back(db, seats(), now)
        with db.one_snapshot():
            return JSONResponse(snapshot(db, who.at(now), replace(view, batch=seat.batch)))

    return await seats().serve(request, answer)


ROUTE = Route(f"{LIVE}/{{token}}", _serve)
