"""What a reviewer does at the inbox, by keyboard, and how a test knows that it happened."""

import csv
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from playwright.sync_api import Locator, Page, expect
from playwright.sync_api import TimeoutError as TooSlow
from sqlalchemy import delete, select

from screening.review.actors import LOCAL_USER
from screening.review.triage import Priority
from storage import settings_store
from storage.database import Database
from storage.schema import inbox_entries, reviews
from tests.browser.conftest import ROOT, RunningApp
from tests.databases import write
from tests.storage.inbox_cases import fill


def leave_nothing_to_chance(db: Database) -> None:
    """No case is read twice, and no audit sample is P1, because a coin of its id says so; nobody is told of a break."""
    certain = settings_store.SiteSettings(second_review_rate=0.0, audit_urgent_share=0.0, break_after_texts=10_000)
    settings_store.change(db, LOCAL_USER.at(datetime.now(UTC)), certain, settings_store.current(db).version)


@contextmanager
def waiting_cases(database_url: str, count: int) -> Iterator[Database]:
    """The app's database with so many P2 cases that wait and no others; no second reviews and no break."""
    opened = Database(database_url)
    write(opened, delete(inbox_entries))
    leave_nothing_to_chance(opened)
    fill(opened, [Priority.P2] * count, entered_at=[datetime.now(UTC)] * count)
    yield opened
    opened.close()


def stored_labels(db: Database) -> dict[str, str]:
    """The label of every review, by case."""
    return {row.case_id: row.label for row in db.rows(select(reviews.c.case_id, reviews.c.label))}


def screen_file(app: RunningApp, rows: Iterable[tuple[str, str]]) -> None:
    """Screen these ids and texts by the command line, into the app's database."""
    path, out = app.directory / "in.csv", str(app.directory / "out.jsonl")
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("id", "text"), *rows])
    command = ["-m", "screening", "screen", str(path), "--out", out, "--database", app.database_url]
    subprocess.run([sys.executable, *command], cwd=ROOT, env=app.environment, check=True, capture_output=True)


def row_of(page: Page, case_id: str) -> Locator:
    """The row of this case in the list."""
    return page.locator(f'li[data-id="{case_id}"]')


def open_inbox(page: Page, path: str = "/inbox") -> None:
    """The inbox, its desk drawn."""
    page.goto(path)
    expect(page.get_by_role("heading", name="Review", exact=True)).to_be_visible()
    expect(page.locator(".sld[data-stage]")).to_be_visible()


def next_case(page: Page) -> str:
    """The next case by its key; returns its id."""
    before = page.url
    page.keyboard.press("n")
    page.wait_for_url(lambda url: "case=" in url and url != before)
    expect(page.get_by_role("heading", name="Your review")).to_be_visible()
    expect(case_text(page)).to_be_visible()
    return case_in_address(page)


def next_shown(page: Page, before: str) -> str:
    """The case after ``before``, once it can be read and decided on; what stands there instead is said."""
    try:
        page.wait_for_function(
            "before => !location.search.includes(before) && document.querySelector('.sld[data-stage=reviewing]') && "
            "!document.querySelector('.sld-saving')",
            arg=before,
            timeout=120_000,
        )
    except TooSlow as late:
        stands = page.locator(".sld").inner_text()
        raise AssertionError(f"still {page.url} after {before}:\n{stands}") from late
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
    """Label, confidence and *no action* by their keys, one straight after the other; all are marked at once."""
    for key in (label, certainty, "y"):
        page.keyboard.press(key)
    expect(chosen(page, "No action")).to_be_visible()
    expect(chosen(page, words)).to_be_visible()
    expect(chosen(page, sure)).to_be_visible()


def save(page: Page) -> None:
    """Save the review by its key."""
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
