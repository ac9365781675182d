"""The inbox in a real browser, worked by keyboard alone; hostile texts shown as nothing but text; axe-core."""

import csv
import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import func, select

from screening.review.actors import LOCAL_USER
from screening.text.display import visible
from storage import settings_store
from storage.database import Database
from storage.review import claims
from storage.schema import cases, inbox_entries
from storage.schema import reviews as reviews_table
from tests.browser.conftest import EXPECT_MS, ROOT, RunningApp, require_well
from tests.browser.desk import (
    case_in_address,
    case_text,
    choose,
    chosen,
    leave_nothing_to_chance,
    next_case,
    open_inbox,
    save,
    screen_file,
    tab_to,
)
from tests.fixtures.bad_inputs import bad_inputs

pytestmark = pytest.mark.browser

HOSTILE = [each for each in bad_inputs() if each["id"].startswith(("html_", "md_"))]
PLAIN = 24
"""Rows of the sample that come after the hostile ones."""


@pytest.fixture(scope="module")
def app_environment() -> dict[str, str]:
    """Every case enters the inbox."""
    return {"SECOND_LOOK_AUDIT_RATE": "1"}


@pytest.fixture(scope="module")
def db(running_app: RunningApp) -> Iterator[Database]:
    """The app's database, filled through the command line."""
    running_app.stop("worker")
    opened = Database(running_app.database_url)
    leave_nothing_to_chance(opened)
    with (ROOT / "data" / "sample.csv").open(encoding="utf-8", newline="") as file:
        plain = [row["text"] for row in csv.DictReader(file)][:PLAIN]
    hostile = [(each["id"], each["text"]) for each in HOSTILE]
    screen_file(running_app, hostile + [(f"p{at}", text) for at, text in enumerate(plain)])
    yield opened
    opened.close()


def _now() -> datetime:
    return datetime.now(UTC)


def _lease(db: Database, minutes: float) -> None:
    """A site setting, changed while the app runs."""
    settings = settings_store.current(db)
    new = settings.settings.model_copy(update={"lease_minutes": minutes, "break_after_texts": 1000})
    settings_store.change(db, LOCAL_USER.at(_now()), new, settings.version)


def _rated(db: Database) -> int:
    return db.value(select(func.count()).select_from(reviews_table))


def test_cases_by_keyboard_alone(page: Page, db: Database) -> None:
    """Read blind, then beside the AI's result; keys that are typed into a note or the search decide nothing."""
    _lease(db, 15)
    before = _rated(db)
    open_inbox(page)
    require_well(page, "inbox-idle")
    first = next_case(page)
    expect(page.get_by_text("Shows consistency")).to_have_count(0)  # blind first
    choose(page, "2", "7", "Unsafe", "High")
    require_well(page, "inbox-reading")
    save(page)
    expect(page.get_by_text("AI result:")).to_be_visible()
    expect(page.get_by_text("Answers:").first).to_be_visible()
    require_well(page, "inbox-revealed")
    assert page.locator(".sld").evaluate("element => element.getBoundingClientRect().bottom") <= 900
    second = next_case(page)
    assert second != first
    choose(page, "1", "8", "Safe", "Certain")
    find = page.get_by_role("searchbox")
    find.click()
    page.keyboard.type("sx178 n")
    expect(find).to_have_value("sx178 n")
    expect(page.get_by_text("Nothing found.")).to_be_visible()
    page.keyboard.press("Escape")
    tab_to(page, page.locator("summary").filter(has_text="Reasons and note"))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("textbox", name="Note", exact=True))
    page.keyboard.type("n 2 s x: a song")
    assert case_in_address(page) == second
    save(page)
    row = db.row(select(reviews_table).where(reviews_table.c.case_id == second))
    assert (row.label, row.certainty, row.fields["note"]) == ("safe", 5, "n 2 s x: a song")
    _lease(db, 0.1)  # six seconds, for the case that is claimed next
    _lose_the_lease_once(page, db)
    assert _rated(db) == before + 3
    next_case(page)
    page.keyboard.press("f")
    expect(page.get_by_text("You have no open case")).to_be_visible()
    assert claims.my_claims(db, LOCAL_USER.at(_now())) == ()
    page.goto(f"/case?case={first}")
    expect(page.get_by_role("heading", name="What the AI did")).to_be_visible()
    require_well(page, "case")


