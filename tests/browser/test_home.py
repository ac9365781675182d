"""The shell and its first pages in a real browser: doors, groups and notice, and nothing that axe-core finds wrong."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import each_scheme, violations
from tests.browser.conftest import screenshot
from tests.browser.slow_line import SlowLine

pytestmark = pytest.mark.browser

ROWS = b"id,text,label\n1,We walked by the lake.,safe\n2,Everyone would be better off without me.,maybe\n3,,safe\n"
OPTIONS = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]}


@pytest.mark.parametrize("color_scheme", ["light", "dark"], indirect=True)
def test_the_first_page_leads_on(page: Page, color_scheme: str) -> None:
    page.goto("/")
    for door in ("Cases to review", "Screen one text", "Screen a file"):
        expect(page.get_by_role("heading", name=door)).to_be_visible()
    screenshot(page, f"home-{color_scheme}")
    assert violations(page) == []
    page.get_by_role("button", name="Try sample data").click()
    expect(page.get_by_text("120 rows: 120 accepted, 0 rejected")).to_be_visible()
    page.goto("/")
    page.get_by_role("link", name="Load an example").click()
    expect(page.get_by_role("textbox", name="Text", exact=True)).to_have_value(
        "Finished the history essay at two in the morning. Some days I wonder what all of this is for."
    )


@pytest.mark.parametrize("address", ["/", "/screen", "/results"])
def test_a_page_whose_line_is_cut_says_so_in_our_words_and_goes_on(far: Page, line: SlowLine, address: str) -> None:
    far.goto(address)
    expect(far.locator(".line")).to_be_attached()
    line.cut()
    lost = far.get_by_role("alert").filter(has_text="Connection lost. What this page shows may be out of date")
    expect(lost).to_be_visible()
    far.wait_for_timeout(1_500)
    expect(far.get_by_role("dialog")).to_have_count(0)
    screenshot(far, f"connection-lost{address.replace('/', '-')}")
    line.mend()
    expect(lost).to_have_count(0)


def test_the_first_page_opens_with_the_notice(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", name="Second Look")).to_be_visible()
    expect(page.get_by_role("note")).to_contain_text("Do not use for real cases")
    expect(page).to_have_title("Second Look")


def test_no_page_script_runs_without_the_shell(page: Page) -> None:
    """The first request of a fresh server for a page's own address still meets the shell's notice."""
    page.goto("/batches")
    expect(page.get_by_role("note")).to_be_visible()


def _violations(page: Page) -> dict[str, list[str]]:
    """By colour scheme, where there are any."""
    return {scheme: found for scheme in each_scheme(page) if (found := violations(page, options=OPTIONS))}


def test_the_screen_page_is_accessible_empty_and_full(page: Page) -> None:
    page.goto("/screen")
    expect(page.get_by_text("Ready")).to_be_visible()
    assert _violations(page) == {}
    page.get_by_role("textbox", name="Text").fill("Everyone would be better off without me.")
    page.get_by_role("textbox", name="Text").press("Control+Enter")
    expect(page.get_by_text("Labeled unsafe")).to_be_visible()
    assert _violations(page) == {}


def test_the_batches_page_is_accessible_empty_and_full(page: Page) -> None:
    page.goto("/batches")
    file = {"name": "rows.csv", "mimeType": "text/csv", "buffer": ROWS}
    page.locator("input[type=file]").set_input_files(files=[file])
    expect(page.get_by_role("button", name="Start screening 2 texts")).to_be_visible()
    assert _violations(page) == {}
    page.get_by_role("button", name="Start screening 2 texts").click()
    expect(page.get_by_text("✓ Finished")).to_be_visible(timeout=60_000)
    assert _violations(page) == {}
    page.get_by_role("button", name="All uploads").click()
    expect(page.get_by_role("heading", name="File uploads", exact=True)).to_be_visible()
    assert _violations(page) == {}
