"""Which case is next: somebody who waits first, batches even, nothing that is stopped, capped or failed; which cap
stops a batch at which sum; and the books of a limit on calls: how many pass at once, and who has which places.
"""

import time
import tomllib
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from screening.datasets.rows import NewCase
from screening.review.policy import LOCAL_USER, SYSTEM, Forbidden
from screening.text.received import receive
from storage.batches import batches, pending, single_texts
from storage.batches.batch_state import BatchCancelled, BatchState, Caps
from storage.batches.batches import progress
from storage.batches.counts import Totals
from storage.batches.intake import add_rows
from storage.database import Database
from storage.schema import audit_events, call_limits, case_errors, cases
from tests.databases import plan, statements, write
from tests.storage.batch_of import LATER, NOW, batch, record_start, waiting
from tests.storage.people import ADMIN, SENIOR

TEXTS = [f"text number {number}" for number in range(6)]
ME = LOCAL_USER.at(NOW)


def _batches_of(db: Database, case_ids: list[str]) -> list[str]:
    found = dict(db.rows(select(cases.c.id, cases.c.batch_id)))
    return [found[case_id] for case_id in case_ids]


def test_batches_share_the_work_however_few_are_taken_at_once(db: Database) -> None:
    one, other = batch(db, TEXTS), batch(db, TEXTS)
    for step in (1, 4):
        flying: list[str] = []
        for _ in range(8 // step):
            flying += pending.pending_cases(db, step, excluding=flying)
            shares = Counter(_batches_of(db, flying))
            assert abs(shares[one] - shares[other]) <= 1
        assert len(set(flying)) == 8
    flying = [case_id for case_id in waiting(db) if _batches_of(db, [case_id]) == [one]][:3]
    shares = [Counter(_batches_of(db, pending.pending_cases(db, most, excluding=flying))) for most in (3, 5)]
    assert shares == [{other: 3}, {other: 4, one: 1}], "who has less in flight catches up first"


def test_texts_are_asked_for_by_who_waits_and_those_in_flight_are_left_out(db: Database) -> None:
    file, single = batch(db, TEXTS[:2]), batch(db, ["one text"], kind="interactive")
    ids = waiting(db)
    assert _batches_of(db, ids) == [single, file, file]
    for options, found in (
        ({"interactive": True}, ids[:1]),
        ({"interactive": False}, ids[1:]),
        ({"excluding": ids[:2]}, ids[2:]),
        ({"excluding": ids}, []),
    ):
        assert pending.pending_cases(db, 9, **options) == found, options
    assert pending.pending_cases(db, 2) == ids[:2], "the limit holds for all of them together"
    with db.read() as conn:
        assert pending.waiting_single_texts(conn) == [single]
    pending.record_error(db, ids[0], "timeout", "", NOW)
    with db.read() as conn:
        assert pending.waiting_single_texts(conn) == [], "it waits for a person"


def test_a_case_that_was_put_off_comes_when_its_moment_has(db: Database) -> None:
    batch(db, TEXTS[:2])
    first, second = waiting(db)
    now = datetime.now(UTC)
    pending.record_error(db, first, "server_error", "busy", now, again_in=timedelta(seconds=30))
    assert pending.pending_cases(db, 9, now) == [second], "it waits for the fault to pass"
    assert pending.pending_cases(db, 9) == [first, second], "and whoever names no moment is told of all"
    pending.record_error(db, first, "server_error", "busy", now, again_in=timedelta(hours=-1))
    assert pending.pending_cases(db, 9, now) == [first, second]
    if db.kind == "sqlite":  # which goes by the machine's clock, and that may be set back: nothing waits for that day
        pending.record_error(db, first, "overloaded", "", now + timedelta(days=400), again_in=timedelta(seconds=1))
        assert first in pending.pending_cases(db, 9, now)
        pending.record_error(db, first, "overloaded", "", now, again_in=timedelta(hours=1))
        assert first not in pending.pending_cases(db, 9, now)
        assert first in pending.pending_cases(db, 9, now + pending.LONGEST_PUT_OFF)


def test_an_error_is_kept_as_it_was_said_up_to_a_length(db: Database) -> None:
    batch_id = batch(db, TEXTS[:2])
    first, second = waiting(db)
    for starts in (1, 2, 3):
        assert record_start(db, first) == starts, "the database went away: it counts as the worker's death does"
        pending.keep_error(db, first, "connection_lost", "the database went away", 2, NOW)
        assert waiting(db) == [first, second], "and it is taken up again"
    pending.record_error(db, first, "k" * 50, "m" * 600, LATER, calls=3)
    kept = db.rows(select(case_errors).order_by(case_errors.c.id))[2:]
    assert [(one.case_id, one.kind, one.message, one.calls, one.at) for one in kept] == [
        (first, "connection_lost", "the database went away", 2, NOW),
        (first, "k" * 40, "m" * 500, 3, LATER),
    ]
    with pytest.raises(pending.UnknownCase, match="none"):
        pending.record_error(db, "none", "timeout", "", NOW)
    for kind in ("j" * 50, "another"):
        pending.record_error(db, second, kind, "", NOW, stops_batch=True)
    found = progress(db, batch_id)
    assert (found.state, found.why, found.lost_calls, found.failed) == (BatchState.PAUSED, "j" * 40, 9, 1)
    assert record_start(db, second) == 1, "the fault that paused it was not the case's"


def test_work_is_looked_for_past_all_that_waits_for_a_person(db: Database) -> None:
    abandoned = [batch(db, ["a text"], kind="interactive") for _ in range(3)]
    for case_id in waiting(db):
        single_texts.withdraw(db, case_id, NOW)
    file = batch(db, TEXTS)
    with statements() as sent:
        assert len(waiting(db)) == 6
    asked = str([values for _, values in sent])
    assert file in asked and not [batch_id for batch_id in abandoned if batch_id in asked]
    searches = [(text, values) for text, values in sent if "pending_cases.ready_at" in text]
    assert len(searches) == 2, "one for the batches, one for the cases of the one that has any"
    for text, values in searches:
        found = plan(db, text, values)
        assert "ix_pending_cases_ready" in found and "ix_pending_cases_failed" not in found, found


@pytest.mark.parametrize("ahead", [timedelta(days=-1), timedelta(days=1)])
def test_what_came_in_or_is_retried_is_ready_at_once_whatever_the_clock_and_the_latter_last(
    db: Database, ahead: timedelta
) -> None:
    batch_id, now = batch(db, closed=False), datetime.now(UTC) + ahead
    add_rows(db, batch_id, [NewCase(row=row, external_id=f"p{row}", text=receive("a text")) for row in (1, 2)], now)
    first, second = waiting(db)
    pending.record_error(db, first, "timeout", "", now)
    assert waiting(db) == [second]
    batches.retry_failed(db, LOCAL_USER.at(now + timedelta(minutes=1)), batch_id)
    assert waiting(db) == [second, first]


def test_only_the_owner_or_an_admin_controls_a_batch_and_each_control_is_in_the_log(db: Database) -> None:
    batch_id = batch(db, TEXTS)
    for control in (batches.pause, batches.resume, batches.cancel, batches.retry_failed):
        with pytest.raises(Forbidden):
            control(db, SENIOR.at(NOW), batch_id)
    batches.pause(db, SYSTEM.at(NOW), batch_id)
    batches.cancel(db, ADMIN.at(NOW), batch_id)
    with pytest.raises(BatchCancelled):
        batches.retry_failed(db, ME, batch_id)
    logged = db.values(select(audit_events.c.action).order_by(audit_events.c.seq))
    assert logged == ["batch_created", "rows_stored", "intake_closed", "batch_paused", "batch_cancelled"]


TABLES = tomllib.loads((Path(__file__).parent / "pending.toml").read_text(encoding="utf-8"))


def test_sums_add_up_a_cap_is_reached_at_its_own_number_and_a_share_is_even_or_they_take_turns() -> None:
    cases_of = {"accepted": 20, "rejected": 2, "unsafe": 4, "human_review": 5}
    one, more = Totals(**cases_of, safe=3, calls=6, lost_calls=7, cost_usd=0.5), Totals(safe=1, last_completed_at=LATER)
    found = Totals(**cases_of, safe=4, calls=6, lost_calls=7, cost_usd=0.5, last_completed_at=LATER)
    assert one + more == more + one == found and found.pending == 20 - 4 - 4 - 5
    assert [Totals(unpriced_calls=1).known_cost_usd, Totals(calls=2, cost_usd=0.5).known_cost_usd] == [None, 0.5]
    for caps, totals, reached in TABLES["caps"]:
        assert (Caps(**caps).reached_cap(Totals(**totals)) or "") == reached, (caps, totals)
    for holders, total, now, shares in TABLES["shares"]:
        found = [pending._even_share(list(holders), holder, total, now) for holder in sorted(holders)]
        assert found == shares, (holders, total, now)


PACE = pending.Pace(per_second=0.01, burst=3)
"""A call every 100 s: whatever a test takes, no further one falls due meanwhile."""
SECONDS = 20


def _kept(db: Database, name: str) -> Any:
    return db.row(select(call_limits).where(call_limits.c.name == name))


def test_a_pause_leaves_no_more_than_a_burst_and_a_clock_set_back_delays_by_a_step(db: Database) -> None:
    assert [pending.take(db, "x", PACE, 2)[0] for _ in range(3)] == [2, 1, 0]
    for moment, expected in ((time.time() - 10_000, (3, 0.0)), (time.time() + 10_000, (0, 100.0))):
        write(db, update(call_limits).values(next_at=moment))
        count, _, wait_s = pending.take(db, "x", PACE, 9)
        assert (count, wait_s) == (expected[0], pytest.approx(expected[1]))
    write(db, update(call_limits).values(next_at=time.time() + 150))
    assert pending.take(db, "x", PACE, 9)[0] == 1, "of three steps one and a half are gone"


def test_a_booking_holds_what_is_under_way_for_as_long_as_its_lease(db: Database) -> None:
    assert pending.hold(db, "p", "a", 2, 5, 60.0) == 5
    assert _kept(db, "p").holders == {"a": [5, pytest.approx(time.time() + 60, abs=SECONDS)]}
    assert pending.hold(db, "p", "a", 7, 5, 60.0) == 5
    assert _kept(db, "p").holders["a"][0] == 7, "what is under way beside the answer"
    assert pending.hold(db, "p", "b", 0, 5, 60.0) == 0, "less than nothing is free"
    assert pending.hold(db, "p", "a", 0, 5, -1.0) == 3
    assert pending.hold(db, "p", "b", 0, 5, 60.0) == 5, "a did not renew"
    assert pending.hold(db, "p", "c", 0, 9, 60.0) == 4
    pending.give_up(db, "p", "c")
    assert set(_kept(db, "p").holders) == {"b"}
