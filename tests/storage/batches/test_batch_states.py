"""Which cap stops a batch at which sum, and which of a batch's states comes first."""

import pytest
from sqlalchemy import select

from screening.review.actors import LOCAL_USER
from storage.batches import batches, intake
from storage.batches.batch_state import (
    BatchCancelled,
    BatchState,
    Caps,
    Standing,
    UnknownBatch,
    batch_row,
    require_going,
    standing,
    standings,
    was_cancelled,
)
from storage.batches.counts import Totals
from storage.batches.pending import record_error
from storage.database import Database
from storage.schema import audit_events, cases
from tests.storage.batch_of import NOW, batch, decide, waiting

BOTH = Caps(max_calls=10, max_cost_usd=1.0)


@pytest.mark.parametrize(
    ("caps", "totals", "reached"),
    [
        (Caps(max_calls=10), Totals(calls=9), None),
        (Caps(max_calls=10), Totals(calls=10), "max_calls"),
        (Caps(max_calls=10), Totals(calls=7, lost_calls=2), None),
        (Caps(max_calls=10), Totals(calls=7, lost_calls=3), "max_calls"),
        (Caps(max_calls=10), Totals(calls=9, unpriced_calls=9), None),
        (Caps(max_cost_usd=1.0), Totals(calls=100, cost_usd=0.99), None),
        (Caps(max_cost_usd=1.0), Totals(calls=100, cost_usd=1.0), "max_cost"),
        (Caps(max_cost_usd=1.0), Totals(calls=4, unpriced_calls=1, cost_usd=0.1), "cost_unknown"),
        (Caps(max_cost_usd=1.0), Totals(calls=4, lost_calls=4, cost_usd=0.5), "max_cost"),
        (BOTH, Totals(calls=9, cost_usd=0.9), None),
        (BOTH, Totals(calls=9, cost_usd=1.1), "max_cost"),
        (BOTH, Totals(calls=10, cost_usd=1.1), "max_calls"),
        (Caps(), Totals(calls=10**9, unpriced_calls=10**9), None),
        (Caps(max_calls=0), Totals(), "max_calls"),
        (Caps(max_cost_usd=0.0), Totals(), "max_cost"),
    ],
)
def test_a_cap_is_reached_at_its_own_number(caps: Caps, totals: Totals, reached: str | None) -> None:
    assert caps.reached_cap(totals) == reached


def of(db: Database, batch_id: str) -> Standing:
    with db.read() as conn:
        return standing(conn, batch_id)


def test_a_batch_that_nobody_stops_takes_in_runs_waits_for_a_retry_and_finishes(db: Database) -> None:
    batch_id = batch(db, ["one", "two"], closed=False)
    assert of(db, batch_id).state is BatchState.TAKING_IN
    first, second = waiting(db)
    record_error(db, first, "timeout", "", NOW)
    record_error(db, second, "timeout", "", NOW)
    assert of(db, batch_id).state is BatchState.TAKING_IN, "more may come"
    intake.close_intake(db, LOCAL_USER.at(NOW), batch_id)
    assert (of(db, batch_id).state, of(db, batch_id).failed) == (BatchState.NEEDS_RETRY, 2)
    with db.read() as conn:
        assert standing(conn, batch_id, count_failed=False).failed == 0
    batches.retry_failed(db, LOCAL_USER.at(NOW), batch_id)
    assert of(db, batch_id).state is BatchState.RUNNING
    decide(db, first)
    record_error(db, second, "timeout", "", NOW)
    assert of(db, batch_id).state is BatchState.NEEDS_RETRY, "all that is pending"
    batches.retry_failed(db, LOCAL_USER.at(NOW), batch_id)
    decide(db, second)
    assert of(db, batch_id).state is BatchState.FINISHED


def test_rows_that_are_missing_are_said_until_they_are_taken_in_again_or_none_are_to_come(db: Database) -> None:
    batch_id, by = batch(db, ["one"], closed=False), LOCAL_USER.at(NOW)
    intake.resume_intake(db, by, batch_id)
    assert of(db, batch_id).state is BatchState.TAKING_IN
    intake.stop_intake(db, by, batch_id, "file_refused")
    found = of(db, batch_id)
    assert (found.state, found.why, found.rows_missing) == (BatchState.ROWS_MISSING, *["file_refused"] * 2)
    assert found.allows_calls and batches.progress(db, batch_id).rows_missing == "file_refused"
    batches.pause(db, by, batch_id)
    found = of(db, batch_id)
    assert (found.state, found.why, found.rows_missing) == (BatchState.PAUSED, None, "file_refused")
    batches.resume(db, by, batch_id)
    intake.resume_intake(db, by, batch_id)
    assert (of(db, batch_id).state, of(db, batch_id).rows_missing) == (BatchState.TAKING_IN, None)
    intake.stop_intake(db, by, batch_id, "internal_error")
    intake.close_intake(db, by, batch_id)
    assert (of(db, batch_id).state, of(db, batch_id).rows_missing) == (BatchState.RUNNING, None)
    intake.stop_intake(db, by, batch_id, "file_refused")
    assert of(db, batch_id).rows_missing is None, "they are all in"
    actions = db.values(select(audit_events.c.action).order_by(audit_events.c.seq))
    assert [each for each in actions if each.startswith("intake")] == [
        "intake_stopped", "intake_resumed", "intake_stopped", "intake_closed",
    ]  # fmt: skip


