"""What is typed into a field of Streamlit's own is not lost with the page, and not kept once it is recorded."""

from datetime import UTC, datetime

from playwright.sync_api import Page, expect
from sqlalchemy import select

from screening.review.actors import LOCAL_USER
from storage.identifiers import new_id
from storage.review.claims import claim_next
from storage.review.ratings import submit_rating
from storage.schema import follow_ups
from tests.browser.conftest import RunningApp
from tests.browser.desk import open_inbox, waiting_cases
from tests.storage.inbox_cases import form

KEPT = "() => Object.keys(localStorage).filter((name) => name.includes('follow_up_note'))"


def test_a_note_that_is_typed_outlives_the_page_until_it_is_recorded(page: Page, running_app: RunningApp) -> None:
    by = LOCAL_USER.at(datetime.now(UTC))
    with waiting_cases(running_app.database_url, 1) as db:
        claimed = claim_next(db, by)
        assert claimed is not None
        rating = form("unsafe", disposition="urgent")
        submit_rating(db, by, claimed.case_id, claimed.token, rating, new_id(by.now))
        open_inbox(page)
        page.get_by_text("1 follow-up open").click()
        note = page.locator("[class*=st-key-follow_up_note_] input")
        note.press_sequentially("called, is with fam")
        page.reload()
        page.get_by_text("1 follow-up open").click()
        expect(note).to_have_value("called, is with fam")
        page.get_by_role("button", name="Done", exact=True).click()
        expect(page.get_by_text("Closed.")).to_be_visible()
        expect(page.get_by_text("1 follow-up open")).to_have_count(0)
        page.wait_for_function(f"() => ({KEPT})().length === 0")
        with db.read() as conn:
            assert conn.execute(select(follow_ups.c.note)).scalars().all()[-1] == "called, is with fam"
