"""A worker that is told to stop ends soon, whatever it waits for."""

import signal
import time

import pytest
from sqlalchemy import text

from storage.database import Database
from tests.jobs.processes import Workers, wait_for
from tests.jobs.running import batch

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted"


def test_a_worker_whose_statements_hang_ends_within_ten_seconds(
    postgresql_db: Database, postgresql_url: str, workers: Workers
) -> None:
    """A thread that waits for a lock cannot be interrupted: the process ends without it."""
    batch(postgresql_db, 20)
    with postgresql_db.write() as holding:
        holding.execute(text("LOCK TABLE pending_cases IN EXCLUSIVE MODE"))
        workers.start(postgresql_url, {"sampler": "simulated"})
        workers.up()
        wait_for(lambda: holding.execute(text(WAITING)).scalar_one() > 0, 60)
        process = workers.alive[-1]
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        assert time.monotonic() - began < 10
