"""An open inbox follows what comes in by itself: seen in five seconds, in the title too, the focus left alone."""

import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Page, expect
from sqlalchemy import delete, select

from screening.datasets.rows import NewCase
from screening.review.actors import LOCAL_USER, Actor, Role
from screening.review.triage import Priority
from screening.text.received import receive
from storage.batches.batches import cancel, pause, resume
from storage.batches.intake import add_rows, close_intake
from storage.batches.pending import record_error
from storage.database import Database
from storage.review import claims, inbox
from storage.schema import cases, inbox_entries
from tests.browser.accessibility import violations
from tests.browser.conftest import RunningApp, screenshot
from tests.browser.desk import case_in_address, row_of
from tests.jobs.running import open_batch_of
from tests.storage.inbox_cases import BO, fill, register

pytestmark = pytest.mark.browser

SEEN_MS = 5_000
BO_SENIOR = Actor(id=BO.id, name=BO.name, roles=frozenset({Role.SENIOR}))


@pytest.fixture(scope="module")
def db(running_app: RunningApp) -> Iterator[Database]:
    """The app's database."""
    opened = Database(running_app.database_url)
    register(opened, BO)
    yield opened
    opened.close()


def _come_in(db: Database, priority: Priority, *, late: bool = False) -> str:
    entered = datetime.now(UTC) - (timedelta(days=2) if late else timedelta())
    return fill(db, [priority], entered_at=[entered])[0]


def test_the_list_ends_at_what_it_can_show(page: Page, db: Database) -> None:
    fill(db, [Priority.P3] * 210, entered_at=[datetime.now(UTC)] * 210)
    page.goto("/inbox")
    for _ in range(6):
        page.get_by_role("button", name=re.compile(r"^\d+ more$")).click()
    expect(page.get_by_text(re.compile(r"^200 of 2\d\d$"))).to_be_visible()
    expect(page.get_by_role("button", name=re.compile(r"^\d+ more$"))).to_have_count(0)
    page.get_by_role("searchbox").fill("post-")
    expect(page.get_by_text("of 200 or more found")).to_be_visible()
    with db.write() as conn:
        conn.execute(delete(inbox_entries))


def test_what_one_looks_for_is_shown_at_once_and_what_comes_in_waits_while_a_hand_is_in_the_list(
    page: Page, db: Database
) -> None:
    opened = _come_in(db, Priority.P1)
    page.goto("/inbox")
    page.get_by_label("Order of the list").select_option("newest")
    page.wait_for_url(re.compile("sort=newest"))
    row_of(page, opened).click()
    page.wait_for_url(re.compile("case="))
    expect(page.get_by_role("region", name="Text of this case")).to_be_focused()  # not left on the row
    row_of(page, opened).hover()
    find = page.get_by_role("searchbox")
    find.fill("no case is called so")
    expect(page.get_by_text("Nothing found.")).to_be_visible()
    expect(page.locator("li[data-id]")).to_have_count(0)
    find.fill("post-")
    expect(row_of(page, opened)).to_be_visible()
    expect(page.get_by_role("button", name=re.compile("in the list|has changed"))).to_be_hidden()
    find.fill("")
    expect(page.get_by_text(re.compile(r"^\d+ of \d+$"))).to_be_visible()
    find.blur()
    show = page.get_by_role("button", name=re.compile("new in the list"))
    for leave in (lambda: page.mouse.move(1200, 5), lambda: page.keyboard.press("Shift")):  # or works by keys
        row_of(page, opened).hover()
        urgent = _come_in(db, Priority.P0)
        expect(show).to_be_visible(timeout=SEEN_MS)  # it does not move under the hand that is in it
        expect(row_of(page, urgent)).to_have_count(0)
        leave()
        expect(row_of(page, urgent)).to_be_visible(timeout=SEEN_MS)
        expect(show).to_be_hidden()
    page.keyboard.press("x")  # the case goes back
    page.get_by_role("dialog", name="Decline").get_by_role("button", name="Decline").click()
    expect(page.get_by_text("You will not be offered this case again")).to_be_visible()


def test_a_case_of_mine_that_this_page_does_not_show_is_opened_from_the_list(page: Page, db: Database) -> None:
    mine = _come_in(db, Priority.P2)
    claims.claim(db, LOCAL_USER.at(datetime.now(UTC)), mine)
    page.goto("/inbox")
    page.get_by_label("Order of the list").select_option("newest")
    page.wait_for_url(re.compile("sort=newest"))
    expect(row_of(page, mine).get_by_text("assigned to you")).to_be_visible()
    row_of(page, mine).click()
    expect(page.get_by_role("region", name="Text of this case")).to_be_visible()
    assert case_in_address(page) == mine
    page.mouse.move(1200, 5)
    expect(row_of(page, mine).get_by_text("open here")).to_be_visible()
    [held] = [each for each in claims.my_claims(db, LOCAL_USER.at(datetime.now(UTC))) if each.case_id == mine]
    inbox.release(db, LOCAL_USER.at(datetime.now(UTC)), mine, held.token, note="seen")


