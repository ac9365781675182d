"""Which cap stops a batch at which sum, what a cost is known of, and batches told apart; that states and sums follow
the facts is a promise of `test_batch_machine`.
"""

import pytest
from sqlalchemy import select

from screening.review.actors import LOCAL_USER
from storage.batches import batches
from storage.batches.batch_state import (
    BatchCancelled,
    BatchState,
    Caps,
    Standing,
    UnknownBatch,
    batch_row,
    standing,
    standings,
)
from storage.batches.counts import UNPRICED_AT_FIRST, Totals
from storage.batches.pending import record_error
from storage.database import Database
from storage.schema import cases
from tests.storage.batch_of import LATER, NOW, batch, waiting

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


def test_batches_are_told_apart(db: Database) -> None:
    me = LOCAL_USER.at(NOW)
    capped, cancelled, failed, plain = (batch(db, [text], max_calls=6 if text == "a" else None) for text in "abcd")
    by_batch = {batch_of(db, case_id): case_id for case_id in waiting(db)}
    record_error(db, by_batch[capped], "timeout", "", NOW, calls=6)
    record_error(db, by_batch[failed], "timeout", "", NOW, calls=2)
    batches.cancel(db, me, cancelled)
    with pytest.raises(BatchCancelled):
        batches.retry_failed(db, me, cancelled)
    with db.read() as conn:
        found = standings(conn, [capped, cancelled, failed, plain])
        assert batch_row(conn, failed).id == failed
        assert (standing(conn, failed).failed, standing(conn, failed, count_failed=False).failed) == (1, 0)
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


ONE = Totals(
    accepted=20, rejected=2, safe=3, unsafe=4, human_review=5, calls=6, lost_calls=7, unpriced_calls=8, cost_usd=0.5
)


def test_sums_add_up_name_by_name_and_keep_the_moment_of_the_later_one() -> None:
    more = Totals(safe=1, cost_usd=0.25, last_completed_at=LATER)
    found = ONE + more
    assert (found.accepted, found.rejected, found.safe, found.unsafe, found.human_review) == (20, 2, 4, 4, 5)
    assert (found.calls, found.lost_calls, found.unpriced_calls, found.cost_usd) == (6, 7, 8, 0.75)
    assert (found.last_completed_at, (more + ONE).last_completed_at) == (LATER, LATER)
    assert found.pending == 20 - 4 - 4 - 5


def test_a_cost_is_known_while_every_call_has_a_price() -> None:
    assert [one.known_cost_usd for one in (ONE, Totals(calls=2, cost_usd=0.5), Totals(unpriced_calls=1))] == [
        None, 0.5, None,
    ]  # fmt: skip
    assert ONE.cost_for_cap_usd is None
    lost = Totals(lost_calls=UNPRICED_AT_FIRST + 1, calls=1, cost_usd=0.5)
    assert lost.cost_for_cap_usd == 0.5 + 1001 * 0.5, "one call with a price tells that of the others"
