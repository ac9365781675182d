"""Signing in through a real OpenID provider: the deep link, the missing role, sessions that end on the server."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page, expect
from sqlalchemy import select, update

from screening.review.actors import LOCAL_USER, Role
from screening.review.triage import Priority
from storage import schema
from storage.database import Database
from storage.review import inbox
from storage.review.reviews import load_draft
from storage.schema import reviews, sessions
from storage.site import accounts
from tests.browser.accessibility import violations
from tests.browser.conftest import RunningApp, screenshot
from tests.browser.signed_in_site import open_id_provider, sign_in, signed_in_site
from tests.databases import write
from tests.storage.inbox_cases import fill

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A real OpenID provider process; its URL."""
    with open_id_provider(tmp_path_factory.mktemp("provider"), ("ann", "rae", "new")) as url:
        yield url


@pytest.fixture(scope="module")
def site(browser: Browser, provider: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningApp]:
    """The app with that provider."""
    with signed_in_site(browser, tmp_path_factory.mktemp("site"), provider) as app:
        yield app


@pytest.fixture(scope="module")
def db(site: RunningApp, provider: str) -> Iterator[Database]:
    """The site's database, with a reviewer and a researcher in it."""
    opened = Database(site.database_url)
    for name, role in (("ann", Role.REVIEWER), ("rae", Role.RESEARCHER)):
        known = accounts.SignIn(subject=f"{provider}|{name}", display_name=name.title(), issued_at=datetime.now(UTC))
        made = inbox.enter(opened, known, datetime.now(UTC))
        write(opened, update(schema.accounts).where(schema.accounts.c.id == made.id).values(roles=[role.value]))
    yield opened
    opened.close()


@pytest.fixture
def visitor(browser: Browser, site: RunningApp, db: Database) -> Iterator[Page]:
    """A browser without cookies."""
    context = browser.new_context(base_url=site.url, viewport={"width": 1440, "height": 900})
    context.set_default_timeout(20_000)
    yield context.new_page()
    context.close()


def _end_idle(db: Database) -> None:
    """Let every session have been idle for a day."""
    write(db, update(sessions).values(seen_at=datetime.now(UTC) - timedelta(days=1)))


def offered(page: Page) -> dict[str, list[str]]:
    """The pages of the navigation by group, each group opened; those that stand by themselves under no name."""
    bar = page.get_by_test_id("stTopNav")
    if not bar.count():
        return {}
    found = {"": bar.get_by_role("link").locator("p").all_inner_texts()}
    for group in bar.get_by_test_id("stTopNavSection").all():
        group.click()
        links = page.get_by_test_id("stTopNavDropdownLink")
        expect(links.first).to_be_visible()
        found[group.inner_text().strip()] = [each.strip() for each in links.locator("p").all_inner_texts()]
        page.keyboard.press("Escape")
        expect(links).to_have_count(0)
    return found


def test_a_deep_link_leads_through_the_sign_in_and_signing_out_ends_the_session_on_the_server(visitor: Page) -> None:
    visitor.goto("/errors?batch=0123abc")
    expect(visitor.get_by_role("button", name="Sign in")).to_be_visible()
    assert offered(visitor) == {}
    expect(visitor.get_by_role("button", name="Pause AI decisions")).to_have_count(0)
    screenshot(visitor, "sign-in")
    assert violations(visitor) == []
    sign_in(visitor, "rae")
    expect(visitor.get_by_role("heading", name="Misclassified", exact=True)).to_be_visible()
    assert "/errors" in visitor.url
    cookies = visitor.context.cookies()
    visitor.get_by_role("button", name="Account").click()
    with visitor.expect_response(lambda answer: answer.url.endswith("/sign-out") and answer.status == 200):
        visitor.get_by_role("button", name="Sign out").click()
    expect(visitor.get_by_role("button", name="Account")).to_have_count(0)
    visitor.context.add_cookies(cookies)  # type: ignore[arg-type]
    visitor.goto("/batches")
    expect(visitor.get_by_text("You were signed out")).to_be_visible()


