"""An open queue follows what comes in: an urgent text reaches people at once, and nothing moves under a hand."""

import re
import time
from datetime import UTC, datetime, timedelta
from itertools import chain

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import select

from jobs.channels import describe
from screening.review.policy import LOCAL_USER, Actor, Role
from screening.review.triage import Priority
from storage.database import Database
from storage.review import claims
from storage.schema import case_notes, cases, follow_ups, inbox_entries, notifications, screenings
from storage.site.outbox import Kind, add_recipient
from tests.browser import desk, team
from tests.browser.conftest import RunningApp, violations
from tests.jobs.running import batch
from tests.receivers import Mailbox, Receiver, mail_server, receiving
from tests.storage.inbox_cases import register

pytestmark = pytest.mark.browser

SEEN_S, SEEN_MS = 5.0, 5_000
WORDS = "I want to die and I have the pills ready tonight."
COLLEAGUE = Actor(id="colleague", name="Colleague", roles=frozenset({Role.SENIOR}))
PROBES = """
window.tones = 0;
const start = OscillatorNode.prototype.start;
OscillatorNode.prototype.start = function (at) { window.tones += 1; return start.call(this, at); };
for (const name of ["setTimeout", "setInterval", "requestAnimationFrame", "requestIdleCallback"]) {
  const real = window[name].bind(window);
  window[name] = (act, ...more) => real((...given) => { if (!window.slowed) act(...given); }, ...more);
}"""
"""Counts the tones of a page, and can have its own timers stand still."""
NOTE_ROWS = """list => { window.seen = {};
  new MutationObserver((changes) => {
    const note = (node) => { if (node.dataset?.id) window.seen[node.dataset.id] ??= Date.now(); };
    for (const change of changes) change.addedNodes.forEach(note);
  }).observe(list, { childList: true }); }"""
"""Has the page note when each row of the list came in."""
PLACE = "document.querySelector('.sld').parentElement"
PRESS_S = "document.dispatchEvent(new KeyboardEvent('keydown', { key: 's' }))"


def _now() -> datetime:
    return datetime.now(UTC)


def _screen(db: Database) -> tuple[str, datetime]:
    """The text among others of a file, until it is settled; its case, and when that was."""
    columns = select(cases.c.id, inbox_entries.c.priority, screenings.c.completed_at)
    joined = columns.join(screenings, screenings.c.case_id == cases.c.id).join(inbox_entries)
    query = joined.where(cases.c.batch_id == batch(db, [WORDS]))
    desk.until(lambda: db.rows(query))
    found = db.row(query)
    assert found.priority == Priority.P0
    return found.id, found.completed_at


def _tones(page: Page, number: int) -> None:
    """Wait until so many tones were started, or more: a case may come in again once it is screened. The policy of the
    page bars waiting by a function of the page's.
    """
    desk.until(lambda: page.evaluate("window.tones") >= number, SEEN_S + 2)


def _told(hook: Receiver, mailbox: Mailbox) -> tuple[list[str], list[str]]:
    return [body.decode() for _, body in hook.received], mailbox.mails


