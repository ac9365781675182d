"""A team at one inbox: two clinicians, a senior and an administrator, each signed in in a browser of their own.

What reaches a browser is read off its connection: what is not on the page may still have been sent to it.
"""

import csv
import re
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import select, update

from screening.review.triage import second_review_coin
from storage import settings_store
from storage.database import Database
from storage.schema import accounts, adjudications, cases, inbox_entries, reviews
from tests.browser.conftest import RunningApp, require_well, screenshot
from tests.browser.desk import (
    case_in_address,
    case_text,
    choose,
    leave_nothing_to_chance,
    next_case,
    open_inbox,
    save,
    screen_file,
    tab_to,
)
from tests.browser.signed_in_site import open_id_provider, sign_in, signed_in_site
from tests.browser.team import Person, browser_of, give_roles, have_everything_read_twice
from tests.databases import write

pytestmark = pytest.mark.browser

TEAM = {"ann": "Reviewer", "bo": "Reviewer", "sue": "Senior"}
TEXTS = (
    "Cold rain all morning and the tram was late twice.",
    "We are painting the kitchen yellow at the weekend.",
    "Does the library open on Sundays in the holidays?",
    "My bicycle has a flat tyre and no light at all.",
)
ANNS_NOTE, BOS_NOTE = "heron by the river", "lantern on the stairs"
ENGINE = ("Answers: ", "Shows consistency", "AI result:")
"""Words that stand beside the engine's view wherever it is shown."""


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApp]:
    """The app with sign-in; each of its screened cases is drawn into the audit sample."""
    directory = tmp_path_factory.mktemp("team")
    with (
        open_id_provider(directory, (*TEAM, "ada")) as provider,
        signed_in_site(browser, directory, provider, {"SECOND_LOOK_AUDIT_RATE": "1"}) as app,
    ):
        yield app


@pytest.fixture(scope="module")
def db(site: RunningApp) -> Iterator[Database]:
    """The site's database, filled through the command line."""
    opened = Database(site.database_url)
    leave_nothing_to_chance(opened)
    screen_file(site, ((f"post-{at}", text) for at, text in enumerate(TEXTS)))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def team(browser: Browser, site: RunningApp, db: Database) -> Iterator[dict[str, Person]]:
    """Everybody signed in, with the roles that the administrator gave them on the Settings page."""
    with ExitStack() as stack:
        people = {name: stack.enter_context(browser_of(browser, site.url)) for name in (*TEAM, "ada")}
        for name, person in people.items():
            person.page.goto("/")
            sign_in(person.page, name)
        for name in TEAM:
            expect(people[name].page.get_by_text("your account has no role")).to_be_visible()
        give_roles(people["ada"].page, TEAM)
        have_everything_read_twice(people["ada"].page)
        yield people


def _of_case(db: Database, case_id: str) -> tuple[str, str]:
    """Its text, and its batch."""
    row = db.row(select(cases.c.text, cases.c.batch_id).where(cases.c.id == case_id))
    return row.text, row.batch_id


def _note(page: Page, words: str) -> None:
    page.locator("summary").filter(has_text="Reasons and note").click()
    page.get_by_role("textbox", name="Note", exact=True).fill(words)


def _case_page(page: Page, case_id: str) -> None:
    page.goto(f"/case?case={case_id}")
    expect(page.get_by_role("heading", name="Case", exact=True)).to_be_visible()


