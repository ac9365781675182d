"""The gate with a clock that the tests turn: refused at the next action, drafts kept."""

from datetime import timedelta

import pytest
import streamlit as st
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from streamlit.testing.v1 import AppTest

from pages.ui import auth, http
from pages.ui.auth import FORGETTING, SIGN_OUT, WHY, Guard, session_is_valid
from screening.review.actors import LOCAL_USER, Role
from storage.database import Database
from storage.site.accounts import Ended, revoke, set_roles
from tests.pages.conftest import Opener, refusals
from tests.pages.ui.conftest import Clock, claims_of, signed
from tests.storage.inbox_cases import fill
from tests.storage.people import ADMIN, ANN, RESEARCHER

MINUTE = timedelta(minutes=1)


@pytest.fixture
def of_ann(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The same where a page is Ann's, outside of its script."""
    monkeypatch.setattr("streamlit.user_info._get_user_info", lambda: {"is_logged_in": True, **claims_of(ANN.id)})
    return clock


def test_a_sign_in_is_known_by_issuer_subject_and_moment_and_its_way_back_stays_here() -> None:
    claims = {"iss": "https://idp.example", "sub": "0", "iat": 1_790_000_000, "name": "Ann Example", "nonce": "n1"}
    found, again, other = (auth.sign_in_of(claims | more) for more in ({}, {}, {"nonce": "n2"}))
    assert (found.subject, found.display_name) == ("https://idp.example|0", "Ann Example")
    assert found.session_id == again.session_id != other.session_id
    assert len(auth.sign_in_of(claims | {"sub": "x" * 400}).subject) < 100
    for missing in ("iss", "sub", "iat"):
        with pytest.raises(auth.Unidentified):
            auth.sign_in_of({name: value for name, value in claims.items() if name != missing})
    back = auth.again_html("https://site.example/inbox", {"case": "01", "x": '"'})
    assert 'href="/sign-in-again?next=%2Finbox%3Fcase%3D01%26x%3D%2522"' in back


def _said(page: AppTest) -> str:
    shown = [*page.title, *page.markdown, *page.warning, *page.info, *page.error]
    return " ".join(element.value for element in shown)


def test_nobody_passes_unknown(visit: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor who has no role, nor whom the institution does not name; nor once the secrets file is gone."""
    page = visit("new", claims={"name": "![x](http://outside.example)"})
    assert page.code[0].value == "idp|new" and not page.text_area and not page.session_state["actor"].roles
    assert "outside.example" not in _said(page), "a name is markup in a message"
    page = visit("someone", claims={"iat": None})
    assert "does not say who you are" in _said(page) and not page.text_area
    page = visit(None)
    assert [button.label for button in page.button] == ["Sign in"] and not page.text_area
    monkeypatch.setattr(http, "sign_in_configured", lambda: False)
    assert [button.label for button in page.run().button] == ["Sign in"] and not page.text_area


def test_an_idle_or_revoked_session_is_refused(visit: Opener, clock: Clock, page_database: Database) -> None:
    page = visit(RESEARCHER.id)
    assert page.session_state["actor"] == RESEARCHER, "who has signed in works as themselves"
    clock.now += 29 * MINUTE
    assert page.run().text_area
    clock.now += 31 * MINUTE
    page.text_area(key="raw").set_value("typed").run()
    assert not page.text_area and WHY[Ended.IDLE] in _said(page) and "actor" not in page.session_state
    clock.now += MINUTE
    assert not page.run().text_area, "loading the page again does not help"
    page = visit(ANN.id)
    revoke(page_database, LOCAL_USER.at(clock.now), ANN.id)
    assert not page.run().text_area and WHY[Ended.SIGNED_OUT] in _said(page)


def test_a_role_taken_away_ends_what_polls(
    of_ann: Clock, page_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fragment runs without the shell: it sees for itself that the person it began with is not the same any more."""
    ticks: list[str] = []

    def rerun(*, scope: str) -> None:
        ticks.append(scope)
        raise InterruptedError

    monkeypatch.setattr(st, "session_state", {"actor": ANN})
    monkeypatch.setattr(st, "rerun", rerun)
    tick = auth.poll_session(lambda: ticks.append("tick"))
    tick()
    set_roles(page_database, ADMIN.at(of_ann.now), ANN.id, frozenset({Role.ADMIN}))
    with pytest.raises(InterruptedError):
        tick()
    assert ticks == ["tick", "app"]


@pytest.mark.parametrize("address", FORGETTING)
def test_no_address_signs_somebody_out(page_database: Database, clock: Clock, address: str) -> None:
    """Another site can lead a browser there: only a session that has ended on the server is forgotten."""

    async def forget(_request: Request) -> PlainTextResponse:
        return PlainTextResponse("forgotten")

    site = Starlette(routes=[Route(address, forget)], middleware=[Middleware(Guard, sign_in=True)])
    client = TestClient(site)
    assert client.get(address).text == "forgotten", "nobody is signed in"
    client.cookies.set(http.SIGNED_IN_COOKIE, signed(claims_of(ANN.id)))
    assert client.get(address).status_code == 405
    revoke(page_database, LOCAL_USER.at(clock.now), ANN.id)
    clock.now += 31 * MINUTE
    assert client.get(address).text == "forgotten"


def test_signing_out_is_a_post_from_a_page_of_this_site(clock: Clock) -> None:
    cookie = signed(claims_of(ANN.id))
    here = "http://127.0.0.1:8501"
    site = Starlette(routes=[auth.SIGN_OUT_ROUTE])
    client = TestClient(site, base_url=here, cookies={http.SIGNED_IN_COOKIE: cookie})
    carried = {"type": "http", "headers": [(b"cookie", f"{http.SIGNED_IN_COOKIE}={cookie}".encode())]}
    assert client.get(SIGN_OUT).status_code == 405
    elsewhere = {"origin": "null", "sec-fetch-site": "cross-site"}
    for origin in ({}, elsewhere, {"origin": "http://elsewhere.example"}, {"origin": "http://127.0.0.1:8502"}):
        assert client.post(SIGN_OUT, headers=origin).status_code == 403 and session_is_valid(carried)
    ours = client.post(SIGN_OUT, headers={"origin": "null", "sec-fetch-site": "same-origin"})
    assert (ours.status_code, ours.headers["refresh"]) == (200, "0; url=/auth/logout")
    assert not session_is_valid(carried), "ended on the server, whatever the browser keeps"


def test_what_was_refused_is_in_the_audit_log_once(visit: Opener, page_database: Database) -> None:
    """A page beyond one's role, a case in other hands, and a text that somebody else handed in, which is not shown."""
    [case_id] = fill(page_database, entered=False)
    [theirs] = fill(page_database, kind="interactive")
    visit(ANN.id, "errors").run()
    visit(ANN.id, "case", case=case_id).run()
    page = visit(ANN.id, "screen", case=theirs).run()
    assert not page.exception and "case" not in page.query_params
    kept = [(ANN.id, None, "view_results"), (ANN.id, case_id, "view_evidence"), (ANN.id, theirs, "view_evidence")]
    assert sorted(refusals(page_database), key=str) == sorted(kept, key=str)
