"""Who may send a file: asked before Streamlit takes the file into memory, where it would lie for as long
as the page is open.
"""

import asyncio
import json

from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pages.components import resources
from pages.components.http import signed_in_claims
from pages.components.sign_in import Unidentified, sign_in_of
from pages.components.web_socket import own_page
from screening.review.actors import LOCAL_USER, Actor
from screening.review.policy import Action, is_allowed
from storage.audit_log import record_refusal
from storage.review import presence
from storage.site.accounts import SessionEnded

ARRIVES_WITHIN_S = 600.0
"""How long a file may take to arrive."""


class UploadGuard:
    """Takes a file from a page of this host, from somebody in a session that is still valid who may create batches.
    Everything else is refused before its first byte is read.
    """

    def __init__(self, app: ASGIApp, *, sign_in: bool) -> None:
        self._app = app
        self._sign_in = sign_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or "/_stcore/upload_file/" not in scope["path"] or scope["method"] != "PUT":
            await self._app(scope, receive, send)
            return
        try:
            await run_in_threadpool(uploader, scope, sign_in=self._sign_in)
        except Refused as refusal:
            await _refuse(refusal.status, str(refusal), scope, receive, send)
        else:
            await self._app(scope, _in_time(receive), send)


def _in_time(receive: Receive) -> Receive:
    """The parts of a file until its time is over; the rest then never comes, as if the browser had left."""
    until = asyncio.get_running_loop().time() + ARRIVES_WITHIN_S

    async def receive_in_time() -> Message:
        try:
            async with asyncio.timeout_at(until):
                return await receive()
        except TimeoutError:
            return {"type": "http.disconnect"}

    return receive_in_time


class Refused(Exception):
    """This request may send no file; the message is for the person."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


def uploader(scope: Scope, *, sign_in: bool) -> Actor:
    """Who sends a file, looked up in the accounts. Raises Refused."""
    if not own_page(scope):
        raise Refused(403, "Files are sent from this site's own pages.")
    if not sign_in:
        return LOCAL_USER
    claims = signed_in_claims(scope)
    if claims is None:
        raise Refused(401, "Sign in first.")
    try:
        found = sign_in_of(json.loads(claims))
        person = presence.enter(resources.database(), found, resources.now(), active=False)
    except (SessionEnded, Unidentified, ValueError):
        raise Refused(401, "Your session has ended: sign in again.") from None
    if not is_allowed(person, Action.CREATE_BATCH):
        record_refusal(resources.database(), person.at(resources.now()), Action.CREATE_BATCH)
        raise Refused(403, "Your role does not let you create batches.")
    return person


async def _refuse(status: int, words: str, scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse(words, status_code=status, headers={"Connection": "close"})(scope, receive, send)