def test_what_stops_a_batch_hides_what_would_else_be_said_of_it(db: Database) -> None:
    """From the last to the first: finished, cancelled, paused, capped, and only then what may go on."""
    batch_id, me = batch(db, ["one", "two"], closed=False), LOCAL_USER.at(NOW)
    decide(db, waiting(db)[0])
    batches.change_caps(db, me, batch_id, Caps(max_calls=6))
    assert (of(db, batch_id).state, of(db, batch_id).why) == (BatchState.CAPPED, "max_calls")
    batches.pause(db, me, batch_id, "a fault")
    assert (of(db, batch_id).state, of(db, batch_id).why) == (BatchState.PAUSED, "a fault")
    batches.resume(db, me, batch_id)
    assert of(db, batch_id).state is BatchState.CAPPED, "no pause, and the cap stands"
    batches.pause(db, me, batch_id)
    assert of(db, batch_id).why is None
    batches.cancel(db, me, batch_id)
    assert (of(db, batch_id).state, of(db, batch_id).why) == (BatchState.CANCELLED, None)
    assert not of(db, batch_id).allows_calls


def test_a_batch_whose_every_text_ended_is_finished_whatever_was_done_to_it(db: Database) -> None:
    batch_id, me = batch(db, ["one"], max_calls=6), LOCAL_USER.at(NOW)
    decide(db, waiting(db)[0])
    batches.pause(db, me, batch_id)
    batches.cancel(db, me, batch_id)
    found = of(db, batch_id)
    assert (found.state, found.why, found.allows_calls) == (BatchState.FINISHED, None, True)


def test_the_caps_in_force_are_the_last_that_were_set(db: Database) -> None:
    batch_id, me = batch(db, ["one"], max_calls=6, max_cost_usd=0.5), LOCAL_USER.at(NOW)
    assert of(db, batch_id).caps == Caps(max_calls=6, max_cost_usd=0.5)
    batches.change_caps(db, me, batch_id, Caps(max_calls=9))
    batches.change_caps(db, me, batch_id, Caps(max_cost_usd=2.0))
    assert of(db, batch_id).caps == Caps(max_cost_usd=2.0)


def test_batches_are_told_apart(db: Database) -> None:
    me = LOCAL_USER.at(NOW)
    capped, cancelled, failed, plain = (batch(db, [text], max_calls=6 if text == "a" else None) for text in "abcd")
    by_batch = {batch_of(db, case_id): case_id for case_id in waiting(db)}
    record_error(db, by_batch[capped], "timeout", "", NOW, calls=6)
    record_error(db, by_batch[failed], "timeout", "", NOW, calls=2)
    batches.cancel(db, me, cancelled)
    with db.read() as conn:
        found = standings(conn, [capped, cancelled, failed, plain])
        assert [was_cancelled(conn, one) for one in (capped, cancelled, plain)] == [False, True, False]
        require_going(conn, plain)
        with pytest.raises(BatchCancelled):
            require_going(conn, cancelled)
        assert batch_row(conn, failed).id == failed
        for unknown in (lambda: batch_row(conn, "none"), lambda: standing(conn, "none")):
            with pytest.raises(UnknownBatch):
                unknown()
    assert [found[one].state for one in (capped, cancelled, failed, plain)] == [
        BatchState.CAPPED, BatchState.CANCELLED, BatchState.NEEDS_RETRY, BatchState.RUNNING,
    ]  # fmt: skip
    assert [found[one].failed for one in (capped, cancelled, failed, plain)] == [1, 0, 1, 0]
    assert [found[one].totals.lost_calls for one in (capped, cancelled, failed, plain)] == [6, 0, 2, 0]
    assert [found[one].caps.max_calls for one in (capped, plain)] == [6, None]


def batch_of(db: Database, case_id: str) -> str:
    return db.value(select(cases.c.batch_id).where(cases.c.id == case_id))