def test_an_urgent_text_reaches_people_at_once(browser: Browser, running_app: RunningApp, db: Database) -> None:
    """Seen, heard and told while an inbox lies idle; reviewed with a disposition, and the follow-up completed."""
    with receiving() as hook, mail_server() as mailbox, team.browser_of(browser, running_app.url) as person:
        page = person.page
        for kind, to in ((Kind.WEBHOOK, hook.address), (Kind.SERVICE, mailbox.address)):
            shown = describe(to, private=True) if kind is Kind.SERVICE else "ward"
            add_recipient(db, LOCAL_USER.at(_now()), name=kind.value, kind=kind, target=to, shown=shown)
        page.add_init_script(PROBES)
        desk.open_inbox(page)
        assert not page.title().startswith("(")
        page.get_by_role("list", name="Cases to review").evaluate(NOTE_ROWS)
        desk.click(page, "Test sound")
        _tones(page, 2)
        desk.sees(page, page.get_by_role("button", name="Sound for P0: on"))
        page.get_by_role("searchbox").focus()
        loads = page.evaluate("performance.timeOrigin")
        case_id, settled = _screen(db)
        desk.sees(page, desk.row_of(page, case_id))
        assert page.evaluate("id => window.seen[id] / 1000", case_id) - settled.timestamp() <= SEEN_S
        expect(page).to_have_title(re.compile(r"^\(1\) "))
        desk.sees(page, "A P0 case has come in")
        _tones(page, 4)
        expect(page.get_by_role("searchbox")).to_be_focused()
        assert page.evaluate("performance.timeOrigin") == loads  # the page was not loaded again
        # before somebody opens it: of what is read nobody is told
        desk.until(lambda: all(any("P0" in one for one in told) for told in _told(hook, mailbox)))
        for told in chain(*_told(hook, mailbox)):  # of a worker that had not begun yet they may hear, too
            assert not any(word in told for word in ("pills", "tonight", case_id, "unsafe"))
        desk.click(page, "Sound for P0: on")
        desk.sees(page, page.get_by_role("button", name="Sound for P0: off"))
        assert desk.next_case(page) == case_id
        expect(desk.case_text(page)).to_contain_text(WORDS)
        desk.sees_no(page, "A P0 case has come in")
        expect(page).not_to_have_title(re.compile(r"^\("))  # in my hands, it waits no more
        assert db.values(select(notifications.c.event)).count("arrived") == 2
        _is_followed_up(page, db)
        _is_left_with_a_note(page, db)

        # As in a tab that is hidden for long: what ticks is a worker of the page, which no browser slows down.
        desk.open_inbox(page)
        page.get_by_role("list", name="Cases to review").evaluate(NOTE_ROWS)
        page.evaluate("window.slowed = true; window.late = false; setTimeout(() => { window.late = true; }, 0)")
        (case_id,) = desk.come_in(db, Priority.P0)
        entered = time.time()
        desk.until(lambda: page.evaluate("id => id in window.seen", case_id))
        assert page.evaluate("id => window.seen[id] / 1000", case_id) - entered <= SEEN_S
        assert page.evaluate("window.late") is False, "the page's own timers went on"
        assert re.match(r"\(\d+\) ", page.evaluate("document.title"))


def _is_followed_up(page: Page, db: Database) -> None:
    """No save without a disposition; the follow-up comes by itself, and its note outlives the page.

    Mounted anew, list and desk would stand without their style until it has come over the line again.
    """
    page.evaluate("window.pressed = document.querySelector('.sld-bar .sld-save')")
    desk.press(page, "2", "7", "Control+Enter")
    alert = desk.said(page, "Select a disposition.")
    expect(alert).to_have_count(1)
    desk.sees(page, "Draft saved")
    assert page.evaluate("window.pressed.isConnected"), "a press that is under way would be lost"
    page.keyboard.press("q")  # what was said of a press goes with the next one
    expect(alert).to_have_count(0)
    page.evaluate(f"{PLACE}.kept = true")
    desk.save(page)
    desk.sees(page, "Follow-up for you: Contact now")
    expect(page.locator(".sld-receipt")).not_to_contain_text("closed")
    desk.sees(page, "1 follow-up open")
    assert page.evaluate(f"{PLACE}.kept") is True
    assert not page.evaluate("window.pressed.isConnected"), "it would be another button by the end of a press"
    page.get_by_text("1 follow-up open").click()
    note = page.locator("[class*=st-key-follow_up_note_] input")
    note.press_sequentially("called, is with fam")
    page.reload()
    page.get_by_text("1 follow-up open").click()
    expect(note).to_have_value("called, is with fam")
    page.get_by_role("button", name="Completed", exact=True).click()
    desk.sees(page, "Closed.")
    desk.sees_no(page, "1 follow-up open")
    page.wait_for_function("() => !Object.keys(localStorage).some((name) => name.includes('follow_up_note'))")
    assert db.values(select(follow_ups.c.note))[-1] == "called, is with fam"


