"""How a case is given back: the attempt has ended, and calls whose draws are lost count."""

from sqlalchemy import select

from storage.batches import counts, single_texts
from storage.batches.batch_state import BatchState
from storage.batches.batches import progress
from storage.batches.configurations import Configurations
from storage.batches.screenings import CaseForScreening, give_back, start_case
from storage.database import Database
from storage.schema import case_errors
from tests.storage.batch_of import LATER, batch, record_start, waiting
from tests.storage.recount import recount


def _started(db: Database, case_id: str) -> CaseForScreening:
    started = start_case(db, Configurations(), case_id, "worker")
    assert started is not None
    return started.case


def _errors(db: Database) -> list[tuple[str, int]]:
    query = select(case_errors.c.kind, case_errors.c.calls).order_by(case_errors.c.id)
    return [(kind, calls) for kind, calls in db.rows(query)]


def test_a_case_given_back_is_ready_again_and_what_it_cost_counts_towards_the_cap(db: Database) -> None:
    batch_id = batch(db, ["a text"], max_calls=10)
    (case_id,) = waiting(db)
    give_back(db, _started(db, case_id), LATER, calls=9)
    assert waiting(db) == [case_id] and record_start(db, case_id) == 1
    found = progress(db, batch_id)
    assert (found.calls, found.lost_calls, found.failed, found.state) == (9, 9, 0, BatchState.RUNNING)
    give_back(db, _started(db, case_id), LATER, calls=1)
    assert (progress(db, batch_id).why, waiting(db)) == ("max_calls", [])
    with db.read() as conn:
        assert recount(conn, batch_id) == counts.totals(conn, [batch_id])[batch_id]


def test_nothing_lost_is_no_error(db: Database) -> None:
    batch(db, ["a text"])
    (case_id,) = waiting(db)
    give_back(db, _started(db, case_id), LATER, calls=0)
    assert _errors(db) == [] and waiting(db) == [case_id]


def test_what_a_case_waits_for_a_retry_with_stays_its_last_error(db: Database) -> None:
    batch(db, ["a text"], kind="interactive")
    (case_id,) = waiting(db)
    case = _started(db, case_id)
    single_texts.withdraw(db, case_id, LATER)
    give_back(db, case, LATER, calls=3)
    assert _errors(db) == [("unwatched", 0), ("unwatched", 3)] and waiting(db) == []
