"""How urgent a case is, and how it comes into the inbox: as its batch says, with its outcome or, where a fault keeps it
from being screened, before, when that outcome meets the same entry; which batches stand still, since when and why. An
audit sample cannot be told from the cases around it, and what a text states outright sets the least urgent place it may
have. A worklist holds what its batch labeled unsafe until somebody has seen it; cases sent to the queue enter once.
"""

import tomllib
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update

from screening.datasets.rows import NewCase
from screening.labels import Label, Outcome
from screening.pipeline.engine import NodeRun, Reason, Screening
from screening.review.policy import LOCAL_USER, SYSTEM
from screening.review.triage import TARGETS, Priority, Reach, audit_placement, priority_for, unscreened_placement
from screening.text.received import receive
from storage.audit_log import events, verify
from storage.batches import entries, single_texts
from storage.batches.batch_state import BatchState, Caps
from storage.batches.batches import cancel, change_caps, find_batch, pause, resume, retry_failed
from storage.batches.counts import IN_REVIEW, PENDING
from storage.batches.entries import NO_PROGRESS, NO_WORKER, StalledBatch, bring_in, files_halted_since, stalled_batches
from storage.batches.intake import NOT_YET, add_rows, close_intake, resume_intake, stop_intake
from storage.batches.pending import record_error
from storage.database import Database
from storage.research.cells import Cell, control_cases
from storage.research.reliability import audit_sample
from storage.research.review_table import reviews_by_priority
from storage.review.claims import claim_next, my_claims
from storage.review.evidence import reveal_text
from storage.review.follow_ups import MOST, SecondLooks, acknowledge, request_second_looks, worklist
from storage.review.inbox import release
from storage.review.reviews import my_review, submit_review
from storage.schema import audit_events, batches, cases, inbox_entries, reviews, screenings, unblindings
from storage.schema.columns import new_id
from storage.settings_store import SiteSettings, change
from storage.site.health import beat
from tests.databases import write
from tests.storage.batch_of import (
    CONFIGURATION,
    LATER,
    NOW,
    batch,
    commit_run,
    decide,
    hand_in,
    ids_of,
    results,
    run,
    screening,
    waiting,
)
from tests.storage.inbox_cases import blind, entry, fill, form, read, register, rows, take
from tests.storage.people import ADMIN, ANN, BO, MINUTE, RESEARCHER, SENIOR

ME, SECOND = LOCAL_USER.at(NOW), timedelta(seconds=1)
SOON, LATE = NOW + timedelta(minutes=14), NOW + timedelta(minutes=16)
PLAIN, IMMINENT = "A plain text of some words.", "I want to die and I have the pills ready tonight."


def _batch(db: Database, texts: int = 1, reach: Reach = Reach.READ, **options: Any) -> tuple[str, list[str]]:
    """A batch of so many texts that state no risk, and its cases in the file's order."""
    batch_id = batch(db, [PLAIN] * texts, reach=reach, **options)
    return batch_id, ids_of(db, batch_id)


def brought_in(db: Database, texts: int = 1, **options: Any) -> list[str]:
    """Cases in the inbox that were not screened, plain texts all."""
    _, ids = _batch(db, texts, **options)
    assert bring_in(db, LATE) == texts
    return ids


def _fail(db: Database, case_id: str, kind: str = "server_error", at: datetime = NOW, **options: Any) -> None:
    record_error(db, case_id, kind, "no answer", at, **options)


def inboxed(db: Database) -> list[tuple[int, str, str | None]]:
    """Priority, why and cause of what is in the inbox, in the file's order."""
    query = select(inbox_entries.c.priority, inbox_entries.c.why, inbox_entries.c.cause)
    rows = db.rows(query.join(cases, cases.c.id == inbox_entries.c.case_id).order_by(cases.c.row))
    return [tuple(row) for row in rows]


def _entered(db: Database) -> set[str]:
    return set(db.values(select(inbox_entries.c.case_id)))


