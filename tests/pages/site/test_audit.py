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
from tests.storage.inbox_cases import NOW


def test_events_come_newest_first_and_a_change_or_a_cut_is_found(open_page: Opener, page_database: Database) -> None:
    for version in range(59):
        change(page_database, LOCAL_USER.at(NOW), SiteSettings(lease_minutes=version + 1), version)
    stop(page_database, LOCAL_USER.at(NOW))
    page = open_page("audit")
    table = page.dataframe[0].value
    assert list(table["Event"]) == list(range(60, 10, -1)) and set(table["Who"]) == {"Local user"}
    assert list(table["Action"])[:2] == ["stopped", "settings changed"]
    page.selectbox[1].set_value("stopped").run()
    assert list(page.dataframe[0].value["Event"]) == [60]
    page.button[0].click().run()
    assert "Not proven." in page.warning[0].value and not page.success
    kept = anchor(page_database).as_json()
    anchor_if_due(page_database, context.settings(), NOW)
    page.button[0].click().run()
    assert "up to event 60" in page.success[0].value and not page.warning
    write(page_database, update(audit_events).where(audit_events.c.seq == 2).values(actor="somebody"))
    page.button[0].click().run()
    assert page.error[-1].value == "Changed: event 2: was changed." and not page.success
    page.text_input(key="anchor").set_value("{}").run()
    assert page.error[-1].value == "This is not a checkpoint."
    write(page_database, audit_events.delete())
    page.text_input(key="anchor").set_value(kept).run()
    page.button[0].click().run()
    assert "cut off" in page.error[-1].value
