"""axe-core on the Screen and Batches pages, in light and dark, empty and full."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import violations

pytestmark = pytest.mark.browser

ROWS = b"id,text,label\n1,We walked by the lake.,safe\n2,Everyone would be better off without me.,maybe\n3,,safe\n"
OPTIONS = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}


def _violations(page: Page) -> list[str]:
    return violations(page, options=OPTIONS)


@pytest.mark.parametrize("color_scheme", ["light", "dark"], indirect=True)
def test_screen(page: Page, color_scheme: str) -> None:
    page.goto("/screen")
    expect(page.get_by_text("Ready")).to_be_visible()
    assert _violations(page) == []
    page.get_by_role("textbox", name="Text").fill("Everyone would be better off without me.")
    page.get_by_role("textbox", name="Text").press("Control+Enter")
    expect(page.get_by_text("Labelled unsafe")).to_be_visible()
    assert _violations(page) == []


@pytest.mark.parametrize("color_scheme", ["light", "dark"], indirect=True)
def test_batches(page: Page, color_scheme: str) -> None:
    page.goto("/batches")
    file = {"name": "rows.csv", "mimeType": "text/csv", "buffer": ROWS}
    page.locator("input[type=file]").set_input_files(files=[file])
    expect(page.get_by_role("button", name="Start screening 2 texts")).to_be_visible()
    assert _violations(page) == []
    page.get_by_role("button", name="Start screening 2 texts").click()
    expect(page.get_by_text("✓ Finished")).to_be_visible(timeout=60_000)
    assert _violations(page) == []
    page.get_by_role("button", name="All batches").click()
    expect(page.get_by_role("heading", name="Batches", exact=True)).to_be_visible()
    assert _violations(page) == []
