"""`make run`, as a person finds it: a file in and the corrected labels out, and one text screened before one's eyes."""

import json
import os
import re
import signal
import subprocess
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, Page, expect
from sqlalchemy import func, select

from storage.database import Database
from storage.schema import cases
from tests.browser import desk, team
from tests.browser.conftest import ROOT, VIEWPORT, RunningApp, await_run, require_well, wait_for
from tests.processes import free_port

pytestmark = pytest.mark.browser

REVIEWS = ("2", "2", "2", "3")  # a safe on what may be urgent would wait for a second reviewer
LABELS = {"1": "safe", "2": "unsafe", "3": "insufficient_information"}
UNDECIDED_AT_FIRST = "Everyone would be better off without me."
ADVANCED = "Advanced: pipeline, error bound, limits"
HOSTILE = "<img src=http://outside.example/a.png> ![x](http://outside.example/b.png) $a$ **bold** \u202egnol"


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApp]:
    """`make run`, with a database and a port of its own, its model slow enough to watch; both processes end with it."""
    folder, port = tmp_path_factory.mktemp("site"), free_port()
    own = {
        "PORT": str(port),
        "DATABASE_URL": f"sqlite:///{folder / 'second_look.db'}",
        "SECOND_LOOK_DATA_DIRECTORY": str(folder / "data"),
        "SECOND_LOOK_SAMPLER": "simulated",
        "SECOND_LOOK_SIMULATED_LATENCY_S": "0.4",
    }
    made = RunningApp(url=f"http://127.0.0.1:{port}", directory=folder, environment=own)
    with (folder / "make.log").open("wb") as log:
        process = subprocess.Popen(
            ["make", "run"], cwd=ROOT, env=os.environ | own, stdout=log, stderr=log, start_new_session=True
        )
    try:
        wait_for(f"{made.url}/_stcore/health", process, folder / "make.log")
        yield made
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=30)


@pytest.fixture(scope="module")
def page(browser: Browser, site: RunningApp) -> Iterator[Page]:
    with team.browser_of(browser, site.url) as person:
        yield person.page


def _in_sight(target: Locator) -> bool:
    """Whether all of it stands in the window at 1440 by 900 without scrolling."""
    box = target.bounding_box()
    return box is not None and box["y"] >= 0 and box["y"] + box["height"] <= VIEWPORT["height"]


def test_a_file_is_screened_in_three_clicks_reviewed_and_its_labels_taken_along(page: Page) -> None:
    page.goto("/")
    desk.sees(page, "Do not use for real cases")
    expect(page).to_have_title("Second Look")
    for door in ("Cases to review", "Screen one text", "Screen a file"):
        desk.sees(page, page.get_by_role("heading", name=door))
    require_well(page, "home")
    page.get_by_role("button", name="Try sample data").click()
    start = page.get_by_role("button", name="Start screening 120 texts")
    expect(start).to_be_visible()
    await_run(page)
    needed = ("120 rows: 120 accepted, 0 rejected", "Preview", "What happens to texts the AI labels unsafe?", ADVANCED)
    for one in (start, *(page.get_by_text(words) for words in needed)):
        assert _in_sight(one), one
    expect(page.get_by_text("Error bound (δ)")).to_be_hidden()
    require_well(page, "upload-check")
    start.click()
    expect(page.get_by_text("✓ Finished")).to_be_visible(timeout=120_000)
    upload = page.url
    require_well(page, "upload-finished")
    heading = page.get_by_role("heading", name=re.compile(r"^\d+ cases to review"))
    number = int(re.findall(r"\d+", heading.inner_text())[0])
    assert number >= 12
    page.get_by_role("link", name="Start reviewing").click()
    desk.sees(page, "Only cases of sample.csv", re.compile(rf"^{number} (wait|in queue)"))
    desk.sees(page, page.get_by_role("heading", name="Your review"))  # the first case is open
    read = {desk.case_in_address(page): "unsafe"}
    desk.press(page, "m", "Enter")
    for words in ("Unsafe", "High", "No action"):
        page.locator(".sld-chip").filter(has_text=words).first.click()
    desk.sees(page, desk.case_text(page).locator("mark"), "Draft saved")
    require_well(page, "reading")
    page.get_by_role("button", name=re.compile("^(Save|Submit)")).first.click()
    desk.sees(page, page.get_by_role("heading", name="Saved"), "AI result:", "Answers:")
    require_well(page, "revealed")
    assert page.locator(".sld").evaluate("element => element.getBoundingClientRect().bottom") <= VIEWPORT["height"]

    for digit in REVIEWS:
        read[desk.next_case(page)] = LABELS[digit]
        expect(page.get_by_text("Shows consistency")).to_have_count(0)  # blind: nothing of the engine yet
        desk.press(page, digit, "7", "y")
        desk.save(page)
    desk.press(page, "f")
    desk.sees(page, "You have no open case")
    page.goto(upload)
    desk.click(page, "Export")
    rows = [json.loads(line) for line in desk.taken(page, "Corrected labels (JSON lines)").splitlines()]
    adjudicated = {row["case_id"]: row["adjudicated_label"] for row in rows if row["adjudicated_label"] is not None}
    assert len(rows) == 120 and adjudicated == read