def _still(db: Database, now: datetime) -> list[tuple[str | None, str, datetime, int]]:
    return [(one.batch_id, one.cause, one.since, one.waiting) for one in stalled_batches(db, now)]


HAPPENS: dict[str, Callable[[Database, str], object]] = {
    "bad key": lambda db, batch_id: _fail(db, waiting(db)[0], "bad_key", stops_batch=True),
    "one failed": lambda db, batch_id: _fail(db, waiting(db)[0]),
    "a person paused": lambda db, batch_id: pause(db, ME, batch_id),
    "the program paused": lambda db, batch_id: pause(db, SYSTEM.at(NOW), batch_id, "bad_key"),
    "capped": lambda db, batch_id: change_caps(db, ME, batch_id, Caps(max_cost_usd=0.0)),
    "canceled": lambda db, batch_id: cancel(db, ME, batch_id),
    "overnight": lambda db, batch_id: write(db, update(batches).values(overnight=True)),
}


TABLES = tomllib.loads((Path(__file__).parent / "unscreened.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("reach", "happens", "still", "entered"), TABLES["kept"])
def test_what_is_kept_from_being_screened_enters_after_the_site_s_time_and_once(
    db: Database, reach: str, happens: list[str], still: dict[str, int], entered: int
) -> None:
    batch_id, _ = _batch(db, 3, Reach(reach))
    for one in happens:
        HAPPENS[one](db, batch_id)
    assert [bring_in(db, moment) for moment in (SOON, LATE, LATE)] == [0, entered, 0]
    assert inboxed(db) == [(2, "not_screened", cause) for cause in still][:1] * entered
    found = stalled_batches(db, LATE)
    assert ({one.cause: one.waiting for one in found}, {one.since for one in found} - {NOW}) == (still, set())


@pytest.mark.parametrize(("reach", "research_order", "priorities"), TABLES["stated"])
def test_what_states_a_risk_is_in_the_queue_before_an_agent_is_asked(
    db: Database, reach: str, research_order: bool, priorities: list[int]
) -> None:
    """Safe is refused for it: a person reads it whatever is answered, hours later in a large file."""
    batch(db, [IMMINENT, "I want to die.", PLAIN], reach=Reach(reach), research_order=research_order)
    assert inboxed(db) == [(priority, "not_screened", NOT_YET) for priority in priorities]
    assert db.values(select(inbox_entries.c.entered_at)) == [NOW] * len(priorities)
    decide(db, waiting(db)[0], Outcome.HUMAN_REVIEW)
    assert [entry[2] for entry in inboxed(db)] == [None, NOT_YET][: max(1, len(priorities))]
    assert verify(db).problem is None


@pytest.mark.parametrize(("reach", "outcome", "imminent", "entered"), TABLES["unsafe"])
def test_the_batch_says_whether_unsafe_is_read(
    db: Database, reach: str, outcome: str, imminent: bool, entered: bool
) -> None:
    """What states an imminent risk is read whatever the batch says; all of it blind, with the priority then shown."""
    batch_id = batch(db, [IMMINENT if imminent else PLAIN], reach=Reach(reach))
    decide(db, waiting(db)[0], Outcome(outcome))
    assert len(inboxed(db)) == entered and find_batch(db, LOCAL_USER, batch_id).reach == reach
    if entered and outcome == "unsafe":
        read(db, ANN, form("unsafe"), now=LATER)
        mine, shown = my_review(db, ANN, db.value(select(cases.c.id))), db.value(select(reviews.c.priority))
        assert mine is not None and mine.blind
        assert shown == (Priority.P0 if imminent else Priority.P1)
        assert reviews_by_priority(db, LOCAL_USER) == {shown: {"unsafe": 1}}


def test_what_was_tried_again_for_a_while_before_it_was_given_up_waits_since_its_first_failure(db: Database) -> None:
    _, [case_id] = _batch(db)
    _fail(db, case_id, again_in=SECOND)
    _fail(db, case_id, "timeout", SOON)
    assert bring_in(db, SOON) == 0
    assert bring_in(db, NOW + 15 * MINUTE) == 1 and inboxed(db) == [(2, "not_screened", "timeout")]
    batch_id, [case_id] = _batch(db)
    _fail(db, case_id, stops_batch=True)
    resume(db, LOCAL_USER.at(SOON), batch_id)
    assert (bring_in(db, LATE), bring_in(db, SOON + 15 * MINUTE)) == (0, 1), "the time begins again"


@pytest.mark.parametrize(("app_since", "entered"), [(NOW, 1), (LATE - 5 * MINUTE, 0)], ids=["up", "off"])
def test_a_worker_that_dies_again_and_again_is_no_reason_to_wait_but_a_site_that_was_off_is(
    db: Database, app_since: datetime, entered: int
) -> None:
    _batch(db)
    for name, kind, since in (("app", "app", app_since), ("w1", "worker", LATE - timedelta(seconds=70))):
        for seen in (since, LATE):
            beat(db, name, kind, seen)
    assert bring_in(db, LATE) == entered


def test_what_could_not_be_screened_is_in_review_like_any_other_and_told_nothing_of(db: Database) -> None:
    brought_in(db)
    batch_id = db.value(select(cases.c.batch_id))
    shown = [(row.outcome, row.in_review) for who in (LOCAL_USER, SENIOR) for row in results(db, who.at(NOW), batch_id)]
    assert shown == [(PENDING, True), (IN_REVIEW, True)]
    assert db.rows(select(unblindings)) == [], "there was nothing of the AI to see"


BEFORE: dict[str, Callable[[Database, str], object]] = {
    "nobody": lambda db, case_id: None,
    "looked": lambda db, case_id: reveal_text(db, SENIOR.at(LATE), case_id),
    "held": lambda db, case_id: take(db, ANN, LATE),
    "reviewed": lambda db, case_id: read(db, ANN, form("unsafe"), now=LATE),
}


@pytest.mark.parametrize(("before", "outcome", "left"), TABLES["met"])
def test_its_outcome_meets_the_entry_as_people_left_it(
    db: Database, before: str, outcome: str, left: list[int | str]
) -> None:
    """Nobody saw it: it takes the place of its outcome or leaves. Somebody did: it stays, at most more urgent; a review
    given meanwhile is the case's own.
    """
    [case_id] = brought_in(db)
    BEFORE[before](db, case_id)
    due = db.value(select(inbox_entries.c.due_at))
    decide(db, case_id, Outcome(outcome))
    assert inboxed(db) == ([(*left, None)] if left else [])
    said = db.values(select(audit_events.c.subject).where(audit_events.c.action == "left_inbox"))
    assert said == ([] if left else [case_id])
    if before != "nobody":
        sooner = db.value(select(inbox_entries.c.due_at)) < due
        assert sooner is (outcome == "unsafe" and before != "reviewed")
    if before == "held":
        [claim] = my_claims(db, ANN.at(LATE))
        submit_review(db, ANN.at(LATE), case_id, claim.token, form("unsafe"), new_id(LATE))  # the lease still holds
    if before in ("held", "reviewed"):
        assert claim_next(db, BO.at(LATE)) is None, "no second entry"


def test_who_holds_a_case_while_it_becomes_more_urgent_has_learnt_of_its_outcome(db: Database) -> None:
    brought_in(db, 3)
    take(db, ANN, LATE)
    given_back = take(db, BO, LATE)
    release(db, BO.at(LATE), given_back.case_id, given_back.token)
    for case_id in waiting(db):
        decide(db, case_id, Outcome.UNSAFE)
    assert [(row.reviewer, row.before_review) for row in db.rows(select(unblindings))] == [("ann", True)]
    places = {(row.priority, row.why, row.due_at) for row in db.rows(select(inbox_entries))}
    [(priority, why, due)] = places
    assert (priority, why) == (1, "person_needed") and due - NOW < TARGETS[Priority.P2], "by its new priority's target"


def test_no_review_is_lost_and_one_outside_the_coin_enters_no_estimate(db: Database) -> None:
    [case_id] = brought_in(db, audit_rate=1e-12)
    read(db, ANN, form("unsafe"), now=LATE)
    decide(db, case_id)  # the same entry, closed: no second one
    assert len(inboxed(db)) == 1 and claim_next(db, BO.at(LATE)) is None
    found = audit_sample(db, LOCAL_USER, CONFIGURATION.version)
    assert [(case.selected, case.state == "read") for case, _ in found.case_counts] == [(False, False)]


@pytest.mark.parametrize(("label", "again"), [("safe", True), ("unsafe", False)])
def test_a_case_read_as_safe_that_is_then_called_unsafe_is_read_again(db: Database, label: str, again: bool) -> None:
    register(db, ANN, BO, ADMIN)
    change(db, ADMIN.at(NOW), SiteSettings(second_review_rate=0.0), 0)  # the label alone decides
    [case_id] = brought_in(db)
    read(db, ANN, form(label), now=LATE)
    decide(db, case_id, Outcome.UNSAFE)
    assert (claim_next(db, BO.at(LATE)) is not None) is again
    assert inboxed(db) == [(2, "unsettled" if again else "not_screened", None)], "in words that tell nothing of why"


def test_what_failed_by_itself_is_counted_by_its_last_error_over_all_batches(db: Database) -> None:
    (_, one), (_, two), (canceled, gone) = _batch(db, 2), _batch(db, 2), _batch(db)
    _, left = _batch(db, kind="interactive")
    _fail(db, one[0], "timeout")
    _fail(db, one[0], at=NOW + 3 * SECOND)
    _fail(db, one[1], "timeout", NOW + 2 * SECOND)
    for case_id in two:
        _fail(db, case_id, at=NOW + SECOND)
    _fail(db, gone[0])
    cancel(db, ME, canceled)
    single_texts.withdraw(db, left[0], NOW)
    assert stalled_batches(db, LATE) == (
        StalledBatch(batch_id=None, cause="server_error", since=NOW + SECOND, waiting=3),
        StalledBatch(batch_id=None, cause="timeout", since=NOW + 2 * SECOND, waiting=1),
    )
    assert bring_in(db, LATE) == 5 and _entered(db) == {*one, *two, *left}


def test_a_batch_stands_still_since_its_own_last_change_and_for_its_own_cases(db: Database) -> None:
    first, (failed, _) = _batch(db, 2)
    _fail(db, failed)
    second = batch(db, closed=False)
    for row, moment in ((1, NOW + 2 * SECOND), (2, NOW + 9 * SECOND)):
        add_rows(db, second, [NewCase(row=row, external_id=f"p{row}", text=receive(PLAIN))], moment)
    assert _still(db, NOW + MINUTE - SECOND) == [(None, "server_error", NOW, 1)]
    whole = [(first, NO_WORKER, NOW, 1), (second, NO_WORKER, NOW + 2 * SECOND, 2)]
    assert [one for one in _still(db, NOW + MINUTE) if one[0]] == whole[:1]
    assert [one for one in _still(db, NOW + MINUTE + 2 * SECOND) if one[0]] == whole
    assert {one.state for one in stalled_batches(db, LATE) if one.batch_id == first} == {BatchState.RUNNING}


def test_a_living_worker_is_told_what_fails_of_this_batch_since_its_last_change(db: Database) -> None:
    beat(db, "w1", "worker", NOW)
    (one, (first, second, _)), (other, [theirs]) = _batch(db, 3), _batch(db)
    for case_id, kind in ((first, "server_error"), (second, "unreachable")):
        _fail(db, case_id, kind, again_in=SECOND)
    beat(db, "w1", "worker", NOW + MINUTE)
    assert _still(db, NOW + MINUTE - SECOND) == []
    assert set(_still(db, NOW + MINUTE)) == {(one, "unreachable", NOW, 3), (other, NO_PROGRESS, NOW, 1)}
    commit_run(db, theirs, 0, run("EEEEEE", Label.ESCALATE))
    retry_failed(db, ME, one)
    assert _still(db, NOW + MINUTE) == [(one, "unreachable", NOW, 3)], "what comes of the other is no progress of this"


def test_an_app_is_no_worker_and_a_worker_has_a_minute_from_its_start(db: Database) -> None:
    batch_id, _ = _batch(db)
    end = NOW + 2 * MINUTE - SECOND
    for name, kind, since, still in (
        ("app", "app", NOW - MINUTE, [(batch_id, NO_WORKER, NOW, 1)]),
        ("w1", "worker", NOW + MINUTE, []),
    ):
        for moment in (since, end):
            beat(db, name, kind, moment)
        assert _still(db, end) == still
    assert _still(db, end + SECOND) == [(batch_id, NO_PROGRESS, NOW, 1)]


def test_only_what_has_failed_long_enough_enters_and_each_batch_by_itself(db: Database) -> None:
    (one, (early, late, _)), (other, [theirs]) = _batch(db, 3), _batch(db)
    _fail(db, early)
    _fail(db, late, at=NOW + 5 * MINUTE)
    _fail(db, theirs, "timeout")
    pause(db, ME, one)
    assert bring_in(db, NOW + 15 * MINUTE - SECOND) == 0
    assert bring_in(db, NOW + 15 * MINUTE) == 2 and _entered(db) == {early, theirs}
    assert bring_in(db, NOW + 20 * MINUTE) == 1 and _entered(db) == {early, late, theirs}
    said = [event for event in events(db, ADMIN) if event.action == "entered_unscreened"]
    told = [(event.actor, event.subject, event.details["cases"], event.details["cause"]) for event in said]
    wanted = [("system", one, 1, "server_error")] * 2 + [("system", other, 1, "timeout")]
    assert sorted(told) == sorted(wanted)


@pytest.mark.parametrize("fails", [True, False])
def test_many_cases_enter_in_chunks_and_none_is_left(
    db: Database, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    monkeypatch.setattr(entries, "CHUNK", 2)
    _, ids = _batch(db, 5)
    for case_id in ids if fails else ():
        _fail(db, case_id)
    assert bring_in(db, LATE) == 5 and _entered(db) == set(ids)
    said = [event.details["cases"] for event in events(db, ADMIN) if event.action == "entered_unscreened"]
    assert said == [1, 2, 2], "nobody waits for more than a chunk"


def test_files_that_are_not_taken_in_any_further_are_told_until_they_are(db: Database) -> None:
    first, second, third = (batch(db, ["one"], closed=False) for _ in range(3))
    before = stalled_batches(db, LATE)
    for batch_id, minutes in ((second, 2), (first, 1), (first, 5), (third, 3)):
        stop_intake(db, LOCAL_USER.at(NOW + minutes * MINUTE), batch_id, "file_refused")
    assert files_halted_since(db) == (NOW + 2 * MINUTE, NOW + 3 * MINUTE, NOW + 5 * MINUTE)
    assert {one.since for one in stalled_batches(db, LATE)} == {one.since for one in before} == {NOW}, (
        "its texts wait on"
    )
    resume_intake(db, ME, first)
    cancel(db, ME, second)
    assert files_halted_since(db) == (NOW + 3 * MINUTE,)
    close_intake(db, ME, third)
    assert files_halted_since(db) == ()


P0, P1, P2, P3 = Priority


def _left(*runs: NodeRun, reason: Reason = Reason.EXHAUSTED) -> Screening:
    return screening(Outcome.HUMAN_REVIEW, *runs, reason=reason)


URGENCY = tomllib.loads((Path(__file__).parent / "triage.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("agents", "reason", "stated", "priority", "why"), URGENCY["rules"])
def test_the_first_rule_that_fits_decides(agents: str, reason: str, stated: str, priority: int, why: str) -> None:
    asked = [each.split() for each in agents.split(", ") if each]
    runs = [run(draws, Label(label[0]) if label else None, node) for node, draws, *label in asked]
    ended = _left(*runs, reason=Reason(reason)) if reason else screening(Outcome.UNSAFE, *runs, node=asked[-1][0])
    found = priority_for(ended, stated.split())
    assert (found.priority, why or found.why) == (priority, found.why)


def test_every_reason_has_a_priority_each_priority_its_target_and_a_case_called_safe_none_of_its_own() -> None:
    """What is not screened is as urgent as its text."""
    assert {priority_for(_left(reason=reason), []).priority for reason in Reason} <= set(Priority)
    with pytest.raises(ValueError, match="no priority of its own"):
        priority_for(screening(Outcome.SAFE, run("SSSSSS")), [])
    found = [unscreened_placement(flags).priority for flags in ([], ["no_words"], ["stated_risk"], ["stated_imminent"])]
    assert found == [P2, P2, P1, P0]
    assert [TARGETS[priority] / MINUTE for priority in Priority] == [5, 15, 240, 1440]


def test_audit_samples_look_like_other_cases_of_their_priorities() -> None:
    called = priority_for(screening(Outcome.UNSAFE, run("UUUUUU", Label.UNSAFE)), [])
    alike = [called, priority_for(_left(run("SSUSES", None)), []), priority_for(_left(run("SSESES", None)), [])]
    for flags, places in (([], set(alike)), (["stated_risk"], {called})):
        drawn = [audit_placement(f"{number:032x}", 0.1, flags) for number in range(2_000)]
        assert set(drawn) == places
        assert flags or 150 < drawn.count(called) < 250  # 200 expected, +- 3.7 deviations of 13.4
    imminent = priority_for(_left(run("SSESES", None)), ["stated_imminent"])
    assert {audit_placement(f"{number:032x}", 0.1, ["stated_imminent"]) for number in range(99)} == {imminent}


DUE = {
    text: [Priority[name] for name in each["places"]] for each in URGENCY["stated"].values() for text in each["texts"]
}


def _decided(db: Database, outcome: Outcome, **options: object) -> None:
    batch(db, DUE, **options)  # type: ignore[arg-type]
    for case_id in waiting(db):
        decide(db, case_id, outcome)


def unscreened(db: Database, **options: bool) -> None:
    batch(db, DUE, reach=Reach.READ, **options)
    bring_in(db, LATE)


def sent_to_review(db: Database, **options: bool) -> None:
    _decided(db, Outcome.UNSAFE, **options)
    request_second_looks(db, SENIOR.at(NOW), db.values(select(cases.c.id)))


def reviewed_by_two_who_disagree(db: Database) -> None:
    register(db, ANN, BO, SENIOR)
    _decided(db, Outcome.HUMAN_REVIEW)
    for number in range(len(DUE)):
        read(db, ANN, form("unsafe", disposition="contact_now"), chr(0x100 + number), ask=True)
        read(db, BO, form("safe"), chr(0x200 + number))
    assert {row.review_round for row in rows(db, inbox_entries)} == {"third"}


def handed_in_one_by_one(db: Database) -> None:
    for number, text in enumerate(DUE):
        decide(db, hand_in(db, str(number), text), Outcome.HUMAN_REVIEW)


SETS: dict[str, Callable[..., None]] = {
    "escalated": lambda db, **options: _decided(db, Outcome.HUMAN_REVIEW, **options),
    "unsafe": lambda db, **options: _decided(db, Outcome.UNSAFE, reach=Reach.READ, **options),
    "a quality check": lambda db, **options: _decided(db, Outcome.UNSAFE, audit_rate=1.0, **options),
    "unscreened": unscreened,
    "sent to review": sent_to_review,
}
WAYS = SETS | {"two who disagree": reviewed_by_two_who_disagree, "one by one": handed_in_one_by_one}
PLACED = select(cases.c.text, inbox_entries).join(inbox_entries).order_by(inbox_entries.c.due_at, cases.c.row)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_into_the_queue_keeps_to_the_floor_of_the_text(db: Database, way: str) -> None:
    change(db, ADMIN.at(NOW), SiteSettings(audit_urgent_share=0.0), 0)  # the coin alone would say P2 or P3
    WAYS[way](db)
    found = {row.text: row.priority for row in db.rows(PLACED)}
    assert {text for text in DUE if found.get(text) not in DUE[text]} == set()


@pytest.mark.parametrize("way", SETS)
def test_a_set_without_living_authors_stands_in_random_order_whatever_its_texts_say(db: Database, way: str) -> None:
    change(db, ADMIN.at(NOW), SiteSettings(audit_urgent_share=1.0), 0)
    SETS[way](db, research_order=True)
    found = db.rows(PLACED)
    assert {row.priority for row in found} == {P3} and len({row.why for row in found}) == 1
    assert len({row.due_at for row in found}) == len(DUE) and [row.text for row in found] != list(DUE)
    assert all(timedelta(hours=12) <= row.due_at - NOW <= timedelta(hours=25) for row in found)


def listed(db: Database, reach: Reach = Reach.LIST, audit_rate: float = 0.0) -> str:
    """A batch of three: two labeled unsafe, one safe."""
    batch_id = batch(db, ["one", "two", "three"], reach=reach, audit_rate=audit_rate)
    for case_id, outcome in zip(waiting(db), [Outcome.UNSAFE, Outcome.UNSAFE, Outcome.SAFE], strict=True):
        decide(db, case_id, outcome)
    return batch_id


def test_who_acknowledged_a_case_does_not_read_it_blind(db: Database) -> None:
    """It is listed until then, and no longer."""
    batch_id = listed(db)
    found, waiting_now = worklist(db, SENIOR, batch_id, limit=1)
    assert (waiting_now, [one.row for one in found]) == (2, [1])
    first = found[0].case_id
    assert [acknowledge(db, SENIOR.at(NOW), [first]) for _ in range(2)] == [1, 0]
    assert [one.row for one in worklist(db, SENIOR, batch_id)[0]] == [2]
    request_second_looks(db, LOCAL_USER.at(LATER), [first])
    read(db, SENIOR, form("unsafe"), now=LATER)
    mine = my_review(db, SENIOR, first)
    assert mine is not None and not mine.blind


@pytest.mark.parametrize(("reach", "audit_rate"), [(Reach.READ, 0.0), (Reach.COUNT, 0.0), (Reach.LIST, 1.0)])
def test_what_is_yet_to_be_read_blind_and_another_batch_are_not_on_it(
    db: Database, reach: Reach, audit_rate: float
) -> None:
    batch_id = listed(db, reach, audit_rate)
    assert worklist(db, SENIOR, batch_id) == ([], 0)
    assert acknowledge(db, SENIOR.at(LATER), db.values(select(screenings.c.case_id))) == 0


def test_each_enters_once_and_what_has_no_outcome_or_an_entry_is_counted_apart(db: Database) -> None:
    new, other, undecided = fill(db, [P2] * 3, entered=False, outcome="safe")
    (there,) = fill(db)
    write(db, screenings.delete().where(screenings.c.case_id == undecided))
    asked = [new, there, undecided, "no such case", other, new]
    found = [request_second_looks(db, RESEARCHER.at(at), asked) for at in (NOW + MINUTE, NOW)]
    assert found[0] == SecondLooks(opened=2, there_before=1, undecided=2)
    assert found[1] == SecondLooks(opened=0, there_before=3, undecided=2)
    assert len(rows(db, inbox_entries)) == 3
    entered = entry(db, new)
    logged = [(one.actor, one.subject, one.details) for one in events(db, ADMIN, action="second_look_requested")]
    assert (entered.entered_at, entered.review_round, entered.closed_at) == (NOW + MINUTE, "first", None)
    assert logged == [("rae", None, {"asked": 6, "opened": opened}) for opened in (0, 2)]
    with pytest.raises(ValueError, match="at most 500"):
        request_second_looks(db, RESEARCHER.at(NOW), [new] * (MOST + 1))
    assert request_second_looks(db, RESEARCHER.at(NOW), [new] * MOST).there_before == 1


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_its_place_is_that_of_an_audit_sample_by_the_sites_share(db: Database, share: float) -> None:
    """And whoever saw the AI's view of it does not read it blind."""
    change(db, ADMIN.at(NOW), SiteSettings(audit_urgent_share=share), 0)
    shown, unseen, *_ = ids = fill(db, [P0] * 6, entered=False, outcome="unsafe")
    for at in (NOW, NOW + MINUTE):
        request_second_looks(db, SENIOR.at(at), ids, shown=[shown])
    kept = [(row.case_id, row.reviewer, row.before_review, row.at) for row in rows(db, unblindings)]
    assert kept == [(shown, "sue", True, NOW)]
    assert [blind(db, ANN, one) for one in (shown, unseen)] == [True, True] and not blind(db, SENIOR, shown)
    places = {row.case_id: (Priority(row.priority), row.why) for row in rows(db, inbox_entries)}
    expected = {case_id: audit_placement(case_id, share, []) for case_id in ids}
    assert places == {case_id: (place.priority, place.why.value) for case_id, place in expected.items()}
    assert ({priority for priority, _ in places.values()} == {P1}) is (share == 1.0)


def test_controls_are_from_the_cells_beside_unpicked_and_in_no_queue(db: Database) -> None:
    """Two missed cases are sent. Beside them lie the safe ones rightly labeled safe and the unsafe ones rightly labeled
    unsafe; not beside them a false alarm, what is escalated, and what is in the queue already.
    """
    batch_id = batch(db, [f"a plain text, number {n}" for n in range(9)], references="UUSSUUSUS")
    ids = waiting(db)
    said = ["safe", "safe", "safe", "safe", "unsafe", "unsafe", "unsafe", "human_review", "safe"]
    for case_id, outcome in zip(ids, said, strict=True):
        decide(db, case_id, Outcome(outcome))
    missed, beside, queued = ids[:2], set(ids[2:6]), ids[8]
    request_second_looks(db, RESEARCHER.at(NOW), [queued])
    cell = Cell(batch_id=batch_id, reference="unsafe", outcome="safe")
    drawn = [control_cases(db, RESEARCHER, cell, missed, 2, str(seed)) for seed in range(40)]
    assert {len(one) for one in drawn} == {2} and {case_id for one in drawn for case_id in one} == beside
    assert {chance for one in drawn for chance in one.values()} == {2 / 4}
    assert control_cases(db, RESEARCHER, cell, missed, 2, "1") == drawn[1], "chance is an argument"
    assert set(control_cases(db, RESEARCHER, cell, missed, 9, "")) == beside, "there are no more"
    of_any_batch = Cell(batch_id="", ids=(missed[0],))  # found otherwise: beside them stands whatever was decided
    assert set(control_cases(db, RESEARCHER, of_any_batch, missed[:1], 9, "")) == {*ids[1:7]}
    unlabeled = Cell(batch_id=batch_id, outcome="safe")
    assert set(control_cases(db, RESEARCHER, unlabeled, missed[:1], 9, "")) == set(ids[1:4])
    request_second_looks(db, RESEARCHER.at(NOW), ids[:2], controls={ids[1]: 0.25})
    request_second_looks(db, RESEARCHER.at(NOW), ids[2:3], chances={ids[2]: 0.5})
    assert len(control_cases(db, RESEARCHER, cell, ids[:2], 2, "2")) == 0, "sent already, with their controls"
    kept = [(row.sent_as, row.chance) for row in (entry(db, case_id) for case_id in ids[:3])]
    assert kept == [("picked", None), ("control", 0.25), ("drawn", 0.5)]
    request_second_looks(db, RESEARCHER.at(NOW), ids[2:3])
    assert (entry(db, ids[2]).sent_as, entry(db, ids[1]).sent_as) == ("picked", "control"), "picked once is picked"
