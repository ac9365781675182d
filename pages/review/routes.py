"""The review app's routes: GET the list, GET a desk, POST what its reviewer does. No page script has a part in it.

Each request says who asks by its sign-in, and is answered with the roles that they have by then. An action has an id
made in the browser, which sends it until it is answered; it is done once.
"""

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pages.review import desk_acts, inbox_words
from pages.review.desk import Here, OpenPage, open_pages, see
from pages.review.desk_view import colleague_names, view
from pages.ui import auth, context, shell, widgets
from pages.ui.http import LIVE, of_this_site
from pages.ui.words import duration, last_midnight, local_time, seen_from
from screening.review.policy import Acting, Action, Actor, Forbidden, is_allowed, require
from screening.review.triage import Priority
from screening.text.display import visible
from storage.audit_log import record_refusal
from storage.batches.batch_state import UnknownBatch, batch_row
from storage.database import Database
from storage.review import adjudication, reports, reviews
from storage.review.queue import LONGEST, Counts, Sort, State, counts, find, queue, reserved_cases
from storage.site.accounts import SessionEnded

MOST_BYTES = 1_000_000
FOREIGN = "This is for pages of this site."
Query = Mapping[str, str]
Make = Callable[[OpenPage, Actor, Query], Mapping[str, Any]]
"""Makes the answer for this page of a person's, by the address that was asked for."""
FEW_ROWS, MOST_ROWS = 8, 200
LONGEST_ID = 32
URGENT = (Priority.P0, Priority.P1)
_TAKEABLE = (State.FREE, State.MINE, State.SKIPPED, State.RESERVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What of the queue is looked at; ``priorities`` None is all, ``find`` names a case or stands in its text."""

    priorities: Collection[Priority] | None = None
    rows: int = FEW_ROWS
    find: str = ""
    texts: bool = False
    sort: Sort = Sort.URGENT
    batch: str | None = None
    reviews: bool = False


def snapshot(db: Database, by: Acting, view: View) -> Mapping[str, Any]:
    """Counts and list as this person may see them. Never any of a text."""
    found = counts(db, by, view.priorities, view.batch)
    p0_open = found.open_by_priority[Priority.P0]
    read = reports.count_cases_read(db, by.actor, last_midnight(by.now))
    return {
        "at": local_time(by.now, by.now),
        "words": inbox_words.counts_words(found),
        "empty": inbox_words.waiting_words(found),
        "still": shell.stalled_lines(db, by.now),
        "waits": found.open,
        # without those in other hands, reviewed by them, or on hold
        "urgent": sum(found.open_by_priority[priority] - found.kept_by_priority[priority] for priority in URGENT),
        "hidden": p0_open - found.kept_by_priority[Priority.P0] - found.free_by_priority[Priority.P0],
        "p0": _p0_words(by.actor, found),
        "newest": None if found.newest_urgent is None else found.newest_urgent.timestamp(),
        "done": read,
        "read": inbox_words.read_words(read),
        "late": inbox_words.late_words(sum(found.late_by_priority.values())),
        "pills": [
            {
                "priority": priority.name,
                "mark": inbox_words.PRIORITY_MARKS[priority],
                "meaning": inbox_words.PRIORITY_MEANINGS[priority],
                "open": found.open_by_priority[priority],
                "late": inbox_words.late_words(found.late_by_priority[priority]),
            }
            for priority in Priority
        ],
        "batch": view.batch and _batch_name(db, by, view.batch),
        **_rows(db, by, view, found),
        **_disputed_cases(db, by, found),
        **(_own(db, by) if view.reviews and is_allowed(by.actor, Action.CLAIM_NEXT) else {}),
    }


def _batch_name(db: Database, by: Acting, batch_id: str) -> str:
    if not is_allowed(by.actor, Action.VIEW_BATCHES):
        return "one upload"
    try:
        with db.read() as conn:
            return visible(batch_row(conn, batch_id).name)
    except UnknownBatch:
        return "one upload"


def _own(db: Database, by: Acting) -> Mapping[str, Any]:
    """One's own last reviews."""
    given = reviews.my_reviews(db, by.actor, limit=20)
    told = [(one.case_id, inbox_words.list_name(one.external_id, one.case_id), _review_words(one)) for one in given]
    return {"reviews": told}


def _review_words(review: Any) -> str:
    label = f"{inbox_words.LABEL_WORDS[review.label].lower()}, {inbox_words.HOW_CERTAIN[review.certainty]}"
    if review.waits_for is not None:
        became = "awaiting a senior" if review.waits_for == "third" else "awaiting second review"
    elif review.accepted is None:
        became = "deleted"
    else:
        same, final = review.accepted == review.label, inbox_words.LABEL_WORDS[review.accepted].lower()
        became = "final label" if same else f"final label differs: {final}"
    return f"{local_time(review.at)} · {label} · {became}"


def _p0_words(actor: Actor, found: Counts) -> str:
    """What is said of a P0 case that has come in; empty while none is free for this person."""
    if found.open_by_priority[Priority.P0] == found.kept_by_priority[Priority.P0]:
        return ""
    came = f"{inbox_words.PRIORITY_MARKS[Priority.P0]} A P0 case has come in"
    if not is_allowed(actor, Action.CLAIM_NEXT):
        return f"{came}."
    return f"{came}: take the next case." if found.free_by_priority[Priority.P0] else f"{came}, outside your filter."


def _rows(db: Database, by: Acting, view: View, found: Counts) -> Mapping[str, Any]:
    browse = is_allowed(by.actor, Action.BROWSE_QUEUE)
    texts_read = None
    if browse and view.find:
        texts = view.texts and is_allowed(by.actor, Action.VIEW_TEXT)
        waiting, texts_read = find(
            db, by, view.find, texts=texts, priorities=view.priorities, sort=view.sort, limit=MOST_ROWS
        )
        of = len(waiting)
    elif browse:
        waiting = queue(db, by, view.priorities, limit=view.rows, sort=view.sort, batch=view.batch)
        of = found.open - found.outside_filter
    else:
        waiting = reserved_cases(db, by) if is_allowed(by.actor, Action.CLAIM_NEXT) else ()
        of = len(waiting)
    named = is_allowed(by.actor, Action.CLAIM_NAMED, by.id)
    rows = [_row(row, by.now, named=named) for row in waiting[: view.rows]]
    return {"browse": browse, "rows": rows, "of": of, "texts_read": texts_read}


def _row(row: Any, now: datetime, *, named: bool) -> Mapping[str, Any]:
    priority = Priority(row.priority)
    return {
        "id": row.case_id,
        "name": inbox_words.list_name(row.external_id, row.case_id),
        "priority": priority.name,
        "mark": inbox_words.PRIORITY_MARKS[priority],
        "meaning": inbox_words.PRIORITY_MEANINGS[priority],
        "left": inbox_words.due_words(row.due_at, now),
        "late": row.due_at <= now,
        "why": inbox_words.why_words(row.why),
        "age": f"{duration(now - row.entered_at, least=60)} in queue",
        "state": inbox_words.state_words(State(row.state)),
        "mine": row.state == State.MINE,
        "free": named and row.state in _TAKEABLE,
    }


def _disputed_cases(db: Database, by: Acting, found: Counts) -> Mapping[str, Any]:
    """Cases on which two reviewers disagree, for whoever decides them: each with the address of its page."""
    if not found.disputed or not is_allowed(by.actor, Action.ADJUDICATE):
        return {"disputed": []}
    return {
        "disputed": [
            {
                "href": f"/case?case={each.case_id}",
                "name": inbox_words.list_name(each.external_id, each.case_id),
                "priority": Priority(each.priority).name,
                "left": inbox_words.due_words(each.due_at, by.now),
                "mine": bool(each.read_by_me),
            }
            for each in adjudication.disagreements(db, by.actor, limit=5)
        ]
    }


def view_of(query: Mapping[str, str]) -> View:
    """What an address asks to see; whatever cannot be read is as if it were not there.

    >>> view = view_of({"priorities": "P0,P9", "rows": "many"})
    >>> view.priorities, view.rows, view.sort
    ([<Priority.P0: 0>], 8, <Sort.URGENT: 'urgent'>)
    """
    priorities = [Priority[name] for name in query.get("priorities", "").split(",") if name in Priority.__members__]
    rows = query.get("rows", "")
    wanted = int(rows) if rows.isascii() and rows.isdigit() and len(rows) < 5 else FEW_ROWS
    return View(
        priorities=priorities or None,
        rows=max(1, min(wanted, MOST_ROWS)),
        find=query.get("find", "")[:LONGEST],
        texts=query.get("texts") == "1",
        sort=Sort(query.get("sort", "")),
        batch=query.get("batch", "")[:LONGEST_ID] or None,
        reviews=query.get("reviews") == "1",
    )


def offer(db: Database, person: Actor) -> dict[str, Any]:
    """What this person may do with the list beside opening a case: whom they may give cases to, search in texts."""
    giving = is_allowed(person, Action.ASSIGN) and is_allowed(person, Action.CLAIM_NEXT)
    return {
        "colleagues": colleague_names(db, person) if giving else [],
        "may_search_texts": is_allowed(person, Action.BROWSE_QUEUE) and is_allowed(person, Action.VIEW_TEXT),
    }


def _list(page: OpenPage, person: Actor, query: Query) -> Mapping[str, Any]:
    db, now = context.database(), context.now()
    page.asked_at, page.on_desk, page.left = now, widgets.case_of(query), query.get("left") == "1"
    open_pages().give_back(db, now)
    with db.one_snapshot():
        return snapshot(db, person.at(now), view_of(query))


def _desk(page: OpenPage, person: Actor, query: Query, actions: list[desk_acts.Act | str]) -> Mapping[str, Any]:
    require(person, Action.CLAIM_NEXT)
    db, chosen = context.database(), view_of(query)
    with page.lock, db.one_snapshot():
        here = Here(
            db=db,
            person=person,
            site=context.site(),
            now=context.now(),
            page=page,
            priorities=chosen.priorities,
            batch=chosen.batch,
            covered=query.get("cover") == "1",
        )
        see(here, widgets.case_of(query))
        answers = desk_acts.handle(here, actions)
        return view(here) | {"answers": answers}


def _asked(request: Request, make: Make, *, active: bool = False) -> Response:
    query = request.query_params
    if not of_this_site(request.scope) or not widgets.CASE_ID.fullmatch(query.get("page", "")):
        return _refusal(403, FOREIGN)
    try:
        who = auth.who_asks(request.scope)
        person = who(active=active)
        page = open_pages().find(person.id, query["page"], partial(who, active=False))
        with seen_from(query.get("zone")):
            return _told(make(page, person, query))
    except (SessionEnded, auth.Unidentified):
        return _refusal(401, "Your session has ended: sign in again.")
    except Forbidden as refused:
        record_refusal(context.database(), person.at(context.now()), refused.action)
        return _refusal(403, f"Your role does not let you {refused.action.value.replace('_', ' ')}.")
    except Exception as error:
        if (words := shell.passing_words(error)) is None:
            raise
        return _refusal(503, words)


def _told(content: Mapping[str, Any], status: int = 200) -> Response:
    return JSONResponse(content, status, {"Cache-Control": "no-store"})


def _refusal(status: int, words: str) -> Response:
    return _told({"words": words}, status)


def _get_list(request: Request) -> Response:
    return _asked(request, _list)


def _get_desk(request: Request) -> Response:
    return _asked(request, partial(_desk, actions=[]))


async def _post_desk(request: Request) -> Response:
    if not of_this_site(request.scope):  # before a byte is read
        return _refusal(403, FOREIGN)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            return _refusal(413, "This is too long to be kept.")
    try:
        actions = desk_acts.parse(json.loads(body))
    except ValueError:
        return _refusal(400, desk_acts.NOT_UNDERSTOOD)
    active = any(not isinstance(each, str) and each.kind != "reveal" for each in actions)  # a page asks for that itself
    return await run_in_threadpool(_asked, request, partial(_desk, actions=actions), active=active)


ROUTES = [
    Route(f"{LIVE}/list", _get_list),
    Route(f"{LIVE}/desk", _get_desk, methods=["GET"]),
    Route(f"{LIVE}/desk", _post_desk, methods=["POST"]),
]
