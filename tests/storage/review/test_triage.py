"""How urgent a case is, that an audit sample cannot be told from the cases around it, and that what a text states
outright sets the least urgent place it may have, by whatever way it comes into the queue. A worklist holds what its
batch labeled unsafe until somebody has seen it; cases sent to the queue enter once, blind for who saw nothing.
"""

import tomllib
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy import select

from screening.datasets.rows import NewCase
from screening.labels import Label, Outcome
from screening.pipeline.engine import NodeRun, Reason, Screening
from screening.review.actors import LOCAL_USER
from screening.review.reach import Reach
from screening.review.triage import TARGETS, Priority, audit_placement, due_at, priority_for, unscreened_placement
from screening.text.received import receive
from storage.audit_log import events
from storage.batches.batches import NewBatch
from storage.batches.configurations import save_configuration
from storage.batches.entries import bring_in
from storage.batches.single_texts import submit
from storage.database import Database
from storage.research.cells import control_cases
from storage.research.listed import Cell
from storage.review.reviews import my_review
from storage.review.worklist import MOST, SecondLooks, acknowledge, request_second_looks, worklist
from storage.schema import cases, inbox_entries, screenings, unblindings
from storage.settings_store import SiteSettings, change
from tests.databases import write
from tests.storage.batch_of import CONFIGURATION, LATER, NOW, batch, decide, run, screening, waiting
from tests.storage.inbox_cases import blind, entry, fill, form, read, register, rows
from tests.storage.people import ADMIN, ANN, BO, MINUTE, RESEARCHER, SENIOR

P0, P1, P2, P3 = Priority


def _left(*runs: NodeRun, reason: Reason = Reason.EXHAUSTED) -> Screening:
    return screening(Outcome.HUMAN_REVIEW, *runs, reason=reason)


TABLES = tomllib.loads((Path(__file__).parent / "triage.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("agents", "reason", "stated", "priority", "why"), TABLES["rules"])
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
    assert [(due_at(priority, NOW) - NOW).total_seconds() / 60 for priority in TARGETS] == [5, 15, 240, 1440]


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
    text: [Priority[name] for name in each["places"]] for each in TABLES["stated"].values() for text in each["texts"]
}


def _decided(db: Database, outcome: Outcome, **options: object) -> None:
    batch(db, DUE, **options)  # type: ignore[arg-type]
    for case_id in waiting(db):
        decide(db, case_id, outcome)


def escalated(db: Database, **options: bool) -> None:
    _decided(db, Outcome.HUMAN_REVIEW, **options)


def unsafe(db: Database, **options: bool) -> None:
    _decided(db, Outcome.UNSAFE, reach=Reach.READ, **options)


def quality_check(db: Database, **options: bool) -> None:
    _decided(db, Outcome.UNSAFE, audit_rate=1.0, **options)


def unscreened(db: Database, **options: bool) -> None:
    batch(db, DUE, reach=Reach.READ, **options)
    bring_in(db, NOW + timedelta(minutes=16))


def sent_to_review(db: Database, **options: bool) -> None:
    _decided(db, Outcome.UNSAFE, **options)
    request_second_looks(db, SENIOR.at(NOW), db.values(select(cases.c.id)))


def reviewed_by_two_who_disagree(db: Database) -> None:
    register(db, ANN, BO, SENIOR)
    escalated(db)
    for number in range(len(DUE)):
        read(db, ANN, form("unsafe", disposition="contact_now"), chr(0x100 + number), ask=True)
        read(db, BO, form("safe"), chr(0x200 + number))
    assert {row.review_round for row in rows(db, inbox_entries)} == {"third"}


def handed_in_one_by_one(db: Database) -> None:
    version = save_configuration(db, CONFIGURATION, NOW)
    for number, text in enumerate(DUE):
        new = NewBatch(name="one", configuration_version=version, seed=1, kind="interactive", submission=str(number))
        submit(db, LOCAL_USER.at(NOW), NewCase(row=1, external_id="text", text=receive(text)), new)
    for case_id in waiting(db):
        decide(db, case_id, Outcome.HUMAN_REVIEW)


SETS = (escalated, unsafe, quality_check, unscreened, sent_to_review)
PLACED = select(cases.c.text, inbox_entries).join(inbox_entries).order_by(inbox_entries.c.due_at, cases.c.row)


@pytest.mark.parametrize(
    "way", [*SETS, reviewed_by_two_who_disagree, handed_in_one_by_one], ids=lambda way: way.__name__
)
def test_every_way_into_the_queue_keeps_to_the_floor_of_the_text(db: Database, way: Callable[[Database], None]) -> None:
    change(db, ADMIN.at(NOW), SiteSettings(audit_urgent_share=0.0), 0)  # the coin alone would say P2 or P3
    way(db)
    found = {row.text: row.priority for row in db.rows(PLACED)}
    assert {text for text in DUE if found.get(text) not in DUE[text]} == set()


@pytest.mark.parametrize("way", SETS, ids=lambda way: way.__name__)
def test_a_set_without_living_authors_stands_in_random_order_whatever_its_texts_say(
    db: Database, way: Callable[..., None]
) -> None:
    change(db, ADMIN.at(NOW), SiteSettings(audit_urgent_share=1.0), 0)
    way(db, research_order=True)
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
    """And whoever saw the engine's view of it does not read it blind."""
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