def test_two_read_one_decides_and_nobody_sees_too_early(team: dict[str, Person], db: Database) -> None:
    ann, bo, sue = team["ann"], team["bo"], team["sue"]
    open_inbox(ann.page)
    case_id = next_case(ann.page)
    text, batch_id = _of_case(db, case_id)
    _is_out_of_reach(bo, case_id, text, batch_id)
    given_meanwhile = next_case(bo.page)
    assert given_meanwhile != case_id
    _reads(ann, "2", "7", "Unsafe", "High", ANNS_NOTE)
    expect(ann.page.get_by_text("Second review needed")).to_be_visible()
    assert ann.was_sent(*ENGINE)
    _finishes(ann.page)
    _finishes(bo.page)
    _is_out_of_reach(bo, case_id, text, batch_id)
    others = update(inbox_entries).where(inbox_entries.c.case_id != case_id)
    write(db, others.values(due_at=datetime.now(UTC) + timedelta(days=2)))  # its second review is the next one due
    assert next_case(bo.page) == case_id
    expect(bo.page.get_by_role("group", name="Label").locator("input:checked")).to_have_count(0)
    assert bo.was_sent(text) and not bo.was_sent(ANNS_NOTE, *ENGINE)
    _sees_only_their_own(ann, case_id)
    _reads(bo, "1", "8", "Safe", "Certain", BOS_NOTE)
    expect(bo.page.get_by_text("The two reviews differ.")).to_be_visible()
    screenshot(bo.page, "team-disagreement")
    _finishes(bo.page)
    _file_says_nothing(sue, batch_id, text)
    _decides(sue, case_id, text)
    _closed_for_all(team, case_id, db)
    _one_double_review(sue.page, case_id, db)


def _reads(who: Person, label: str, certainty: str, words: str, sure: str, note: str) -> None:
    choose(who.page, label, certainty, words, sure)
    assert not who.was_sent(*ENGINE)
    _note(who.page, note)
    save(who.page)
    expect(who.page.get_by_text("AI result:")).to_be_visible()


def _is_out_of_reach(who: Person, case_id: str, text: str, batch_id: str) -> None:
    """The case is another's: no claim, no page, no file of it."""
    page = who.page
    page.goto(f"/inbox?case={case_id}")
    page.get_by_role("button", name="Take this case").click()
    expect(page.get_by_text(re.compile("assigned to another reviewer now|others may take it")).first).to_be_visible()
    _case_page(page, case_id)
    expect(page.get_by_text("This case is not assigned to you.")).to_be_visible()
    expect(page.get_by_role("link", name="To the inbox")).to_be_visible()
    page.goto(f"/batches?batch={batch_id}")
    expect(page.get_by_text("4 rows: 4 accepted")).to_be_visible()
    expect(page.get_by_role("button", name="Export")).to_have_count(0)
    expect(page.get_by_text("CSV files are made safe")).to_have_count(0)
    open_inbox(page)
    assert not who.was_sent(text, ANNS_NOTE, *ENGINE)


def _finishes(page: Page) -> None:
    page.keyboard.press("f")
    expect(page.get_by_text("You have no open case")).to_be_visible()


def _sees_only_their_own(who: Person, case_id: str) -> None:
    _case_page(who.page, case_id)
    expect(who.page.get_by_text(ANNS_NOTE)).to_be_visible()
    expect(who.page.get_by_text("first review ·")).to_have_count(1)
    assert not who.was_sent(BOS_NOTE, "second review ·")


def _file_says_nothing(senior: Person, batch_id: str, text: str) -> None:
    """A senior may have the results, and may yet read the case: its row leaves out what the engine made of it."""
    page = senior.page
    page.goto(f"/batches?batch={batch_id}")
    page.get_by_role("button", name="Export").click()
    with page.expect_download() as started:
        page.get_by_role("link", name="Results (CSV)").click()
    rows = list(csv.DictReader(started.value.path().read_text(encoding="utf-8-sig").splitlines()))
    open_case = next(row for row in rows if row["id"] == f"post-{TEXTS.index(text)}")
    assert (open_case["outcome"], open_case["node"], open_case["calls"]) == ("in review", "", "")


