"""What a reviewer does at the inbox, by keyboard, and how a test knows that it happened."""

import re

from playwright.sync_api import Locator, Page, expect

from tests.browser.conftest import press


def open_inbox(page: Page, path: str = "/inbox") -> None:
    """The inbox, its main button drawn."""
    page.goto(path)
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    expect(page.get_by_role("button", name="Next case")).to_be_visible()


def next_case(page: Page) -> str:
    """The next case by its key; returns its id."""
    press(page, "n")
    expect(page.get_by_role("heading", name="Your reading")).to_be_visible()
    expect(case_text(page)).to_be_visible()
    return case_in_address(page)


def case_in_address(page: Page) -> str:
    """The id of the case that the address names."""
    found = re.search("case=([0-9a-f]{32})", page.url)
    assert found is not None
    return found[1]


def case_text(page: Page) -> Locator:
    """Where the text of the case is."""
    return page.get_by_role("region", name="Text of this case")


def choose(page: Page, label: str, certainty: str, words: str, sure: str) -> None:
    """Label and certainty by their keys, each marked before the next is pressed."""
    press(page, label)
    expect(page.get_by_role("button", name=f"✓ {words}")).to_be_visible()
    press(page, certainty)
    expect(page.get_by_role("button", name=f"✓ {sure}")).to_be_visible()


def save(page: Page) -> None:
    """Save the reading by its key."""
    press(page, "Control+Enter")
    expect(page.get_by_role("heading", name="Saved")).to_be_visible()


_FOCUSED = "element => { const found = element.getRootNode().activeElement; return found && element.contains(found); }"
"""The focus is in it, in the part of the page that it belongs to: a component is one of its own."""


def tab_to(page: Page, wanted: Locator) -> None:
    """As a person without a mouse gets there."""
    expect(wanted).to_be_visible()
    for _ in range(150):
        press(page, "Tab")
        if wanted.evaluate(_FOCUSED):
            return
    raise AssertionError("it cannot be reached by Tab")
