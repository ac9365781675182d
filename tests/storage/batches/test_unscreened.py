"""Which batches stand still, since when and why; what a fault keeps from being screened enters the inbox once, and its
outcome later meets that very entry.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select, text, update

from screening.datasets.rows import NewCase
from screening.labels import Label, Outcome
from screening.review.actors import LOCAL_USER, SYSTEM
from screening.review.reach import Reach
from screening.review.triage import TARGETS, Priority
from screening.text.received import receive
from storage.audit_log import events
from storage.batches import entries as entries_module
from storage.batches import single_texts
from storage.batches.batch_state import BatchState, Caps
from storage.batches.batches import cancel, change_caps, pause, resume, retry_failed
from storage.batches.configurations import load_configuration
from storage.batches.costs import cost_by_node
from storage.batches.counts import IN_REVIEW, PENDING
from storage.batches.entries import (
    NO_PROGRESS,
    NO_WORKER,
    Standstill,
    bring_in,
    files_halted_since,
    standstills,
)
from storage.batches.intake import NOT_YET, add_rows, close_intake, resume_intake, stop_intake
from storage.batches.pending import record_error
from storage.batches.results import count_ways, results
from storage.clock import new_id
from storage.database import Database
from storage.research.reliability import audit_sample
from storage.review.claims import claim_next, my_claims
from storage.review.evidence import reveal_text
from storage.review.inbox import release
from storage.review.reviews import submit_review
from storage.schema import audit_events, batches, cases, inbox_entries, unblindings
from storage.settings_store import SiteSettings, change
from storage.site.audit_check import verify
from storage.site.health import beat
from tests.databases import write
from tests.storage.batch_of import CONFIGURATION, NOW, batch, commit_run, decide, run, waiting
from tests.storage.inbox_cases import ADMIN, ANN, BO, MINUTE, SENIOR, form, read, register, take

SOON, LATE = NOW + timedelta(minutes=14), NOW + timedelta(minutes=16)
PLAIN, IMMINENT = "A plain text of some words.", "I want to die and I have the pills ready tonight."


def _batch(db: Database, texts: int = 1, reach: Reach = Reach.READ, **options: object) -> tuple[str, list[str]]:
    """A batch of so many texts that state no risk, and its cases in the file's order."""
    batch_id = batch(db, [PLAIN] * texts, reach=reach, **options)  # type: ignore[arg-type]
    return batch_id, db.values(select(cases.c.id).where(cases.c.batch_id == batch_id).order_by(cases.c.row))


def undecided(db: Database, texts: int = 3, reach: Reach = Reach.READ) -> str:
    """The batch alone."""
    return _batch(db, texts, reach)[0]


def brought_in(db: Database, texts: int = 1, **options: object) -> list[str]:
    """Cases in the inbox that were not screened, plain texts all."""
    _, ids = _batch(db, texts, **options)
    assert bring_in(db, LATE) == texts
    return ids


def _fail(db: Database, case_id: str, kind: str = "server_error", at: datetime = NOW) -> None:
    record_error(db, case_id, kind, "no answer", at)


def entries(db: Database) -> list[tuple[int, str, str | None]]:
    """Priority, why and cause of what is in the inbox, in the file's order."""
    query = select(inbox_entries.c.priority, inbox_entries.c.why, inbox_entries.c.cause)
    with db.read() as conn:
        rows = conn.execute(query.join(cases, cases.c.id == inbox_entries.c.case_id).order_by(cases.c.row))
        return [tuple(row) for row in rows]  # type: ignore[misc]


def live(db: Database, until: datetime, since: datetime = NOW) -> None:
    """A worker that lives from then until then."""
    beat(db, "w1", "worker", since)
    beat(db, "w1", "worker", until)


def fail(db: Database, *, stops_batch: bool = False, kind: str = "unreachable", at: datetime = NOW) -> None:
    """The first case that is ready fails."""
    record_error(db, waiting(db)[0], kind, "no answer", at, stops_batch=stops_batch)


