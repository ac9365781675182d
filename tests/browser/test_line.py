"""The review desk in haste and behind a bad line, and a site that is killed, or loses its database: nothing is lost,
and nothing is stored that was not shown.
"""

import random
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import psycopg
import pytest
from playwright.sync_api import Browser, Page, expect
from psycopg.sql import SQL, Identifier
from sqlalchemy import func, select, update

from screening.review.policy import LOCAL_USER
from screening.review.triage import Priority
from storage.database import Database
from storage.review.reviews import load_draft
from storage.schema import inbox_entries, reviews
from tests.browser import desk, team
from tests.browser.conftest import EMPTY, RunningApp, require_well, started_app
from tests.browser.slow_line import SlowLine
from tests.databases import put_away, write
from tests.jobs.running import batch

pytestmark = pytest.mark.browser

CUT_MS = 7_000
"""How long the line stays cut: longer than Streamlit waits before it opens a dialog of its own."""
LABELS = {"1": "safe", "2": "unsafe", "3": "insufficient_information"}
GAPS_MS = (0, 20, 40, 80, 150)
PACES = ((0.0, 10), (0.2, 5), (0.8, 3))
"""How long the line keeps what is sent, and how many cases are read then."""
LOST = "Connection lost. Your choices are kept; trying again."
AWAY = "The database does not answer."
NAME = "pages_that_fail"


def _in_haste(page: Page, chance: random.Random, gap_ms: int) -> str:
    """Some labels, a confidence and a disposition among them, the save and N, at one pace; the label shown last."""
    pressed = chance.choices("123", k=chance.randint(1, 4))
    keys = [*pressed]
    for others in ("45678", "qwerty"):
        keys.insert(chance.randint(0, len(keys)), chance.choice(others))
    for key in [*keys, "Control+Enter", "n"]:
        page.keyboard.press(key)
        if gap_ms:
            page.wait_for_timeout(gap_ms)
    return LABELS[pressed[-1]]


def test_what_is_stored_was_shown_last_at_any_pace(far: Page, line: SlowLine, db: Database) -> None:
    desk.come_in(db, *[Priority.P2] * (sum(count for _, count in PACES) + 8))
    chance, meant = random.Random(7), {}
    desk.open_inbox(far)
    case_id = desk.next_case(far)
    for line.delay_s, count in PACES:
        for number in range(count):
            meant[case_id] = _in_haste(far, chance, GAPS_MS[number % len(GAPS_MS)])
            case_id = desk.next_shown(far, case_id)
    stored = desk.stored_labels(db)
    assert {case: stored.get(case) for case in meant} == meant

    line.delay_s = 0.0
    desk.choose(far, "1", "7", "Safe", "High")
    desk.save(far)
    desk.sees(far, "Full case history")
    line.delay_s = 0.8
    desk.press(far, "n", "2", "6", "r", "Control+Enter", "n")
    undone = desk.next_shown(far, case_id)
    stored = desk.stored_labels(db)
    assert stored[case_id] == "safe" and undone not in stored, "the keys came before the text"
    for words in ("Unsafe", "Moderate"):
        expect(desk.chosen(far, words)).to_have_count(0)

    # Saved and left before the AI's result came: undone, the review is replaced, and the second is blind as well.
    desk.press(far, "1", "7", "y", "Control+Enter", "n")
    after = desk.next_shown(far, undone)
    desk.press(far, "u")
    far.wait_for_url(lambda url: undone in url)
    desk.sees(far, desk.chosen(far, "Safe"))
    desk.press(far, "2", "y")
    desk.save(far)
    query = select(reviews.c.label, reviews.c.version, reviews.c.blind).where(reviews.c.case_id == undone)
    assert [tuple(row) for row in db.rows(query)] == [("unsafe", 1, True)]
    desk.press(far, "n")
    far.wait_for_url(lambda url: after in url)
    first = select(reviews.c.case_id, func.count().label("n")).where(reviews.c.version == 1)
    assert db.value(select(func.max(first.group_by(reviews.c.case_id).subquery().c.n))) == 1


def test_a_cut_line_is_said_at_once_and_loses_nothing(far: Page, line: SlowLine, db: Database) -> None:
    desk.come_in(db, *[Priority.P2] * 3)
    desk.open_inbox(far)
    case_id = desk.next_case(far)
    other = far.context.new_page()
    other.goto("/results")
    expect(other.locator(".line")).to_be_attached()
    line.cut()
    lost = desk.said(other, "Connection lost. What this page shows may be out of date")
    expect(lost).to_be_visible()
    other.wait_for_timeout(1_500)
    expect(other.get_by_role("dialog")).to_have_count(0)
    far.bring_to_front()
    expect(far.get_by_text(LOST)).to_be_visible(timeout=5_000)
    desk.choose(far, "1", "7", "Safe", "High")
    far.wait_for_timeout(CUT_MS)
    expect(far.get_by_role("dialog")).to_have_count(0)  # it would lie over our line and take the keys
    desk.choose(far, "2", "6", "Unsafe", "Moderate")
    desk.press(far, "Control+Enter")
    desk.sees(far, "Saving: unsafe, no action")
    assert case_id not in desk.stored_labels(db)
    line.mend()
    expect(far.get_by_role("heading", name="Saved")).to_be_visible(timeout=120_000)
    desk.sees_no(far, LOST)
    assert desk.stored_labels(db)[case_id] == "unsafe"
    other.bring_to_front()
    expect(lost).to_have_count(0)
    other.close()
    _is_refused_after_the_cut(far, line, db)


