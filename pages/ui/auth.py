"""Who is here: the gate of the pages, signing out, and who may send a file. Without sign-in there is one local user."""

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import streamlit as st
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pages.ui import context, html, http
from pages.ui.words import words_of
from screening.review.policy import LOCAL_USER, Action, Actor, Role, is_allowed, require
from screening.text.display import visible
from storage.audit_log import record_refusal
from storage.site import accounts
from storage.site.accounts import Ended, SessionEnded, SignIn

LONGEST_SUBJECT = 255
_P = ParamSpec("_P")
_T = TypeVar("_T")

KEPT = "Anything marked saved is saved. The rest is kept as a draft."
_TAKEN = "role_taken"
WHY = words_of(Ended, "session_ended")


class Unidentified(Exception):
    """The institution's answer does not say who this is, or when they signed in."""


def sign_in_of(claims: Mapping[str, Any]) -> SignIn:
    """The sign-in that an ID token's claims speak of. Unidentified without issuer, subject or time of issue."""
    issuer, subject, issued = claims.get("iss"), claims.get("sub"), claims.get("iat")
    if not (issuer and subject and isinstance(issued, int | float)):
        raise Unidentified("the institution's sign-in does not say who you are")
    who = f"{issuer}|{subject}"
    if len(who) > LONGEST_SUBJECT:
        who = f"sha256|{hashlib.sha256(who.encode()).hexdigest()}"
    name = next((claims[key] for key in ("name", "preferred_username", "email") if claims.get(key)), subject)
    mark = next((str(claims[key]) for key in ("sid", "jti", "nonce", "at_hash") if claims.get(key)), "")
    return SignIn(
        subject=who, display_name=str(name)[:120], issued_at=datetime.fromtimestamp(float(issued), UTC), mark=mark
    )


def current_actor() -> Actor | None:
    """Who is here, asked of the server-side session on every run; None when they have yet to sign in (again)."""
    if not context.sign_in_configured():
        return LOCAL_USER
    before: Actor | None = st.session_state.pop("actor", None)
    st.session_state.pop("session_ended", None)
    if st.user.to_dict().get("is_logged_in") is not True:
        return None
    try:
        st.session_state["actor"] = _enter(active=True)
    except SessionEnded as ended:
        st.session_state["session_ended"] = ended.why
        return None
    actor: Actor = st.session_state["actor"]
    if before is not None and (taken := before.roles - actor.roles):
        st.session_state[_TAKEN] = taken
    return actor


def taken_roles() -> frozenset[Role]:
    """The roles that were taken from this person last while they worked in this page."""
    return st.session_state.get(_TAKEN, frozenset())  # type: ignore[no-any-return]


def _enter(*, active: bool) -> Actor:
    found = sign_in_of(st.user.to_dict())
    admins = context.settings().first_admins
    return accounts.enter(context.database(), found, context.now(), admins, active=active)


def poll_session(tick: Callable[_P, None]) -> Callable[_P, None]:
    """A fragment's function that first asks for session and roles: a fragment runs without the shell."""

    def check_and_tick(*args: _P.args, **kwargs: _P.kwargs) -> None:
        check_session(active=False)
        tick(*args, **kwargs)

    return check_and_tick


def browser_of(cookies: Mapping[str, str]) -> str:
    """Which sign-in a browser carries; empty without one. A large cookie comes in several parts."""
    return "".join(value for name, value in sorted(cookies.items()) if name.startswith(http.SIGNED_IN_COOKIE))


def check_session(*, active: bool) -> None:
    """In a fragment: run the whole page where session or roles are not what they were."""
    if context.sign_in_configured():
        try:
            person = _enter(active=active)
        except (SessionEnded, Unidentified):
            st.rerun(scope="app")
        if person != st.session_state.get("actor"):
            st.rerun(scope="app")


def who_asks(scope: Scope | None = None) -> Callable[..., Actor]:
    """A function that says who asks at the moment it is called, outside the page, or who sent this request: with the
    roles they have by then. With ``active`` False they do nothing that keeps the session from ending for idleness. It
    raises SessionEnded; Unidentified at once where nobody is signed in.
    """
    if not context.sign_in_configured():
        return lambda active=True: LOCAL_USER
    found = sign_in_of(st.user.to_dict()) if scope is None else _sign_in_over(scope)
    db, clock = context.database(), context.now
    return lambda active=True: accounts.enter(db, found, clock(), active=active)


def check_before(action: Action, make: Callable[[], _T]) -> Callable[[], _T]:
    """A download's function that asks session and policy again: SessionEnded or Forbidden."""
    who = who_asks()

    def check_and_make() -> _T:
        require(who(), action)
        return make()

    return check_and_make


def gate() -> None:
    """What somebody sees who is not signed in, or whose session has ended."""
    st.title("Second Look")
    ended: Ended | None = st.session_state.get("session_ended")
    if ended is None:
        st.write("Please sign in with your institution's account.")
        if st.button("Sign in", type="primary", icon=":material/login:"):
            st.login()
        return
    st.warning(f"{WHY[ended]} What you had filled in is kept as a draft.", icon=":material/lock_clock:")
    if ended is not Ended.INACTIVE:
        st.html(again_html(st.context.url or "/", st.query_params.to_dict()))


