"""Calls that the tables do not know yet count towards a batch's caps: in number and in dollars, once, and at once."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest

from jobs.spend_guard import Permission, SpendGuard
from screening.labels import Outcome
from screening.review.actors import LOCAL_USER
from storage.batches import batches
from storage.batches.counts import Totals
from storage.database import Database
from storage.site import health
from tests.storage.batch_of import NOW, batch, commit_run, decide, run, waiting


@dataclass
class Clock:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def _spend_guard(db: Database, clock: Clock | None = None) -> SpendGuard:
    return SpendGuard(db, fresh_s=1.0, clock=clock or Clock())


def test_calls_under_way_and_drawn_by_all_cases_make_up_the_cap(db: Database) -> None:
    batch_id, spend_guard = batch(db, ["a", "b"], max_calls=20), _spend_guard(db)
    with spend_guard.spend(batch_id) as one, spend_guard.spend(batch_id) as other:
        spend_guard.look(batch_id)
        one.ask(4)
        one.drew(4, 0.0)
        one.ask(5)
        assert spend_guard.permission(batch_id, other) is Permission.GO
        other.ask(11)
        assert spend_guard.permission(batch_id, other) is Permission.WAIT, (
            "it has drawn nothing: others may still fail for free"
        )
        assert spend_guard.permission(batch_id, one) is Permission.NONE
        one.drew(5, 0.0)
        assert one.lost_calls == 9


def test_a_case_more_begins_only_where_those_that_have_begun_leave_enough_for_it(db: Database) -> None:
    batch_id, spend_guard = batch(db, ["a", "b", "c"], max_calls=19), _spend_guard(db)
    with spend_guard.spend(batch_id) as one, spend_guard.spend(batch_id) as other:
        spend_guard.look(batch_id)
        assert spend_guard.permission(batch_id, one) is Permission.GO
        one.ask(3)
        assert spend_guard.permission(batch_id, other) is Permission.WAIT, "10 for the one, and 9 for the other"
        one.drew(3, 0.0)
        assert spend_guard.permission(batch_id, one) is Permission.GO, "it has begun: what is left is for it"
        one.ask(12)
        one.drew(12, 0.0)
        assert spend_guard.permission(batch_id, other) is Permission.WAIT
        one.drawn = Totals()
        assert spend_guard.permission(batch_id, other) is Permission.GO, "nobody else is under way"
    with spend_guard.spend(batch_id) as third, spend_guard.spend(batch_id) as fourth:
        decide(db, waiting(db)[0], Outcome.UNSAFE)
        spend_guard.look(batch_id)
        third.ask(3)
        assert spend_guard.permission(batch_id, fourth) is Permission.GO, "a case of this batch took 6: 6 + 6 + 5 < 19"


def test_a_case_keeps_its_place_when_a_node_is_stored_and_what_is_left_is_for_the_one_before(db: Database) -> None:
    batch_id, spend_guard = batch(db, ["a", "b", "c"], max_calls=27), _spend_guard(db)
    with spend_guard.spend(batch_id) as one, spend_guard.spend(batch_id) as other, spend_guard.spend(batch_id) as third:
        spend_guard.look(batch_id)
        one.ask(4)
        assert spend_guard.permission(batch_id, other) is Permission.GO
        other.ask(4)
        for spend in (one, other):
            spend.drew(4, 0.0)
            spend_guard.settle(batch_id, spend)
        assert spend_guard.permission(batch_id, third) is Permission.WAIT, "6 for each of the two, and 10: 8 + 21 > 27"
        one.ask(10)
        one.drew(10, 0.0)
        assert spend_guard.permission(batch_id, other) is Permission.WAIT, "18 + 6 for the one, on its way anew, and 6"
        assert spend_guard.permission(batch_id, one) is Permission.GO, "it was first"


def test_workers_share_what_is_left_of_a_cap(db: Database) -> None:
    """On PostgreSQL; an embedded database has one worker, whatever signs of life its earlier ones left."""
    batch_id, spend_guard = batch(db, ["a", "b", "c"], max_calls=30), _spend_guard(db)
    for name in ("w1", "w2"):
        health.beat(db, name, "worker", datetime.now(UTC))
    with spend_guard.spend(batch_id) as one, spend_guard.spend(batch_id) as other:
        spend_guard.look(batch_id)
        assert spend_guard.permission(batch_id, one) is Permission.GO
        one.ask(3)
        shared = Permission.GO if db.kind == "sqlite" else Permission.WAIT
        assert spend_guard.permission(batch_id, other) is shared, "3 + 7 + 10, and 17 for the other worker"


def test_before_a_call_in_the_tables_has_a_price_one_case_alone_begins(db: Database) -> None:
    batch_id, spend_guard = batch(db, ["a", "b"], max_cost_usd=1.0), _spend_guard(db)
    with spend_guard.spend(batch_id) as one, spend_guard.spend(batch_id) as other:
        spend_guard.look(batch_id)
        one.ask(5)
        one.drew(5, 0.05)
        assert spend_guard.permission(batch_id, other) is Permission.WAIT, "what is drawn may still be lost"
        commit_run(db, waiting(db)[0], 0, run("EEEEE", None))
        spend_guard.settle(batch_id, one)
        assert spend_guard.permission(batch_id, other) is Permission.GO


@pytest.mark.parametrize(("cost", "told"), [(0.01, None), (0.06, "max_cost"), (None, "cost_unknown")])
def test_a_cap_on_cost_that_no_price_in_the_tables_will_show_is_told(
    db: Database, cost: float | None, told: str | None
) -> None:
    batch_id, spend_guard = batch(db, ["a", "b"], max_cost_usd=0.05), _spend_guard(db)
    with spend_guard.spend(batch_id) as one:
        spend_guard.look(batch_id)
        one.ask(3)
        one.drew(3, cost)
        assert spend_guard.cap_without_price(batch_id) == told
        spend_guard.settle(batch_id, one)
        assert spend_guard.cap_without_price(batch_id) is None, "the tables show it"


def test_retries_that_may_be_charged_count_while_their_draw_batch_is_under_way(db: Database) -> None:
    batch_id, spend_guard = batch(db, ["a", "b"], max_calls=20), _spend_guard(db)
    with spend_guard.spend(batch_id) as one, spend_guard.spend(batch_id) as other:
        spend_guard.look(batch_id)
        bill = one.ask(4)
        assert spend_guard.permission(batch_id, other) is Permission.GO
        bill.requests = 20
        assert spend_guard.permission(batch_id, other) is Permission.WAIT and one.lost_calls == 20


def test_attempts_without_a_draw_are_lost_with_a_whole_draw_batch_and_free_with_one_that_was_broken_off(
    db: Database,
) -> None:
    batch_id, spend_guard = batch(db, ["a", "b"], max_calls=12), _spend_guard(db)
    with spend_guard.spend(batch_id) as one:
        spend_guard.look(batch_id)
        one.ask(4).requests = 7
        one.drew(4, 0.0)
        assert (one.drawn.lost_calls, one.lost_calls) == (3, 7)
        one.ask(6).requests = 6
        one.drew(2, 0.0)
        assert one.drawn == Totals(calls=6, lost_calls=3)
        assert spend_guard.permission(batch_id, one) is Permission.GO
        one.ask(1).requests = 3
        one.drew(1, 0.0)
        assert spend_guard.permission(batch_id, one) is Permission.NONE, "7 draws and 5 attempts without one"


@pytest.mark.parametrize(("cost", "leave"), [(0.009, Permission.GO), (0.01, Permission.NONE), (None, Permission.NONE)])
def test_dollars_count_before_they_are_in_the_tables_and_an_unknown_price_fails_closed(
    db: Database, cost: float | None, leave: Permission
) -> None:
    """A dollar cap of 0.05: five calls of a cent are all of it."""
    batch_id, spend_guard = batch(db, ["a", "b"], max_cost_usd=0.05), _spend_guard(db)
    with spend_guard.spend(batch_id) as one, spend_guard.spend(batch_id) as other:
        spend_guard.look(batch_id)
        one.ask(5)
        assert spend_guard.permission(batch_id, other) is Permission.WAIT, "nobody knows yet how far 0.05 reaches"
        one.drew(5, None if cost is None else 5 * cost)
        assert spend_guard.permission(batch_id, one) is leave
        assert spend_guard.permission(batch_id, other) is Permission.WAIT


def test_calls_under_way_cost_the_mean_of_the_others(db: Database) -> None:
    batch_id, spend_guard = batch(db, ["a", "b"], max_cost_usd=0.05), _spend_guard(db)
    with spend_guard.spend(batch_id) as one, spend_guard.spend(batch_id) as other:
        spend_guard.look(batch_id)
        one.drew(2, 0.02)
        one.ask(2)
        assert spend_guard.permission(batch_id, one) is Permission.GO
        other.ask(1)  # 0.02 + 3 × 0.01 = 0.05
        assert spend_guard.permission(batch_id, one) is Permission.NONE


def test_what_was_committed_counts_until_the_tables_are_looked_at_again_and_then_once(db: Database) -> None:
    batch_id, clock = batch(db, ["a", "b"], max_calls=12), Clock()
    spend_guard, case_id = _spend_guard(db, clock), waiting(db)[0]
    with spend_guard.spend(batch_id) as other, spend_guard.spend(batch_id) as one:
        spend_guard.look(batch_id)
        one.drew(6, 0.0)
        commit_run(db, case_id, 0, run("EEEEEE", None))
        clock.now = 0.5
        spend_guard.settle(batch_id, one)
        assert one.lost_calls == 0 and not spend_guard.must_look(batch_id)
        other.drew(6, 0.0)
        assert spend_guard.permission(batch_id, other) is Permission.NONE, (
            "6 in the tables, unseen as yet, and 6 of its own"
        )
        other.drawn = Totals(calls=5)
        clock.now = 1.5
        assert spend_guard.must_look(batch_id) and not spend_guard.must_look(batch_id), "one of them looks"
        clock.now = 2.5
        assert spend_guard.must_look(batch_id), "whoever should have may have died over it"
        spend_guard.look(batch_id)
        assert spend_guard.permission(batch_id, other) is Permission.GO, "6 + 5: counted once"


def test_a_paused_batch_lets_a_begun_node_end_and_a_cancelled_one_does_not(db: Database) -> None:
    batch_id, spend_guard = batch(db, ["a", "b"]), _spend_guard(db)
    with spend_guard.spend(batch_id) as begun, spend_guard.spend(batch_id) as fresh:
        begun.drew(3, 0.0)
        batches.pause(db, LOCAL_USER.at(NOW), batch_id)
        spend_guard.look(batch_id)
        assert spend_guard.permission(batch_id, begun) is Permission.GO
        assert spend_guard.permission(batch_id, fresh) is Permission.NONE
        batches.cancel(db, LOCAL_USER.at(NOW), batch_id)
        spend_guard.look(batch_id)
        assert spend_guard.permission(batch_id, begun) is Permission.NONE and spend_guard.is_cancelled(batch_id)