def _decides(senior: Person, case_id: str, text: str) -> None:
    """By keyboard alone."""
    page = senior.page
    open_inbox(page)
    folded = page.get_by_text("1 to decide: reviewers disagree")
    tab_to(page, page.locator("summary").filter(has=folded))
    page.keyboard.press("Enter")
    assert not senior.was_sent(text, ANNS_NOTE, BOS_NOTE)
    tab_to(page, page.locator(".disputed a").first)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Decide")).to_be_visible()
    assert case_in_address(page) == case_id
    expect(case_text(page)).to_have_text(text)
    for words in (ANNS_NOTE, BOS_NOTE, "first review ·", "second review ·"):
        expect(page.get_by_text(words)).to_be_visible()
    shown = page.locator("[data-testid=stMain]").inner_text()
    assert shown.count("reviewer-") == 2 and "Ann" not in shown and "Bo " not in shown
    assert not senior.was_sent(*ENGINE)
    require_well(page, "team-decide")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("Select a label.")).to_be_in_viewport()
    group = page.locator(".st-key-adjudication").get_by_role("radiogroup", name="Final label")
    tab_to(page, group)
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    expect(group.get_by_role("radio", name="Unsafe")).to_be_checked()
    tab_to(page, page.get_by_role("textbox", name="Why"))
    page.keyboard.type("Both reviews discussed with the guideline.")
    tab_to(page, page.get_by_role("button", name="Save"))
    page.keyboard.press("Enter")
    expect(page.get_by_text("Version 1: Unsafe")).to_be_visible()
    expect(page.get_by_role("heading", name="What the AI did")).to_be_visible()


def _closed_for_all(team: dict[str, Person], case_id: str, db: Database) -> None:
    made = db.row(select(adjudications).where(adjudications.c.case_id == case_id))
    given = db.values(select(reviews.c.id).where(reviews.c.case_id == case_id))
    sue = db.value(select(accounts.c.id).where(accounts.c.display_name == "Sue Example"))
    closed = db.value(select(inbox_entries.c.closed_at).where(inbox_entries.c.case_id == case_id))
    assert (made.label, made.method, made.by) == ("unsafe", "senior", sue)
    assert closed is not None and set(made.review_ids) == set(given) and len(given) == 2
    for name in ("ann", "bo"):
        _case_page(team[name].page, case_id)
        for words in ("Version 1: Unsafe", ANNS_NOTE, BOS_NOTE):
            expect(team[name].page.get_by_text(words)).to_be_visible()
        expect(team[name].page.get_by_role("button", name="Save")).to_have_count(0)
    require_well(team["ann"].page, "team-closed")
    page = team["sue"].page
    page.goto(f"/inbox?case={case_id}")
    page.get_by_role("button", name="Take this case").click()
    expect(page.get_by_text("This case is closed.")).to_be_visible()
    expect(page.get_by_text("to decide: reviewers disagree")).to_have_count(0)


def _one_double_review(page: Page, case_id: str, db: Database) -> None:
    page.goto("/agreement")
    by_coin = str(int(second_review_coin(case_id) < settings_store.current(db).settings.second_review_rate))
    for name, number in (("Blinded reviews of cases", "1"), ("Randomly double-reviewed", by_coin), ("Reviewers", "2")):
        metric = page.get_by_test_id("stMetric").filter(has=page.get_by_text(name, exact=True))
        expect(metric.get_by_test_id("stMetricValue")).to_have_text(number)
    screenshot(page, "team-agreement")


def test_an_administrator_sees_what_waits_and_reads_nothing(team: dict[str, Person]) -> None:
    page = team["ada"].page
    page.goto("/batches")
    expect(page.get_by_role("heading", name="File uploads", exact=True)).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.goto("/inbox")
    expect(page.get_by_text("You see the queue")).to_be_visible()
    expect(page.locator("li[data-id]").first).to_be_visible()
    expect(page.get_by_role("button", name="Next case")).to_have_count(0)
    require_well(page, "team-administrator")
    assert not team["ada"].was_sent(*TEXTS, ANNS_NOTE, BOS_NOTE, *ENGINE)
