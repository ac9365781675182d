"""The gate: with sign-in nobody gets past it unknown or with a session that ended; without, there is one local user."""

import hashlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from html import escape
from typing import Any, ParamSpec, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import streamlit as st

from pages.components import resources
from pages.components.http import SIGN_IN_AGAIN, SIGNED_IN_COOKIE
from screening.review.actors import LOCAL_USER, Actor, Role
from screening.review.policy import Action, require
from screening.text.display import visible
from storage.review import presence
from storage.site.accounts import Ended, SessionEnded, SignIn

LONGEST_SUBJECT = 255
_P = ParamSpec("_P")
_T = TypeVar("_T")

KEPT = "What said that it was saved is saved; what you had filled in otherwise is kept as a draft."
_TAKEN = "role_taken"
"""Session key of the roles that were taken from them while they worked."""

WHY: Mapping[Ended, str] = {
    Ended.IDLE: "Nothing was done for a while, so your session has ended.",
    Ended.TOO_OLD: "Your session has reached its maximum length.",
    Ended.SIGNED_OUT: "You were signed out.",
    Ended.INACTIVE: "This account is switched off. Ask an administrator of this site.",
}


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
    if not resources.sign_in_configured():
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
    admins = resources.settings().first_admins
    return presence.enter(resources.database(), found, resources.now(), admins, active=active)


def poll_session(tick: Callable[_P, None]) -> Callable[_P, None]:
    """A fragment's function that first asks whether the session is still valid and the roles are the same: a fragment
    runs without the shell, and without this would go on with the roles that its page began with.
    """

    def check_and_tick(*args: _P.args, **kwargs: _P.kwargs) -> None:
        check_session(active=False)
        tick(*args, **kwargs)

    return check_and_tick


def browser_of(cookies: Mapping[str, str]) -> str:
    """Which sign-in a browser carries; empty without one. A large cookie comes in several parts."""
    return "".join(value for name, value in sorted(cookies.items()) if name.startswith(SIGNED_IN_COOKIE))


def check_session(*, active: bool) -> None:
    """In a fragment: ask again who is here, and run the whole page where session or roles are not what they were.

    ``active`` says that the person did something, which keeps the session from ending for idleness.
    """
    if resources.sign_in_configured():
        try:
            person = _enter(active=active)
        except (SessionEnded, Unidentified):
            st.rerun(scope="app")
        if person != st.session_state.get("actor"):
            st.rerun(scope="app")


def who_asks(*, active: bool = True) -> Callable[[], Actor]:
    """A function that says who asks at the moment it is called, outside the page: with the roles they have by then.

    ``active``: being asked for is a sign that somebody is there. It raises SessionEnded.
    """
    if not resources.sign_in_configured():
        return lambda: LOCAL_USER
    found, db, clock = sign_in_of(st.user.to_dict()), resources.database(), resources.now
    return lambda: presence.enter(db, found, clock(), active=active)


def check_before(action: Action, make: Callable[[], _T]) -> Callable[[], _T]:
    """A download's function that asks session and policy again when it is pressed.

    It raises SessionEnded or Forbidden, so that nothing is made.
    """
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
    target = f"{SIGN_IN_AGAIN}?next={quote(where, safe='')}"
    return f'<a class="sl-again" href="{escape(target, quote=True)}" target="_self">Sign in again</a>'


def without_role(person: Actor) -> None:
    """What somebody sees who has signed in and whom no administrator has given a role, or from whom it was taken."""
    st.title("Second Look")
    words = f"Your role was taken away. {KEPT}" if taken_roles() else "You are signed in, and your account has no role."
    st.info(words, icon=":material/badge:")
    st.text(visible(person.name))
    st.write("An administrator of this site grants roles on the Settings page. Your account is known there as:")
    st.code(sign_in_of(st.user.to_dict()).subject, language=None, wrap_lines=True)
