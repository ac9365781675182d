"""Which batches stand still, since when and why, told from those beside them; and what of them enters, in chunks."""

from datetime import datetime, timedelta

import pytest
from sqlalchemy import select, text

from screening.datasets.rows import NewCase
from screening.labels import Label
from screening.review.actors import LOCAL_USER
from screening.review.reach import Reach
from screening.text.received import receive
from storage.audit_log import events
from storage.batches import single_texts, unscreened
from storage.batches.batch_state import BatchState
from storage.batches.batches import cancel, pause, retry_failed
from storage.batches.intake import add_rows, close_intake, resume_intake, stop_intake
from storage.batches.pending import record_error
from storage.batches.unscreened import NO_PROGRESS, NO_WORKER, Standstill, bring_in, files_halted_since, standstills
from storage.database import Database
from storage.schema import cases, inbox_entries
from storage.site.processes import beat
from tests.storage.batch_of import NOW, batch, commit_run, run
from tests.storage.inbox_cases import ADMIN, MINUTE

SECOND = timedelta(seconds=1)
LATE = NOW + 16 * MINUTE
PLAIN, STATED = "A plain text of some words.", "I want to die and I have the pills ready tonight."
needs_its_own_clock = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def _batch(db: Database, texts: int = 1, **options: object) -> tuple[str, list[str]]:
    """A batch whose unsafe texts are read, and its cases in the file's order."""
    batch_id = batch(db, [PLAIN] * texts, reach=Reach.READ, **options)  # type: ignore[arg-type]
    found = select(cases.c.id).where(cases.c.batch_id == batch_id).order_by(cases.c.row)
    return batch_id, db.values(found)


def _fail(db: Database, case_id: str, kind: str = "server_error", at: datetime = NOW) -> None:
    record_error(db, case_id, kind, "no answer", at)


def _still(db: Database, now: datetime) -> list[tuple[str | None, str, datetime, int]]:
    return [(one.batch_id, one.cause, one.since, one.waiting) for one in standstills(db, now)]


def _entered(db: Database) -> set[str]:
    return set(db.values(select(inbox_entries.c.case_id)))


def test_where_nothing_waits_nothing_enters(db: Database) -> None:
    assert bring_in(db, LATE) == 0 and standstills(db, LATE) == ()


def test_what_failed_by_itself_is_counted_by_its_last_error_over_all_batches(db: Database) -> None:
    (_, one), (_, two), (cancelled, gone) = _batch(db, 2), _batch(db, 2), _batch(db)
    (_, left) = _batch(db, kind="interactive")
    _fail(db, one[0], "timeout", NOW)
    _fail(db, one[0], at=NOW + 3 * SECOND)
    _fail(db, one[1], "timeout", NOW + 2 * SECOND)
    for case_id in two:
        _fail(db, case_id, at=NOW + SECOND)
    _fail(db, gone[0])
    cancel(db, LOCAL_USER.at(NOW), cancelled)
    single_texts.withdraw(db, left[0], NOW)
    assert standstills(db, LATE) == (
        Standstill(batch_id=None, cause="server_error", since=NOW + SECOND, waiting=3),
        Standstill(batch_id=None, cause="timeout", since=NOW + 2 * SECOND, waiting=1),
    )
    assert bring_in(db, LATE) == 5 and _entered(db) == {*one, *two, *left}


def test_a_batch_stands_still_since_its_own_last_change_and_for_its_own_cases(db: Database) -> None:
    first, (failed, _) = _batch(db, 2)
    _fail(db, failed)
    second = batch(db, closed=False)
    text = receive(PLAIN)
    for row, moment in ((1, NOW + 2 * SECOND), (2, NOW + 9 * SECOND)):
        add_rows(db, second, [NewCase(row=row, external_id=f"p{row}", text=text)], moment)
    assert _still(db, NOW + MINUTE - SECOND) == [(None, "server_error", NOW, 1)]
    whole = [(first, NO_WORKER, NOW, 1), (second, NO_WORKER, NOW + 2 * SECOND, 2)]
    assert [one for one in _still(db, NOW + MINUTE) if one[0]] == whole[:1]
    assert [one for one in _still(db, NOW + MINUTE + 2 * SECOND) if one[0]] == whole
    [shown] = [one for one in standstills(db, LATE) if one.batch_id == first]
    assert (shown.state, shown.by_person) == (BatchState.RUNNING, False)


def test_a_batch_of_which_a_node_has_ended_moves_and_the_one_beside_it_does_not(db: Database) -> None:
    moving, (case_id,) = _batch(db)
    still, _ = _batch(db)
    commit_run(db, case_id, 0, run("EEEEEE", Label.ESCALATE))  # ends a second after NOW
    assert [one[0] for one in _still(db, NOW + MINUTE)] == [still]
    assert {one[0] for one in _still(db, NOW + MINUTE + SECOND)} == {still, moving}


