"""A worklist holds what its batch called unsafe until somebody has seen it; cases sent to the inbox enter once, in an
audit sample's place, blind for who saw nothing.
"""

import numpy as np
import pytest
from sqlalchemy import select

from screening.labels import Outcome
from screening.review.actors import LOCAL_USER
from screening.review.reach import Reach
from screening.review.triage import Priority, audit_placement
from storage.audit_log import events
from storage.database import Database
from storage.research.cells import control_cases
from storage.research.listed import Cell
from storage.research.recordings import reviews_in
from storage.review.reviews import my_review
from storage.review.worklist import MOST, SecondLooks, acknowledge, request_second_looks, worklist
from storage.schema import inbox_entries, screenings, unblindings
from storage.settings_store import SiteSettings, change
from tests.databases import write
from tests.storage.batch_of import LATER, NOW, batch, decide, waiting
from tests.storage.inbox_cases import blind, entry, fill, form, read, rows
from tests.storage.people import ADMIN, ANN, MINUTE, RESEARCHER, SENIOR


def listed(db: Database, reach: Reach = Reach.LIST, audit_rate: float = 0.0) -> str:
    """A batch of three: two called unsafe, one safe."""
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
    new, other, undecided = fill(db, [Priority.P2] * 3, entered=False, outcome="safe")
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
    change(db, ADMIN.at(NOW), SiteSettings(audit_urgent_share=share), 0)
    ids = fill(db, [Priority.P0] * 6, entered=False, outcome="unsafe")
    request_second_looks(db, SENIOR.at(NOW), ids)
    places = {row.case_id: (Priority(row.priority), row.why) for row in rows(db, inbox_entries)}
    expected = {case_id: audit_placement(case_id, share, []) for case_id in ids}
    assert places == {case_id: (place.priority, place.why.value) for case_id, place in expected.items()}
    assert ({priority for priority, _ in places.values()} == {Priority.P1}) is (share == 1.0)


def test_whoever_saw_the_engines_view_of_a_case_does_not_read_it_blind(db: Database) -> None:
    shown, unseen = fill(db, [Priority.P2] * 2, entered=False)
    for at in (NOW, NOW + MINUTE):
        request_second_looks(db, SENIOR.at(at), [shown, unseen], shown=[shown])
    kept = [(row.case_id, row.reviewer, row.before_review, row.at) for row in rows(db, unblindings)]
    assert kept == [(shown, "sue", True, NOW)]
    assert [blind(db, who, one) for who in (ANN, SENIOR) for one in (shown, unseen)] == [True, True, False, True]


def test_controls_are_from_the_cells_beside_unpicked_and_in_no_queue(db: Database) -> None:
    """Two missed cases are sent. Beside them lie the safe ones rightly called safe and the unsafe ones rightly called
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
    unlabeled = Cell(batch_id=batch_id, outcome="safe")
    assert set(control_cases(db, RESEARCHER, unlabeled, missed[:1], 9, "")) == set(ids[1:4])


def test_controls_keep_their_probability_and_stand_for_no_other_text_in_estimates(db: Database) -> None:
    batch_id = batch(db, [f"a plain text, number {n}" for n in range(3)], references="UUS")
    picked, control, drawn = waiting(db)
    for case_id in (picked, control, drawn):
        decide(db, case_id, Outcome.SAFE)
    by = RESEARCHER.at(NOW)
    request_second_looks(db, by, [picked, control], controls={control: 0.25})
    request_second_looks(db, by, [drawn], chances={drawn: 0.5})
    kept = {row.case_id: (row.sent_as, row.chance) for row in rows(db, inbox_entries)}
    assert kept == {picked: ("picked", None), control: ("control", 0.25), drawn: ("drawn", 0.5)}
    for chosen in (False, True):
        assert reviews_in(db, RESEARCHER, batch_id, np.arange(1, 4)).picked.tolist() == [True, True, chosen]
        request_second_looks(db, by, [drawn])  # picked once is picked
