"""A team at a site whose people sign in: clinicians, a senior, a researcher and an administrator, each at a browser of
their own. What reaches a browser is read off its connection: what is not on the page may still have been sent to it.
"""

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import cache
from subprocess import Popen

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import delete, select, update

from screening.review.policy import LOCAL_USER, Actor, Role
from screening.review.triage import Priority
from storage.database import Database
from storage.review.reviews import load_draft, submit_review
from storage.schema import accounts, adjudications, cases, inbox_entries, reviews, sessions
from storage.settings_store import SiteSettings, change, current
from storage.site.accounts import SignIn, enter
from tests.browser import desk
from tests.browser.conftest import RunningApp, require_well, started_app, wait_for
from tests.browser.team import Person, browser_of
from tests.databases import write
from tests.processes import free_port
from tests.storage.inbox_cases import form, take

pytestmark = pytest.mark.browser

TEAM = {"ann": Role.REVIEWER, "bo": Role.REVIEWER, "sue": Role.SENIOR, "rae": Role.RESEARCHER}
TEXTS = (
    "Cold rain all morning and the tram was late twice.",
    "We are painting the kitchen yellow at the weekend.",
    "Does the library open on Sundays in the holidays?",
    "My bicycle has a flat tyre and no light at all.",
)
ANNS_NOTE, BOS_NOTE = "heron by the river", "lantern on the stairs"
ENGINE = ("Answers: ", "Shows consistency", "AI result:")
"""Words that stand beside the AI's view wherever it is shown."""
SIGNED_OUT = "your session has ended"
STYLE = "https://cdn.jsdelivr.net/npm/@picocss/"
"""What the page of the provider asks for."""
SignedIn = Callable[[str], Person]


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real OpenID provider process, which knows these people as "Ann Example" and so on; its URL. It lets anybody in,
    by any name.
    """
    port, log = free_port(), tmp_path_factory.mktemp("provider") / "log"
    claims = [json.dumps({"sub": name, "name": f"{name.title()} Example"}) for name in (*TEAM, "ada", "new")]
    command = ["-m", "oidc_provider_mock", "-p", str(port), *(f"--user-claims={each}" for each in claims)]
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as out, Popen([sys.executable, *command], stdout=out, stderr=out) as process:
        wait_for(f"{url}/.well-known/openid-configuration", process, log)
        yield url
        process.terminate()


@pytest.fixture(scope="module")
def site(browser: Browser, provider: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApp]:
    """The app with that provider in its secrets file; ``ada`` is its first administrator."""
    directory, port = tmp_path_factory.mktemp("site"), free_port()
    (directory / "secrets.toml").write_text(
        f'[auth]\nredirect_uri = "http://127.0.0.1:{port}/oauth2callback"\ncookie_secret = "{os.urandom(16).hex()}"\n'
        f'client_id = "second-look"\nclient_secret = "x"\n'
        f'server_metadata_url = "{provider}/.well-known/openid-configuration"\n'
    )
    settings = {
        "PORT": str(port),
        "SECOND_LOOK_FIRST_ADMINS": f'["{provider}|ada"]',
        "STREAMLIT_SECRETS_FILES": str(directory / "secrets.toml"),
    }
    with started_app(browser, directory, settings, programs=["app"]) as app:
        yield app


def _sign_in(page: Page, name: str) -> None:
    """Through the provider's own page, from wherever the gate is shown."""
    desk.click(page, "Sign in")
    page.get_by_placeholder("sub").fill(name)
    desk.click(page, "Authorize")


@pytest.fixture(scope="module")
def people(site: RunningApp, provider: str) -> dict[str, Actor]:
    db, now, found = Database(site.database_url), datetime.now(UTC), {}
    for name, role in TEAM.items():
        known = SignIn(subject=f"{provider}|{name}", display_name=f"{name.title()} Example", issued_at=now)
        made = enter(db, known, now)
        _give(db, name, role)
        found[name] = Actor(id=made.id, name=made.name, roles=frozenset({role}))
    db.close()
    return found