@needs_its_own_clock
def test_a_living_worker_is_told_what_fails_of_this_batch_since_its_last_change(db: Database) -> None:
    beat(db, "w1", "worker", NOW)
    one, (first, second, _) = _batch(db, 3)
    other, (theirs,) = _batch(db)
    for case_id, kind in ((first, "server_error"), (second, "unreachable")):
        record_error(db, case_id, kind, "", NOW, again_in=SECOND)
    beat(db, "w1", "worker", NOW + MINUTE)
    assert _still(db, NOW + MINUTE - SECOND) == []
    assert set(_still(db, NOW + MINUTE)) == {(one, "unreachable", NOW, 3), (other, NO_PROGRESS, NOW, 1)}
    commit_run(db, theirs, 0, run("EEEEEE", Label.ESCALATE))
    retry_failed(db, LOCAL_USER.at(NOW), one)
    assert _still(db, NOW + MINUTE) == [(one, "unreachable", NOW, 3)], "what comes of the other is no progress of this"
    pause(db, LOCAL_USER.at(NOW), other)
    assert set(_still(db, NOW + MINUTE)) == {(one, "unreachable", NOW, 3)}, "somebody stopped it"


@needs_its_own_clock
def test_a_batch_that_waits_its_turn_behind_one_that_moves_is_no_standstill(db: Database) -> None:
    for moment in (NOW, NOW + MINUTE):
        beat(db, "w1", "worker", moment)
    _, (case_id,) = _batch(db)
    _batch(db)
    commit_run(db, case_id, 0, run("EEEEEE", Label.ESCALATE))
    assert standstills(db, NOW + MINUTE) == ()


@needs_its_own_clock
def test_an_app_is_no_worker_and_a_worker_has_a_minute_from_its_start(db: Database) -> None:
    batch_id, _ = _batch(db)
    for name, kind, since in (("app", "app", NOW - MINUTE), ("w1", "worker", NOW + MINUTE)):
        for moment in (since, NOW + 2 * MINUTE - SECOND):
            beat(db, name, kind, moment)
        if kind == "app":
            assert _still(db, NOW + 2 * MINUTE - SECOND) == [(batch_id, NO_WORKER, NOW, 1)]
    assert _still(db, NOW + 2 * MINUTE - SECOND) == []
    assert _still(db, NOW + 2 * MINUTE) == [(batch_id, NO_PROGRESS, NOW, 1)]


def test_only_what_has_failed_long_enough_enters_and_each_batch_by_itself(db: Database) -> None:
    (one, (early, late, _)), (other, (theirs,)) = _batch(db, 3), _batch(db)
    _fail(db, early)
    _fail(db, late, at=NOW + 5 * MINUTE)
    _fail(db, theirs, "timeout")
    pause(db, LOCAL_USER.at(NOW), one)
    assert bring_in(db, NOW + 15 * MINUTE - SECOND) == 0
    assert bring_in(db, NOW + 15 * MINUTE) == 2 and _entered(db) == {early, theirs}
    assert bring_in(db, NOW + 20 * MINUTE) == 1 and _entered(db) == {early, late, theirs}
    said = [event for event in events(db, ADMIN) if event.action == "entered_unscreened"]
    told = [(event.subject, event.details["cases"], event.details["cause"]) for event in said]
    assert sorted(told) == sorted([(one, 1, "server_error")] * 2 + [(other, 1, "timeout")])
    assert {event.actor for event in said} == {"system"}


@pytest.mark.parametrize("fails", [True, False])
def test_many_cases_enter_in_chunks_and_none_is_left(
    db: Database, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr(unscreened, "CHUNK", 2)
    _, ids = _batch(db, 5)
    for case_id in ids if fails else ():
        _fail(db, case_id)
    assert bring_in(db, LATE) == 5 and _entered(db) == set(ids)
    said = [event.details["cases"] for event in events(db, ADMIN) if event.action == "entered_unscreened"]
    assert said == [1, 2, 2], "nobody waits for more than a chunk"


def test_files_that_are_not_taken_in_any_further_are_found_by_an_index_until_they_are(db: Database) -> None:
    by = LOCAL_USER.at(NOW)
    first, second, third = (batch(db, ["one"], closed=False) for _ in range(3))
    for batch_id, minutes in ((second, 2), (first, 1), (first, 5), (third, 3)):
        stop_intake(db, LOCAL_USER.at(NOW + minutes * MINUTE), batch_id, "file_refused")
    assert files_halted_since(db) == (NOW + 2 * MINUTE, NOW + 3 * MINUTE, NOW + 5 * MINUTE)
    resume_intake(db, by, first)
    cancel(db, by, second)
    assert files_halted_since(db) == (NOW + 3 * MINUTE,)
    close_intake(db, by, third)
    assert files_halted_since(db) == ()
    if db.kind == "sqlite":
        with db.read() as conn:
            plan = conn.execute(text("EXPLAIN QUERY PLAN SELECT id FROM batches WHERE rows_missing IS NOT NULL"))
            assert "ix_batches_rows_missing" in str(plan.all())


def test_a_file_that_is_tried_again_and_again_does_not_hide_how_long_its_texts_have_waited(db: Database) -> None:
    batch_id = batch(db, ["one"], closed=False)
    before = standstills(db, LATE)
    stop_intake(db, LOCAL_USER.at(LATE - MINUTE), batch_id, "file_refused")
    assert [one.since for one in standstills(db, LATE)] == [one.since for one in before] == [NOW]
