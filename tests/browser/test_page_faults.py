"""What a page says when the database goes away, and when the program itself fails; it comes back by itself."""

import re

import psycopg
import pytest
from playwright.sync_api import Page, expect
from psycopg.sql import SQL, Identifier

from tests.browser.conftest import RunningApp, Watch, require_well, screenshot
from tests.browser.desk import choose, next_case, next_shown, open_inbox, stored_labels, waiting_cases
from tests.databases import put_away

pytestmark = pytest.mark.browser

NAME = "pages_that_fail"
AWAY = "The database does not answer."
NOTICE = "Not a crisis service."
NOTICE_GONE = """() => { window.noticeGone = false;
  new MutationObserver(() => { window.noticeGone ||= !document.querySelector(".st-key-notice p"); })
    .observe(document.body, {childList: true, subtree: true}); }"""


@pytest.fixture(scope="module")
def app_environment(postgresql_server: str) -> dict[str, str]:
    """The app over PostgreSQL."""
    with psycopg.connect(postgresql_server, autocommit=True) as admin:
        admin.execute(SQL("CREATE DATABASE {} TEMPLATE template").format(Identifier(NAME)))
    return {"DATABASE_URL": postgresql_server.replace("/postgres?", f"/{NAME}?")}


def test_while_the_database_is_away_a_page_says_so_and_comes_back_by_itself(page: Page, postgresql_server: str) -> None:
    page.goto("/batches")
    expect(page.get_by_role("heading", name="File uploads", exact=True)).to_be_visible()
    with put_away(postgresql_server, NAME):
        page.reload()
        expect(page.get_by_text(AWAY)).to_be_visible()
        expect(page.get_by_text("It tries again by itself.")).to_be_visible()
        expect(page.get_by_text(NOTICE)).to_have_count(1)
        page.evaluate(NOTICE_GONE)
        require_well(page, "database-away")
    expect(page.get_by_role("heading", name="File uploads", exact=True)).to_be_visible()
    expect(page.get_by_text(AWAY)).to_have_count(0)
    assert not page.evaluate("window.noticeGone"), "what stands below it would move"


def test_a_review_saved_while_the_database_is_away_is_stored_once_it_is_back(
    page: Page, running_app: RunningApp, watch: Watch, postgresql_server: str
) -> None:
    with waiting_cases(running_app.database_url, 3) as db:
        open_inbox(page)
        case_id = next_case(page)
        for digit, words, label in (("1", "Safe", "safe"), ("2", "Unsafe", "unsafe")):
            choose(page, digit, "7", words, "High")
            with put_away(postgresql_server, NAME):
                page.keyboard.press("Control+Enter")
                page.keyboard.press("n")
                expect(page.get_by_text(AWAY).first).to_be_visible()
                expect(page.get_by_text(re.compile("^Saving: "))).to_be_visible()
                screenshot(page, f"database-away-{label}")
            read, case_id = case_id, next_shown(page, case_id)
            expect(page.get_by_text(AWAY)).to_have_count(0)
            assert stored_labels(db)[read] == label
    assert all("/_live/inbox/" in one for one in watch.errors), (
        "the list's own question, which says that it is not live"
    )
    watch.errors.clear()


def test_a_fault_of_the_program_is_told_with_a_number_that_the_log_has(page: Page, running_app: RunningApp) -> None:
    with psycopg.connect(running_app.database_url, autocommit=True) as inside:
        inside.execute("ALTER TABLE audit_events RENAME TO audit_events_away")
        page.goto("/audit")
        said = page.get_by_text("Something went wrong.")
        expect(said).to_be_visible()
        inside.execute("ALTER TABLE audit_events_away RENAME TO audit_events")
    number = re.search(r"runs this site: ([0-9a-f]{6})\.", said.inner_text())
    assert number is not None and f"page fault {number[1]}: ProgrammingError" in running_app.log("app")
    require_well(page, "page-fault")
    page.reload()
    expect(page.get_by_role("heading", name="Audit log")).to_be_visible()
    expect(said).to_have_count(0)