def again_html(address: str, query: Mapping[str, str]) -> str:
    """The link that leads through a new sign-in back to this page and its query."""
    where = (urlsplit(address).path or "/") + (f"?{urlencode(query)}" if query else "")
    target = f"{http.SIGN_IN_AGAIN}?next={quote(where, safe='')}"
    return html.links_html([html.Link("Sign in again", target)])


def without_role(person: Actor) -> None:
    """What somebody sees who has signed in and whom no administrator has given a role, or from whom it was taken."""
    st.title("Second Look")
    words = f"Your access was removed. {KEPT}" if taken_roles() else "You are signed in, and your account has no role."
    st.info(words, icon=":material/badge:")
    st.text(visible(person.name))
    st.write("An administrator of this site grants roles on the Settings page. Your account is known there as:")
    st.code(sign_in_of(st.user.to_dict()).subject, language=None, wrap_lines=True)


SIGN_OUT, LOGOUT = "/sign-out", "/auth/logout"
FORGETTING = (LOGOUT, http.SIGN_IN_AGAIN)
"""Addresses that forget the cookie: Streamlit's, and ours for a session that ended by itself."""


def _sign_in_over(scope: Scope) -> SignIn:
    return sign_in_of(json.loads(http.signed_in_claims(scope) or b"{}"))


def session_is_valid(scope: Scope) -> bool:
    """Whether the request comes from a browser whose session has not ended."""
    with suppress(SessionEnded, Unidentified, ValueError):
        return who_asks(scope)(active=False) is not None
    return False


async def _sign_out(request: Request) -> Response:
    """End the session, then lead on to where the cookie is forgotten and the institution is told. Led by a header and
    not by a redirect: the policy lets a form's answer lead to no other host, and the institution is one. A page without
    referrer posts its form with the Origin null, and says in another header where it is from.
    """
    if request.headers.get("sec-fetch-site") != "same-origin" and not http.own_page(request.scope):
        return PlainTextResponse("Signing out is for pages of this site.", status_code=403)
    try:
        who = _sign_in_over(request.scope)
    except (Unidentified, ValueError):
        return PlainTextResponse("Nobody is signed in here.", headers={"Refresh": "0; url=/"})
    await run_in_threadpool(lambda: accounts.sign_out(context.database(), who, context.now()))
    return PlainTextResponse("You are signed out.", headers={"Refresh": f"0; url={LOGOUT}"})


SIGN_OUT_ROUTE = Route(SIGN_OUT, _sign_out, methods=["POST"])
SIGN_OUT_FORM = f'<form class="sl-out" method="post" action="{SIGN_OUT}"><button type="submit">Sign out</button></form>'


def upload_refusal(scope: Scope, *, sign_in: bool) -> Response | None:
    """The answer to whoever may send no file, as the accounts have them now; None for everybody else."""
    status, why = 401, "Your session has ended: sign in again."
    if not http.own_page(scope):
        status, why = 403, "Files are sent from this site's own pages."
    elif not sign_in:
        return None
    elif not http.has_session_cookie(scope):
        why = "Sign in first."
    else:
        with suppress(SessionEnded, Unidentified, ValueError):
            person = who_asks(scope)(active=False)
            if is_allowed(person, Action.CREATE_BATCH):
                return None
            record_refusal(context.database(), person.at(context.now()), Action.CREATE_BATCH)
            status, why = 403, "Your role does not let you upload files."
    return PlainTextResponse(why, status_code=status, headers={"Connection": "close"})


BUSY = 1013
MOST_STRANGERS, ARRIVES_WITHIN_S = 100, 600.0


class Guard:
    """What is for pages of this host and people who are here: web sockets, files sent, and forgetting a sign-in.

    A web socket of another site is refused, and messages that only a developer's browser would send are dropped.
    Whoever has not signed in, where people must, gets one of a few places, for small messages and for a while: a page
    of theirs that stays open connects anew by itself. A file is taken from somebody in a session that is still valid
    who may create batches; everything else is refused before its first byte is read. The cookie of a valid session is
    not forgotten.
    """

    def __init__(self, app: ASGIApp, *, sign_in: bool) -> None:
        self._app = app
        self._sign_in = sign_in
        self._strangers = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send)
        elif scope["type"] == "http" and scope["method"] == "PUT" and "/_stcore/upload_file/" in scope["path"]:
            await self._upload(scope, receive, send)
        elif (
            self._sign_in
            and scope["type"] == "http"
            and scope["path"].rstrip("/") in FORGETTING
            and await run_in_threadpool(session_is_valid, scope)
        ):
            words = "You are still signed in: sign out with the button of your account."
            await PlainTextResponse(words, status_code=405)(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _socket(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not http.own_page(scope):
            await _close(receive, send, http.REFUSED)
        elif not self._sign_in or http.has_session_cookie(scope):
            await self._app(scope, http.of_pages(receive), send)
        elif self._strangers >= MOST_STRANGERS:
            await _close(receive, send, BUSY)
        else:
            self._strangers += 1
            try:
                await self._app(scope, http.of_strangers(http.of_pages(receive)), send)
            finally:
                self._strangers -= 1

    async def _upload(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = await run_in_threadpool(upload_refusal, scope, sign_in=self._sign_in)
        if refusal is not None:
            await refusal(scope, receive, send)
        else:
            await self._app(scope, http.until(ARRIVES_WITHIN_S, receive, {"type": "http.disconnect"}), send)


async def _close(receive: Receive, send: Send, code: int) -> None:
    await receive()  # the handshake
    await send({"type": "websocket.close", "code": code})
