"""Signing out is a form that posts from a page of this site and ends the session on the server; the addresses that then
forget the cookie do nothing while the session is valid, so that no other site can lead there.
"""

import json

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pages.components import resources
from pages.components.http import SIGN_IN_AGAIN, signed_in_claims
from pages.components.sign_in import Unidentified, sign_in_of
from pages.components.web_socket import own_page
from storage.review import presence
from storage.site.accounts import SessionEnded

SIGN_OUT, LOGOUT = "/sign-out", "/auth/logout"
FORGETTING = (LOGOUT, SIGN_IN_AGAIN)
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


async def _sign_out(request: Request) -> Response:
    """End the session, then lead on to where the cookie is forgotten and the institution is told. Led by a header and
    not by a redirect: the policy lets a form's answer lead to no other host, and the institution is one. A page without
    referrer posts its form with the Origin null, and says in another header where it is from.
    """
    if request.headers.get("sec-fetch-site") != "same-origin" and not own_page(request.scope):
        return PlainTextResponse("Signing out is for pages of this site.", status_code=403)
    claims = signed_in_claims(request.scope)
    try:
        who = sign_in_of(json.loads(claims or b"{}"))
    except (Unidentified, ValueError):
        return PlainTextResponse("Nobody is signed in here.", headers={"Refresh": "0; url=/"})
    await run_in_threadpool(lambda: presence.sign_out(resources.database(), who, resources.now()))
    return PlainTextResponse("You are signed out.", headers={"Refresh": f"0; url={LOGOUT}"})


ROUTE = Route(SIGN_OUT, _sign_out, methods=["POST"])
FORM = f'<form class="sl-out" method="post" action="{SIGN_OUT}"><button type="submit">Sign out</button></form>'
