"""A site writes its own procedure: a fourth agent is added, put in force, watched, and compared."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import ROOT, RunningApp, screenshot

pytestmark = pytest.mark.browser


THROUGH_ALL = "Our dog died and the house is so quiet now. I miss him at the door."
"""The simulated agents escalate it one after another."""


@pytest.fixture(scope="module")
def app_environment() -> dict[str, str]:
    """Slow enough to watch."""
    return {"SECOND_LOOK_SIMULATED_LATENCY_S": "0.2"}


def _filled(page: Page, label: str, text: str) -> None:
    box = page.get_by_label(label, exact=True).first
    box.fill(text)
    box.press("Tab")


def _choose(page: Page, title: str) -> None:
    """Choose an agent, and wait until the inputs of the one before it are gone."""
    page.get_by_test_id("stButtonGroup").get_by_text(title, exact=True).click()
    expect(page.get_by_label("Title", exact=True)).to_have_count(1)
    expect(page.locator(f'input[aria-label="Title"][value="{title}"]')).to_be_visible()


def test_a_fourth_agent_is_written_put_in_force_watched_and_compared(
    page: Page, running_app: RunningApp, tmp_path: Path
) -> None:
    sample = ["screen", str(ROOT / "data" / "sample.csv"), "--out", str(tmp_path / "results.jsonl")]
    command = [sys.executable, "-m", "screening", *sample, "--database", running_app.database_url]
    subprocess.run(command, cwd=ROOT, env=running_app.environment, check=True, capture_output=True)

    page.goto("/pipelines")
    expect(page.get_by_role("heading", name="Pipelines", exact=True)).to_be_visible()
    _choose(page, "Risk")
    _filled(page, "A further agent after this one", "Cultural context")
    page.get_by_role("button", name="Add agent").click()
    _choose(page, "Cultural context")
    _filled(page, "Instructions", "# Cultural context\n\nDoes idiom or custom change what the words mean?")
    _filled(page, "Model", "claude-haiku-4-5")
    expect(page.locator(".sl-dag .n").filter(has_text="claude-haiku-4-5")).to_be_visible()
    _filled(page, "Name of the pipeline", "ours")
    expect(page.get_by_text(re.compile(r"Difference to what is in force \(\w+\): \d+ lines"))).to_be_visible()
    screenshot(page, "pipelines-draft")
    _filled(page, "What is new in this version", "a fourth agent")
    page.get_by_role("button", name="Save as a new version").click()
    expect(page.get_by_text("Saved: ours v1.")).to_be_visible()
    _filled(page, "Why", "tried on the sample")
    page.get_by_role("button", name="Put in force").click()
    expect(page.get_by_text("ours v1 is in force for what is handed in from now on.")).to_be_visible()

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

    page.goto("/pipelines")
    page.get_by_role("tab", name="Compare").click()
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_text(re.compile(r"of 120 texts were screened with ours v1"))).to_be_visible()
    for _ in range(60):
        page.reload()
        page.get_by_role("tab", name="Compare").click()
        title = page.get_by_text(re.compile(r"\d+ of 120 texts were screened with ours v1\."))
        expect(title).to_be_visible()
        if "120 of 120" in title.inner_text():
            break
        page.wait_for_timeout(1_000)
    expect(page.get_by_text(re.compile(r"Texts with another outcome: \d+"))).to_be_visible()
    expect(page.get_by_text("Paired by text; each interval at 95 %")).to_be_visible()
    screenshot(page, "pipelines-compared")


@pytest.mark.parametrize("color_scheme", ["light", "dark"], indirect=True)
def test_on_a_phone_the_drawing_is_a_list(page: Page, color_scheme: str) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/pipelines")
    expect(page.locator(".sl-dag ol > li").filter(has_text="Worker")).to_be_visible()
    expect(page.locator(".sl-dag .p")).to_be_hidden()
    screenshot(page, f"pipelines-phone-{color_scheme}")