def _nothing(db: Database, batch_id: str) -> None:
    """It waits."""


def _bad_key(db: Database, batch_id: str) -> None:
    fail(db, stops_batch=True, kind="bad_key")


def _by_a_person(db: Database, batch_id: str) -> None:
    pause(db, LOCAL_USER.at(NOW), batch_id)


def _capped(db: Database, batch_id: str) -> None:
    change_caps(db, LOCAL_USER.at(NOW), batch_id, Caps(max_cost_usd=0.0))


def _cancelled(db: Database, batch_id: str) -> None:
    pause(db, SYSTEM.at(NOW), batch_id, "bad_key")
    cancel(db, LOCAL_USER.at(NOW), batch_id)


needs_its_own_clock = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.mark.parametrize(
    ("reach", "happens", "cause", "entered"),
    [
        (Reach.READ, _nothing, NO_WORKER, 3),
        (Reach.LIST, _nothing, NO_WORKER, 0),
        (Reach.COUNT, _nothing, NO_WORKER, 0),
        (Reach.READ, _bad_key, "bad_key", 3),
        (Reach.READ, _by_a_person, None, 0),  # nothing is broken
        (Reach.READ, _capped, "max_cost", 3),
        (Reach.READ, _cancelled, None, 0),
    ],
)
def test_what_is_kept_from_being_screened_enters_after_the_site_s_time_and_once(
    db: Database, reach: Reach, happens: Callable[[Database, str], None], cause: str | None, entered: int
) -> None:
    happens(db, undecided(db, reach=reach))
    assert [bring_in(db, moment) for moment in (SOON, LATE, LATE)] == [0, entered, 0]
    assert entries(db) == [(2, "not_screened", cause)] * entered
    still = [(one.cause, one.since, one.waiting) for one in standstills(db, LATE)]
    assert still == ([] if cause is None else [(cause, NOW, 3)])


@pytest.mark.parametrize(
    ("reach", "research_order", "priorities"),
    [(Reach.READ, False, [0, 1]), (Reach.LIST, False, [0]), (Reach.COUNT, False, [0]), (Reach.READ, True, [])],
)
def test_what_states_a_risk_is_in_the_queue_before_an_agent_is_asked(
    db: Database, reach: Reach, research_order: bool, priorities: list[int]
) -> None:
    """Safe is refused for it: a person reads it whatever is answered, hours later in a large file."""
    batch(db, [IMMINENT, "I want to die.", PLAIN], reach=reach, research_order=research_order)
    assert entries(db) == [(priority, "not_screened", NOT_YET) for priority in priorities]
    assert db.values(select(inbox_entries.c.entered_at)) == [NOW] * len(priorities)
    first = waiting(db)[0]
    decide(db, first, Outcome.HUMAN_REVIEW)
    assert [entry[2] for entry in entries(db)] == [None, NOT_YET][: max(1, len(priorities))]
    assert verify(db).problem is None


def test_what_an_agent_said_of_a_case_that_then_failed_is_counted_for_nobody_who_may_read_it(db: Database) -> None:
    batch_id = undecided(db, 1)
    [case_id] = waiting(db)
    pipeline = load_configuration(db, CONFIGURATION.version).pipeline
    commit_run(db, case_id, 0, run("EEEEEE", Label.ESCALATE))
    fail(db, kind="server_error")
    assert count_ways(db, LOCAL_USER, batch_id, pipeline).asked == {"worker": 1}
    assert bring_in(db, LATE) == 1
    assert count_ways(db, LOCAL_USER, batch_id, pipeline).asked == {"worker": 1}, "in review or not"
    assert [one.node for one in cost_by_node(db, LOCAL_USER, batch_id)] == ["worker"]