def _lose_the_lease_once(page: Page, db: Database) -> None:
    case_id = next_case(page)
    choose(page, "2", "5", "Unsafe", "Low")
    expect(page.get_by_text("This case is not assigned to you")).to_be_visible()
    expect(case_text(page)).to_have_count(0)
    expect(page.get_by_text("kept as a draft")).to_be_visible()
    _lease(db, 15)
    page.keyboard.press("t")
    expect(case_text(page)).to_be_visible()
    expect(chosen(page, "Unsafe")).to_be_visible()
    assert case_in_address(page) == case_id
    save(page)


def test_a_double_press_decides_nothing_unseen(page: Page, db: Database) -> None:
    before = _rated(db)
    open_inbox(page)
    next_case(page)
    choose(page, "2", "6", "Unsafe", "Moderate")
    for key in ("Control+Enter", "Control+Enter", "n", "n", "Control+Enter", "Control+Enter"):
        page.keyboard.press(key)
    saved = time.monotonic() + EXPECT_MS / 1000
    while _rated(db) == before and time.monotonic() < saved:
        page.wait_for_timeout(200)
    page.wait_for_timeout(3_000)
    assert _rated(db) == before + 1


def test_a_reload_keeps_case_draft_and_reading(page: Page, db: Database) -> None:
    open_inbox(page)
    case_id = next_case(page)
    choose(page, "3", "4", "Insufficient information", "Guess")
    page.reload()
    expect(chosen(page, "Insufficient information")).to_be_visible()
    expect(chosen(page, "Guess")).to_be_visible()
    assert case_in_address(page) == case_id
    save(page)
    page.reload()
    expect(page.get_by_role("button", name="Edit my review")).to_be_visible()
    for key in ("v", "2", "Control+Enter"):
        page.keyboard.press(key)
    expect(chosen(page, "Unsafe")).to_be_visible()  # and not a 2 in the reason
    expect(page.get_by_text("Enter a reason for the change.")).to_be_visible()
    expect(page.get_by_role("textbox", name="Reason for change")).to_be_focused()
    page.keyboard.type("Second thoughts.")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_text("(version 2)")).to_be_visible()
    expect(page.get_by_text("What you had filled in is back.")).to_have_count(0)  # it is saved
    with db.read() as conn:
        table = reviews_table.c
        versions = conn.execute(select(table.version, table.label, table.reason).where(table.case_id == case_id))
        assert [tuple(row) for row in versions] == [
            (1, "insufficient_information", None),
            (2, "unsafe", "Second thoughts."),
        ]


def test_shortcuts_can_be_switched_off(page: Page, db: Database) -> None:
    open_inbox(page)
    page.get_by_role("button", name="Shortcuts: on").click()
    expect(page.get_by_role("button", name="Shortcuts: off")).to_be_visible()
    expect(page.locator(".sld[data-keys=off]")).to_be_visible()
    page.keyboard.press("n")
    page.wait_for_timeout(1_000)
    expect(page.get_by_role("heading", name="Your review")).to_have_count(0)


def test_a_hostile_text_is_shown_verbatim(page: Page, db: Database) -> None:
    page.on("dialog", lambda _: pytest.fail("a script ran"))
    for hostile in HOSTILE:
        with db.read() as conn:
            case_id = conn.execute(select(cases.c.id).where(cases.c.external_id == hostile["id"])).scalar_one()
            closed = conn.execute(select(inbox_entries.c.closed_at).where(inbox_entries.c.case_id == case_id)).scalar()
        page.goto(f"/case?case={case_id}" if closed else f"/inbox?case={case_id}")
        if not closed:
            take = page.get_by_role("button", name="Take this case")
            expect(take.or_(case_text(page))).to_be_visible()
            if take.is_visible():
                take.click()
        expect(case_text(page)).to_be_visible()
        assert case_text(page).inner_text().strip() == visible(hostile["text"]).strip(), hostile["id"]
        assert case_text(page).locator("*").count() == 0, hostile["id"]
