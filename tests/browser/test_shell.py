"""The shell in a real browser: its pages, its notice, and no way past it."""

import pytest
from playwright.sync_api import Page, expect

pytestmark = pytest.mark.browser


def test_the_first_page_opens_with_the_notice(page: Page) -> None:
    page.goto("/")
    expect(page.get_by_role("heading", name="Second Look")).to_be_visible()
    expect(page.get_by_role("note")).to_contain_text("not a model, not for use on people")
    expect(page).to_have_title("Second Look")


def test_no_page_script_runs_without_the_shell(page: Page) -> None:
    """The first request of a fresh server for a page's own address still meets the shell's notice."""
    page.goto("/batches")
    expect(page.get_by_role("note")).to_be_visible()
