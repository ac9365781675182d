"""Counts on a pipeline's ways: every settled case once, and none that somebody may yet read blind."""

import pytest
from sqlalchemy import select

from screening.engine.screen import Reason
from screening.labels import Label, Outcome
from screening.review.actors import LOCAL_USER
from screening.review.policy import Forbidden
from storage.batches.batches import find_batch
from storage.batches.configurations import load_configuration
from storage.batches.ways import Ways, count_ways
from storage.blindness import is_withheld
from storage.database import Database
from storage.review.second_looks import request_second_looks
from storage.schema import screenings
from tests.jobs.running import screened
from tests.storage.inbox_cases import ANN, NOW


def _ways(db: Database, batch_id: str) -> Ways:
    one = find_batch(db, LOCAL_USER, batch_id, now=NOW)
    return count_ways(db, LOCAL_USER, batch_id, load_configuration(db, one.configuration_version).pipeline)


async def test_each_settled_case_ends_on_one_way(db: Database) -> None:
    batch_id = await screened(db, 24)
    found = _ways(db, batch_id)
    rows = db.rows(select(screenings, is_withheld(LOCAL_USER, screenings.c.case_id).label("hidden")))
    shown = [row for row in rows if not row.hidden]
    safe = sum(row.outcome == Outcome.SAFE for row in shown)
    assert sum(count for (_, label), count in found.taken.items() if label is Label.SAFE) == safe > 0
    assert found.asked["worker"] == len(shown) and found.withheld == len(rows) - len(shown)
    assert found.kept_back == sum(row.reason not in {*map(str, Reason)} & {
        "identified", "escalated", "exhausted", "curtailed"} for row in shown)  # fmt: skip


async def test_a_case_that_waits_to_be_read_is_counted_nowhere(db: Database) -> None:
    batch_id = await screened(db, 8)
    before = _ways(db, batch_id)
    with db.read() as conn:
        safe = conn.execute(select(screenings.c.case_id).where(screenings.c.outcome == "safe")).scalars().first()
    assert safe is not None
    request_second_looks(db, LOCAL_USER.at(NOW), [safe])
    after = _ways(db, batch_id)
    assert after.withheld == before.withheld + 1
    assert after.asked["worker"] == before.asked["worker"] - 1
    assert after.taken["worker", Label.SAFE] == before.taken["worker", Label.SAFE] - 1


def test_readers_do_not_see_counts_by_label(db: Database) -> None:
    with pytest.raises(Forbidden):
        count_ways(db, ANN, "x", None)  # type: ignore[arg-type]
