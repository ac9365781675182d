"""The Programs tab: a token is made, shown once, works, and is revoked; what is wrong is said and makes none."""

import pytest
from sqlalchemy import select
from streamlit.testing.v1 import AppTest

from screening.review.actors import LOCAL_USER
from storage.database import Database
from storage.schema import audit_events, programs
from storage.site.programs import Scope, UnknownToken, list_programs, program_of
from tests.pages.conftest import Opener


def _said(page: AppTest) -> str:
    assert not page.exception, page.exception
    return " ".join([*(one.value for one in (*page.caption, *page.text, *page.info, *page.success))])


def _make(page: AppTest, name: str, webhook: str = "") -> AppTest:
    [one for one in page.text_input if one.label == "Name"][-1].set_value(name)  # accounts have one as well
    next(one for one in page.text_input if one.label.startswith("Webhook")).set_value(webhook)
    return next(one for one in page.button if one.label == "Create token").click().run()


def test_a_token_is_shown_once_works_and_is_revoked(open_page: Opener, page_database: Database) -> None:
    page = open_page("settings")
    assert "No API client yet." in _said(page)
    page = _make(page, "<b>Intake</b>")
    assert "shown once" in _said(page) and "<b>Intake</b>" in _said(page)
    (token,) = (one.value for one in page.code if one.value.startswith("sl_"))
    made = program_of(page_database, token)
    assert (made.name, made.scopes, made.per_minute) == ("<b>Intake</b>", {Scope.SUBMIT, Scope.OUTCOMES}, 600)
    assert token not in str(page_database.rows(select(programs)))
    assert token not in str(page_database.rows(select(audit_events)))
    page.run()
    assert not [one for one in page.code if one.value.startswith("sl_")]
    page.button(key=f"revoke_program_{made.id}").click().run()
    assert "Revoked " in _said(page)
    with pytest.raises(UnknownToken):
        program_of(page_database, token)


@pytest.mark.parametrize(("name", "webhook"), [(" ", ""), ("Intake", "http://example.org/x"), ("Intake", "no address")])
def test_a_program_without_a_name_or_with_a_webhook_that_is_none_is_not_made(
    open_page: Opener, page_database: Database, name: str, webhook: str
) -> None:
    page = _make(open_page("settings"), name, webhook)
    assert not page.exception and page.error
    assert list_programs(page_database, LOCAL_USER) == ()