@pytest.mark.parametrize("why", ["bad_key", "server_error", None])
def test_an_overnight_batch_raises_the_banner_alone(db: Database, why: str | None) -> None:
    """Paused by the program, with a case that failed, or waiting without a worker."""
    batch_id = undecided(db)
    if why is not None:
        fail(db, kind=why, stops_batch=why == "bad_key")
    write(db, update(batches).where(batches.c.id == batch_id).values(overnight=True))
    assert bring_in(db, LATE) == 0 and entries(db) == []
    assert (why or NO_WORKER) in {one.cause for one in standstills(db, LATE)}


def test_what_was_tried_again_for_a_while_before_it_was_given_up_waits_since_its_first_failure(db: Database) -> None:
    undecided(db, 1)
    (case_id,) = waiting(db)
    record_error(db, case_id, "server_error", "no", NOW, again_in=timedelta(seconds=1))
    record_error(db, case_id, "timeout", "no", SOON)
    assert bring_in(db, SOON) == 0
    assert bring_in(db, NOW + timedelta(minutes=15)) == 1 and entries(db) == [(2, "not_screened", "timeout")]


@needs_its_own_clock
@pytest.mark.parametrize(("app_since", "entered"), [(NOW, 3), (LATE - timedelta(minutes=5), 0)], ids=["up", "off"])
def test_a_worker_that_dies_again_and_again_is_no_reason_to_wait_but_a_site_that_was_off_is(
    db: Database, app_since: datetime, entered: int
) -> None:
    undecided(db)
    for seen in (app_since, LATE):
        beat(db, "app", "app", seen)
    live(db, LATE, LATE - timedelta(seconds=70))
    assert bring_in(db, LATE) == entered


def test_after_a_resume_the_time_begins_again(db: Database) -> None:
    batch_id = undecided(db)
    fail(db, stops_batch=True)
    resume(db, LOCAL_USER.at(SOON), batch_id)
    assert bring_in(db, LATE) == 0 and bring_in(db, SOON + timedelta(minutes=15)) == 3


def test_what_could_not_be_screened_is_in_review_like_any_other_and_told_nothing_of(db: Database) -> None:
    [case_id] = brought_in(db)
    batch_id = db.value(select(cases.c.batch_id).where(cases.c.id == case_id))
    shown = [(row.outcome, row.in_review) for who in (LOCAL_USER, SENIOR) for row in results(db, who.at(NOW), batch_id)]
    assert shown == [(PENDING, True), (IN_REVIEW, True)]
    assert db.rows(select(unblindings)) == [], "there was nothing of the AI to see"


def _looked(db: Database, case_id: str) -> None:
    reveal_text(db, SENIOR.at(LATE), case_id)


def _held(db: Database, case_id: str) -> None:
    assert take(db, ANN, LATE).why == f"not_screened:{NO_WORKER}"


def _reviewed(db: Database, case_id: str) -> None:
    read(db, ANN, form("unsafe"), now=LATE)


@pytest.mark.parametrize(
    ("before", "outcome", "left"),
    [
        (None, Outcome.SAFE, []),
        (None, Outcome.UNSAFE, [(1, "person_needed")]),
        (None, Outcome.HUMAN_REVIEW, [(3, "unsettled")]),
        (_looked, Outcome.SAFE, [(2, "unsettled")]),
        (_held, Outcome.SAFE, [(2, "unsettled")]),
        (_held, Outcome.UNSAFE, [(1, "person_needed")]),
        (_held, Outcome.HUMAN_REVIEW, [(2, "unsettled")]),
        (_reviewed, Outcome.SAFE, [(2, "not_screened")]),
        (_reviewed, Outcome.UNSAFE, [(2, "not_screened")]),
        (_reviewed, Outcome.HUMAN_REVIEW, [(2, "not_screened")]),
    ],
)
def test_its_outcome_meets_the_entry_as_people_left_it(
    db: Database, before: Callable[[Database, str], None] | None, outcome: Outcome, left: list[tuple[int, str]]
) -> None:
    """Nobody saw it: it takes the place of its outcome or leaves. Somebody did: it stays, at most more urgent, which
    tells its holder how it ended; a review given meanwhile is the case's own.
    """
    [case_id] = brought_in(db)
    if before is not None:
        before(db, case_id)
    due = db.value(select(inbox_entries.c.due_at))
    decide(db, case_id, outcome)
    assert entries(db) == [(*place, None) for place in left]
    assert _kept(db) == ([("ann", True)] if before is _held and outcome is Outcome.UNSAFE else [])
    said = db.values(select(audit_events.c.subject).where(audit_events.c.action == "left_inbox"))
    assert said == ([] if left else [case_id])
    if before is not None:
        assert (db.value(select(inbox_entries.c.due_at)) < due) is (
            outcome is Outcome.UNSAFE and before is not _reviewed
        )
    if before is _held:
        [claim] = my_claims(db, ANN.at(LATE))
        submit_review(db, ANN.at(LATE), case_id, claim.token, form("unsafe"), new_id(LATE))  # the lease still holds
    if before in (_held, _reviewed):
        assert claim_next(db, BO.at(LATE)) is None, "no second entry"