SHIFTS = """() => { window.shifted = 0;
  new PerformanceObserver((found) => { for (const one of found.getEntries()) window.shifted += one.value; })
    .observe({type: "layout-shift"}); }"""


def _submit(page: Page, text: str) -> None:
    box = page.get_by_role("textbox", name="Text", exact=True)
    box.wait_for()
    await_run(page)
    box.fill(text)
    box.press("Control+Enter")


def test_one_text_is_screened_before_ones_eyes(page: Page, site: RunningApp) -> None:
    """From an example to the label; a hostile one, which stays text; stopped; on a phone."""
    page.goto("/")
    page.get_by_role("link", name="Load an example").click()
    box = page.get_by_role("textbox", name="Text", exact=True)
    expect(box).to_have_value(re.compile("^Finished the history essay"))
    await_run(page)
    for one in (page.get_by_test_id("stBaseButton-primaryFormSubmit"), page.get_by_text(ADVANCED)):
        assert _in_sight(one), one
    db = Database(site.database_url)
    known = db.value(select(func.count()).select_from(cases))
    box.fill(UNDECIDED_AT_FIRST)
    desk.press(page, "Control+Enter", "Control+Enter")
    desk.sees(page, "Asking the agents", re.compile(r"\d:1 · needs \d"))
    page.evaluate(SHIFTS)
    status = page.get_by_role("status").filter(has_text="Labeled unsafe")
    expect(status).to_contain_text(re.compile(r"(\d+) of \1 answers: unsafe. Shows consistency, not correctness"))
    page.wait_for_timeout(1_500)
    assert page.evaluate("window.shifted") < 0.02
    expect(page.get_by_role("region", name="Worker")).to_contain_text("Answered: escalate")
    assert db.value(select(func.count()).select_from(cases)) == known + 1
    db.close()
    link = page.get_by_role("link", name="It is in the review queue")
    expect(link).to_have_attribute("href", re.compile(r"^inbox\?case=[0-9a-f]{32}$"))
    require_well(page, "screened")
    desk.click(page, "New text")
    desk.sees(page, "Ready")
    expect(box).to_have_value("")

    page.goto("/screen")
    _submit(page, HOSTILE)
    desk.sees(page, "Escalated to a clinician")
    page.reload()
    region = page.get_by_role("region", name="The text that was screened")
    expect(region).to_have_text(HOSTILE.replace("\u202e", "⟨U+202E⟩"))
    desk.sees(page, "change the order in which it is shown")
    assert "outside.example" not in page.url + site.log("make")

    page.goto("/screen")
    _submit(page, UNDECIDED_AT_FIRST)
    expect(page.locator(".sl-budget b")).not_to_have_text("0")
    desk.press(page, "Escape")
    desk.sees(page, "Nothing was decided")

    page.set_viewport_size({"width": 420, "height": 900})
    page.goto("/screen")
    _submit(page, UNDECIDED_AT_FIRST)
    expect(page.get_by_text("Asking the agents")).to_be_in_viewport()  # and not below the form
    expect(status).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
