"""The reason this program exists: an urgent text is screened while an inbox lies idle, and people know at once."""

import hashlib
import hmac
import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from subprocess import PIPE, Popen
from sys import executable
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import select

from jobs.channels import REPLAY_WINDOW_S, describe
from screening.review.actors import LOCAL_USER
from screening.review.triage import Priority
from storage.database import Database
from storage.review import claims
from storage.schema import cases, inbox_entries, notifications, screenings
from storage.site.recipients import Kind, add_recipient
from tests.browser.conftest import ROOT, RunningApp, await_run, screenshot
from tests.browser.desk import case_in_address, case_text, row_of
from tests.browser.team import browser_of
from tests.receivers import Mailbox, Receiver, mail_server, receiving
from tests.storage.inbox_cases import SENIOR, fill, register
from tests.stub_server.plan import StubPlan

pytestmark = pytest.mark.browser

SEEN_S = 5.0
WORDS = "I want to die and I have the pills ready tonight."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A stub of the model's service that calls every text unsafe; where it is."""
    plan = tmp_path_factory.mktemp("model") / "plan.json"
    plan.write_text(StubPlan(weights={"unsafe": 1.0}, latency_s=0.05).model_dump_json())
    process = Popen([executable, "-m", "tests.stub_server", "--port", "0", "--plan", str(plan)], cwd=ROOT, stdout=PIPE)
    with process:
        assert process.stdout is not None
        found = re.search(rb"http://[\d.:]+", process.stdout.readline())
        assert found is not None
        yield found[0].decode()
        process.terminate()


@pytest.fixture(scope="module")
def app_environment(model: str) -> dict[str, str]:
    """The model's service is the stub, and messages may go to this machine."""
    return {
        "SECOND_LOOK_SAMPLER": "anthropic",
        "ANTHROPIC_BASE_URL": model,
        "ANTHROPIC_API_KEY": "k",
        "SECOND_LOOK_NOTIFY_PRIVATE_ADDRESSES": "true",
    }


@pytest.fixture(scope="module")
def db(running_app: RunningApp) -> Iterator[Database]:
    """The app's database."""
    opened = Database(running_app.database_url)
    yield opened
    opened.close()


def _until(condition: Callable[[], object], within_s: float = 120.0) -> None:
    limit = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < limit, "it did not happen in time"
        time.sleep(0.1)


def _add(db: Database, kind: Kind, target: str) -> str | None:
    shown = describe(target, private=True) if kind is Kind.SERVICE else "ward"
    by = LOCAL_USER.at(datetime.now(UTC))
    return add_recipient(db, by, name=kind.value, kind=kind, target=target, shown=shown)[1]


NOTE_ROWS = """list => { window.seen = {};
  new MutationObserver((changes) => {
    const note = (node) => { if (node.dataset?.id) window.seen[node.dataset.id] ??= Date.now(); };
    for (const change of changes) change.addedNodes.forEach(note);
  }).observe(list, { childList: true }); }"""


def _note_rows(page: Page) -> None:
    """Have the page note when each row of the list came in."""
    page.get_by_role("list", name="Cases to review").evaluate(NOTE_ROWS)


def _settled(db: Database) -> tuple[str, datetime]:
    """The text's case, once the worker has settled it, and when."""
    columns = select(cases.c.id, inbox_entries.c.priority, screenings.c.completed_at).where(cases.c.text == WORDS)
    joined = columns.join(screenings, screenings.c.case_id == cases.c.id)
    query = joined.join(inbox_entries, inbox_entries.c.case_id == cases.c.id)

    def found() -> Any:
        with db.read() as conn:
            return conn.execute(query).first()

    _until(found)
    row = found()
    assert row.priority == Priority.P0
    return row.id, row.completed_at


def _screen_at_another_browser(browser: Browser, app: RunningApp, db: Database) -> tuple[str, datetime]:
    """Somebody screens the text and stays until it is settled: what nobody watches is not asked about further."""
    with browser_of(browser, app.url) as uploader:
        uploader.page.set_default_timeout(45_000)
        uploader.page.goto("/screen")
        box = uploader.page.get_by_role("textbox", name="Text")
        box.wait_for()
        await_run(uploader.page)
        box.fill(WORDS)
        box.press("Control+Enter")
        uploader.page.wait_for_url(re.compile("case="))
        return _settled(db)