def test_what_the_audit_draws_stays_in_ordinary_words(db: Database) -> None:
    [case_id] = brought_in(db, audit_rate=1.0)
    decide(db, case_id)
    [(_, why, cause)] = entries(db)
    assert why in ("unsettled", "person_needed") and cause is None


def test_no_review_is_lost_and_one_outside_the_coin_enters_no_estimate(db: Database) -> None:
    [case_id] = brought_in(db, audit_rate=1e-12)
    read(db, ANN, form("unsafe"), now=LATE)
    decide(db, case_id)  # the same entry, closed: no second one
    assert len(entries(db)) == 1 and claim_next(db, BO.at(LATE)) is None
    found = audit_sample(db, LOCAL_USER, CONFIGURATION.version)
    assert [(case.selected, case.read) for case, _ in found.case_counts] == [(False, False)]


@pytest.mark.parametrize(("label", "again"), [("safe", True), ("unsafe", False)])
def test_a_case_read_as_safe_that_is_then_called_unsafe_is_read_again(db: Database, label: str, again: bool) -> None:
    register(db, ANN, BO, ADMIN)
    change(db, ADMIN.at(NOW), SiteSettings(second_review_rate=0.0), 0)  # the label alone decides
    [case_id] = brought_in(db)
    read(db, ANN, form(label), now=LATE)
    decide(db, case_id, Outcome.UNSAFE)
    claim = claim_next(db, BO.at(LATE))
    assert (claim is not None) is again


def _kept(db: Database) -> list[tuple[str, bool]]:
    return [(row.reviewer, row.before_review) for row in db.rows(select(unblindings))]


def test_who_holds_a_case_while_it_becomes_more_urgent_has_learnt_of_its_outcome(db: Database) -> None:
    held, given_back, plain = brought_in(db, 3)
    first, second = claim_next(db, ANN.at(LATE)), claim_next(db, BO.at(LATE))
    assert first is not None and second is not None and {first.case_id, second.case_id} == {held, given_back}
    release(db, BO.at(LATE), second.case_id, second.token)
    for case_id in (first.case_id, second.case_id, plain):
        decide(db, case_id, Outcome.UNSAFE)
    assert _kept(db) == [("ann", True)]
    places = select(inbox_entries.c.priority, inbox_entries.c.why, inbox_entries.c.due_at)
    rows = [tuple(row) for row in db.rows(places)]
    assert rows == [rows[0]] * 3 and rows[0][:2] == (1, "person_needed")
    assert rows[0][2] - NOW < TARGETS[Priority.P2], "by the target of its new priority"


SECOND = timedelta(seconds=1)


def _still(db: Database, now: datetime) -> list[tuple[str | None, str, datetime, int]]:
    return [(one.batch_id, one.cause, one.since, one.waiting) for one in standstills(db, now)]


def _entered(db: Database) -> set[str]:
    return set(db.values(select(inbox_entries.c.case_id)))


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
    assert shown.state is BatchState.RUNNING


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
    monkeypatch.setattr(entries_module, "CHUNK", 2)
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
