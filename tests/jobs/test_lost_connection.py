"""A connection to PostgreSQL that goes away in the middle of a case is no fault of the case: it is taken up again."""

import contextlib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.exc import DBAPIError

from jobs.port import system_clock
from jobs.screening_job import ScreeningJob
from storage.batches.batches import progress
from storage.batches.pending import pending_cases
from storage.database import Database
from storage.schema import screenings
from tests.jobs.running import agents, batch


class Losing(Database):
    """A real database whose connection is closed under its ``lost``-th write, or from there on under each."""

    lost = 0
    lasting = False
    writes = 0

    @contextmanager
    def write(self) -> Iterator[Connection]:
        with super().write() as connection:
            self._count(connection)
            yield connection

    @contextmanager
    def write_at_once(self) -> Iterator[Connection]:
        with super().write_at_once() as connection:
            self._count(connection)
            yield connection

    def _count(self, connection: Connection) -> None:
        self.writes += 1
        if self.writes == self.lost or (self.lasting and self.writes > self.lost):
            driver: Any = connection.connection.driver_connection
            driver.close()


async def test_a_case_over_which_connections_keep_being_lost_goes_to_a_human(
    postgresql_db: Database, postgresql_url: str
) -> None:
    batch_id = batch(postgresql_db, 1)
    (case_id,) = pending_cases(postgresql_db, 10)
    for lost in (2, 2, 3):  # all after its start, which is asked for twice once two have no end
        with closing(Losing(postgresql_url)) as losing:
            losing.lost, losing.lasting = lost, True
            with contextlib.suppress(DBAPIError):
                await ScreeningJob(db=losing, agents=agents(), clock=system_clock, worker="w").screen_case(case_id)
        assert pending_cases(postgresql_db, 10) == [case_id] and progress(postgresql_db, batch_id).failed == 0
    await ScreeningJob(db=postgresql_db, agents=agents(), clock=system_clock, worker="w").screen_case(case_id)
    assert postgresql_db.value(select(screenings.c.reason)) == "repeated_failure"