@pytest.fixture(scope="module")
def signed_in(browser: Browser, site: RunningApp, provider: str) -> Iterator[Callable[[str], Person]]:
    """Somebody's own browser; they sign in when first asked for."""
    with ExitStack() as stack:

        @cache
        def person(name: str) -> Person:
            made = stack.enter_context(browser_of(browser, site.url, provider, STYLE))
            made.page.goto("/")
            _sign_in(made.page, name)
            desk.sees(made.page, made.page.get_by_role("button", name="Account"))
            return made

        yield person


@pytest.fixture
def db(site: RunningApp, people: dict[str, Actor]) -> Iterator[Database]:
    """The site's database: four texts wait."""
    opened = Database(site.database_url)
    write(opened, delete(inbox_entries))
    desk.leave_nothing_to_chance(opened)
    for case_id, text in zip(desk.come_in(opened, *[Priority.P2] * 4), TEXTS, strict=True):
        write(opened, update(cases).where(cases.c.id == case_id).values(text=text))
    yield opened
    opened.close()


def _give(db: Database, name: str, *roles: Role) -> None:
    """As an administrator does; there need not be one."""
    write(db, update(accounts).where(accounts.c.subject.endswith(f"|{name}")).values(roles=sorted(roles)))


def test_signing_in_leads_where_one_was_going_and_signing_out_ends_it_on_the_server(
    browser: Browser, site: RunningApp, provider: str, signed_in: SignedIn, db: Database
) -> None:
    with browser_of(browser, site.url, provider, STYLE) as person:
        page = person.page
        answer = page.goto("/errors?batch=0123abc")
        assert answer is not None and "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        desk.sees(page, page.get_by_role("button", name="Sign in"))
        expect(page.get_by_test_id("stTopNav")).to_have_count(0)
        expect(page.get_by_role("button", name="Pause AI decisions")).to_have_count(0)
        require_well(page, "sign-in")
        _sign_in(page, "rae")
        desk.sees(page, page.get_by_role("heading", name="Misclassified", exact=True))
        assert "/errors" in page.url
        cookies = page.context.cookies()
        desk.click(page, "Account")
        with page.expect_response(lambda answer: answer.url.endswith("/sign-out") and answer.status == 200):
            desk.click(page, "Sign out")
        expect(page.get_by_role("button", name="Account")).to_have_count(0)
        page.context.add_cookies(cookies)  # type: ignore[arg-type]
        page.goto("/batches")
        desk.sees(page, "You were signed out")

    ann = signed_in("ann").page  # a role that does not reach is refused, and is not offered it
    ann.goto("/errors")
    desk.sees(ann, "Your role does not let you view results")
    ann.get_by_test_id("stTopNavSection").filter(has_text="Research").click()
    links = ann.get_by_test_id("stTopNavDropdownLink")
    expect(links.filter(has_text="Methods")).to_be_visible()
    expect(links.filter(has_text="Misclassified")).to_have_count(0)


def test_an_administrator_reads_nothing(signed_in: SignedIn, provider: str, db: Database) -> None:
    new, ada = signed_in("new"), signed_in("ada")
    desk.sees(new.page, "your account has no role", f"{provider}|new")
    page = ada.page
    page.goto("/settings")
    desk.click(page, "Accounts", role="tab")
    page.get_by_role("combobox", name="Account").click()
    page.get_by_role("option", name="New Example · no role").click()
    expect(page.get_by_text("|new", exact=False).first).to_be_visible()
    page.get_by_role("combobox", name="Roles").fill("Reviewer")
    page.get_by_role("option", name="Reviewer").click()
    page.keyboard.press("Tab")  # out of the list, which covers what is below it
    desk.click(page, "Save roles")
    desk.sees(page, "Roles saved.")
    desk.open_inbox(new.page)

    page.goto("/batches")
    desk.click(page, "Pause AI decisions", "Pause now")
    expect(page.get_by_role("alert").filter(has_text="AI decisions paused")).to_be_visible()
    assert current(db).settings.stopped
    page.goto("/audit")
    desk.click(page, "AI decisions paused", "Resume AI decisions")
    desk.sees_no(page, "AI decisions paused")
    assert not current(db).settings.stopped
    assert json.loads(desk.taken(page, "Download checkpoint", "button"))["count"] > 0
    page.goto("/inbox")
    desk.sees(page, "You see the queue", page.locator("li[data-id]").first)
    expect(page.get_by_role("button", name="Next case")).to_have_count(0)
    require_well(page, "team-administrator")
    assert not ada.was_sent(*TEXTS, ANNS_NOTE, BOS_NOTE, *ENGINE)


