"""The gate with a clock that the tests turn: refused at the next action, drafts kept."""

import json
from datetime import datetime, timedelta

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from streamlit.testing.v1 import AppTest
from streamlit.web.server.server_util import get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value

from pages.ui import auth, context, http
from pages.ui.auth import FORGETTING, SIGN_OUT, Guard, session_is_valid
from screening.review.actors import LOCAL_USER, Role
from screening.review.policy import Action, Forbidden, is_allowed
from storage.audit_log import events
from storage.database import Database
from storage.settings_store import SiteSettings, change
from storage.site.accounts import SessionEnded, revoke, set_roles
from tests.pages.conftest import Opener, restart, script_at, sign_in
from tests.storage.inbox_cases import ADMIN, ANN, NOW, RESEARCHER, fill, register

MINUTE = timedelta(minutes=1)


class Clock:
    """The time that the pages read."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Starts at noon and stands still."""
    turned = Clock()
    monkeypatch.setattr(context, "now", turned)
    return turned


@pytest.fixture
def visit(open_page: Opener, page_database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Opener:
    """Open the site as somebody whose institution says that they signed in at this moment."""
    register(page_database, ADMIN, ANN, RESEARCHER)
    monkeypatch.setattr(http, "sign_in_configured", lambda: True)
    restart()

    def visited(subject: str | None, at: str = "screen", **claims: object) -> AppTest:
        page = open_page(at)
        page.user = {"is_logged_in": False}
        return page.run() if subject is None else sign_in(page, subject, clock.now, **claims)

    return visited


def _said(page: AppTest) -> str:
    shown = [*page.title, *page.markdown, *page.warning, *page.info, *page.error]
    return " ".join(element.value for element in shown)


def test_nobody_passes_unknown(visit: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not either once the secrets file that asks for a sign-in is gone."""
    page = visit(None)
    assert not page.exception and [button.label for button in page.button] == ["Sign in"]
    assert "Please sign in" in _said(page) and not page.text_area
    monkeypatch.setattr(http, "sign_in_configured", lambda: False)
    page.run()
    assert "Please sign in" in _said(page) and not page.text_area


def test_who_has_signed_in_works_as_themselves(visit: Opener) -> None:
    page = visit(RESEARCHER.id)
    assert not page.exception and page.text_area
    assert page.session_state["actor"] == RESEARCHER


def test_an_idle_session_is_refused_at_the_next_action(visit: Opener, clock: Clock) -> None:
    page = visit(ANN.id)
    clock.now += 29 * MINUTE
    page.run()
    assert page.text_area
    clock.now += 31 * MINUTE
    page.text_area(key="raw").set_value("typed").run()
    assert not page.exception and not page.text_area
    assert "your session has ended" in _said(page)
    assert "actor" not in page.session_state
    clock.now += MINUTE
    page.run()
    assert not page.text_area, "loading the page again does not help"


def test_a_session_ends_after_its_longest_time_whatever_is_done(
    visit: Opener, clock: Clock, page_database: Database
) -> None:
    change(page_database, ADMIN.at(NOW), SiteSettings(idle_minutes=240), 0)
    page = visit(ANN.id)
    for _ in range(3):
        clock.now += 239 * MINUTE
        assert page.run().text_area
    clock.now += 20 * MINUTE
    page.run()
    assert "maximum length" in _said(page)


def test_a_refusal_is_in_the_audit_log(visit: Opener, page_database: Database) -> None:
    visit(ANN.id).switch_page(script_at("errors")).run()
    refused = [event for event in events(page_database, ADMIN) if event.action == "refused"]
    assert [(event.actor, event.details) for event in refused] == [(ANN.id, {"asked": "view_results"})]


def test_a_role_taken_away_ends_what_polls(
    visit: Opener, page_database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fragment runs without the shell: it sees for itself that the person it began with is not the same any more."""
    page = visit(ANN.id)
    claims = {"is_logged_in": True, "iss": "idp", "sub": ANN.id, "iat": NOW.timestamp()}
    ticks: list[str] = []
    monkeypatch.setattr("streamlit.user_info._get_user_info", lambda: claims)
    monkeypatch.setattr(st, "session_state", {"actor": page.session_state["actor"]})
    monkeypatch.setattr(st, "rerun", _rerun)
    tick = auth.poll_session(lambda: ticks.append("tick"))
    tick()
    set_roles(page_database, ADMIN.at(clock.now), ANN.id, frozenset({Role.ADMIN}))
    with pytest.raises(_Rerun):
        tick()
    assert ticks == ["tick"]


class _Rerun(Exception):
    """Stands for the whole page beginning again."""


def _rerun(*, scope: str) -> None:
    assert scope == "app"
    raise _Rerun


@pytest.mark.parametrize("address", FORGETTING)
def test_no_address_signs_somebody_out(
    page_database: Database, clock: Clock, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    """Another site can lead a browser there: only a session that has ended on the server is forgotten."""
    register(page_database, ANN, ADMIN)

    async def forget(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("forgotten")

    guard = Middleware(Guard, sign_in=True)
    client = TestClient(Starlette(routes=[Route(address, forget)], middleware=[guard]))
    assert client.get(address).text == "forgotten", "nobody is signed in"
    claims = json.dumps({"iss": "idp", "sub": ANN.id, "iat": NOW.timestamp()})
    signed = create_signed_value(get_cookie_secret(), http.SIGNED_IN_COOKIE, claims).decode()
    client.cookies.set(http.SIGNED_IN_COOKIE, signed)
    assert client.get(address).status_code == 405
    revoke(page_database, LOCAL_USER.at(clock.now), ANN.id)
    clock.now += 31 * MINUTE
    assert client.get(address).text == "forgotten"


def test_signing_out_is_a_post_from_a_page_of_this_site(page_database: Database, clock: Clock) -> None:
    register(page_database, ANN, ADMIN)
    client = TestClient(Starlette(routes=[auth.SIGN_OUT_ROUTE]), base_url="http://127.0.0.1:8501")
    claims = json.dumps({"iss": "idp", "sub": ANN.id, "iat": NOW.timestamp()})
    cookie = create_signed_value(get_cookie_secret(), http.SIGNED_IN_COOKIE, claims).decode()
    client.cookies.set(http.SIGNED_IN_COOKIE, cookie)
    carried = {"type": "http", "headers": [(b"cookie", f"{http.SIGNED_IN_COOKIE}={cookie}".encode())]}
    assert client.get(SIGN_OUT).status_code == 405
    elsewhere = {"origin": "null", "sec-fetch-site": "cross-site"}
    for origin in ({}, elsewhere, {"origin": "http://elsewhere.example"}, {"origin": "http://127.0.0.1:8502"}):
        assert client.post(SIGN_OUT, headers=origin).status_code == 403 and session_is_valid(carried)
    ours = client.post(SIGN_OUT, headers={"origin": "null", "sec-fetch-site": "same-origin"})
    assert (ours.status_code, ours.headers["refresh"]) == (200, "0; url=/auth/logout")
    assert not session_is_valid(carried), "ended on the server, whatever the browser keeps"


def test_a_case_in_other_hands_that_was_asked_for_is_in_the_audit_log_once(
    visit: Opener, page_database: Database
) -> None:
    [case_id] = fill(page_database, entered=False)
    page = visit(ANN.id)
    page.query_params["case"] = case_id
    page = page.switch_page(script_at("case")).run()
    assert not page.exception
    page.run()
    refused = [event for event in events(page_database, ADMIN) if event.action == "refused"]
    assert [(event.actor, event.subject, event.details) for event in refused] == [
        (ANN.id, case_id, {"asked": "view_evidence"})
    ]


def test_a_text_that_somebody_else_handed_in_is_not_shown_and_the_asking_is_in_the_audit_log(
    visit: Opener, page_database: Database
) -> None:
    [case_id] = fill(page_database, kind="interactive")
    page = visit(ANN.id)
    page.query_params["case"] = case_id
    page.run()
    assert not page.exception and "case" not in page.query_params
    page.run()
    refused = [event for event in events(page_database, ADMIN) if event.action == "refused"]
    assert [(event.actor, event.subject) for event in refused] == [(ANN.id, case_id)]


def test_a_revoked_session_is_refused(visit: Opener, clock: Clock, page_database: Database) -> None:
    page = visit(ANN.id)
    revoke(page_database, LOCAL_USER.at(clock.now), ANN.id)
    page.run()
    assert "You were signed out" in _said(page) and not page.text_area


def test_an_administrator_sees_what_waits_and_is_offered_no_case(visit: Opener, page_database: Database) -> None:
    [case_id] = fill(page_database)
    page = visit(ADMIN.id, "inbox")
    page.query_params["case"] = case_id
    page = page.switch_page(script_at("inbox")).run()
    assert not page.exception and not page.error
    assert "You see the queue" in page.info[0].value
    shown_parts = {
        element.proto.component_name.rpartition(".")[2]: element.proto for element in page.get("bidi_component")
    }
    assert set(shown_parts) == {"queue"}, "no desk"
    given = json.loads(shown_parts["queue"].json)[0]
    assert given["may"] is False and case_id not in str(given)


def test_a_newcomer_has_no_role_and_no_page(visit: Opener) -> None:
    page = visit("new", name="![x](http://outside.example)")
    assert not page.exception and not page.text_area
    assert page.code[0].value == "idp|new"
    assert "outside.example" not in _said(page), "a name is markup in a message"
    assert not is_allowed(page.session_state["actor"], Action.STOP)


def test_an_institution_that_does_not_say_who_is_refused(visit: Opener) -> None:
    page = visit("someone", iat=None)
    assert not page.exception and "does not say who you are" in _said(page) and not page.text_area


def test_a_download_asks_the_session_when_it_is_pressed(
    clock: Clock, page_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    register(page_database, ANN, ADMIN)
    monkeypatch.setattr(http, "sign_in_configured", lambda: True)
    restart()
    claims = {"is_logged_in": True, "iss": "idp", "sub": ANN.id, "iat": NOW.timestamp()}
    monkeypatch.setattr("streamlit.user_info._get_user_info", lambda: claims)
    make, who = auth.check_before(Action.SCREEN_TEXT, lambda: "file"), auth.who_asks()
    assert make() == "file" and who() == ANN
    set_roles(page_database, ADMIN.at(NOW), ANN.id, frozenset({Role.ADMIN}))
    assert who().roles == {Role.ADMIN}
    with pytest.raises(Forbidden):
        make()
    clock.now += 31 * MINUTE
    for ask in (make, who):
        with pytest.raises(SessionEnded):
            ask()
