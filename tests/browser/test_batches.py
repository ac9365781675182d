"""A file through the Batches page in a real browser: checked, started, followed with the page closed, downloaded."""

import csv
import io
import json
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
from tests.browser.conftest import ROOT, RunningApp, screenshot, screenshots
from tests.jobs.files import hand_over, settings, write_posts
from tests.storage.batch_of import NOW, batch, decide

pytestmark = pytest.mark.browser

HOSTILE = (
    b"id,text,label\n"
    b"1,=1+1 ![x](http://outside.example/a.png),<b>x</b>\n"
    b"2,<script>alert(1)</script> fine,safe\n"
    b"3,a,b,c\n"
)


def _upload(page: Page, name: str, content: bytes) -> None:
    page.goto("/batches")
    chosen = {"name": name, "mimeType": "text/csv", "buffer": content}
    page.locator("input[type=file]").set_input_files(files=[chosen])
    expect(page.get_by_text("File uploads › Check")).to_be_visible()


def _download(page: Page, link: str) -> str:
    with page.expect_download() as started:
        page.get_by_role("link", name=link).click()
    path = started.value.path()
    return Path(path).read_text(encoding="utf-8-sig")


def _numbered(count: int) -> bytes:
    rows = "".join(f"{number},We walked by the lake for {number} minutes.\n" for number in range(count))
    return f"id,text\n{rows}".encode()


def test_the_sample_goes_through(page: Page) -> None:
    page.goto("/batches")
    expect(page.get_by_role("heading", name="File uploads", exact=True)).to_be_visible()
    screenshots(page, "batches-list")
    _upload(page, "sample.csv", (ROOT / "data" / "sample.csv").read_bytes())
    expect(page.get_by_text("120 rows: 120 accepted, 0 rejected")).to_be_visible()
    expect(page.get_by_text("utf-8, commas")).to_be_visible()
    screenshots(page, "batches-check")
    page.get_by_role("button", name="Start screening 120 texts").click()
    expect(page.get_by_text("✓ Finished")).to_be_visible(timeout=60_000)
    screenshots(page, "batches-finished")
    outcomes = [row["outcome"] for row in csv.DictReader(io.StringIO(_download(page, "Results (CSV)")))]
    lines = [json.loads(line) for line in _download(page, "Results (JSON lines)").splitlines()]
    assert len(outcomes) == 120 and outcomes == [line["outcome"] for line in lines]
    assert set(outcomes) == {"safe", "unsafe", "human_review"}
    assert len(_download(page, "Relabelled (JSON lines)").splitlines()) == 120


def test_a_file_that_could_be_misread_says_why(page: Page) -> None:
    _upload(page, "open.csv", b'id,text\n1,"I am fine\n2,another\n')
    expect(page.get_by_role("alert").filter(has_text="Line 2: a quote opens here")).to_be_visible()
    screenshot(page, "batches-refused")
    page.get_by_role("button", name="Another file").click()
    expect(page.get_by_role("heading", name="File uploads", exact=True)).to_be_visible()


def test_hostile_cells_do_nothing_and_leave_neutralised(page: Page) -> None:
    _upload(page, "<img src=x>.csv", HOSTILE)
    expect(page.get_by_text("3 rows: 2 accepted, 1 rejected")).to_be_visible()
    page.get_by_role("button", name="Start screening 2 texts").click()
    expect(page.get_by_text("✓ Finished")).to_be_visible(timeout=60_000)
    expect(page.get_by_role("heading", name="<img src=x>.csv")).to_be_visible()
    rejected = list(csv.DictReader(io.StringIO(_download(page, "Rejected rows"))))
    assert [(row["row"], row["reason"]) for row in rejected] == [("3", "extra_cells")]
    relabelled = list(csv.DictReader(io.StringIO(_download(page, "Relabelled (CSV)"))))
    assert relabelled[0]["text"].startswith("'=1+1")
    lossless = json.loads(_download(page, "Relabelled (JSON lines)").splitlines()[0])
    assert lossless["text"].startswith("=1+1")


def test_work_goes_on_with_the_page_closed_and_after_a_kill(page: Page, running_app: RunningApp) -> None:
    _upload(page, "many.csv", _numbered(400))
    page.get_by_role("button", name="Start screening 400 texts").click()
    expect(page.get_by_text(re.compile("● Running|Taking rows in"))).to_be_visible()
    address = page.url
    page.goto("about:blank")
    for name in ("app", "worker"):
        running_app.stop(name, kill=True)
    for name in ("app", "worker"):
        running_app.start(name)
    page.goto(address)
    expect(page.get_by_text("✓ Finished")).to_be_visible(timeout=180_000)
    expect(page.get_by_text("400 rows: 400 accepted, 0 rejected")).to_be_visible()
    assert len(_download(page, "Results (JSON lines)").splitlines()) == 400


def test_a_file_that_is_not_taken_in_says_why_and_a_button_goes_on(
    page: Page, running_app: RunningApp, tmp_path: Path
) -> None:
    db, path = Database(running_app.database_url), tmp_path / "damaged.csv"
    write_posts(path, 30)
    upload = hand_over(db, path, settings(running_app.database_url, {"data_directory": running_app.directory / "data"}))
    db.close()
    whole = upload.path.read_bytes()
    upload.path.write_bytes(whole + b'31,"a quote that is never closed\n')
    running_app.stop("app", kill=True)
    running_app.start("app")
    page.goto(f"/batches?batch={upload.batch_id}")
    expect(
        page.get_by_role("alert").filter(has_text="Taking rows in stopped after 0: Line 32: a quote")
    ).to_be_visible()
    screenshot(page, "batches-intake-stopped")
    upload.path.write_bytes(whole)
    page.get_by_role("button", name="Continue importing rows").click()
    expect(page.get_by_text("✓ Finished")).to_be_visible(timeout=60_000)
    expect(page.get_by_text("Taking rows in stopped")).to_have_count(0)
    assert not upload.path.exists()


def test_pause_holds_the_numbers(page: Page) -> None:
    _upload(page, "many.csv", _numbered(600))
    page.get_by_role("button", name="Start screening 600 texts").click()
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.get_by_text("‖ Paused")).to_be_visible()
    screenshot(page, "batches-paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.get_by_text(re.compile("● Running|✓ Finished"))).to_be_visible()


def test_the_list_opens_a_batch_and_comes_back(page: Page) -> None:
    page.goto("/batches")
    expect(page.get_by_test_id("stDataFrame")).to_be_visible()
    page.wait_for_timeout(1_000)
    box = page.get_by_test_id("stDataFrame").bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 17, box["y"] + 52)
    expect(page.get_by_role("button", name="All uploads")).to_be_visible()
    page.get_by_role("button", name="All uploads").click()
    expect(page.get_by_role("heading", name="File uploads", exact=True)).to_be_visible()
    page.wait_for_timeout(1_000)
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
