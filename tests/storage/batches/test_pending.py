"""Which case is next: somebody who waits first, batches even, nothing that is stopped, capped or failed."""

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from screening.datasets.rows import NewCase
from screening.review.actors import LOCAL_USER, SYSTEM, Actor, Role
from screening.review.policy import Forbidden
from screening.text.received import receive
from storage.batches import batches, single_texts
from storage.batches.batch_state import BatchState
from storage.batches.batches import progress, retry_failed
from storage.batches.intake import add_rows
from storage.batches.pending import (
    LONGEST_PUT_OFF,
    UnknownCase,
    record_error,
    record_interruption,
    waiting_single_texts,
)
from storage.batches.pending import pending_cases as take
from storage.database import Database
from storage.schema import audit_events, case_errors, cases
from tests.storage.batch_of import LATER, NOW, batch, record_start, waiting
from tests.storage.statements import plan, statements, values_of

TEXTS = [f"text number {number}" for number in range(6)]


def _rows(db: Database, case_ids: list[str]) -> list[tuple[str, int]]:
    with db.read() as conn:
        found = conn.execute(select(cases.c.id, cases.c.batch_id, cases.c.row).where(cases.c.id.in_(case_ids)))
        places = {row.id: (row.batch_id, row.row) for row in found}
    return [places[case_id] for case_id in case_ids]


