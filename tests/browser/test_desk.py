"""The reading desk in haste and behind a slow line: what is stored is what was shown last."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as TooSlow
from sqlalchemy import delete, select

from screening.review.actors import LOCAL_USER
from screening.review.tiers import Tier
from storage.database import Database
from storage.schema import inbox_entries, ratings
from storage.site import settings_store
from tests.browser.conftest import RunningApp
from tests.browser.desk import case_in_address, choose, next_case, open_inbox, save
from tests.browser.slow_line import SlowLine, slow_line
from tests.storage.inbox_cases import fill

pytestmark = pytest.mark.browser

GAPS_MS = (0, 20, 40, 80, 150)
SLOWED_S = (0.0, 0.2, 0.8)
SEQUENCES = 200
LABELS = {"1": "safe", "2": "unsafe", "3": "insufficient_information"}


@pytest.fixture(scope="module")
def db(running_app: RunningApp) -> Iterator[Database]:
    """The app's database, with cases that wait."""
    opened = Database(running_app.database_url)
    with opened.write() as conn:
        conn.execute(delete(inbox_entries))
    alone = settings_store.SiteSettings(second_reading_rate=0.0, break_after_texts=10_000)
    settings_store.change(opened, LOCAL_USER, alone, settings_store.current(opened).version, datetime.now(UTC))
    fill(opened, [Tier.P2] * (SEQUENCES + 40), entered_at=[datetime.now(UTC)] * (SEQUENCES + 40))
    yield opened
    opened.close()


@pytest.fixture
def line(running_app: RunningApp) -> Iterator[SlowLine]:
    """A line to the app that a test can slow down or cut."""
    with slow_line(running_app.url) as made:
        yield made


@pytest.fixture
def far(browser: Browser, line: SlowLine) -> Iterator[Page]:
    """A page at the other end of that line."""
    context = browser.new_context(base_url=line.url, viewport={"width": 1440, "height": 900})
    context.set_default_timeout(45_000)
    opened = context.new_page()
    yield opened
    context.close()


def _labels(db: Database) -> dict[str, str]:
    with db.read() as conn:
        return {row.case_id: row.label for row in conn.execute(select(ratings.c.case_id, ratings.c.label))}


def _sequence(page: Page, chance: random.Random, gap_ms: int) -> str:
    """Some labels, a certainty among them, the save and N, at one pace; returns the label shown last."""
    pressed = chance.choices("123", k=chance.randint(1, 4))
    keys = [*pressed]
    keys.insert(chance.randint(0, len(keys)), chance.choice("45678"))
    for key in [*keys, "Control+Enter", "n"]:
        page.keyboard.press(key)
        if gap_ms:
            page.wait_for_timeout(gap_ms)
    return LABELS[pressed[-1]]


def _next_shown(page: Page, before: str) -> str:
    """The case after ``before``, once it can be read and decided on; what stands there instead is said."""
    try:
        page.wait_for_function(
            "before => !location.search.includes(before) && document.querySelector('.sld[data-stage=reading]') && "
            "!document.querySelector('.sld-saving')",
            arg=before,
            timeout=120_000,
        )
    except TooSlow as late:
        stands = page.locator(".sld").inner_text()
        raise AssertionError(f"still {page.url} after {before}:\n{stands}") from late
    return case_in_address(page)


@pytest.mark.timeout(1500)
@pytest.mark.parametrize("slowed", SLOWED_S)
def test_the_label_stored_is_the_one_shown_last_at_any_pace(
    far: Page, line: SlowLine, db: Database, slowed: float
) -> None:
    chance, meant = random.Random(int(10 * slowed)), {}
    open_inbox(far)
    case_id = next_case(far)
    line.delay_s = slowed
    for number in range(SEQUENCES // len(SLOWED_S) + 1):
        meant[case_id] = _sequence(far, chance, GAPS_MS[number % len(GAPS_MS)])
        case_id = _next_shown(far, case_id)
    line.delay_s = 0.0
    stored = _labels(db)
    assert {case: stored.get(case) for case in meant} == meant
    far.keyboard.press("x")  # the last case goes back
    expect(far.get_by_text("It does not come to you again")).to_be_visible()


def test_who_saves_and_goes_on_before_the_next_claim_is_confirmed_is_not_left_behind(
    far: Page, line: SlowLine, db: Database
) -> None:
    open_inbox(far)
    first = next_case(far)
    choose(far, "1", "7", "Safe", "Sure")
    save(far)
    expect(far.get_by_text("The whole trail of this case")).to_be_visible()
    line.delay_s = 0.8
    for key in ("n", "2", "6", "Control+Enter", "n"):
        far.keyboard.press(key)
    far.wait_for_url(lambda url: first not in url)
    second = case_in_address(far)
    far.wait_for_url(lambda url: second not in url)
    expect(far.get_by_role("heading", name="Your reading")).to_be_visible()
    assert _labels(db)[second] == "unsafe"
    line.delay_s = 0.0
    far.keyboard.press("x")
    expect(far.get_by_text("It does not come to you again")).to_be_visible()
