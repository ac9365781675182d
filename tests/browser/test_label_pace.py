"""Labels chosen, changed and saved at any pace, behind a slow line: what is stored is what was shown last."""

import random
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from storage.database import Database
from tests.browser.conftest import RunningApp
from tests.browser.desk import next_case, next_shown, open_inbox, stored_labels, waiting_cases
from tests.browser.slow_line import SlowLine

pytestmark = pytest.mark.browser

GAPS_MS = (0, 20, 40, 80, 150)
SLOWED_S = (0.0, 0.2, 0.8)
SEQUENCES = 36
LABELS = {"1": "safe", "2": "unsafe", "3": "insufficient_information"}


@pytest.fixture(scope="module")
def db(running_app: RunningApp) -> Iterator[Database]:
    """The app's database, with cases that wait."""
    with waiting_cases(running_app.database_url, SEQUENCES + 10) as opened:
        yield opened


def _sequence(page: Page, chance: random.Random, gap_ms: int) -> str:
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
        case_id = next_shown(far, case_id)
    line.delay_s = 0.0
    stored = stored_labels(db)
    assert {case: stored.get(case) for case in meant} == meant
    far.keyboard.press("x")  # the last case goes back
    expect(far.get_by_text("You will not be offered this case again")).to_be_visible()
