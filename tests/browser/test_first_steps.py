"""Without a hint, from the first page to a reviewed case: clicks are counted, and what is needed is in sight."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect
from sqlalchemy import select

from screening.labels import Outcome
from storage.database import Database
from storage.schema import cases, inbox_entries
from tests.browser.accessibility import each_scheme, violations
from tests.browser.conftest import VIEWPORT, RunningApp, require_well, screenshot
from tests.browser.test_home import OPTIONS
from tests.storage.batch_of import batch, decide

pytestmark = pytest.mark.browser


class Clicks:
    """Clicks of a person, counted; each only on what stands in the window."""

    def __init__(self) -> None:
        self.made = 0

    def on(self, target: Locator) -> None:
        """One more."""
        expect(target).to_be_visible()
        target.click()
        self.made += 1


def in_sight(target: Locator) -> bool:
    """Whether all of it stands in the window at 1440 by 900 without scrolling."""
    box = target.bounding_box()
    return box is not None and box["y"] >= 0 and box["y"] + box["height"] <= VIEWPORT["height"]


def test_a_file_is_screened_and_its_first_case_reviewed_within_nine_clicks(page: Page) -> None:
    clicks = Clicks()
    page.goto("/")
    clicks.on(page.get_by_role("button", name="Try sample data"))
    start = page.get_by_role("button", name="Start screening 120 texts")
    expect(start).to_be_visible()
    page.wait_for_timeout(1_500)
    assert page.evaluate("scrollY + document.querySelector('[data-testid=stMain]').scrollTop") == 0
    needed = [
        start,
        page.get_by_text("120 rows: 120 accepted, 0 rejected"),
        page.get_by_text("Confirm columns"),
        page.get_by_text("Preview"),
        page.get_by_text("What happens to texts the AI labels unsafe?"),
        page.get_by_text("No one sees them: 37 labeled unsafe in your file"),
        page.get_by_role("cell", name="AI responses").or_(page.get_by_text("AI responses")).first,
        page.get_by_text("Advanced: pipeline, error bound, limits"),
    ]
    for one in needed:
        assert in_sight(one), one
    expect(page.get_by_text("Error bound (δ)")).to_be_hidden()
    require_well(page, "upload-check")
    clicks.on(start)
    expect(page.get_by_text("✓ Finished")).to_be_visible(timeout=60_000)
    review = page.get_by_role("link", name="Start reviewing")
    heading = page.get_by_role("heading", name=re.compile(r"^\d+ cases to review"))
    expect(heading).to_be_visible()
    number = re.findall(r"\d+", heading.inner_text())[0]
    clicks.on(review)
    expect(page.get_by_text("Only cases of sample.csv")).to_be_visible()
    expect(page.get_by_text(re.compile(rf"^{number} (wait|in queue)"))).to_be_visible()
    clicks.on(page.get_by_role("button", name=re.compile("^Next case")))
    clicks.on(page.locator(".sld-chip").filter(has_text="Unsafe").first)
    clicks.on(page.locator(".sld-chip").filter(has_text=re.compile("Sure|High")).last)
    if (none := page.locator(".sld-chip").filter(has_text="No action")).count():
        clicks.on(none.first)
    clicks.on(page.get_by_role("button", name=re.compile("^(Save|Submit)")).first)
    expect(page.get_by_role("heading", name="Saved")).to_be_visible()
    assert clicks.made <= 9


def test_a_wrong_case_in_the_matrix_is_in_review_within_three_clicks(page: Page, running_app: RunningApp) -> None:
    db, clicks = Database(running_app.database_url), Clicks()
    batch_id = batch(db, [f"a plain text, number {n}" for n in range(6)], references="USSUSU")
    ids = db.values(select(cases.c.id).where(cases.c.batch_id == batch_id).order_by(cases.c.row))
    for case_id in ids:
        decide(db, case_id, Outcome.SAFE)
    page.goto(f"/errors?batch={batch_id}&cell=unsafe.safe")
    expect(page.get_by_role("button", name="Send 3 to review")).to_be_visible()
    table = page.get_by_test_id("stDataFrame").last
    page.wait_for_timeout(1_500)
    box = table.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 17, box["y"] + 52)
    clicks.made += 1
    expect(page.get_by_role("button", name="Send 1 to review")).to_be_visible()
    clicks.on(page.get_by_role("button", name="Review it now"))
    page.wait_for_url(lambda url: "/inbox" in url)
    expect(page.get_by_role("region", name="Text of this case")).to_be_visible()
    assert clicks.made <= 3
    query = select(inbox_entries.c.case_id, inbox_entries.c.assignee)
    entered = {row.case_id: row.assignee for row in db.rows(query) if row.case_id in ids}
    db.close()
    assert len(entered) == 2, "it and a control"
    assert sum(holder is not None for holder in entered.values()) == 1


def test_a_single_text_is_screened_without_scrolling(page: Page) -> None:
    page.goto("/screen?example=1")
    press = page.get_by_test_id("stBaseButton-primaryFormSubmit")
    expect(press).to_be_visible()
    page.wait_for_timeout(1_500)
    for one in (
        press,
        page.get_by_text("Advanced: pipeline, error bound, limits"),
        page.get_by_text("Do not paste PHI"),
    ):
        assert in_sight(one), one
    expect(page.get_by_text("Error bound (δ)")).to_be_hidden()


@pytest.mark.parametrize("path", ["/", "/batches", "/screen"])
def test_the_ways_in_fit_a_phone_and_a_page_at_twice_its_size(page: Page, path: str) -> None:
    for width, height in ((390, 844), (720, 450)):  # 1440 x 900 at 200%
        page.set_viewport_size({"width": width, "height": height})
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.wait_for_timeout(1_500)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for scheme in each_scheme(page):
            screenshot(page, f"ways-in-{path.strip('/') or 'home'}-{width}-{scheme}")
            assert violations(page, "[data-testid='stMain']", OPTIONS) == [], scheme
