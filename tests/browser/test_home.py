"""The first page in a real browser: three doors, four groups, and nothing that a program for axe finds wrong."""

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessibility import violations
from tests.browser.conftest import screenshot
from tests.browser.slow_line import SlowLine

pytestmark = pytest.mark.browser


@pytest.mark.parametrize("color_scheme", ["light", "dark"], indirect=True)
def test_the_first_page_leads_on(page: Page, color_scheme: str) -> None:
    page.goto("/")
    for door in ("Read what waits", "Screen a text", "Upload a file"):
        expect(page.get_by_role("heading", name=door)).to_be_visible()
    screenshot(page, f"home-{color_scheme}")
    assert violations(page) == []
    page.get_by_role("button", name="Use the sample").click()
    expect(page.get_by_text("120 rows in = 120 accepted + 0 rejected")).to_be_visible()
    page.goto("/")
    page.get_by_role("link", name="Try an example").click()
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
