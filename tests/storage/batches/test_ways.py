"""Counts on a pipeline's ways: every settled case once."""

from sqlalchemy import select

from screening.labels import Label, Outcome
from screening.pipeline.engine import Reason
from screening.review.actors import LOCAL_USER
from storage.batches.batches import find_batch
from storage.batches.configurations import load_configuration
from storage.batches.results import Ways, count_ways
from storage.database import Database
from storage.review.worklist import request_second_looks
from storage.schema import screenings
from tests.jobs.running import screened
from tests.storage.inbox_cases import NOW


def _ways(db: Database, batch_id: str) -> Ways:
    one = find_batch(db, LOCAL_USER, batch_id, now=NOW)
    return count_ways(db, LOCAL_USER, batch_id, load_configuration(db, one.configuration_version).pipeline)


async def test_each_settled_case_ends_on_one_way_in_review_or_not(db: Database) -> None:
    batch_id = await screened(db, 24)
    found = _ways(db, batch_id)
    rows = db.rows(select(screenings))
    safe = [row.case_id for row in rows if row.outcome == Outcome.SAFE]
    assert sum(count for (_, label), count in found.taken.items() if label is Label.SAFE) == len(safe) > 0
    assert found.asked["worker"] == len(rows)
    assert found.kept_back == sum(row.reason not in {*map(str, Reason)} & {
        "identified", "escalated", "exhausted", "curtailed"} for row in rows)  # fmt: skip
    request_second_looks(db, LOCAL_USER.at(NOW), safe[:1])
    assert _ways(db, batch_id) == found