def test_two_read_one_case_and_neither_sees_too_early(signed_in: SignedIn, db: Database) -> None:
    ann, bo = signed_in("ann"), signed_in("bo")
    _have_all_read_twice(db)
    desk.open_inbox(ann.page)
    case_id = desk.next_case(ann.page)
    row = db.row(select(cases.c.text, cases.c.batch_id).where(cases.c.id == case_id))
    bo.received.clear()
    _is_out_of_reach(bo, case_id, row.text, row.batch_id)
    assert desk.next_case(bo.page) != case_id
    _reads(ann, "2", "7", "Unsafe", "High", ANNS_NOTE)
    desk.sees(ann.page, "Second review needed")
    assert ann.was_sent(*ENGINE)
    _finishes(ann.page)
    _finishes(bo.page)
    _is_out_of_reach(bo, case_id, row.text, row.batch_id)
    others = update(inbox_entries).where(inbox_entries.c.case_id != case_id)
    write(db, others.values(due_at=datetime.now(UTC) + timedelta(days=2)))  # its second review is the next one due
    assert desk.next_case(bo.page) == case_id
    expect(bo.page.get_by_role("group", name="Label").locator("input:checked")).to_have_count(0)
    assert bo.was_sent(row.text) and not bo.was_sent(ANNS_NOTE, *ENGINE)
    ann.page.goto(f"/case?case={case_id}")
    desk.sees(ann.page, ANNS_NOTE)
    expect(ann.page.get_by_text("first review ·")).to_have_count(1)
    assert not ann.was_sent(BOS_NOTE, "second review ·")
    _reads(bo, "1", "8", "Safe", "Certain", BOS_NOTE)
    desk.sees(bo.page, "The two reviews differ.")
    _finishes(bo.page)


def _have_all_read_twice(db: Database) -> None:
    change(db, LOCAL_USER.at(datetime.now(UTC)), SiteSettings(second_review_rate=1.0), current(db).version)


def _reads(who: Person, label: str, certainty: str, words: str, sure: str, note: str) -> None:
    desk.choose(who.page, label, certainty, words, sure)
    assert not who.was_sent(*ENGINE)
    who.page.locator("summary").filter(has_text="Reasons and note").click()
    who.page.get_by_role("textbox", name="Note", exact=True).fill(note)
    desk.save(who.page)
    desk.sees(who.page, "AI result:")


def _is_out_of_reach(who: Person, case_id: str, text: str, batch_id: str) -> None:
    """The case is another's: no claim, no page, no file of it."""
    page = who.page
    page.goto(f"/inbox?case={case_id}")
    desk.click(page, "Take this case")
    desk.sees(page, re.compile("assigned to another reviewer now|others may take it"))
    page.goto(f"/case?case={case_id}")
    desk.sees(page, "This case is not assigned to you.", page.get_by_role("link", name="Open the queue"))
    page.goto(f"/batches?batch={batch_id}")
    desk.sees(page, "4 rows: ")
    expect(page.get_by_role("button", name="Export")).to_have_count(0)
    desk.open_inbox(page)
    assert not who.was_sent(text, ANNS_NOTE, *ENGINE)


def _finishes(page: Page) -> None:
    desk.press(page, "f")
    desk.sees(page, "You have no open case")


