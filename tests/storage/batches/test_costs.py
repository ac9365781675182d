"""Cost by day: each run on the day it ended, the unpriced counted apart."""

from datetime import timedelta, timezone

from screening.review.actors import LOCAL_USER
from storage.batches.costs import daily_costs
from storage.database import Database
from tests.storage.batch_of import NOW, batch, commit_run, run, waiting


def _spend(db: Database, case_id: str, cost: float | None, days_ago: int) -> int:
    made = run("S" * 11)
    assert commit_run(db, case_id, 0, made, cost, NOW - timedelta(days=days_ago))
    return len(made.draws)


def test_each_day_has_its_calls_and_what_is_known_of_their_cost(db: Database) -> None:
    batch(db, ["a plain text of words", "another plain text", "a third plain text", "an old plain text"])
    first, second, third, old = waiting(db)
    calls = _spend(db, first, 0.25, 0)
    _spend(db, second, None, 0)
    _spend(db, third, 0.5, 2)
    _spend(db, old, 9.0, 40)
    today, earlier = daily_costs(db, LOCAL_USER.at(NOW))
    assert (today.day, today.calls, today.cost_usd, today.unpriced_calls) == (NOW.date(), 2 * calls, 0.25, calls)
    assert (earlier.day, earlier.cost_usd, earlier.unpriced_calls) == ((NOW - timedelta(days=2)).date(), 0.5, 0)


def test_no_calls_are_no_days(db: Database) -> None:
    assert daily_costs(db, LOCAL_USER.at(NOW)) == ()


def test_a_day_is_one_of_the_viewer(db: Database) -> None:
    batch(db, ["a plain text of words"])
    late = NOW.replace(hour=23, minute=30)
    assert commit_run(db, waiting(db)[0], 0, run("S" * 11), 0.25, late)
    for hours, day in ((0, late), (1, late + timedelta(days=1)), (-5, late)):
        (found,) = daily_costs(db, LOCAL_USER.at(late + timedelta(hours=1)), zone=timezone(timedelta(hours=hours)))
        assert found.day == day.date()
