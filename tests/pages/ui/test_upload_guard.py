"""Who may send a file and how much: the account, the session and the role, not the cookie's signature alone."""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from streamlit.web.server.server_util import get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value

from pages.ui import context
from pages.ui.auth import Guard
from pages.ui.http import SIGNED_IN_COOKIE
from screening.review.actors import Role
from storage.audit_log import events
from storage.database import Database
from storage.site.accounts import revoke, set_active, set_roles
from tests.storage.inbox_cases import ADMIN, ANN, NOW, RESEARCHER, register

UPLOAD = "/_stcore/upload_file/session/file"
HERE = "http://127.0.0.1:8501"
MANY = 10**9


async def _taken(request: Request) -> PlainTextResponse:
    try:
        return PlainTextResponse(f"taken: {len(await request.body())}")
    except ClientDisconnect:
        return PlainTextResponse("cut off", status_code=400)


def _client(*, sign_in: bool) -> TestClient:
    guard = Middleware(Guard, sign_in=sign_in)
    app = Starlette(routes=[Route(UPLOAD, _taken, methods=["PUT", "GET", "DELETE"])], middleware=[guard])
    return TestClient(app, base_url=HERE, headers={"origin": HERE})


def _signed(claims: object) -> str:
    return create_signed_value(get_cookie_secret(), SIGNED_IN_COOKIE, json.dumps(claims)).decode()


@pytest.fixture
def sent(page_database: Database, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], int]:
    """The answer's status when this person's browser sends a file; they signed in at noon, and it is noon."""
    register(page_database, ADMIN, ANN, RESEARCHER)
    monkeypatch.setattr(context, "now", lambda: NOW)

    def of(subject: str) -> int:
        client = _client(sign_in=True)
        client.cookies.set(SIGNED_IN_COOKIE, _signed({"iss": "idp", "sub": subject, "iat": NOW.timestamp()}))
        return client.put(UPLOAD, content=b"x").status_code

    return of


def test_nobody_sends_a_file_before_signing_in() -> None:
    client = _client(sign_in=True)
    assert client.put(UPLOAD, content=b"x").status_code == 401
    client.cookies.set(SIGNED_IN_COOKIE, "forged")
    assert client.put(UPLOAD, content=b"x").status_code == 401
    client.cookies.set(SIGNED_IN_COOKIE, _signed({}))
    assert client.put(UPLOAD, content=b"x").status_code == 401, "a good signature under nobody's name"


def test_whoever_may_create_batches_sends_files_and_nobody_else(
    sent: Callable[[str], int], page_database: Database
) -> None:
    assert [sent(RESEARCHER.id), sent(ANN.id), sent(ADMIN.id), sent("a newcomer")] == [200, 403, 403, 403]
    refused = [event for event in events(page_database, ADMIN) if event.action == "refused"]
    assert {ANN.id, ADMIN.id} < {event.actor for event in refused} and len(refused) == 3
    assert all(event.details == {"asked": "create_batch"} for event in refused)


def test_a_role_taken_away_an_account_switched_off_and_a_session_ended_count_at_once(
    sent: Callable[[str], int], page_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_roles(page_database, ADMIN.at(NOW), RESEARCHER.id, frozenset({Role.REVIEWER}))
    assert sent(RESEARCHER.id) == 403
    set_roles(page_database, ADMIN.at(NOW), RESEARCHER.id, frozenset({Role.RESEARCHER}))
    assert sent(RESEARCHER.id) == 200
    set_active(page_database, ADMIN.at(NOW), RESEARCHER.id, False)
    assert sent(RESEARCHER.id) == 401
    set_active(page_database, ADMIN.at(NOW), RESEARCHER.id, True)
    monkeypatch.setattr(context, "now", lambda: NOW + timedelta(minutes=31))
    assert sent(RESEARCHER.id) == 401, "idle"
    revoke(page_database, ADMIN.at(NOW), RESEARCHER.id)
    assert sent(RESEARCHER.id) == 401


def test_a_file_comes_from_a_page_of_this_host() -> None:
    client = _client(sign_in=False)
    assert client.put(UPLOAD, content=b"abc").text == "taken: 3"
    for origin in ("http://elsewhere.example", "http://127.0.0.1:3000", "null"):
        assert client.put(UPLOAD, content=b"abc", headers={"origin": origin}).status_code == 403
    del client.headers["origin"]
    assert client.put(UPLOAD, content=b"abc").status_code == 403