def _is_refused_after_the_cut(page: Page, line: SlowLine, db: Database) -> None:
    """Somebody else has the case by then: that is said though the next case was asked for, and the draft is kept."""
    case_id = desk.next_case(page)
    desk.choose(page, "2", "7", "Unsafe", "High")
    line.cut()
    desk.sees(page, LOST)
    desk.press(page, "Control+Enter", "n")
    entry = update(inbox_entries).where(inbox_entries.c.case_id == case_id)
    soon = datetime.now(UTC) + timedelta(minutes=5)
    write(db, entry.values(assignee="bo", lease_token="other", assigned_until=soon))
    line.mend()
    expect(desk.said(page, "This case is assigned to another reviewer now.")).to_be_visible(timeout=120_000)
    desk.sees(page, "What you filled in is kept")
    expect(desk.case_text(page)).to_have_count(0)
    assert desk.case_in_address(page) == case_id and case_id not in desk.stored_labels(db)
    kept = load_draft(db, LOCAL_USER, case_id)
    assert kept is not None and kept["label"] == "unsafe"


def test_a_killed_site_goes_on_where_it_was(far: Page, running_app: RunningApp, db: Database) -> None:
    """A review under way, while texts wait for a worker that was killed, too."""
    page = far
    desk.come_in(db, Priority.P2)
    running_app.stop("worker", kill=True)
    batch_id = batch(db, [f"We walked by the lake for {number} minutes." for number in range(20)])
    desk.open_inbox(page)
    case_id = desk.next_case(page)
    desk.press(page, "1")
    desk.sees(page, "Draft saved")
    running_app.stop("app", kill=True)
    desk.press(page, "7", "2", "r")
    desk.sees(page, "Connection lost.")
    for name in ("app", "worker"):
        running_app.start(name)
    expect(page.get_by_text("Connection lost.")).to_have_count(0, timeout=120_000)
    desk.sees(page, desk.chosen(page, "Unsafe"), desk.chosen(page, "High").first)
    desk.press(page, "Control+Enter")
    expect(page.get_by_role("heading", name="Saved")).to_be_visible(timeout=120_000)
    assert desk.stored_labels(db)[case_id] == "unsafe"

    page.goto(f"/batches?batch={batch_id}")
    expect(page.get_by_text("✓ Finished")).to_be_visible(timeout=180_000)


@pytest.fixture(scope="module")
def on_postgresql(
    browser: Browser, postgresql_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningApp]:
    with psycopg.connect(postgresql_server, autocommit=True) as admin:
        admin.execute(SQL("CREATE DATABASE {} TEMPLATE template").format(Identifier(NAME)))
    settings = {"DATABASE_URL": postgresql_server.replace("/postgres?", f"/{NAME}?")}
    with started_app(browser, tmp_path_factory.mktemp("away"), settings, programs=["app"]) as app:
        yield app


def test_a_review_saved_while_the_database_is_away_is_stored_once_it_is_back(
    browser: Browser, on_postgresql: RunningApp, postgresql_server: str
) -> None:
    """A page says so and comes back by itself; a fault of the program is told with a number that the log has."""
    url = on_postgresql.database_url
    with desk.empty_queue(url) as db, team.browser_of(browser, on_postgresql.url) as person:
        desk.come_in(db, *[Priority.P2] * 3)
        page = person.page
        page.goto("/batches")
        heading = page.get_by_role("heading", name="File uploads", exact=True)
        expect(heading).to_be_visible()
        with put_away(postgresql_server, NAME):
            page.reload()
            desk.sees(page, AWAY)
            expect(page.get_by_text("Not a crisis service.")).to_have_count(1)
            require_well(page, "database-away")
        expect(heading).to_be_visible()
        desk.sees_no(page, AWAY)
        desk.open_inbox(page)
        case_id = desk.next_case(page)
        for digit, words in (("1", "Safe"), ("2", "Unsafe")):
            desk.choose(page, digit, "7", words, "High")
            with put_away(postgresql_server, NAME):
                desk.press(page, "Control+Enter", "n")
                expect(page.get_by_text(AWAY).first).to_be_visible()
                desk.sees(page, re.compile("^Saving: "))
            read, case_id = case_id, desk.next_shown(page, case_id)
            desk.sees_no(page, AWAY)
            assert desk.stored_labels(db)[read] == words.lower()
        assert all("/_live/inbox/" in one for one in person.errors), "the list's own question: it is not live"
        page.goto(EMPTY)  # an inbox that lay open would ask on
        person.errors.clear()
        with psycopg.connect(url, autocommit=True) as inside:
            inside.execute("ALTER TABLE audit_events RENAME TO audit_events_away")
            page.goto("/audit")
            fault = page.get_by_text("Something went wrong.")
            expect(fault).to_be_visible()
            inside.execute("ALTER TABLE audit_events_away RENAME TO audit_events")
        number = re.search(r"runs this site: ([0-9a-f]{6})\.", fault.inner_text())
        assert number is not None and f"page fault {number[1]}: ProgrammingError" in on_postgresql.log("app")
        page.reload()
        desk.sees(page, page.get_by_role("heading", name="Audit log"))
        expect(fault).to_have_count(0)
