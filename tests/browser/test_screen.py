"""Screening one text in a real browser, with the worker behind it at a model's pace."""

import re

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import func, select

from storage.database import Database
from storage.schema import cases
from tests.browser.conftest import RunningApp, await_run, screenshot, screenshots

pytestmark = pytest.mark.browser

UNDECIDED_AT_FIRST = "Everyone would be better off without me."
UNDECIDED_FOR_LONG = "The world would be better without me in it."
HOSTILE = "<img src=http://outside.example/a.png> ![x](http://outside.example/b.png) $a$ **bold** \u202egnol"


@pytest.fixture(scope="module")
def app_environment() -> dict[str, str]:
    """Slow enough to watch."""
    return {"SECOND_LOOK_SIMULATED_LATENCY_S": "0.7"}


def _submit(page: Page, text: str) -> None:
    box = page.get_by_role("textbox", name="Text")
    box.wait_for()
    await_run(page)
    box.fill(text)
    box.press("Control+Enter")


def _submit_for_long(page: Page) -> None:
    """Some 700 calls: half a minute, which is time enough to press and to look on any machine."""
    expect(page.get_by_role("textbox", name="Text")).to_be_visible()
    await_run(page)
    page.locator("summary", has_text="Advanced: pipeline").click()
    choice, option = (
        page.get_by_role("combobox", name="Pipeline"),
        page.get_by_role("option", name="Paper: Algorithm 1"),
    )
    expect(choice).to_be_visible()
    await_run(page)
    for _ in range(5):  # a run that ends meanwhile closes the list
        choice.click()
        page.wait_for_timeout(800)
        if option.is_visible():
            break
    option.click()
    page.get_by_role("spinbutton", name="Max responses per agent").fill("500")
    _submit(page, UNDECIDED_FOR_LONG)


def test_a_reply_is_written_and_handed_in_from_the_keyboard(page: Page) -> None:
    page.goto("/screen")
    summary = page.locator("summary", has_text="Chatbot reply (optional)")
    expect(summary).to_be_visible()
    reply = page.get_by_role("textbox", name="Chatbot reply")
    expect(reply).not_to_be_visible()
    page.get_by_role("textbox", name="Text").fill("Which bridge around here is the highest?")
    page.keyboard.press("Tab")
    expect(summary).to_be_focused()
    page.keyboard.press("Enter")
    expect(reply).to_be_visible()
    page.keyboard.press("Tab")
    expect(reply).to_be_focused()
    page.keyboard.type("Go on, do it, nobody will miss you.")
    screenshots(page, "screen-reply")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("status").filter(has_text="Labeled unsafe")).to_be_visible()
    expect(reply).to_be_visible()  # what would go out again is to be seen
    screenshots(page, "screen-reply-finished")
    page.reload()
    expect(page.get_by_role("region", name="The reply to it")).to_have_text("Go on, do it, nobody will miss you.")
    expect(summary).to_be_visible()
    expect(reply).not_to_be_visible()
    screenshots(page, "screen-reply-again")


def test_escape_stops_it_undecided(page: Page) -> None:
    page.goto("/screen")
    _submit_for_long(page)
    expect(page.get_by_role("button", name="Stop Shortcut Esc")).to_be_enabled()
    drawn = page.locator(".sl-budget b")
    expect(drawn).not_to_have_text("0")
    before = drawn.inner_text()
    expect(drawn).not_to_have_text(before)
    page.keyboard.press("Escape")
    expect(page.get_by_text("Nothing was decided")).to_be_visible()
    page.wait_for_timeout(2_000)
    expect(page.get_by_text("Nothing was decided")).to_be_visible()


def test_a_reload_comes_back_to_the_same_text_shown_as_text_and_no_log_has_it(
    page: Page, running_app: RunningApp
) -> None:
    page.goto("/screen")
    _submit(page, HOSTILE)
    expect(page.get_by_text("Escalated to a clinician")).to_be_visible()
    page.reload()
    region = page.get_by_role("region", name="The text that was screened")
    expect(region).to_have_text(HOSTILE.replace("\u202e", "⟨U+202E⟩"))
    expect(page.get_by_text("change the order in which it is shown")).to_be_visible()
    assert "outside.example" not in page.url + running_app.log("app") + running_app.log("worker")


def test_narrow_screens_lose_nothing(page: Page) -> None:
    page.set_viewport_size({"width": 420, "height": 900})
    page.goto("/screen")
    expect(page.get_by_role("textbox", name="Text")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    screenshot(page, "screen-narrow")
    _submit(page, UNDECIDED_AT_FIRST)
    expect(page.get_by_text("Asking the agents")).to_be_in_viewport()  # and not below the form
    expect(page.get_by_role("status").filter(has_text="Labeled unsafe")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") <= 420
    screenshot(page, "screen-narrow-finished")


def _count(running_app: RunningApp) -> int:
    db = Database(running_app.environment["DATABASE_URL"])
    try:
        return db.value(select(func.count()).select_from(cases))
    finally:
        db.close()


SHIFTS = """() => { window.shifted = 0;
  new PerformanceObserver((found) => { for (const one of found.getEntries()) window.shifted += one.value; })
    .observe({type: "layout-shift"}); }"""


def test_one_press_is_one_text_whose_nodes_fill_and_nothing_moves_when_it_ends(
    page: Page, running_app: RunningApp
) -> None:
    before = _count(running_app)
    page.goto("/screen")
    expect(page.get_by_text("Ready")).to_be_visible()
    screenshots(page, "screen-empty")
    box = page.get_by_role("textbox", name="Text")
    box.wait_for()
    await_run(page)
    box.fill(UNDECIDED_AT_FIRST)
    page.keyboard.press("Control+Enter")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("Asking the agents")).to_be_visible()
    expect(page.get_by_text(re.compile(r"\d:1 · needs \d")).first).to_be_visible()
    screenshots(page, "screen-running")
    page.evaluate(SHIFTS)
    status = page.get_by_role("status").filter(has_text="Labeled unsafe")
    expect(status).to_contain_text(re.compile(r"(\d+) of \1 answers: unsafe. Shows consistency, not correctness"))
    page.wait_for_timeout(1_500)
    assert page.evaluate("window.shifted") < 0.02
    expect(page.get_by_role("region", name="Worker")).to_contain_text("Answered: escalate")
    screenshots(page, "screen-finished")
    assert _count(running_app) == before + 1
    expect(page.get_by_role("link", name="It is in the review queue")).to_have_attribute("href", "inbox")
    sizes = "(all) => all.map((one) => parseFloat(getComputedStyle(one).fontSize))"
    verdict = page.locator(".sl-verdict").evaluate_all(sizes)[0]
    assert verdict >= max(page.locator("h1, h2, h3, p, span").evaluate_all(sizes))
    page.get_by_role("button", name="New text").click()
    expect(page.get_by_text("Ready")).to_be_visible()
    expect(box).to_have_value("")
