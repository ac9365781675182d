"""What a reviewer does at the inbox, by keyboard, and how a test knows that it happened."""

import re

from playwright.sync_api import Locator, Page, expect


def open_inbox(page: Page, path: str = "/inbox") -> None:
    """The inbox, its desk drawn."""
    page.goto(path)
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()
    expect(page.locator(".sld[data-stage]")).to_be_visible()


def next_case(page: Page) -> str:
    """The next case by its key; returns its id."""
    before = page.url
    page.keyboard.press("n")
    page.wait_for_url(lambda url: "case=" in url and url != before)
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


def chosen(page: Page, words: str) -> Locator:
    """A choice of the form, as long as it is the one chosen."""
    return page.locator(".sld-chip:has(input:checked)").filter(has_text=words)


def choose(page: Page, label: str, certainty: str, words: str, sure: str) -> None:
    """Label and certainty by their keys, one straight after the other; both are marked at once."""
    page.keyboard.press(label)
    page.keyboard.press(certainty)
    expect(chosen(page, words)).to_be_visible()
    expect(chosen(page, sure)).to_be_visible()


def save(page: Page) -> None:
    """Save the reading by its key."""
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name="Saved")).to_be_visible()


_FOCUSED = "element => { const found = element.getRootNode().activeElement; return found && element.contains(found); }"
"""The focus is in it, in the part of the page that it belongs to: a component is one of its own."""


def tab_to(page: Page, wanted: Locator) -> None:
    """As a person without a mouse gets there."""
    expect(wanted).to_be_visible()
    for _ in range(150):
        page.keyboard.press("Tab")
        if wanted.evaluate(_FOCUSED):
            return
    raise AssertionError("it cannot be reached by Tab")
