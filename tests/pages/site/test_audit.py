"""Audit: the list, its filters, and what the button finds."""

from sqlalchemy import update

from jobs.audit_anchors import anchor_if_due
from pages.ui import context
from screening.review.actors import LOCAL_USER
from storage.audit_log import anchor
from storage.database import Database
from storage.schema import audit_events
from storage.settings_store import SiteSettings, change, stop
from tests.databases import write
from tests.pages.conftest import Opener
from tests.storage.inbox_cases import ANN, NOW, register


def _some_events(db: Database, count: int = 3) -> None:
    for version in range(count - 1):
        change(db, LOCAL_USER.at(NOW), SiteSettings(lease_minutes=version + 1), version)
    stop(db, LOCAL_USER.at(NOW))


def test_the_newest_event_comes_first_with_names_for_ids(open_page: Opener, page_database: Database) -> None:
    register(page_database, ANN)
    _some_events(page_database)
    table = open_page("audit").dataframe[0].value
    assert list(table["Event"]) == [3, 2, 1]
    assert list(table["Action"]) == ["stopped", "settings changed", "settings changed"]
    assert set(table["Who"]) == {"Local user"}


def test_long_logs_come_in_pages_and_can_be_narrowed(open_page: Opener, page_database: Database) -> None:
    _some_events(page_database, 60)
    page = open_page("audit")
    assert len(page.dataframe[0].value) == 50
    assert any("60 events" in caption.value for caption in page.caption)
    page.selectbox[1].set_value("stopped").run()
    assert len(page.dataframe[0].value) == 1


def test_the_button_tells_a_whole_log_from_a_changed_one(open_page: Opener, page_database: Database) -> None:
    _some_events(page_database)
    page = open_page("audit")
    page.button[0].click().run()
    assert "Not proven. The chain of 3 events is unbroken" in page.warning[0].value
    anchor_if_due(page_database, context.settings(), NOW)
    page.button[0].click().run()
    assert "checkpoints prove it up to event 3" in page.success[0].value
    write(page_database, update(audit_events).where(audit_events.c.seq == 2).values(actor="somebody"))
    page.button[0].click().run()
    assert page.error[-1].value == "Changed: event 2: was changed."


def test_an_anchor_finds_a_cut_off_end(open_page: Opener, page_database: Database) -> None:
    _some_events(page_database)
    kept = anchor(page_database).as_json()
    write(page_database, audit_events.delete().where(audit_events.c.seq == 3))
    page = open_page("audit")
    page.text_input(key="anchor").set_value(kept).run()
    page.button[0].click().run()
    assert "events were cut off" in page.error[-1].value
    page.text_input(key="anchor").set_value("{}").run()
    assert page.error[-1].value == "This is not a checkpoint."
