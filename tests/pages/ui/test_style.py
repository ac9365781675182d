"""One style sheet for all pages: what it styles is there, and no page brings a sheet of its own."""

import re
from pathlib import Path

PAGES = Path(__file__).parents[3] / "pages"
SHEET = re.sub(r"/\*.*?\*/", "", (PAGES / "ui" / "style.css").read_text(encoding="utf-8"), flags=re.DOTALL)
DOCUMENTS = {"report.html"}
"""Pages of their own that are handed out as files, which carry their styles."""


def _sources() -> dict[str, str]:
    made = [*PAGES.rglob("*.py"), *PAGES.rglob("templates/*.html")]
    return {path.name: path.read_text(encoding="utf-8") for path in made}


def test_no_page_brings_a_style_sheet() -> None:
    assert {name for name, source in _sources().items() if "<style" in source} == DOCUMENTS


def test_whatever_the_sheet_styles_is_on_some_page() -> None:
    words = set(re.findall(r"[a-z][a-z0-9_-]*", "".join(_sources().values())))
    selectors = " ".join(re.findall(r"([^{}]*)\{", SHEET))
    classes = set(re.findall(r"\.(sl-[a-z0-9_-]+)", selectors))
    keys = set(re.findall(r"\.st-key-([a-z_]+)", selectors))
    made = {name for name in classes if name.startswith("sl-c-")}  # of a label: its name is put together
    assert len(classes) > 30
    assert (classes - made | keys) - words == set()


def test_the_sheet_is_whole() -> None:
    """A brace too few would end every rule after it, without an error anywhere."""
    assert SHEET.count("{") == SHEET.count("}")
    assert "<" not in SHEET  # a path to it is wrapped in <style> as it is
