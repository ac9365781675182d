"""A file through the Batches page in a real browser: checked, started, followed with the page closed, downloaded."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import select

from screening.labels import Outcome
from screening.review.reach import Reach
from storage.batches.pending import record_error
from storage.database import Database
from storage.schema import cases
from tests.browser.conftest import RunningApp, await_run, screenshot
from tests.storage.batch_of import NOW, batch, decide

pytestmark = pytest.mark.browser


def test_work_is_paused_and_resumed_and_goes_on_with_the_page_closed_and_after_a_kill(
    page: Page, running_app: RunningApp
) -> None:
    rows = "".join(f"{number},We walked by the lake for {number} minutes.\n" for number in range(400))
    page.goto("/batches")
    chosen = {"name": "many.csv", "mimeType": "text/csv", "buffer": f"id,text\n{rows}".encode()}
    page.locator("input[type=file]").set_input_files(files=[chosen])
    expect(page.get_by_text("File uploads › Check")).to_be_visible()
    page.get_by_role("button", name="Start screening 400 texts").click()
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("‖ Paused")).to_be_visible()
    screenshot(page, "batches-paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text(re.compile("● Running|✓ Finished"))).to_be_visible()
    address = page.url
    page.goto("about:blank")
    for name in ("app", "worker"):
        running_app.stop(name, kill=True)
    for name in ("app", "worker"):
        running_app.start(name)
    page.goto(address)
    expect(page.get_by_text("✓ Finished")).to_be_visible(timeout=180_000)
    expect(page.get_by_text("400 rows: 400 accepted, 0 rejected")).to_be_visible()
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as started:
        page.get_by_role("link", name="Results (JSON lines)").click()
    assert len(Path(started.value.path()).read_text(encoding="utf-8").splitlines()) == 400


def test_the_list_opens_a_batch_and_comes_back(page: Page) -> None:
    page.goto("/batches")
    expect(page.get_by_test_id("stDataFrame")).to_be_visible()
    await_run(page)
    box = page.get_by_test_id("stDataFrame").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 17, box["y"] + 52)
    expect(page.get_by_role("button", name="All uploads")).to_be_visible()
    page.get_by_role("button", name="All uploads").click()
    expect(page.get_by_role("heading", name="File uploads", exact=True)).to_be_visible()
    await_run(page)
    expect(page.get_by_role("heading", name="File uploads", exact=True)).to_be_visible()
    assert "batch=" not in page.url


def test_a_page_that_stays_open_offers_what_there_is_by_now(page: Page, running_app: RunningApp) -> None:
    """As long as the batch ran, its numbers, worklist and retry were those of the moment at which it was opened."""
    running_app.stop("worker")
    db = Database(running_app.database_url)
    batch_id = batch(db, ["one", "two", "three", "four"], reach=Reach.LIST)
    page.goto(f"/batches?batch={batch_id}")
    expect(page.get_by_text("Nothing to sign off here.")).to_be_visible()
    # other batches of this site may wait as well
    query = select(cases.c.id).where(cases.c.batch_id == batch_id).order_by(cases.c.row)
    unsafe, failed, another, _pending = db.values(query)
    decide(db, unsafe, Outcome.UNSAFE)
    expect(page.get_by_text("1 text to sign off.")).to_be_visible()
    expect(page.get_by_role("link", name=re.compile(r"^1\s*unsafe$"))).to_be_visible()
    expect(page.get_by_role("button", name="Retry failed texts")).to_have_count(0)
    record_error(db, failed, "refused", "", NOW)
    expect(page.get_by_role("button", name="Retry failed texts")).to_be_visible()
    decide(db, another, Outcome.UNSAFE)
    expect(page.get_by_text("2 texts to sign off.")).to_be_visible()
    page.get_by_role("button", name="Show the list as it is now").click()
    expect(page.get_by_role("button", name="Show the list as it is now")).to_have_count(0)
    db.close()
    running_app.start("worker")