def test_a_role_that_does_not_reach_is_refused_and_not_offered(visitor: Page) -> None:
    visitor.goto("/errors")
    sign_in(visitor, "ann")
    expect(visitor.get_by_text("Your role does not let you view results")).to_be_visible()
    shown = offered(visitor)
    assert shown.keys() == {"", "Review", "Screen", "Research", "Admin"}
    assert shown["Review"] == ["Queue", "Shift report"] and "Methods" in shown["Research"]
    assert "Misclassified" not in shown["Research"] and "Audit" not in shown["Admin"]
    screenshot(visitor, "refused")


def test_a_newcomer_is_told_that_a_role_is_missing(visitor: Page, provider: str) -> None:
    visitor.goto("/")
    sign_in(visitor, "new")
    expect(visitor.get_by_text("your account has no role")).to_be_visible()
    expect(visitor.get_by_text(f"{provider}|new")).to_be_visible()
    screenshot(visitor, "no-role")


def _choose_unsafe(visitor: Page) -> None:
    """Ann's next case, a label chosen and not submitted."""
    visitor.goto("/inbox")
    sign_in(visitor, "ann")
    visitor.get_by_role("button", name="Next case").click()
    visitor.get_by_role("radio", name="Unsafe").check()


def test_what_was_filled_in_outlives_the_session(visitor: Page, db: Database) -> None:
    """Also what was typed when the session had ended already: this browser keeps it until the server has it."""
    (case_id,) = fill(db, [Priority.P2], kind="interactive")
    _choose_unsafe(visitor)
    everybody = accounts.list_accounts(db, LOCAL_USER)
    ann = next(account for account in everybody if (account.subject or "").endswith("|ann"))
    expect(visitor.get_by_text("Draft saved")).to_be_visible()
    kept = load_draft(db, ann.actor, case_id)
    assert kept is not None and kept["label"] == "unsafe"
    visitor.get_by_text("Reasons and note").click()
    _end_idle(db)
    visitor.get_by_role("textbox", name="Note").fill("as far as I came")
    expect(visitor.get_by_text("your session has ended")).to_be_visible()
    assert db.rows(select(reviews.c.id)) == []
    visitor.reload()
    expect(visitor.get_by_text("your session has ended")).to_be_visible()
    assert violations(visitor) == []
    visitor.get_by_role("link", name="Sign in again").click()
    sign_in(visitor, "ann")
    expect(visitor.get_by_role("heading", name="Review", exact=True)).to_be_visible()
    assert f"case={case_id}" in visitor.url
    expect(visitor.get_by_role("button", name="Next case")).to_be_visible()
    visitor.keyboard.press("n")
    expect(visitor.get_by_role("textbox", name="Note")).to_have_value("as far as I came")
    expect(visitor.get_by_role("radio", name="Unsafe")).to_be_checked()


def _give(db: Database, name: str, roles: frozenset[Role]) -> None:
    """As an administrator does; there need not be one."""
    theirs = schema.accounts.c.subject.endswith(f"|{name}")
    write(db, update(schema.accounts).where(theirs).values(roles=sorted(roles)))


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (frozenset({Role.RESEARCHER}), "Your reviewer role was removed: a case that was open here has gone back"),
        (frozenset[Role](), "Your access was removed."),
    ],
)
def test_who_loses_the_role_with_a_review_under_way_is_told_what_became_of_it(
    visitor: Page, db: Database, left: frozenset[Role], said: str
) -> None:
    """A save that comes too late is not left without words."""
    (case_id,) = fill(db, [Priority.P2], kind="interactive")
    _choose_unsafe(visitor)
    visitor.get_by_role("radio", name="Monitor").check()
    visitor.get_by_role("radio", name="Certain").check()
    expect(visitor.get_by_role("button", name="Submit: unsafe, monitor")).to_be_visible()
    _give(db, "ann", left)
    try:
        visitor.keyboard.press("Control+Enter")
        expect(visitor.get_by_text(said)).to_be_visible()
        expect(visitor.get_by_text("The rest is kept as a draft")).to_be_visible()
        assert db.rows(select(reviews.c.id).where(reviews.c.case_id == case_id)) == []
    finally:
        _give(db, "ann", frozenset({Role.REVIEWER}))
