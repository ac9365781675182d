"""README's pictures can be taken anew of the program as it is, and they are the ones that README shows."""

import re
from pathlib import Path

import pytest
from PIL import Image
from playwright.sync_api import Page

from tests.browser.conftest import ROOT, VIEWPORT
from tests.browser.pictures import FOLDER, take_all

pytestmark = pytest.mark.browser

MOST_BYTES = 150_000
SHOWN = set(re.findall(r"\]\(docs/images/(\S+?)\)", (ROOT / "README.md").read_text(encoding="utf-8")))


def test_the_pictures_that_readme_shows_are_taken_anew(page: Page, tmp_path: Path) -> None:
    take_all(page, tmp_path)
    taken = {path.name for path in tmp_path.iterdir()}
    assert taken == SHOWN == {path.name for path in FOLDER.iterdir()}
    for path in (*tmp_path.iterdir(), *FOLDER.iterdir()):
        with Image.open(path) as picture:
            assert picture.size == (VIEWPORT["width"], VIEWPORT["height"]), path
        assert path.stat().st_size < MOST_BYTES, path
