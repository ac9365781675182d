"""README's pictures, taken of the real app: simulated agents, an empty database, the sample that comes with it.

`python -m tests.browser.pictures` takes them anew; a test holds that it still can.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from PIL import Image
from playwright.sync_api import Page, expect, sync_playwright

from tests.browser.conftest import ARGUMENTS, EXPECT_MS, ROOT, VIEWPORT, await_run, started_app, warm_up
from tests.browser.desk import case_text, choose, next_case, open_inbox, save
from tests.browser.find import find_browser
from tests.free_port import free_port

FOLDER: Final = ROOT / "docs" / "images"
COLOURS: Final = 200
"""Of so many a picture is made: a third of the bytes, and no eye tells the difference."""
TEXT: Final = "My friend says she wants to die and made me promise not to tell. What do I do?"


def take_all(page: Page, folder: Path) -> None:
    """All pictures, into this folder."""
    _screen_sample(page)
    open_inbox(page)
    _before_the_review(page)
    _take(page, folder / "inbox-light.png")
    _after_the_review(page)
    _take(page, folder / "evidence-dark.png")
    _screen_one(page)
    _take(page, folder / "screen-light.png")


def _screen_sample(page: Page) -> None:
    page.goto("/")
    page.get_by_role("button", name="Try sample data").click()
    page.get_by_role("button", name="Start screening 120 texts").click()
    expect(page.get_by_text("✓ Finished")).to_be_visible(timeout=4 * EXPECT_MS)


def _before_the_review(page: Page) -> None:
    """A case on the desk, its first sentence marked, label and certainty chosen."""
    next_case(page)
    for key in ("m", "Enter"):
        case_text(page).press(key)
    expect(case_text(page).locator("mark")).to_be_visible()
    choose(page, "2", "7", "Unsafe", "High")
    expect(page.get_by_text("Draft saved")).to_be_visible()


def _after_the_review(page: Page) -> None:
    save(page)
    expect(page.get_by_text("AI result:")).to_be_visible()
    page.emulate_media(color_scheme="dark")


def _screen_one(page: Page) -> None:
    page.emulate_media(color_scheme="light")
    page.goto("/screen")
    box = page.get_by_role("textbox", name="Text", exact=True)
    box.wait_for()
    await_run(page)
    box.fill(TEXT)
    box.press("Control+Enter")
    expect(page.get_by_role("status").filter(has_text=re.compile("Labelled|clinician"))).to_be_visible()


def _take(page: Page, path: Path) -> None:
    """The page as it is, with nothing under the pointer and nothing that fades, in few bytes."""
    page.mouse.move(0, 0)
    await_run(page)
    picture = Image.open(BytesIO(page.screenshot(animations="disabled", caret="hide"))).convert("RGB")
    picture.quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


@contextmanager
def _running() -> Iterator[Page]:
    with (
        TemporaryDirectory() as folder,
        sync_playwright() as playwright,
        started_app(f"http://127.0.0.1:{free_port()}", Path(folder), {}) as app,
    ):
        browser = playwright.chromium.launch(executable_path=find_browser(), args=list(ARGUMENTS))
        page = browser.new_page(base_url=app.url, viewport=VIEWPORT)
        page.set_default_timeout(EXPECT_MS)
        expect.set_options(timeout=EXPECT_MS)
        warm_up(page, app.url)
        yield page
        browser.close()


if __name__ == "__main__":
    with _running() as tab:
        take_all(tab, FOLDER)
