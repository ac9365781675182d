"""The page Screen while a text is being screened: what its browser keeps up to date by itself, and where it asks.

The page is drawn once. Then the browser asks twice a second by plain HTTP, says which parts it has, and is told those
that changed, as markup that takes the place of what is there. It asks for another run of the page when the text has
ended, or where more changed than parts can say. Who may ask: `pages.components.seats`.
"""

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING
from zlib import crc32

import streamlit as st
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from pages.batches.single_text import parts_html, status_html, view_html
from pages.batches.worker_look import worker_look
from pages.components import resources
from pages.components.http import LIVE_TEXT
from pages.components.seats import Seat, Seats
from pages.components.sign_in import asking, browser_of
from pages.components.singletons import singleton
from screening.review.actors import Actor
from screening.review.policy import Action, is_allowed, require
from storage.batches import single_texts
from storage.batches.single_texts import SingleText, UnknownText

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

EVERY_S = 0.5
SEEN_EVERY_S = 2.0
"""Seconds after which it is written down anew that somebody watches; a worker gives up after ten without."""
KEY, SEAT, PLACE = "live", "live_seat", "live_text"


@dataclass(slots=True, kw_only=True)
class Watching(Seat):
    """Somebody who watches a text; ``seen_at`` is when that was last written down."""

    seen_at: datetime | None = None


@singleton
def seats() -> Seats[Watching]:
    """Those who watch a text in this process."""
    return Seats(LIVE_TEXT)


def follow(single: SingleText | None, actor: Actor, now: datetime) -> None:
    """What the browser needs to keep the view of this text up to date; nothing to ask where none is being screened.

    Always drawn, so that nothing moves when a text begins or ends.
    """
    asks = single is not None and not single.ended
    data = {"every": EVERY_S, "place": f".st-key-{PLACE}", "address": "", "have": ""}
    if single is not None and asks:
        data |= {"address": _address(single.case_id), "have": ",".join(parts_of(single, actor, now)[0])}
    _component()(data=data, key=KEY, on_again_change=_nothing, on_stale_change=_forget_seat)


def watched_view(single: SingleText, actor: Actor, now: datetime) -> None:
    """The text as it stands, in the same two places from the first draw to the verdict: nothing moves when it ends."""
    if not single.ended:
        single_texts.watch(resources.database(), actor, single.case_id, now)
    st.html(_status(single, actor, now))
    st.html(view_html(single, now))


def parts_of(single: SingleText, actor: Actor, now: datetime) -> tuple[list[str], tuple[str, ...]]:
    """What changes while the text is being screened, each part on its own, in the page's order; before it the marks by
    which a browser says which parts it has: first what lasts, then each part.
    """
    lasting, changing = parts_html(single, now)
    parts = (_status(single, actor, now), *changing)
    return [f"{crc32(part.encode()):x}" for part in (lasting, *parts)], parts


def _status(single: SingleText, actor: Actor, now: datetime) -> str:
    may_read = any(is_allowed(actor, action) for action in (Action.CLAIM_NEXT, Action.BROWSE_QUEUE))
    help_text = resources.site().help_text if single.ended else ""  # said beside an outcome alone
    silence = None if single.ended else worker_look().silence(resources.database(), now)
    return status_html(single, now, help_text, may_read=may_read, silence=silence)


def _told(seat: Watching, actor: Actor, have: list[str]) -> Response:
    """Nothing (204), the parts that differ from those the browser has, or that the page is to be run again."""
    require(actor, Action.SCREEN_TEXT)
    now = resources.now()
    try:
        single = single_texts.look(resources.database(), actor, str(seat.case_id))
    except UnknownText:
        return JSONResponse({"again": True})
    if single.ended:
        return JSONResponse({"again": True})
    _keep_watched(seat, actor, now)
    marks, parts = parts_of(single, actor, now)
    if len(have) != len(marks) or have[0] != marks[0]:
        return JSONResponse({"again": True})
    changed = {at: part for at, part in enumerate(parts) if marks[at + 1] != have[at + 1]}
    return JSONResponse({"have": ",".join(marks), "parts": changed}) if changed else Response(status_code=204)


def _keep_watched(seat: Watching, actor: Actor, now: datetime) -> None:
    """Let the worker know that somebody watches: not with every question, each of which would be a write."""
    if seat.seen_at is None or (now - seat.seen_at).total_seconds() >= SEEN_EVERY_S:
        single_texts.watch(resources.database(), actor, str(seat.case_id), now)
        seat.seen_at = now


async def _serve(request: Request) -> Response:
    have = request.query_params.get("have", "").split(",")
    return await seats().serve(request, lambda seat, who: _told(seat, who, have))


ROUTE = Route(f"{LIVE_TEXT}/{{token}}", _serve)


@lru_cache(maxsize=1)
def _component() -> "ComponentRenderer":
    """Made known once a process: Streamlit reads its files to do so."""
    return st.components.v2.component("second-look-browser.live", js="live.js", css="live.css")


def _address(case_id: str) -> str:
    """Where this page asks about this text: one address a session and text."""
    of, address = st.session_state.get(SEAT, ("", ""))
    if of != case_id:
        seat = Watching(browser=browser_of(st.context.cookies.to_dict()), who=asking(active=False), case_id=case_id)
        address = seats().take(seat)
        st.session_state[SEAT] = (case_id, address)
    return str(address)


def _forget_seat() -> None:
    """The address is good no more, or refused: the page takes another, or says why there is none."""
    st.session_state.pop(SEAT, None)


def _nothing() -> None:
    """A trigger runs the page, which draws what there is: this only makes it known by name."""