def _check_told(hook: Receiver, secret: str, mailbox: Mailbox, case_id: str) -> None:
    """One message each, signed where it is a webhook's, with a priority and nothing of the text, the case or
    its label.
    """
    _until(lambda: hook.received and mailbox.mails)
    ((headers, body),) = hook.received
    stamp = headers["X-Second-Look-Timestamp"]
    expected = hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()
    assert headers["X-Second-Look-Signature"] == f"v1={expected}"
    assert abs(time.time() - int(stamp)) < REPLAY_WINDOW_S
    told = json.loads(body)
    assert (told["event"], told["priority"], told["count"]) == ("arrived", "P0", 1)
    (mail,) = mailbox.mails
    assert "1 case of priority P0 is in the queue" in mail
    for sent in (mail, body.decode()):
        assert all(word not in sent for word in ("pills", "die", "tonight", case_id, "unsafe"))


def test_a_text_screened_while_an_inbox_lies_idle_reaches_people_at_once(
    browser: Browser, running_app: RunningApp, page: Page, db: Database
) -> None:
    with receiving() as hook, mail_server() as mailbox:
        secret = _add(db, Kind.WEBHOOK, hook.address)
        assert secret is not None
        _add(db, Kind.SERVICE, mailbox.address)
        page.goto("/inbox")
        expect(page.get_by_role("heading", name="Review", exact=True)).to_be_visible()
        assert not page.title().startswith("(")
        _note_rows(page)
        page.get_by_role("searchbox").focus()
        loads = page.evaluate("performance.timeOrigin")
        case_id, settled = _screen_at_another_browser(browser, running_app, db)
        expect(row_of(page, case_id)).to_be_visible()
        assert page.evaluate("id => window.seen[id] / 1000", case_id) - settled.timestamp() <= SEEN_S
        expect(page).to_have_title(re.compile(r"^\(1\) "))
        expect(page.get_by_text("A P0 case has come in")).to_be_visible()
        expect(page.get_by_role("searchbox")).to_be_focused()
        assert page.evaluate("performance.timeOrigin") == loads  # the page was not loaded again
        screenshot(page, "inbox-p0-came-in")
        _check_told(hook, secret, mailbox, case_id)  # before somebody opens it: of what is read already nobody is told
        page.get_by_role("searchbox").blur()
        page.keyboard.press("n")
        page.wait_for_url(re.compile("case="))
        assert case_in_address(page) == case_id
        expect(case_text(page)).to_contain_text(WORDS)
        expect(page.get_by_text("A P0 case has come in")).to_have_count(0)
        expect(page).not_to_have_title(re.compile(r"^\("))  # in my hands, it waits no more
    assert db.values(select(notifications.c.event)) == ["arrived", "arrived"]


STOPPABLE_TIMERS = """
for (const name of ["setTimeout", "setInterval", "requestAnimationFrame", "requestIdleCallback"]) {
  const real = window[name].bind(window);
  window[name] = (act, ...more) => real((...given) => { if (!window.slowed) act(...given); }, ...more);
}"""


def test_a_page_whose_own_timers_stand_still_follows_all_the_same(own_page: Page, db: Database) -> None:
    """As in a tab that is hidden for long: what ticks is a worker of the page, which no browser slows down."""
    own_page.add_init_script(STOPPABLE_TIMERS)
    own_page.goto("/inbox")
    expect(own_page.get_by_role("heading", name="Review", exact=True)).to_be_visible()
    _note_rows(own_page)
    stands = "window.slowed = true; window.late = false; setTimeout(() => { window.late = true; }, 0)"
    own_page.evaluate(stands)
    (case_id,) = fill(db, [Priority.P0], entered_at=[datetime.now(UTC)])
    entered = time.time()
    _until(lambda: own_page.evaluate("id => id in window.seen", case_id))
    assert own_page.evaluate("id => window.seen[id] / 1000", case_id) - entered <= SEEN_S
    assert own_page.evaluate("window.late") is False, "the page's own timers went on"
    assert re.match(r"\(\d+\) ", own_page.evaluate("document.title"))
    register(db, SENIOR)
    claims.claim(db, SENIOR.at(datetime.now(UTC)), case_id)
    expect(row_of(own_page, case_id).get_by_text("assigned")).to_be_visible()
