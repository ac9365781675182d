"""Every word of every page on an empty site and in the middle of a day, as `words.txt` beside this file has them.

`make golden` writes it anew: read its diff as a reader of the page would.
"""

import os
import re
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from jobs.process import system_clock
from pages.ui import context
from pages.ui.shell import ENTRIES
from screening.review.actors import Actor, Role
from storage.database import Database
from storage.site.health import beat
from tests.pages.conftest import Opener
from tests.pages.test_smoke import a_day

WORDS = Path(__file__).with_name("words.txt")
VOLATILE = re.compile(
    r"\b[0-9a-f]{32}\b|\b\d{4}-\d\d-\d\d\b|\b\d{1,2}:\d\d(:\d\d)?( [AP]M)?\b"
    r"|\b(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{1,2}\b"
    r"|[\d,.]+ (s|min|h|d|days?|hours?|weeks?|months?|GB|MB)\b|/[^\s]*/pages\.db"
)
SAID = (
    "title", "header", "subheader", "error", "warning", "info", "success", "metric", "markdown", "caption", "html",
    "expander", "tab", "button", "download_button", "link_button", "page_link", "popover", "text_input", "text_area",
    "number_input", "selectbox", "multiselect", "radio", "checkbox", "toggle", "segmented_control", "pills",
    "date_input", "file_uploader",
)  # fmt: skip


def words_of(page: AppTest) -> list[str]:
    """What a page says, kind by kind in the order of the page, each once; numbers that move with the clock as ``…``."""
    lines = dict[str, None]()
    for kind in SAID:
        for one in page.get(kind):
            told = getattr(one.proto, "body", "") or " ".join(
                str(value)
                for name in ("value", "label", "options")
                if (value := getattr(one, name, None)) and isinstance(value, str | list)
            )
            plain = re.sub(r"<style>.*?</style>|<[^>]+>", " ", told, flags=re.DOTALL)
            if words := VOLATILE.sub("…", " ".join(plain.split())):
                lines[f"  {kind}: {words}"] = None
    return list(lines)


@pytest.mark.slow
def test_pages_say_what_they_said(open_page: Opener, page_database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context, "actor", lambda: Actor(id="x", name="X", roles=frozenset(Role)))
    said = dict[str, list[str]]()
    for state in ("an empty site", "a day"):
        query = a_day(page_database) if state == "a day" else {}
        for entry in ENTRIES:
            beat(page_database, "w", "worker", system_clock())  # else what is said depends on how slow this test is
            page = open_page(entry.address or entry.file, **query)
            assert not page.exception, (entry.file, page.exception)
            said[f"{entry.address or entry.file}, {state}"] = words_of(page)
    everywhere = set.intersection(*(set(lines) for lines in said.values()))
    found = ["every page", *(line for line in next(iter(said.values())) if line in everywhere)]
    for place, lines in said.items():
        found += [place, *(line for line in lines if line not in everywhere)]
    if os.environ.get("WRITE_WORDS"):
        WORDS.write_text("\n".join(found) + "\n", encoding="utf-8")
    before = WORDS.read_text(encoding="utf-8").splitlines()
    changed = {f"-{line}" for line in before if line not in found} | {
        f"+{line}" for line in found if line not in before
    }
    assert sorted(changed) == [], "if it should be so: make golden"
