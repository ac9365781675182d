"""A site of three people who have to sign in, with a clock that the tests turn."""

from collections.abc import Mapping
from datetime import datetime

import pytest
from streamlit.testing.v1 import AppTest

from pages.ui import context, http
from storage.database import Database
from tests.pages.conftest import Opener, restart, script_at, sign_in
from tests.storage.inbox_cases import ADMIN, ANN, NOW, RESEARCHER, register


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
