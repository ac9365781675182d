"""A site writes its own procedure: a fourth agent is added, put in force, watched, and compared."""

import csv
import re
import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page, expect

from jobs.agents import Agents
from jobs.intake import BatchRequest, fill_batch, open_batch
from jobs.process import system_clock
from pages.research.comparing import differing_pairs
from screening.datasets.reader import read_table
from screening.pipeline.config import preset
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from storage.batches.batches import progress
from storage.database import Database
from storage.research.comparisons import list_comparisons, paired_outcomes
from tests.browser.conftest import EXPECT_MS, RunningApp, screenshot, screenshots
from tests.pages.researched import SAMPLE, sample_rows

pytestmark = pytest.mark.browser


THROUGH_ALL = "Our dog died and the house is so quiet now. I miss him at the door."
"""The simulated agents escalate it one after another."""


FEW_CALLS = 20
"""So few for the Worker that it settles less of the sample than the pipeline in force: some texts part."""


@pytest.fixture
def sample(running_app: RunningApp) -> Iterator[tuple[Database, str]]:
    """The sample data, handed in under what comes with the program; the app's own worker screens it."""
    db, settings, file = Database(running_app.database_url), Settings(_env_file=None, sampler="simulated"), SAMPLE.name
    request = BatchRequest(name=file, pipeline=preset(settings.preset), intake={"label_column": "label"})
    batch_id = open_batch(db, LOCAL_USER, request, settings, Agents(settings), system_clock)
    fill_batch(db, LOCAL_USER, batch_id, read_table(sample_rows(every=3), file), settings, system_clock)
    yield db, batch_id
    db.close()


def _filled(page: Page, label: str, text: str) -> None:
    box = page.get_by_label(label, exact=True).first
    box.fill(text)
    box.press("Tab")


def _choose(page: Page, title: str) -> None:
    """Choose an agent, and wait until the inputs of the one before it are gone."""
    page.get_by_test_id("stButtonGroup").get_by_text(title, exact=True).click()
    expect(page.get_by_label("Title", exact=True)).to_have_count(1)
    expect(page.locator(f'input[aria-label="Title"][value="{title}"]')).to_be_visible()


def _until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + EXPECT_MS / 1000
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.2)


def test_a_fourth_agent_is_written_put_in_force_watched_and_compared(page: Page, sample: tuple[Database, str]) -> None:
    db, batch_id = sample
    page.goto("/pipelines")
    expect(page.get_by_role("heading", name="Pipelines", exact=True)).to_be_visible()
    _filled(page, "Calls at most", str(FEW_CALLS))
    expect(page.locator(".sl-dag .n").filter(has_text=f"≤ {FEW_CALLS}")).to_be_visible()
    _choose(page, "Risk")
    _filled(page, "Add agent after this one", "Cultural context")
    page.get_by_role("button", name="Add agent").click()
    _choose(page, "Cultural context")
    _filled(page, "Instructions", "# Cultural context\n\nDoes idiom or custom change what the words mean?")
    _filled(page, "Model", "claude-haiku-4-5")
    expect(page.locator(".sl-dag .n").filter(has_text="claude-haiku-4-5")).to_be_visible()
    _filled(page, "Name of the pipeline", "ours")
    expect(page.get_by_text(re.compile(r"Difference to the active pipeline \(\w+\): \d+ lines"))).to_be_visible()
    screenshot(page, "pipelines-draft")
    _filled(page, "What is new in this version", "a fourth agent")
    page.get_by_role("button", name="Save as a new version").click()
    expect(page.get_by_text("Saved: ours v1.")).to_be_visible()
    _filled(page, "Why", "tried on the sample")
    page.get_by_role("button", name="Activate").click()
    expect(page.get_by_text("ours v1 is active for texts submitted from now on.")).to_be_visible()

    page.goto("/screen")
    expect(page.locator(".sl-dag .n").filter(has_text="Cultural context")).to_be_visible()
    box = page.get_by_role("textbox", name="Text", exact=True)
    box.fill(THROUGH_ALL)
    box.press("Control+Enter")
    again = page.get_by_role("button", name="Try again")
    expect(page.locator(".sl-dag .o.reached").or_(again).first).to_be_visible()
    if again.is_visible():  # a machine so busy that the page was not heard of for seconds: nobody seemed to watch
        again.click()
    expect(page.locator(".sl-dag .o.reached")).to_be_visible()
    expect(page.locator(".sl-dag .n.done")).to_have_count(4)
    screenshot(page, "pipelines-screened")

    _until(lambda: progress(db, batch_id).pending == 0)
    page.goto("/pipelines")
    page.get_by_role("tab", name="Compare").click()
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_text(re.compile(r"of 40 texts were screened with ours v1"))).to_be_visible()
    _until(lambda: not any(one.running for one in list_comparisons(db, LOCAL_USER)))
    page.reload()
    page.get_by_role("tab", name="Compare").click()
    expect(page.get_by_text(re.compile(r"40 of 40 texts were screened with ours v1\."))).to_be_visible()
    expect(page.get_by_text("Paired by text; each interval at 95%")).to_be_visible()
    apart = differing_pairs(paired_outcomes(db, LOCAL_USER, list_comparisons(db, LOCAL_USER)[0].id))
    assert apart
    expect(page.get_by_text(f"Texts with another outcome: {len(apart)}")).to_be_visible()
    expect(page.get_by_test_id("stDataFrame").locator("visible=true")).to_have_count(3)
    grid = page.get_by_test_id("stDataFrame").locator("visible=true").last
    grid.scroll_into_view_if_needed()
    screenshot(page, "pipelines-compared")
    box = grid.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + 17, box["y"] + 35 + 17)
    page.get_by_role("link", name="Open this case").click()
    expect(page).to_have_url(re.compile(f"case={apart[0].case_id}"))
    texts = {row["id"]: row["text"] for row in csv.DictReader(SAMPLE.read_text(encoding="utf-8").splitlines())}
    expect(page.get_by_text(texts[apart[0].external_id]).first).to_be_visible()
    screenshot(page, "pipelines-opened")


def test_on_a_phone_the_drawing_is_a_list(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/pipelines")
    expect(page.locator(".sl-dag ol > li").filter(has_text="Worker")).to_be_visible()
    expect(page.locator(".sl-dag .p")).to_be_hidden()
    screenshots(page, "pipelines-phone")
