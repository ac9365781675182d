"""A case that keeps killing its worker goes to a human, alone, and the worker lives on."""

import signal
from collections import Counter

import pytest
from sqlalchemy import select

from jobs.screening_job import MOST_STARTS
from screening.datasets.rows import NewCase
from screening.review.actors import LOCAL_USER
from screening.text.received import receive
from storage.batches.batches import progress
from storage.batches.intake import add_rows, close_intake
from storage.database import Database
from storage.schema import cases, inbox_entries, screenings
from tests.jobs.files import SENTENCES
from tests.jobs.killing_worker import DEADLY
from tests.jobs.processes import Workers, wait_for
from tests.jobs.running import open_batch_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ROWS, POISONED = 40, 5


def test_a_case_that_kills_its_worker_three_times_ends_with_a_human(
    db: Database, database_url: str, workers: Workers
) -> None:
    batch_id, now = open_batch_of(db)
    texts = [f"{SENTENCES[row % 4]}, day {row}." for row in range(1, ROWS + 1)]
    texts[POISONED - 1] = f"This text is {DEADLY}."
    add_rows(
        db, batch_id, (NewCase(row=row, external_id=str(row), text=receive(t)) for row, t in enumerate(texts, 1)), now
    )
    close_intake(db, LOCAL_USER.at(now), batch_id)
    deaths = 0
    while progress(db, batch_id).finished_at is None:
        assert deaths <= MOST_STARTS, "killed once more than allowed"
        workers.start(database_url, {}, ("-m", "tests.jobs.killing_worker", database_url))
        wait_for(lambda: workers.dead() or progress(db, batch_id).finished_at is not None, 120)
        deaths += workers.alive[-1].poll() == -signal.SIGKILL  # who gave up by itself was not killed by the text
        workers.kill()
    assert deaths == MOST_STARTS
    ends = db.rows(select(cases.c.row, screenings.c.reason, screenings.c.outcome).join(cases))
    waiting = set(db.values(select(cases.c.row).join(inbox_entries)))
    assert len(ends) == ROWS == len({end.row for end in ends})
    blamed = [(end.row, end.outcome) for end in ends if end.reason == "repeated_failure"]
    assert blamed == [(POISONED, "human_review")], f"others were blamed: {Counter(end.reason for end in ends)}"
    assert POISONED in waiting
