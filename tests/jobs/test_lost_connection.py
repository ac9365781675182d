"""A connection to PostgreSQL that goes away in the middle of a case is no fault of the case: it is taken up again."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, func, select

from jobs.port import system_clock
from jobs.screening_job import ScreeningJob
from storage.batches.batches import progress
from storage.batches.screenings import pending_cases
from storage.database import Database
from storage.schema import case_starts, cases, node_runs, screenings
from tests.jobs.running import agents, batch


class Losing(Database):
    """A real database whose connection is closed under its ``lost``-th write."""

    lost = 0
    writes = 0

    @contextmanager
    def write(self) -> Iterator[Connection]:
        self.writes += 1
        with super().write() as connection:
            if self.writes == self.lost:
                driver: Any = connection.connection.driver_connection
                driver.close()
            yield connection


@pytest.mark.parametrize("lost", [1, 2, 3], ids=["begun", "first write after", "second write after"])
async def test_a_lost_connection_leaves_the_case_ready_and_what_it_cost_counted(
    postgresql_db: Database, postgresql_url: str, lost: int
) -> None:
    batch_id = batch(postgresql_db, 1)
    with postgresql_db.read() as conn:
        case_id = conn.execute(select(cases.c.id)).scalar_one()
    with closing(Losing(postgresql_url)) as losing:
        losing.lost = lost
        await ScreeningJob(db=losing, agents=agents(), clock=system_clock, worker="w").screen_case(case_id)
    left = progress(postgresql_db, batch_id)
    assert (left.pending, left.failed) == (1, 0), "it waits for no person"
    with postgresql_db.read() as conn:
        unended = conn.execute(select(func.count()).where(case_starts.c.ended_at.is_(None))).scalar_one()
        assert unended == (0 if lost == 1 else 1), "it counts as a worker's death does"
        kept = conn.execute(select(func.sum(node_runs.c.calls))).scalar_one() or 0
    assert (left.calls - left.lost_calls, left.lost_calls > 0) == (kept, lost == 2)
    await ScreeningJob(db=postgresql_db, agents=agents(), clock=system_clock, worker="w").screen_case(case_id)
    assert progress(postgresql_db, batch_id).pending == 0


async def test_a_case_over_which_connections_keep_being_lost_goes_to_a_human(
    postgresql_db: Database, postgresql_url: str
) -> None:
    batch(postgresql_db, 1)
    (case_id,) = pending_cases(postgresql_db, 10)
    for lost in (2, 2, 3):  # the first write after its start, which is asked for twice once two have no end
        with closing(Losing(postgresql_url)) as losing:
            losing.lost = lost
            await ScreeningJob(db=losing, agents=agents(), clock=system_clock, worker="w").screen_case(case_id)
        assert pending_cases(postgresql_db, 10) == [case_id]
    await ScreeningJob(db=postgresql_db, agents=agents(), clock=system_clock, worker="w").screen_case(case_id)
    with postgresql_db.read() as conn:
        assert conn.execute(select(screenings.c.reason)).scalar_one() == "repeated_failure"
