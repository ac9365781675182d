"""What goes wrong with one overnight batch, and what stops it: people see it, and nothing else is held up by it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import select, update

from storage.batches import batches
from storage.batches.batch_state import BatchState
from storage.batches.unscreened import standstills
from storage.database import Database
from storage.schema import batches as table
from storage.schema import case_errors, configurations, screenings
from tests.jobs.test_overnight import PLAN, Stub, labelled_batch, settings_for, work


def _begun_under(db: Database, batch_id: str, **changes: Any) -> None:
    """Make it a batch that another version of the program began, with these parts of its configuration."""
    with db.write() as conn:
        version = conn.execute(select(table.c.configuration).where(table.c.id == batch_id)).scalar_one()
        body = conn.execute(select(configurations.c.body).where(configurations.c.version == version)).scalar_one()
        row = {"version": "other", "body": body | changes, "created_at": datetime.now(UTC)}
        conn.execute(configurations.insert(), row)
        conn.execute(update(table).where(table.c.id == batch_id).values(configuration="other"))


def _told(db: Database) -> set[str]:
    """Why something stands still, a day later."""
    return {one.cause for one in standstills(db, datetime.now(UTC) + timedelta(days=1))} - {"no_worker"}


@pytest.mark.parametrize(
    ("changes", "state"),
    [({"texts": {"masking": "0"}}, BatchState.NEEDS_RETRY), ({"pipeline": {"nodes": []}}, BatchState.PAUSED)],
)
async def test_a_batch_that_cannot_go_on_is_told_and_the_next_one_goes_on(
    db: Database, stub: Stub, changes: dict[str, Any], state: BatchState
) -> None:
    settings = settings_for(stub(PLAN))
    first, second = labelled_batch(db, settings, 2), labelled_batch(db, settings, 2)
    _begun_under(db, first, **changes)
    await work(db, settings).until_over(second)
    assert batches.batch_state(db, second) is BatchState.FINISHED
    assert batches.batch_state(db, first) is state and _told(db) == {"internal_error"}


async def test_a_reply_that_names_a_list_of_models_is_an_answer_that_cannot_be_used(db: Database, stub: Stub) -> None:
    server = stub(PLAN)
    made = server.batches._answer
    server.batches._answer = lambda body: made(body) | {"model": [settings.model]}
    settings = settings_for(server)
    batch_id = labelled_batch(db, settings, 2)
    await work(db, settings).until_over(batch_id)
    with db.read() as conn:
        ends = conn.execute(select(screenings.c.outcome, screenings.c.reason)).all()
        assert not conn.execute(select(case_errors)).all()
    assert batches.batch_state(db, batch_id) is BatchState.FINISHED
    assert [tuple(end) for end in ends] == [("human_review", "no_answer")] * 2
