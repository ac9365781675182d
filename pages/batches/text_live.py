"""The page Screen while a text is being screened: what its browser keeps up to date by itself, and where it asks.

The page is drawn once. Then the browser asks twice a second by plain HTTP, says which parts it has, and is told those
that changed, as markup that takes the place of what is there. It asks for another run of the page when the text has
ended, or where more changed than parts can say. Who may ask: `pages.ui.live`.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from time import monotonic
from typing import TYPE_CHECKING
from zlib import crc32

import streamlit as st
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pages.batches.single_text import parts_html, status_html, view_html
from pages.ui import context
from pages.ui.auth import browser_of, who_asks
from pages.ui.context import SharedLook, singleton
from pages.ui.http import LIVE_TEXT
from pages.ui.live import Body, Seat, Seats
from screening.review.actors import Acting, Actor
from screening.review.policy import Action, is_allowed, require
from storage.batches import live, single_texts
from storage.batches.single_texts import SingleText, UnknownText
from storage.site.heartbeats import Silence, workers_silence

if TYPE_CHECKING:
    from streamlit.components.v2.types import ComponentRenderer

EVERY_S = 0.5
SEEN_EVERY_S = 2.0
"""Seconds after which it is written down anew which texts are watched; a worker lets go of a text after
`jobs.watching.UNWATCHED_AFTER` without."""
GOOD_FOR_S = 0.2
"""How long what was seen of a text answers whoever else of the same person's pages asks: with the half second between
two questions, nothing shown is older than that and this."""
SILENCE_EVERY = timedelta(seconds=2)
"""How often it is looked whether a worker answers, however many ask."""
AGAIN = Body({"again": True})
KEY, SEAT, PLACE = "live", "live_seat", "live_text"


@singleton
def seats() -> Seats[Seat]:
    """Those who watch a text in this process."""
    return Seats(LIVE_TEXT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A text as it stood at this time of the process's clock: its parts and their marks, none where the page is to be
    run again; and what was said of it already, by the marks that a browser had.
    """

    at: float
    marks: Sequence[str] = ()
    parts: Sequence[str] = ()
    said: dict[str, Body | None] = field(default_factory=dict)

    def news_for(self, have: str) -> Body | None:
        """What a browser with these marks is told; None where it has all."""
        if have not in self.said:
            self.said[have] = self._news(have.split(","))
        return self.said[have]

    def _news(self, have: Sequence[str]) -> Body | None:
        marks = self.marks
        if len(have) != len(marks) or have[0] != marks[0]:
            return AGAIN
        changed = {at: part for at, part in enumerate(self.parts) if marks[at + 1] != have[at + 1]}
        return Body({"have": ",".join(marks), "parts": changed}) if changed else None