def _tones(page: Page, number: int) -> None:
    """Wait until so many tones were started; the policy of the page bars waiting by a function of the page's."""
    limit = time.monotonic() + (SEEN_MS + 2_000) / 1_000
    while time.monotonic() < limit and page.evaluate("window.tones") < number:
        page.wait_for_timeout(100)
    assert page.evaluate("window.tones") == number


def test_a_sound_is_played_once_somebody_asked_for_it(own_page: Page, db: Database) -> None:
    own_page.add_init_script(
        "window.tones = 0; const start = OscillatorNode.prototype.start;"
        "OscillatorNode.prototype.start = function (at) { window.tones += 1; return start.call(this, at); };"
    )
    _come_in(db, Priority.P3)
    own_page.goto("/inbox")
    own_page.get_by_role("button", name="Test sound").click()
    _tones(own_page, 2)
    expect(own_page.get_by_role("button", name="Sound for P0: on")).to_be_visible()
    _come_in(db, Priority.P0)
    _tones(own_page, 4)
    own_page.get_by_role("button", name="Sound for P0: on").click()
    expect(own_page.get_by_role("button", name="Sound for P0: off")).to_be_visible()


def test_what_cannot_be_screened_is_said_while_it_lasts(page: Page, db: Database) -> None:
    page.goto("/inbox")
    expect(page.get_by_role("heading", name="Review", exact=True)).to_be_visible()
    batch_id, now = open_batch_of(db)
    pause(db, LOCAL_USER.at(now), batch_id)  # or the worker has screened it before it can fail
    add_rows(db, batch_id, [NewCase(row=1, external_id="p1", text=receive("Bread and roses."))], now)
    close_intake(db, LOCAL_USER.at(now), batch_id)
    case_id = db.value(select(cases.c.id).where(cases.c.batch_id == batch_id))
    record_error(db, case_id, "authentication", "refused", now)
    resume(db, LOCAL_USER.at(now), batch_id)
    banner = page.get_by_role("status").filter(has_text="the model's service refuses the key".capitalize())
    expect(banner).to_be_visible()
    expect(banner).to_contain_text("1 text is not screened")
    expect(banner).to_contain_text("An administrator fixes it")
    assert violations(page) == []
    screenshot(page, "inbox-standstill")
    cancel(db, LOCAL_USER.at(now), batch_id)
    expect(banner).not_to_be_visible()


def test_the_list_is_sorted_and_given_away_case_by_case(page: Page, db: Database) -> None:
    old, new = _come_in(db, Priority.P1, late=True), _come_in(db, Priority.P3)
    page.goto("/inbox")
    expect(row_of(page, old)).to_have_class(re.compile("over"))
    expect(row_of(page, old).get_by_text(re.compile("^overdue"))).to_have_css("font-weight", "700")
    expect(page.get_by_role("button", name=re.compile(r"P1 Urgent \d+ · 1 overdue"))).to_be_visible()
    page.get_by_label("Order of the list").select_option("newest")
    expect(page.locator("li[data-id]").first).to_have_attribute("data-id", new)
    page.wait_for_url(re.compile("sort=newest"))
    page.reload()
    expect(page.get_by_label("Order of the list")).to_have_value("newest")
    expect(page.locator("li[data-id]").first).to_have_attribute("data-id", new)
    page.get_by_role("button", name="Assign to …").click()
    row_of(page, new).click()
    expect(row_of(page, new).get_by_role("button", pressed=True)).to_be_visible()
    assert violations(page) == []
    screenshot(page, "inbox-giving")
    expect(page.get_by_role("button", name="Assign 1 case")).to_be_disabled()  # nobody is chosen yet
    page.get_by_label("Colleague", exact=True).select_option(label="Bo")
    page.get_by_role("button", name="Assign 1 case").click()
    expect(page.get_by_text("1 case is reserved for them.")).to_be_visible()
    page.mouse.move(1200, 5)
    expect(row_of(page, new).get_by_text("reserved")).to_be_visible()
    with db.read() as conn:
        assert conn.execute(select(inbox_entries.c.assignee).where(inbox_entries.c.case_id == new)).scalar() == BO.id