@pytest.mark.parametrize("step", [1, 4])
def test_batches_share_the_work_however_few_are_taken_at_once(db: Database, step: int) -> None:
    one, other = batch(db, TEXTS), batch(db, TEXTS)
    flying: list[str] = []
    for _ in range(8 // step):
        flying += take(db, step, excluding=flying)
        shares = Counter(batch_id for batch_id, _ in _rows(db, flying))
        assert abs(shares[one] - shares[other]) <= 1
    assert len(set(flying)) == 8


def test_a_batch_with_less_in_flight_catches_up_first(db: Database) -> None:
    one, other = batch(db, TEXTS), batch(db, TEXTS)
    flying = [case_id for case_id in waiting(db) if _rows(db, [case_id])[0][0] == one][:3]
    shares = [Counter(batch_id for batch_id, _ in _rows(db, take(db, most, excluding=flying))) for most in (3, 5)]
    assert shares == [{other: 3}, {other: 4, one: 1}]


def test_texts_are_asked_for_by_who_waits_and_those_in_flight_are_left_out(db: Database) -> None:
    file, single = batch(db, TEXTS[:2]), batch(db, ["one text"], kind="interactive")
    ids = waiting(db)
    assert [batch_id for batch_id, _ in _rows(db, ids)] == [single, file, file]
    assert take(db, 9, interactive=True) == ids[:1] and take(db, 9, interactive=False) == ids[1:]
    assert take(db, 2) == ids[:2], "the limit holds for all of them together"
    assert take(db, 9, excluding=ids[:2]) == ids[2:] and take(db, 1, excluding=ids) == []


def test_a_case_that_was_put_off_comes_when_its_moment_has(db: Database) -> None:
    batch(db, TEXTS[:2])
    first, second = waiting(db)
    now = datetime.now(UTC)
    record_error(db, first, "server_error", "busy", now, again_in=timedelta(seconds=30))
    assert take(db, 9, now) == [second], "it waits for the fault to pass"
    assert take(db, 9) == [first, second], "and whoever names no moment is told of all"
    record_error(db, first, "server_error", "busy", now, again_in=timedelta(hours=-1))
    assert take(db, 9, now) == [first, second]


def test_a_case_that_was_put_off_by_a_clock_that_ran_ahead_does_not_wait_for_that_day(sqlite_url: str) -> None:
    """An embedded database goes by the machine's clock, and that may be set back."""
    db = Database(sqlite_url)
    db.prepare()
    batch(db, TEXTS[:1])
    now = datetime.now(UTC)
    record_error(db, waiting(db)[0], "overloaded", "", now + timedelta(days=400), again_in=timedelta(seconds=1))
    assert take(db, 9, now) == waiting(db)
    record_error(db, waiting(db)[0], "overloaded", "", now, again_in=timedelta(hours=1))
    assert take(db, 9, now) == [] and take(db, 9, now + LONGEST_PUT_OFF) == waiting(db)
    db.close()


def test_single_texts_that_wait_for_no_person_are_found_among_files(db: Database) -> None:
    def found() -> list[str]:
        with db.read() as conn:
            return waiting_single_texts(conn)

    assert found() == []
    batch(db, TEXTS)
    failed, ready = (batch(db, ["one text"], kind="interactive") for _ in range(2))
    record_error(db, _first_of(db, failed), "timeout", "", NOW)
    assert found() == [ready]


def test_an_error_is_kept_as_it_was_said_up_to_a_length(db: Database) -> None:
    batch(db, TEXTS[:1])
    (case_id,) = waiting(db)
    record_interruption(db, case_id, NOW, calls=2)
    record_error(db, case_id, "k" * 50, "m" * 600, LATER, calls=3)
    kept = db.rows(select(case_errors).order_by(case_errors.c.id))
    assert [(one.case_id, one.kind, one.message, one.calls, one.at) for one in kept] == [
        (case_id, "connection_lost", "the database went away", 2, NOW),
        (case_id, "k" * 40, "m" * 500, 3, LATER),
    ]
    with pytest.raises(UnknownCase, match="none"):
        record_error(db, "none", "timeout", "", NOW)


def test_why_a_batch_was_paused_is_the_first_fault_and_a_short_word(db: Database) -> None:
    batch_id = batch(db, TEXTS)
    record_error(db, waiting(db)[0], "k" * 50, "", NOW, calls=1, stops_batch=True)
    record_error(db, _first_of(db, batch_id), "another", "", LATER, calls=1, stops_batch=True)
    found = progress(db, batch_id)
    assert (found.state, found.why, found.lost_calls, found.failed) == (BatchState.PAUSED, "k" * 40, 2, 0)
    assert record_start(db, _first_of(db, batch_id)) == 1


def test_work_is_looked_for_past_all_that_waits_for_a_person(db: Database) -> None:
    abandoned = [batch(db, ["a text"], kind="interactive") for _ in range(3)]
    for case_id in waiting(db):
        single_texts.withdraw(db, case_id, NOW)
    file = batch(db, TEXTS)
    with statements() as sent:
        assert len(waiting(db)) == 6
    assert file in values_of(sent) and not values_of(sent).intersection(abandoned)
    searches = [(text, values) for text, values in sent if "pending_cases.ready_at" in text]
    assert len(searches) == 2, "one for the batches, one for the cases of the one that has any"
    for text, values in searches:
        found = plan(db, text, values)
        assert "ix_pending_cases_ready" in found and "ix_pending_cases_failed" not in found, found


def test_a_retried_case_comes_after_those_never_tried(db: Database) -> None:
    batch_id = batch(db, TEXTS[:3])
    first, second, third = waiting(db)
    record_error(db, first, "timeout", "", NOW)
    retry_failed(db, LOCAL_USER.at(LATER), batch_id)
    assert waiting(db) == [second, third, first]


def test_a_single_text_says_what_stopped_it_and_can_be_tried_again(db: Database) -> None:
    batch_id = batch(db, ["one text"], kind="interactive")
    (case_id,) = waiting(db)
    record_start(db, case_id)
    record_error(db, case_id, "spend_cap", "the limit on spending is reached", NOW, stops_batch=True)
    shown = single_texts.look(db, LOCAL_USER, case_id)
    assert (shown.error, shown.state, shown.ended) == ("spend_cap", BatchState.NEEDS_RETRY, True)
    assert waiting(db) == []
    assert retry_failed(db, LOCAL_USER.at(LATER), batch_id) == 1
    shown = single_texts.look(db, LOCAL_USER, case_id)
    assert (shown.error, shown.state, shown.ended) == (None, BatchState.RUNNING, False)
    assert waiting(db) == [case_id]


@pytest.mark.parametrize("ahead", [timedelta(days=-1), timedelta(days=1)])
def test_what_came_in_is_ready_at_once_whatever_the_clock_of_who_took_it_in(db: Database, ahead: timedelta) -> None:
    batch_id, now = batch(db, closed=False), datetime.now(UTC) + ahead
    add_rows(db, batch_id, [NewCase(row=1, external_id="p1", text=receive("a text"))], now)
    (case_id,) = waiting(db)
    record_error(db, case_id, "timeout", "", now)
    retry_failed(db, LOCAL_USER.at(now), batch_id)
    assert waiting(db) == [case_id]


def _first_of(db: Database, batch_id: str) -> str:
    return db.value(select(cases.c.id).where(cases.c.batch_id == batch_id).limit(1))


def test_a_case_during_which_the_database_went_away_is_taken_up_again_but_not_for_ever(db: Database) -> None:
    batch_id = batch(db, TEXTS[:1])
    (case_id,) = waiting(db)
    for starts in (1, 2, 3):
        assert record_start(db, case_id) == starts, "it counts as the worker's death does"
        record_interruption(db, case_id, NOW, calls=2)
        assert waiting(db) == [case_id]
    found = progress(db, batch_id)
    assert (found.failed, found.lost_calls, found.state) == (0, 6, BatchState.RUNNING)


def test_only_the_owner_or_an_admin_controls_a_batch_and_each_control_is_in_the_log(db: Database) -> None:
    batch_id = batch(db, TEXTS)
    ann = Actor(id="ann", name="Ann", roles=frozenset({Role.SENIOR, Role.RESEARCHER}))
    for control in (batches.pause, batches.resume, batches.cancel, batches.retry_failed):
        with pytest.raises(Forbidden):
            control(db, ann.at(NOW), batch_id)
    batches.pause(db, SYSTEM.at(NOW), batch_id)
    batches.cancel(db, Actor(id="root", name="R", roles=frozenset({Role.ADMIN})).at(NOW), batch_id)
    logged = db.values(select(audit_events.c.action).order_by(audit_events.c.seq))
    assert logged == ["batch_created", "rows_stored", "intake_closed", "batch_paused", "batch_cancelled"]
