"""Every page in both colour schemes, on a phone and at twice its size: readable for everybody, and nothing cut off."""

from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect

from screening.review.policy import LOCAL_USER
from screening.review.review_form import Disposition
from screening.review.triage import Priority
from storage.database import Database
from storage.review.follow_ups import open_follow_up
from tests.browser import desk
from tests.browser.conftest import VIEWPORT, RunningApp, await_run, require_well, violations, worker_at_rest
from tests.pages.test_every_page import a_day
from tests.storage.batch_of import waiting
from tests.storage.inbox_cases import fill

pytestmark = pytest.mark.browser

SMALL = {"phone": (390, 844), "zoomed": (720, 450)}
"""The second is 1440 by 900 at 200%."""
TABS = ("Current model", "Site", "Pause AI", "Accounts", "API clients", "Model card")
PATHS = ("/batches", "/inbox", "/case?case={case}", "/shift", "/agreement", "/audit")
OTHERS = (
    "/", "/screen", "/batches?batch={batch}", "/results?batch={batch}", "/errors?batch={batch}", "/pipelines",
    "/evaluation?batch={batch}", "/label_noise?batch={batch}", "/reliability", "/theory", "/settings",
)  # fmt: skip
"""Their accessibility is looked at where people walk them."""
OPTIONS = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}
COVERED = """() => [...document.querySelectorAll(".sld-needed .sld-chip, .sld-first .sld-button")].filter((each) => {
  const { left, top, width, height } = each.getBoundingClientRect();
  const places = [0.15, 0.5, 0.85].flatMap((x) => [0.15, 0.5, 0.85].map((y) => [left + x * width, top + y * height]));
  return !places.every(([x, y]) => each.contains(document.elementFromPoint(x, y)));
}).map((each) => each.textContent)"""
WIDER = "document.documentElement.scrollWidth"


def _open(page: Page, path: str) -> None:
    page.goto(path)
    desk.sees(page, page.get_by_role("heading", level=1).first)
    await_run(page)


def test_every_page_is_readable_and_fits_a_phone(page: Page, running_app: RunningApp, db: Database) -> None:
    """In the middle of a day; the desk has a walk of its own."""
    desk.until(lambda: not waiting(db))
    with worker_at_rest(running_app, db):
        _walk(page, a_day(db))


def _walk(page: Page, day: dict[str, str]) -> None:
    for path in (*PATHS, *OTHERS):
        _open(page, path.format(**day))
        if path in PATHS:
            require_well(page, path.strip("/").partition("?")[0])
        for width, height in SMALL.values():
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_timeout(100)
            assert page.evaluate(WIDER) <= width, (path, width)
            if path in ("/", "/screen", "/batches") and width < 400:
                assert violations(page, "[data-testid='stMain']", OPTIONS) == [], path
        page.set_viewport_size(VIEWPORT)
    for tab in TABS:  # of the last one
        page.get_by_role("tab", name=tab).click()
        desk.sees(page, page.get_by_role("heading", name=tab, exact=True))
        require_well(page, f"settings-{tab.split()[0].lower()}")


def _fill_in(page: Page) -> None:
    """A tap on a choice must not submit: what stands fixed at the foot moves up with what it says."""
    for key in ("2", "7", "q"):
        page.keyboard.press(key)
        page.wait_for_timeout(50)
        assert page.evaluate(COVERED) == [], key
    desk.sees(page, "Draft saved")
    assert page.evaluate(COVERED) == []


def test_the_desk_on_a_small_screen_has_the_text_first_and_the_decision_at_the_foot(page: Page, db: Database) -> None:
    desk.come_in(db, *[Priority.P2] * 4)
    page.set_viewport_size({"width": 1366, "height": 768})
    desk.open_inbox(page)
    desk.next_case(page)
    _fill_in(page)
    desk.press(page, "Escape", "x")
    desk.sees(page, "You will not be offered this case again")
    for name, (width, height) in SMALL.items():
        page.set_viewport_size({"width": width, "height": height})
        desk.open_inbox(page)
        desk.next_case(page)
        _fill_in(page)
        desk.choose(page, "2", "7", "Unsafe", "High")
        require_well(page, f"desk-{name}", within=".st-key-inbox")  # the folded menu is Streamlit's own
        text, bar = desk.case_text(page).bounding_box(), page.locator(".sld-bar .sld-button").last.bounding_box()
        below = page.locator(".sld-side").bounding_box()
        assert text is not None and bar is not None and below is not None
        assert text["y"] < height / 2 and bar["y"] + bar["height"] <= height
        assert text["y"] + text["height"] <= below["y"], "nothing lies over the text"
        assert page.evaluate(WIDER) <= width
        page.get_by_role("button", name="Guideline").click()  # where there are no keys
        expect(page.get_by_role("region", name="Guideline")).to_be_in_viewport()
        desk.press(page, "Escape")
        desk.save(page)
        expect(page.get_by_text("AI result:")).to_be_in_viewport()
        assert page.evaluate(WIDER) <= width
    page.set_viewport_size(VIEWPORT)

    ids, long_ago = fill(db, [Priority.P3] * 3, entered=False), LOCAL_USER.at(datetime.now(UTC) - timedelta(days=2))
    with db.write() as conn:
        for case_id in ids:
            open_follow_up(conn, long_ago, case_id, Disposition.CONTACT_NOW)
    desk.open_inbox(page)
    expect(page.get_by_label("Note", exact=True)).to_have_count(3)
    desk.next_case(page)
    for needed in (desk.case_text(page), page.get_by_role("button", name="Submit review")):
        expect(needed).to_be_in_viewport(ratio=1)  # below overdue follow-ups the case comes into sight whole
    expect(page.get_by_text("Reasons and note")).to_be_in_viewport(ratio=1)
