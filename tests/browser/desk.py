"""What a reviewer does at the inbox, by keyboard, and how a test knows that it happened."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Literal

from playwright.sync_api import FilePayload, Locator, Page, expect
from playwright.sync_api import TimeoutError as TooSlow
from sqlalchemy import delete, select, update

from screening.review.policy import LOCAL_USER
from screening.review.triage import Priority
from storage import settings_store
from storage.database import Database
from storage.schema import batch_counts, cases, configurations, follow_ups, inbox_entries, reviews
from tests.databases import write
from tests.storage.batch_of import CONFIGURATION, NOW
from tests.storage.inbox_cases import fill


def leave_nothing_to_chance(db: Database) -> None:
    """No case is read twice, and no audit sample is P1, because a coin of its id says so; nobody is told of a break."""
    certain = settings_store.SiteSettings(second_review_rate=0.0, audit_urgent_share=0.0, break_after_texts=10_000)
    settings_store.change(db, LOCAL_USER.at(datetime.now(UTC)), certain, settings_store.current(db).version)


@contextmanager
def empty_queue(database_url: str) -> Iterator[Database]:
    """The app's database with nothing that waits; no second reviews and no break."""
    opened = Database(database_url)
    for table in (inbox_entries, follow_ups):
        write(opened, delete(table))
    leave_nothing_to_chance(opened)
    yield opened
    opened.close()


def come_in(db: Database, *priorities: Priority, late: timedelta = timedelta()) -> list[str]:
    """So many cases that wait, entered one after the other, now or so long ago; their ids."""
    first = datetime.now(UTC) - late
    ids = fill(db, priorities, entered_at=[first + at * timedelta(milliseconds=1) for at in range(len(priorities))])
    batch_id = db.value(select(cases.c.batch_id).where(cases.c.id == ids[0]))  # for the pages of figures, made whole
    write(db, update(configurations).where(configurations.c.version == batch_id).values(body=CONFIGURATION.body))
    write(db, update(batch_counts).where(batch_counts.c.batch_id == batch_id).values(last_completed_at=NOW))
    return ids


def stored_labels(db: Database) -> dict[str, str]:
    return {row.case_id: row.label for row in db.rows(select(reviews.c.case_id, reviews.c.label))}


def row_of(page: Page, case_id: str) -> Locator:
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
    found = re.search("case=([0-9a-f]{32})", page.url)
    assert found is not None
    return found[1]


def case_text(page: Page) -> Locator:
    return page.get_by_role("region", name="Text of this case")


def chosen(page: Page, words: str) -> Locator:
    """A choice of the form, as long as it is the one chosen."""
    return page.locator(".sld-chip:has(input:checked)").filter(has_text=words)


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)


def click(page: Page | Locator, *names: str, role: Literal["button", "tab", "link"] = "button") -> None:
    for name in names:
        page.get_by_role(role, name=name).click()


def sees(page: Page | Locator, *things: str | re.Pattern[str] | Locator) -> None:
    for each in things:
        expect(each if isinstance(each, Locator) else page.get_by_text(each).first).to_be_visible()


def sees_no(page: Page | Locator, *words: str) -> None:
    for each in words:
        expect(page.get_by_text(each)).to_have_count(0)


def click_table(within: Page | Locator, table: int, x: float, y: float) -> None:
    """At this place of a table, which is drawn on a canvas; x below 1 is a share of its width."""
    grid = within.get_by_test_id("stDataFrame").locator("visible=true").nth(table)
    grid.scroll_into_view_if_needed()
    box = grid.bounding_box()
    assert box is not None
    grid.page.mouse.click(box["x"] + (x * box["width"] if x < 1 else x), box["y"] + 35 + y)


def hand_in(place: Page | Locator, name: str, content: str) -> None:
    """Choose a file of this content in the first field for files there."""
    file: FilePayload = {"name": name, "mimeType": "text/csv", "buffer": content.encode()}
    place.locator("input[type=file]").first.set_input_files(files=[file])


def taken(page: Page, name: str | re.Pattern[str], role: Literal["button", "link"] = "link") -> bytes:
    with page.expect_download() as started:
        page.get_by_role(role, name=name).click()
    return started.value.path().read_bytes()


def until(holds: Callable[[], object], within_s: float = 120.0) -> None:
    """Wait for what no page shows."""
    limit = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.1)


def said(page: Page, words: str) -> Locator:
    return page.get_by_role("alert").filter(has_text=words)


def choose(page: Page, label: str, certainty: str, words: str, sure: str) -> None:
    """Label, confidence and *no action* by their keys, one straight after the other; all are marked at once."""
    press(page, label, certainty, "y")
    expect(chosen(page, "No action")).to_be_visible()
    expect(chosen(page, words)).to_be_visible()
    expect(chosen(page, sure)).to_be_visible()


def save(page: Page) -> None:
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
