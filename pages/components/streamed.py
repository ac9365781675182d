"""Files of any size for the browser, written while they are made: Streamlit's own downloads lie in memory whole.

A page offers a file and gets an address that nobody can guess, good only for the browser it was offered to. Who asks
for it is looked up again when it is asked for, and the file is made for them with the roles they have then.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import chain

import streamlit as st
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from pages.components import resources
from pages.components.http import FILES
from pages.components.seats import Addresses
from pages.components.sign_in import Unidentified, browser_of, who_asks
from pages.components.singletons import singleton
from screening.review.actors import Actor
from screening.review.policy import Forbidden
from storage.audit_log import record_refusal
from storage.site.accounts import SessionEnded

MOST_OFFERS = 10_000
LINES_AT_ONCE, CHARACTERS_AT_ONCE = 500, 1_000_000
CSV, JSONL = "text/csv; charset=utf-8", "application/x-ndjson"
JSON, PARQUET = "application/json", "application/vnd.apache.parquet"
MARKDOWN = "text/markdown; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamedFile:
    """A file on offer: ``name`` is what it is saved as, ``lines`` makes it for whoever asks.

    It may refuse with Forbidden, and with FileNotFoundError where what it is made from was put away. An offer may
    outlive its page by hours: ``lines`` holds what names the content, never the content.
    """

    label: str
    name: str
    media_type: str
    lines: Callable[[Actor], Iterator[str | bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A file, the browser that may have it, and who is asking from there."""

    file: StreamedFile
    browser: str
    who: Callable[[], Actor]


class Offers(Addresses[Offer]):
    """What the pages of this process offer."""

    def __init__(self, most: int = MOST_OFFERS) -> None:
        super().__init__(FILES, most)

    def offer(self, file: StreamedFile, browser: str, who: Callable[[], Actor]) -> str:
        """The address under which ``browser``, and nobody else, may have this file."""
        return self.take(Offer(file=file, browser=browser, who=who))


@singleton
def offers() -> Offers:
    """Those of this process."""
    return Offers()


def show_files(files: Sequence[StreamedFile]) -> None:
    """A row of links on the page; each asks again who this is when it is followed."""
    browser, who = browser_of(st.context.cookies.to_dict()), who_asks()
    links = "".join(
        f'<a href="{offers().offer(file, browser, who)}" download="{escape(file.name, quote=True)}" '
        f'target="_self">⤓ {escape(file.label)}</a>'
        for file in files
    )
    st.html(f'<div class="sl-files">{links}</div>')


def show_export(files: Callable[[bool], Sequence[StreamedFile]], key: str, note: str) -> None:
    """One button with the forms of a data set, without its texts unless they are asked for."""
    with st.popover("Export", icon=":material/download:"):
        show_files(files(st.toggle("With texts", value=False, key=f"{key}_texts")))
        st.caption(note)


async def _serve(request: Request) -> Response:
    offer = offers().find(request.path_params["token"], browser_of(request.cookies))
    if offer is None:
        return PlainTextResponse("This link has expired. Reload the page.", status_code=404)
    try:
        parts = await run_in_threadpool(_begin, offer)
    except (SessionEnded, Unidentified):
        return PlainTextResponse("Your session has ended: sign in again.", status_code=401)
    except Forbidden:
        return PlainTextResponse("Your role does not let you have this file.", status_code=403)
    except FileNotFoundError:
        return PlainTextResponse("What this file is made from was put away: open the page again.", status_code=410)
    name = _ascii(offer.file.name)
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(parts, media_type=offer.file.media_type, headers=headers)


def _begin(offer: Offer) -> Iterator[bytes]:
    """The file's parts; the first is made at once, so that a refusal is an answer and not half a file."""
    who = offer.who()
    parts = _parts(offer.file.lines(who))
    try:
        return chain([next(parts, b"")], parts)
    except Forbidden as refused:
        record_refusal(resources.database(), who.at(resources.now()), refused.action)
        raise


def _parts(lines: Iterator[str | bytes]) -> Iterator[bytes]:
    """So many lines, fewer where they are long: texts may be."""
    part, characters = list[str | bytes](), 0
    for line in lines:
        part.append(line)
        characters += len(line)
        if len(part) == LINES_AT_ONCE or characters >= CHARACTERS_AT_ONCE:
            yield _encode(part)
            part, characters = [], 0
    if part:
        yield _encode(part)


def _encode(part: Sequence[str | bytes]) -> bytes:
    return b"".join(one if isinstance(one, bytes) else one.encode("utf-8", "replace") for one in part)


def _ascii(name: str) -> str:
    return "".join(letter for letter in name if letter.isascii() and letter.isprintable() and letter not in '"\\')


ROUTE = Route(f"{FILES}/{{token}}", _serve)
