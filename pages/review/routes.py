"""The review app's routes: GET the list, GET a desk, POST what its reviewer does. No page script has a part in it.

Each request says who asks by its sign-in, and is answered with the roles that they have by then. An action has an id
made in the browser, which sends it until it is answered; it is done once.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pages.review.desk import Here, OpenPage, open_pages, see
from pages.review.desk_acts import Act, handle, is_by_a_person, parse
from pages.review.desk_view import view
from pages.review.inbox_queue import snapshot, view_of
from pages.ui import context
from pages.ui.auth import Unidentified, asks_over
from pages.ui.format import seen_from
from pages.ui.http import LIVE, of_this_site
from pages.ui.shell import passing_words
from pages.ui.widgets import CASE_ID, case_of
from screening.review.actors import Actor
from screening.review.policy import Action, Forbidden, require
from storage.audit_log import record_refusal
from storage.site.accounts import SessionEnded

MOST_BYTES = 1_000_000
"""Of the actions that are sent together."""
Query = Mapping[str, str]


def _here(page: OpenPage, person: Actor, query: Query) -> Here:
    chosen = view_of(query)
    return Here(
        db=context.database(),
        person=person,
        site=context.site(),
        now=context.now(),
        page=page,
        priorities=chosen.priorities,
        batch=chosen.batch,
        covered=query.get("cover") == "1",
    )


def _list(page: OpenPage, person: Actor, query: Query) -> Mapping[str, Any]:
    db, now = context.database(), context.now()
    page.asked_at, page.on_desk, page.left = now, case_of(query), query.get("left") == "1"
    open_pages().give_back(db, now)
    with db.one_snapshot():
        return snapshot(db, person.at(now), view_of(query))


def _desk(page: OpenPage, person: Actor, query: Query, actions: list[Act | str]) -> Mapping[str, Any]:
    require(person, Action.CLAIM_NEXT)
    with page.lock, context.database().one_snapshot():
        here = _here(page, person, query)
        see(here, case_of(query))
        answers = handle(here, actions)
        return view(here) | {"answers": answers}


async def _answer(
    request: Request, make: Callable[[OpenPage, Actor, Query], Mapping[str, Any]], *, active: bool = False
) -> Response:
    response = await run_in_threadpool(_asked, request, make, active=active)
    response.headers["Cache-Control"] = "no-store"
    return response


def _asked(
    request: Request, make: Callable[[OpenPage, Actor, Query], Mapping[str, Any]], *, active: bool
) -> JSONResponse:
    query = request.query_params
    if not of_this_site(request.scope) or not CASE_ID.fullmatch(query.get("page", "")):
        return _refusal(403, "This is for pages of this site.")
    try:
        person, who = asks_over(request.scope, active=active)
        page = open_pages().find(person.id, query["page"], who)
        with seen_from(query.get("zone")):
            return JSONResponse(make(page, person, query))
    except (SessionEnded, Unidentified):
        return _refusal(401, "Your session has ended: sign in again.")
    except Forbidden as refused:
        record_refusal(context.database(), person.at(context.now()), refused.action)
        return _refusal(403, f"Your role does not let you {refused.action.value.replace('_', ' ')}.")
    except Exception as error:
        if (words := passing_words(error)) is None:
            raise
        return _refusal(503, words)


def _refusal(status: int, words: str) -> JSONResponse:
    return JSONResponse({"words": words}, status)


async def _get_list(request: Request) -> Response:
    return await _answer(request, _list)


async def _get_desk(request: Request) -> Response:
    return await _answer(request, lambda page, person, query: _desk(page, person, query, []))


async def _post_desk(request: Request) -> Response:
    if not of_this_site(request.scope):  # before a byte is read
        return _refusal(403, "This is for pages of this site.")
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            return _refusal(413, "This is too long to be kept.")
    try:
        actions = parse(json.loads(body))
    except ValueError:
        return _refusal(400, "This was not understood: reload the page.")
    active = is_by_a_person(actions)
    return await _answer(request, lambda page, person, query: _desk(page, person, query, actions), active=active)


ROUTES = [
    Route(f"{LIVE}/list", _get_list),
    Route(f"{LIVE}/desk", _get_desk, methods=["GET"]),
    Route(f"{LIVE}/desk", _post_desk, methods=["POST"]),
]
