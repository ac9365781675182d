"""Settings, Notifications: who is told what, without a secret on the page, and a test that goes to the outbox."""

from datetime import time

import pytest
from sqlalchemy import select
from streamlit.testing.v1 import AppTest

from screening.review.actors import LOCAL_USER
from storage.database import Database
from storage.schema import audit_events, notifications
from storage.settings_store import current
from storage.site.recipients import Kind, list_recipients
from tests.pages.conftest import Opener, press


def _fill(page: AppTest, target: str, kind: Kind = Kind.WEBHOOK) -> AppTest:
    page.text_input(key="notify_name").set_value("Ward *one*")
    page.selectbox(key="notify_kind").set_value(kind)
    page.text_input(key="notify_target").set_value(target)
    return press(page, "Add")


def test_a_webhook_is_added_its_secret_shown_once_and_a_test_waits(open_page: Opener, page_database: Database) -> None:
    page = _fill(open_page("settings"), "https://hooks.example.org/token-123")
    assert not page.exception
    shown = [one.value for one in page.code]
    (made,) = list_recipients(page_database, LOCAL_USER)
    assert len(shown[0]) == 64 and made.shown == "hooks.example.org"
    page = press(page, "Send a test")
    assert "The test is on its way." in [one.value for one in page.success] and not page.code
    texts = " ".join(one.value for one in page.text)
    assert "hooks.example.org" in texts and "token-123" not in texts
    assert page_database.values(select(notifications.c.event)) == ["test"]
    logged = " ".join(page_database.values(select(audit_events.c.details)))
    assert "token-123" not in logged and "Ward" not in logged


@pytest.mark.parametrize(
    ("kind", "target", "said"),
    [
        (Kind.WEBHOOK, "http://hooks.example.org/x", "begins with https"),
        (Kind.SERVICE, "json://127.0.0.1/x", "not known here"),
        (Kind.SERVICE, "mailtos://", "not complete"),
    ],
)
def test_what_cannot_be_an_address_is_refused(
    open_page: Opener, page_database: Database, kind: Kind, target: str, said: str
) -> None:
    page = _fill(open_page("settings"), target, kind)
    assert any(said in one.value for one in page.error)
    assert list_recipients(page_database, LOCAL_USER) == ()


def test_a_recipient_added_twice_is_there_once(open_page: Opener, page_database: Database) -> None:
    page = _fill(_fill(open_page("settings"), "https://hooks.example.org/x"), "https://hooks.example.org/x")
    assert any("there already" in one.value for one in page.error)
    assert len(list_recipients(page_database, LOCAL_USER)) == 1


def test_half_of_the_quiet_hours_is_refused(open_page: Opener, page_database: Database) -> None:
    page = open_page("settings")
    page.time_input(key="notify_quiet_from").set_value(time(22))
    page = _fill(page, "https://hooks.example.org/x")
    assert "Give both times of the quiet hours, or neither." in [one.value for one in page.error]
    assert list_recipients(page_database, LOCAL_USER) == ()


def test_recipients_can_be_switched_off_and_removed(open_page: Opener, page_database: Database) -> None:
    page = press(_fill(open_page("settings"), "https://hooks.example.org/x"), "Switch off")
    assert [one.active for one in list_recipients(page_database, LOCAL_USER)] == [False]
    press(page, "Remove")
    assert list_recipients(page_database, LOCAL_USER) == ()


def test_intervals_and_the_address_of_links_are_settings(open_page: Opener, page_database: Database) -> None:
    page = open_page("settings")
    page.number_input(key="P1_notify_minutes_v0").set_value(7.0)
    page.text_input(key="public_address_v0").set_value("https://look.example.org/")
    page.text_input(key="time_zone_v0").set_value("Europe/Berlin")
    page = press(page, "Save")
    assert not page.exception
    found = current(page_database).settings
    assert (found.notify_minutes[1], found.public_address) == (7, "https://look.example.org")
    page.text_input(key="time_zone_v1").set_value("Nowhere/Town")
    page = press(page, "Save")
    assert any("time zone" in one.value for one in page.error)