class Watchers:
    """What the watching pages of this process share: one look at a text for all who ask at nearly the same time, and
    one note for all the texts that are watched. Threads may share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, Actor], Seen] = {}
        self._asked: set[str] = set()
        self._noted_at = -SEEN_EVERY_S

    def look(self, case_id: str, actor: Actor) -> Seen:
        """The text as it stands, for whoever handed it in. Raises Forbidden."""
        with self._lock:
            found = self._seen.get((case_id, actor))
        if found is None or monotonic() - found.at >= GOOD_FOR_S:
            found = _see(case_id, actor)
            with self._lock:
                self._seen = {of: seen for of, seen in self._seen.items() if found.at - seen.at < GOOD_FOR_S}
                self._seen[case_id, actor] = found
        if found.marks:
            self._keep_watched(case_id)
        return found

    def _keep_watched(self, case_id: str) -> None:
        """Let the worker know that somebody watches: not with every question, each of which would be a write."""
        asked_at = monotonic()
        with self._lock:
            self._asked.add(case_id)
            if asked_at - self._noted_at < SEEN_EVERY_S:
                return
            watched = sorted(self._asked)
            self._noted_at, self._asked = asked_at, set()
        live.record_viewers(context.database(), watched, context.now())


@singleton
def watchers() -> Watchers:
    """Those of this process."""
    return Watchers()


@singleton
def silence_now() -> SharedLook[Silence | None]:
    """That no worker answers; None where one does."""
    return SharedLook(workers_silence, SILENCE_EVERY)


def _see(case_id: str, actor: Actor) -> Seen:
    at = monotonic()
    try:
        single = single_texts.look(context.database(), actor, case_id)
    except UnknownText:
        return Seen(at=at)
    if single.ended:
        return Seen(at=at)
    marks, parts = parts_of(single, actor.at(context.now()))
    return Seen(at=at, marks=marks, parts=parts)


def follow(single: SingleText | None, by: Acting) -> None:
    """What the browser needs to keep the view of this text up to date; nothing to ask where none is being screened.

    Always drawn, so that nothing moves when a text begins or ends.
    """
    asks = single is not None and not single.ended
    data = {"every": EVERY_S, "place": f".st-key-{PLACE}", "address": "", "have": ""}
    if single is not None and asks:
        data |= {"address": _address(single.case_id), "have": ",".join(parts_of(single, by)[0])}
    _component()(data=[data], key=KEY, on_again_change=_nothing, on_stale_change=_forget_seat)


def watched_view(single: SingleText, by: Acting) -> None:
    """The text as it stands, in the same two places from the first draw to the verdict: nothing moves when it ends."""
    if not single.ended:
        single_texts.watch(context.database(), by, single.case_id)
    st.html(_status(single, by))
    st.html(view_html(single, by.now))


def parts_of(single: SingleText, by: Acting) -> tuple[list[str], tuple[str, ...]]:
    """What changes while the text is being screened, each part on its own, in the page's order; before it the marks by
    which a browser says which parts it has: first what lasts, then each part.
    """
    lasting, changing = parts_html(single, by.now)
    parts = (_status(single, by), *changing)
    return [f"{crc32(part.encode()):x}" for part in (lasting, *parts)], parts


def _status(single: SingleText, by: Acting) -> str:
    may_read = any(is_allowed(by.actor, action) for action in (Action.CLAIM_NEXT, Action.BROWSE_QUEUE))
    help_text = context.site().help_text if single.ended else ""  # said beside an outcome alone
    silence = None if single.ended else silence_now().at(context.database(), by.now)
    return status_html(single, by.now, help_text, may_read=may_read, silence=silence)


def _answer(seat: Seat, actor: Actor, have: str, *, gzip: bool) -> Response:
    """Nothing (204), the parts that differ from those the browser has, or that the page is to be run again."""
    require(actor, Action.SCREEN_TEXT)
    news = watchers().look(str(seat.case_id), actor).news_for(have)
    return Response(status_code=204) if news is None else news.answer(gzip=gzip)


async def _serve(request: Request) -> Response:
    have, gzip = request.query_params.get("have", ""), "gzip" in request.headers.get("accept-encoding", "")
    return await seats().serve(request, lambda seat, who: _answer(seat, who, have, gzip=gzip))


ROUTE = Route(f"{LIVE_TEXT}/{{token}}", _serve)


@lru_cache(maxsize=1)
def _component() -> "ComponentRenderer":
    """Register the component, once a process: Streamlit reads its files to do so."""
    return st.components.v2.component("second-look-browser.live", js="live.js", css="live.css")


def _address(case_id: str) -> str:
    """Where this page asks about this text: one address a session and text."""
    of, address = st.session_state.get(SEAT, ("", ""))
    if of != case_id:
        seat = Seat(browser=browser_of(st.context.cookies.to_dict()), who=who_asks(active=False), case_id=case_id)
        address = seats().take(seat)
        st.session_state[SEAT] = (case_id, address)
    return str(address)


def _forget_seat() -> None:
    """Forget the address where it is no longer valid or was refused: the page takes another, or says why not."""
    st.session_state.pop(SEAT, None)


def _nothing() -> None:
    """A trigger runs the page, which draws what there is: this only makes it known by name."""
