"""What the last batches of a pipeline have used, and what one batch has, agent by agent."""

from math import sqrt

from sqlalchemy import select, update

from screening.pipeline.config import preset
from screening.review.actors import LOCAL_USER
from storage.batches.batches import list_batches
from storage.batches.costs import cost_by_node, recent_spending
from storage.database import Database
from storage.schema import screenings
from tests.databases import write
from tests.jobs.running import screened
from tests.storage.batch_of import batch, commit_run, run, waiting


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
