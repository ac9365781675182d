"""Cost by day, by pipeline and by agent: each run on the day it ended, the unpriced counted apart."""

from datetime import timedelta, timezone
from math import sqrt

from sqlalchemy import select, update

from screening.pipeline.config import preset
from screening.review.actors import LOCAL_USER
from storage.batches.batches import list_batches
from storage.batches.costs import cost_by_node, daily_costs, recent_spending
from storage.database import Database
from storage.schema import screenings
from tests.databases import write
from tests.jobs.running import screened
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
    found = daily_costs(db, LOCAL_USER.at(NOW))
    assert list(found) == [NOW.date(), (NOW - timedelta(days=2)).date()]
    today, earlier = found.values()
    assert (today.calls, today.cost_usd, today.unpriced_calls) == (2 * calls, 0.25, calls)
    assert (earlier.cost_usd, earlier.unpriced_calls) == (0.5, 0)


def test_a_day_is_one_of_the_viewer(db: Database) -> None:
    batch(db, ["a plain text of words"])
    late = NOW.replace(hour=23, minute=30)
    assert commit_run(db, waiting(db)[0], 0, run("S" * 11), 0.25, late)
    for hours, day in ((0, late), (1, late + timedelta(days=1)), (-5, late)):
        found = daily_costs(db, LOCAL_USER.at(late + timedelta(hours=1)), zone=timezone(timedelta(hours=hours)))
        assert list(found) == [day.date()]


async def test_the_mean_and_the_spread_are_those_of_the_settled_texts(db: Database) -> None:
    assert recent_spending(db, LOCAL_USER, preset("recommended").version) is None
    await screened(db, 12)
    found = recent_spending(db, LOCAL_USER, preset("recommended").version)
    assert found is not None and (found.batches, found.texts, found.usd_a_call) == (1, 12, 0.0)
    per_node = {one.node: one for one in cost_by_node(db, LOCAL_USER, _only_batch(db))}
    calls = _calls(db)
    mean = sum(calls) / 12
    assert found.calls == mean and abs(found.spread - sqrt(sum((one - mean) ** 2 for one in calls) / 11)) < 1e-9
    assert per_node["worker"].texts <= 12
    assert recent_spending(db, LOCAL_USER, preset("paper").version) is None


async def test_texts_that_no_agent_was_asked_about_lower_no_mean(db: Database) -> None:
    """What is expected of the next file is reckoned for the texts of it that are asked about."""
    batch_id = await screened(db, 12)
    refused, other = db.values(select(screenings.c.case_id).limit(2))
    write(db, update(screenings).where(screenings.c.case_id.in_([refused, other])).values(calls=0))
    found = recent_spending(db, LOCAL_USER, preset("recommended").version)
    assert found is not None and (found.texts, found.calls) == (10, sum(_calls(db)) / 10)
    write(db, update(screenings).where(screenings.c.batch_id == batch_id).values(calls=0))
    assert recent_spending(db, LOCAL_USER, preset("recommended").version) is None


def _only_batch(db: Database) -> str:
    return list_batches(db, LOCAL_USER)[0].id


def _calls(db: Database) -> list[int]:
    return db.values(select(screenings.c.calls))


def test_each_agent_has_its_calls_and_its_cost_which_is_unknown_where_part_of_it_is(db: Database) -> None:
    batch_id = batch(db, ["a plain text of words", "another plain text"])
    first, second = waiting(db)
    commit_run(db, first, 0, run("S" * 11), 0.25)
    (worker,) = cost_by_node(db, LOCAL_USER, batch_id)
    assert (worker.node, worker.texts, worker.calls, worker.cost_usd) == ("worker", 1, 11, 0.25)
    commit_run(db, second, 0, run("S" * 11), None)
    (worker,) = cost_by_node(db, LOCAL_USER, batch_id)
    assert (worker.texts, worker.calls, worker.cost_usd) == (2, 22, None)
