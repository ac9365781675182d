"""Signing out is a press of the button, which comes over the web socket and ends the session on the server; the
addresses that then forget the cookie do nothing while the session is valid, so that no other site can lead there.
"""

import json

from starlette.concurrency import run_in_threadpool
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from pages.components import resources
from pages.components.http import SIGN_IN_AGAIN, signed_in_claims
from pages.components.sign_in import Unidentified, sign_in_of
from storage.review import presence
from storage.site.accounts import SessionEnded

FORGETTING = ("/auth/logout", SIGN_IN_AGAIN)
"""Addresses that forget the cookie: Streamlit's, and ours for a session that ended by itself."""


class SignOutGuard:
    """Refuses to forget the cookie of a session that is still valid."""

    def __init__(self, app: ASGIApp, *, sign_in: bool) -> None:
        self._app = app
        self._sign_in = sign_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = self._sign_in and scope["type"] == "http" and scope["path"].rstrip("/") in FORGETTING
        if asked and await run_in_threadpool(session_is_valid, scope):
            words = "You are still signed in: the way out is the button of your account."
            await PlainTextResponse(words, status_code=405)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def session_is_valid(scope: Scope) -> bool:
    """Whether the request comes from a browser whose session has not ended."""
    claims = signed_in_claims(scope)
    try:
        found = sign_in_of(json.loads(claims or b"{}"))
        presence.enter(resources.database(), found, resources.now(), active=False)
    except (SessionEnded, Unidentified, ValueError):
        return False
    return True