def _is_left_with_a_note(page: Page, db: Database) -> None:
    """An urgent case is left through one dialog that keeps the focus."""
    (urgent,) = desk.come_in(db, Priority.P1)
    desk.open_inbox(page)
    assert desk.next_case(page) == urgent
    dialog, note = page.locator("dialog"), page.get_by_role("textbox", name="Note for the next reviewer")
    for key in ("s", "h", "x"):
        page.keyboard.press(key)
        expect(dialog).to_be_visible()
        for _ in range(5):  # once round: nothing behind it is reached
            desk.press(page, "Tab")
            assert page.evaluate("!document.hasFocus() || document.querySelector('dialog').matches(':focus-within')")
        note.press("End")
        page.keyboard.press("2")  # typed, and no label
        desk.press(page, "Escape")
        expect(dialog).not_to_be_visible()
        expect(page.locator(".sld-needed input:checked")).to_have_count(0)
    desk.press(page, "s")
    page.evaluate(f"document.querySelector('dialog').close(); {PRESS_S}")  # open again before it is told that it closed
    expect(note).to_have_value("222")
    note.fill("ask the ward")
    desk.press(page, "Enter")
    desk.sees(page, "Skipped. You")
    assert db.values(select(case_notes.c.note).where(case_notes.c.case_id == urgent)) == ["ask the ward"]


def test_a_senior_finds_sorts_and_gives_away_what_waits(page: Page, db: Database) -> None:
    """In a list that changes by itself, but never under the pointer."""
    register(db, COLLEAGUE)
    desk.come_in(db, *[Priority.P3] * 210)
    page.goto("/inbox")
    for _ in range(6):
        page.get_by_role("button", name=re.compile(r"^Show \d+ more$")).click()
    desk.sees(page, "200 of 210")
    expect(page.get_by_role("button", name=re.compile(r"^Show \d+ more$"))).to_have_count(0)
    find = page.get_by_role("searchbox")
    find.fill("post-")
    desk.sees(page, "of 200 or more found")
    find.fill("")

    (old,) = desk.come_in(db, Priority.P1, late=timedelta(days=2))
    (new,) = desk.come_in(db, Priority.P2)
    expect(desk.row_of(page, old)).to_have_class(re.compile("over"))
    expect(desk.row_of(page, old).get_by_text(re.compile("^overdue"))).to_have_css("font-weight", "700")
    expect(page.get_by_role("button", name=re.compile(r"P1 Urgent \d+ · 1 overdue"))).to_be_visible()
    page.get_by_label("Order of the list").select_option("newest")
    expect(page.locator("li[data-id]").first).to_have_attribute("data-id", new)
    page.wait_for_url(re.compile("sort=newest"))
    desk.click(page, "Assign to …")
    desk.row_of(page, new).click()
    expect(desk.row_of(page, new).get_by_role("button", pressed=True)).to_be_visible()
    assert violations(page) == []
    expect(page.get_by_role("button", name="Assign 1 case")).to_be_disabled()  # nobody is chosen yet
    page.get_by_label("Colleague", exact=True).select_option(label=COLLEAGUE.name)
    desk.click(page, "Assign 1 case")
    desk.sees(page, "1 case is reserved for them.")
    page.mouse.move(1200, 5)
    expect(desk.row_of(page, new).get_by_text("reserved")).to_be_visible()
    assert db.value(select(inbox_entries.c.assignee).where(inbox_entries.c.case_id == new)) == COLLEAGUE.id

    (mine,) = desk.come_in(db, Priority.P2)
    claims.claim(db, LOCAL_USER.at(_now()), mine)
    expect(desk.row_of(page, mine).get_by_text("assigned to you")).to_be_visible()
    desk.row_of(page, mine).click()
    expect(desk.case_text(page)).to_be_focused()  # not left on the row
    assert desk.case_in_address(page) == mine
    show = page.get_by_role("button", name=re.compile("new in the list"))
    for leave in (lambda: page.mouse.move(1200, 5), lambda: page.keyboard.press("Shift")):  # or works by keys
        desk.row_of(page, mine).hover()
        (urgent,) = desk.come_in(db, Priority.P0)
        expect(show).to_be_visible(timeout=SEEN_MS)  # it does not move under the hand that is in it
        expect(desk.row_of(page, urgent)).to_have_count(0)
        leave()
        expect(desk.row_of(page, urgent)).to_be_visible(timeout=SEEN_MS)
        expect(show).to_be_hidden()
