"""A site of three people who have to sign in, with a clock that the tests turn; and their cookies."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest
from streamlit.web.server.server_util import get_cookie_secret
from streamlit.web.server.starlette.starlette_app_utils import create_signed_value

from pages.ui import context, http
from storage.database import Database
from tests.pages.conftest import Opener, restart, script_at, sign_in
from tests.storage.inbox_cases import register
from tests.storage.people import ADMIN, ANN, NOW, RESEARCHER


def claims_of(subject: str) -> dict[str, Any]:
    """What an institution says of somebody who signed in when the clock begins."""
    return {"iss": "idp", "sub": subject, "iat": NOW.timestamp()}


def signed(claims: object) -> str:
    return create_signed_value(get_cookie_secret(), http.SIGNED_IN_COOKIE, json.dumps(claims)).decode()


class Clock:
    """The time that the pages read."""

    now = NOW

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock(page_database: Database, monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Starts in the morning and stands still."""
    turned = Clock()
    monkeypatch.setattr(context, "now", turned)
    register(page_database, ADMIN, ANN, RESEARCHER)
    monkeypatch.setattr(http, "sign_in_configured", lambda: True)
    restart()
    return turned


@pytest.fixture
def visit(open_page: Opener, clock: Clock) -> Opener:
    """Open a page as somebody whose institution says that they signed in at this moment; None has not."""

    def visited(
        subject: str | None, at: str = "screen", claims: Mapping[str, object] | None = None, **query: str
    ) -> AppTest:
        page = open_page(at)
        page.user = {"is_logged_in": False}
        page = page.run() if subject is None else sign_in(page, subject, clock.now, **(claims or {}))
        for name, value in query.items():
            page.query_params[name] = value
        page = page.switch_page(script_at(at)).run() if query else page
        assert not page.exception, page.exception
        return page

    return visited