def test_a_senior_decides_by_keyboard_alone(signed_in: SignedIn, people: dict[str, Actor], db: Database) -> None:
    sue, page = signed_in("sue"), signed_in("sue").page
    now = datetime.now(UTC)
    _have_all_read_twice(db)
    case_id = db.value(select(inbox_entries.c.case_id).limit(1))
    row = db.row(select(cases).where(cases.c.id == case_id))
    write(db, delete(inbox_entries).where(inbox_entries.c.case_id != case_id))
    for name, label, note in (("ann", "unsafe", ANNS_NOTE), ("bo", "safe", BOS_NOTE)):
        token = take(db, people[name], now).token
        submit_review(db, people[name].at(now), case_id, token, form(label, note=note), f"{name:0>32}")
    sue.received.clear()

    desk.open_inbox(page)
    desk.tab_to(page, page.locator("summary").filter(has=page.get_by_text("1 to decide: reviewers disagree")))
    desk.press(page, "Enter")
    assert not sue.was_sent(row.text, ANNS_NOTE, BOS_NOTE)
    desk.tab_to(page, page.locator(".disputed a").first)
    desk.press(page, "Enter")
    desk.sees(page, page.get_by_role("heading", name="Decide"))
    assert desk.case_in_address(page) == case_id
    expect(desk.case_text(page)).to_have_text(row.text)
    desk.sees(page, ANNS_NOTE, BOS_NOTE, "first review ·", "second review ·")
    shown = page.locator("[data-testid=stMain]").inner_text()
    assert shown.count("reviewer-") == 2 and "Ann" not in shown and "Bo " not in shown
    assert not sue.was_sent(*ENGINE)
    require_well(page, "team-decide")
    group = page.locator(".st-key-adjudication").get_by_role("radiogroup", name="Final label")
    desk.tab_to(page, group)
    desk.press(page, "ArrowRight", "Space")
    expect(group.get_by_role("radio", name="Unsafe")).to_be_checked()
    desk.tab_to(page, page.get_by_role("textbox", name="Why"))
    page.keyboard.type("Both reviews discussed with the guideline.")
    desk.tab_to(page, page.get_by_role("button", name="Save"))
    desk.press(page, "Enter")
    desk.sees(page, "Version 1: Unsafe", page.get_by_role("heading", name="What the AI did"))

    made = db.row(select(adjudications).where(adjudications.c.case_id == case_id))
    assert (made.label, made.method, made.by, len(made.review_ids)) == ("unsafe", "senior", people["sue"].id, 2)


def test_who_loses_the_role_meanwhile_keeps_the_draft(
    signed_in: SignedIn, people: dict[str, Actor], db: Database
) -> None:
    ann, page = people["ann"], signed_in("ann").page
    case_id = _chooses_unsafe(page)
    desk.sees(page, "Draft saved")
    kept = load_draft(db, ann, case_id)
    assert kept is not None and kept["label"] == "unsafe"
    page.get_by_text("Reasons and note").click()
    theirs = update(sessions).where(sessions.c.account_id == ann.id)
    write(db, theirs.values(seen_at=datetime.now(UTC) - timedelta(days=1)))
    page.get_by_role("textbox", name="Note").fill("as far as I came")
    desk.sees(page, SIGNED_OUT)
    page.reload()
    desk.sees(page, SIGNED_OUT)
    page.get_by_role("link", name="Sign in again").click()
    _sign_in(page, "ann")
    desk.sees(page, page.get_by_role("heading", name="Review", exact=True))
    assert f"case={case_id}" in page.url
    desk.sees(page, page.get_by_role("button", name="Next case"))
    desk.press(page, "n")
    expect(page.get_by_role("textbox", name="Note")).to_have_value("as far as I came")
    expect(page.get_by_role("radio", name="Unsafe")).to_be_checked()

    for left, said in (((Role.RESEARCHER,), "Your reviewer role was removed"), ((), "Your access was removed.")):
        page.get_by_role("radio", name="Monitor").check()
        page.get_by_role("radio", name="Certain").check()
        desk.sees(page, page.get_by_role("button", name="Submit: unsafe, monitor"))
        _give(db, "ann", *left)
        page.keyboard.press("Control+Enter")  # a save that comes too late is not left without words
        expect(page.get_by_text(said)).to_be_visible()
        desk.sees(page, "The rest is kept as a draft")
        assert db.rows(select(reviews.c.id).where(reviews.c.case_id == case_id)) == []
        _give(db, "ann", Role.REVIEWER)
        case_id = _chooses_unsafe(page)
    signed_in("ann").errors.clear()


def _chooses_unsafe(page: Page) -> str:
    desk.open_inbox(page)
    desk.click(page, "Next case")
    page.get_by_role("radio", name="Unsafe").check()
    return desk.case_in_address(page)
