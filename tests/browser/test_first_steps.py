"""Without a hint, from the first page to a reviewed case: clicks are counted, and what is needed is in sight."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect
from sqlalchemy import select

from screening.labels import Outcome
from storage.database import Database
from storage.schema import cases, inbox_entries
from tests.browser.accessibility import each_scheme, violations
from tests.browser.conftest import VIEWPORT, RunningApp, await_run, require_well, screenshot
from tests.browser.slow_line import SlowLine
from tests.storage.batch_of import batch, decide

pytestmark = pytest.mark.browser


OPTIONS = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}


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
    expect(page.get_by_text("Do not use for real cases")).to_be_visible()
    expect(page).to_have_title("Second Look")
    for door in ("Cases to review", "Screen one text", "Screen a file"):
        expect(page.get_by_role("heading", name=door)).to_be_visible()
    require_well(page, "home")
    clicks.on(page.get_by_role("button", name="Try sample data"))
    start = page.get_by_role("button", name="Start screening 120 texts")
    expect(start).to_be_visible()
    await_run(page)
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
    require_well(page, "upload-finished")
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
    expect(page.get_by_role("button", name="Send all 3 to review")).to_be_visible()
    table = page.get_by_test_id("stDataFrame").last
    await_run(page)
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


def test_an_example_is_screened_without_scrolling(page: Page) -> None:
    page.goto("/")
    page.get_by_role("link", name="Load an example").click()
    box = page.get_by_role("textbox", name="Text", exact=True)
    expect(box).to_have_value(re.compile("^Finished the history essay"))
    await_run(page)
    press = page.get_by_test_id("stBaseButton-primaryFormSubmit")
    for one in (
        press,
        page.get_by_text("Advanced: pipeline, error bound, limits"),
        page.get_by_text("Do not paste PHI"),
    ):
        assert in_sight(one), one
    expect(page.get_by_text("Error bound (δ)")).to_be_hidden()
    assert violations(page, options=OPTIONS) == []
    box.fill("Everyone would be better off without me.")
    box.press("Control+Enter")
    expect(page.get_by_text("Labeled unsafe")).to_be_visible()
    for scheme in each_scheme(page):
        assert violations(page, options=OPTIONS) == [], scheme


@pytest.mark.parametrize("path", ["/", "/batches", "/screen"])
def test_the_ways_in_fit_a_phone_and_a_page_at_twice_its_size(page: Page, path: str) -> None:
    for width, height in ((390, 844), (720, 450)):  # 1440 x 900 at 200%
        page.set_viewport_size({"width": width, "height": height})
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        await_run(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for scheme in each_scheme(page):
            screenshot(page, f"ways-in-{path.strip('/') or 'home'}-{width}-{scheme}")
            assert violations(page, "[data-testid='stMain']", OPTIONS) == [], scheme


def test_a_page_whose_line_is_cut_says_so_in_our_words_and_goes_on(far: Page, line: SlowLine) -> None:
    far.goto("/results")
    expect(far.locator(".line")).to_be_attached()
    line.cut()
    lost = far.get_by_role("alert").filter(has_text="Connection lost. What this page shows may be out of date")
    expect(lost).to_be_visible()
    far.wait_for_timeout(1_500)
    expect(far.get_by_role("dialog")).to_have_count(0)
    screenshot(far, "connection-lost")
    line.mend()
    expect(lost).to_have_count(0)
