"""The main job, as a person does it: `make run`, a file in, the inbox worked by keyboard, the repaired labels out."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import ROOT, screenshot, wait_for
from tests.browser.desk import open_inbox
from tests.free_port import free_port

pytestmark = [pytest.mark.browser, pytest.mark.timeout(600)]

REVIEWS = ("2", "2", "2", "2", "3")  # a safe on what may be urgent would wait for a second reviewer
LABELS = {"1": "safe", "2": "unsafe", "3": "insufficient_information"}


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """`make run`, with a database and a port of its own; both processes end with it."""
    folder, port = tmp_path_factory.mktemp("site"), free_port()
    own = {
        "PORT": str(port),
        "DATABASE_URL": f"sqlite:///{folder / 'second_look.db'}",
        "SECOND_LOOK_DATA_DIRECTORY": str(folder / "data"),
        "SECOND_LOOK_SAMPLER": "simulated",
    }
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            ["make", "run"], cwd=ROOT, env=os.environ | own, stdout=log, stderr=log, start_new_session=True
        )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{url}/_stcore/health", process, folder / "log")
        yield url
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)


@pytest.fixture
def page(browser: Browser, site: str) -> Iterator[Page]:
    """A page that may take its time: a cold start on a busy machine is slow."""
    context = browser.new_context(base_url=site, viewport={"width": 1440, "height": 900}, accept_downloads=True)
    context.set_default_timeout(60_000)
    yield context.new_page()
    context.close()


def _counts(page: Page) -> Locator:
    return page.get_by_role("region", name="Queue").get_by_text(re.compile(r"\d+ unassigned"))


def _free(page: Page) -> int:
    expect(_counts(page)).to_be_visible()
    found = re.search(r"(\d+) unassigned", _counts(page).inner_text())
    assert found
    return int(found.group(1))


def _case_in_hand(page: Page, other_than: str | None = None) -> str:
    """The id in the address, once the page shows another case than before."""
    page.wait_for_url(lambda url: "case=" in url and (other_than is None or other_than not in url))
    return page.url.rpartition("case=")[2].partition("&")[0]


def _work_by_keyboard(page: Page) -> dict[str, str]:
    """Five cases from the first key to the last, without the pointer; case id and label of each."""
    read: dict[str, str] = {}
    case_id: str | None = None
    for digit in REVIEWS:
        page.keyboard.press("n")
        case_id = _case_in_hand(page, case_id)
        expect(page.get_by_role("heading", name="Your review")).to_be_visible()
        expect(page.get_by_text("Shows consistency")).to_have_count(0)  # blind: nothing of the engine yet
        for key in (digit, "7", "y"):
            page.keyboard.press(key)
        page.keyboard.press("Control+Enter")
        expect(page.get_by_role("heading", name="Saved")).to_be_visible()
        read[case_id] = LABELS[digit]
    return read


def test_a_file_goes_in_and_five_adjudicated_cases_come_out(page: Page, tmp_path: Path) -> None:
    page.goto("/batches")
    page.locator("input[type=file]").set_input_files(ROOT / "data" / "sample.csv")
    page.get_by_role("button", name="Start screening 120 texts").click()
    expect(page.get_by_text("✓ Finished")).to_be_visible(timeout=120_000)
    batch = page.url

    open_inbox(page)
    waiting = _free(page)
    assert waiting >= 12
    read = _work_by_keyboard(page)
    screenshot(page, "main-job-inbox")
    expect(page.get_by_role("button", name=re.compile("^End session"))).to_be_enabled()
    page.keyboard.press("f")  # finish: give back what is loaded
    expect(page.get_by_text("You have no open case").first).to_be_visible()
    expect(_counts(page)).to_contain_text(f"{waiting - len(REVIEWS)} unassigned")

    page.goto(batch)
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as started:
        page.get_by_role("link", name="Corrected labels (JSON lines)").click()
    started.value.save_as(tmp_path / "corrected_labels.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "corrected_labels.jsonl").read_text(encoding="utf-8").splitlines()]
    adjudicated = {row["case_id"]: row["adjudicated_label"] for row in rows if row["adjudicated_label"] is not None}
    assert len(rows) == 120 and adjudicated == read

    page.goto(f"/errors?batch={batch.rpartition('batch=')[2]}&cell=unsafe.safe")
    expect(page.get_by_role("heading", name="Original label unsafe, labeled safe: false negative")).to_be_visible()
    screenshot(page, "main-job-errors")
