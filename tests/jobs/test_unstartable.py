"""A case that cannot even be begun is kept with its error, and keeps nobody else waiting."""

import json

import pytest
from sqlalchemy import insert, select, text, update

from jobs.port import system_clock
from jobs.screening_job import ScreeningJob
from screening.review.actors import LOCAL_USER
from storage.batches.batch_state import BatchState
from storage.batches.batches import progress, retry_failed
from storage.database import Database
from storage.schema import batches, case_errors, cases, configurations, pending_cases
from tests.databases import write
from tests.jobs.running import agents, batch, running, until


def _written_by_a_later_version(db: Database, rows: int) -> tuple[str, str]:
    """A batch whose configuration has a field that this version does not know; and the one it had."""
    batch_id = batch(db, rows)
    with db.write() as conn:
        known = conn.execute(select(configurations).join(batches).where(batches.c.id == batch_id)).one()
        body = json.loads(json.dumps(known.body))
        body["pipeline"]["a_field_of_a_later_version"] = 1
        later = {"version": "later", "body": body, "created_at": known.created_at}
        conn.execute(insert(configurations), later)
        conn.execute(update(batches).where(batches.c.id == batch_id).values(configuration="later"))
    return batch_id, known.version


async def test_it_waits_for_a_retry_with_its_error_and_others_go_on(db: Database) -> None:
    bad, known = _written_by_a_later_version(db, 3)
    good = batch(db, 20)
    async with running(db, agents()):
        await until(lambda: progress(db, bad).state is BatchState.NEEDS_RETRY)
        await until(lambda: progress(db, good).finished_at is not None)
        with db.write() as conn:
            errors = conn.execute(select(case_errors.c.kind, case_errors.c.message)).all()
            begun = select(pending_cases.c.worker, pending_cases.c.starts).where(pending_cases.c.batch_id == bad)
            starts = [tuple(row) for row in conn.execute(begun)]
            conn.execute(update(batches).where(batches.c.id == bad).values(configuration=known))
        assert errors == [("internal_error", "UnreadableConfiguration")] * 3
        assert starts == [("w1", 0)] * 3
        retry_failed(db, LOCAL_USER.at(system_clock()), bad)
        await until(lambda: progress(db, bad).finished_at is not None)


async def test_an_error_that_cannot_be_kept_either_gets_out(db: Database) -> None:
    _written_by_a_later_version(db, 1)
    case_id = db.value(select(cases.c.id))
    write(db, text("DROP TABLE case_errors"))
    job = ScreeningJob(db=db, agents=agents(), clock=system_clock, worker="w")
    with pytest.raises(Exception, match="case_errors"):
        await job.screen_case(case_id)
