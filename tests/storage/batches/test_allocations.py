"""A case's coin is tossed at intake and held at settling against the probability that its batch was bound to."""

import json

import pytest
from sqlalchemy import select

from screening.engine.doubt import Doubt
from screening.labels import Label, Outcome
from screening.review.actors import LOCAL_USER
from screening.review.policy import Forbidden
from screening.statistics.verification import Allocation, audit_coin, tally_by_stratum
from storage.batches.allocations import allocate, current_allocation
from storage.database import Database
from storage.research.reliability import audit_sample
from storage.schema import audit_events, batches, inbox_entries, screenings
from tests.storage.batch_of import CONFIGURATION, NOW, batch, commit, commit_run, run, screening, waiting
from tests.storage.inbox_cases import ANN

TEXTS = [f"text {number}" for number in range(60)]
CLOSE = Allocation(probabilities={Doubt.CLOSE.value: 0.6})
CLEAR_RUN, CLOSE_RUN = run("S" * 11), run("S" * 20 + "U" * 6)


def settled(db: Database, audit_rate: float = 0.1) -> str:
    """A batch of sixty texts called safe, every other of them narrowly."""
    batch_id = batch(db, TEXTS, audit_rate=audit_rate)
    for number, case_id in enumerate(waiting(db)):
        made = CLOSE_RUN if number % 2 else CLEAR_RUN
        assert commit_run(db, case_id, 0, made) and commit(db, case_id, screening(Outcome.SAFE, made))
    return batch_id


def facts(db: Database, batch_id: str) -> list[tuple[str, str, float, bool, bool]]:
    """Id, doubt, probability, audited, in the inbox."""
    done = screenings.c
    query = select(done.case_id, done.doubt, done.audit_probability, done.audited, inbox_entries.c.case_id.is_not(None))
    joined = query.outerjoin(inbox_entries, inbox_entries.c.case_id == done.case_id)
    return [tuple(row) for row in db.rows(joined.where(done.batch_id == batch_id))]  # type: ignore[misc]


def test_the_coin_of_intake_is_held_against_the_probability_of_the_doubt(db: Database) -> None:
    allocate(db, LOCAL_USER.at(NOW), CLOSE)
    found = facts(db, settled(db))
    assert {(doubt, probability) for _, doubt, probability, _, _ in found} == {("none", 0.1), ("close", 0.6)}
    for case_id, _, probability, audited, entered in found:
        assert audited == entered == (audit_coin("7", case_id) < probability)
    beyond = [one for one in found if 0.1 <= audit_coin("7", one[0]) < 0.6 and one[1] == "close"]
    assert beyond, "some are read that the plan's probability alone would have left"


def test_a_batch_keeps_the_allocation_that_was_in_force_when_it_began(db: Database) -> None:
    before = batch(db, TEXTS[:5], audit_rate=0.1)
    first = allocate(db, LOCAL_USER.at(NOW), CLOSE)
    between = batch(db, TEXTS[:5], audit_rate=0.1)
    second = allocate(db, LOCAL_USER.at(NOW), Allocation())
    bound = dict(map(tuple, db.rows(select(batches.c.id, batches.c.audit_allocation))))
    assert (bound[before], bound[between]) == (None, first) and second > first
    for case_id in waiting(db):
        commit_run(db, case_id, 0, CLOSE_RUN)
        assert commit(db, case_id, screening(Outcome.SAFE, CLOSE_RUN))
    assert {one[2] for one in facts(db, before)} == {0.1} and {one[2] for one in facts(db, between)} == {0.6}
    now = current_allocation(db)
    assert now is not None and (now.version, now.allocation.probabilities) == (second, {})


def test_only_what_is_called_safe_and_is_under_audit_is_read_more_often(db: Database) -> None:
    allocate(db, LOCAL_USER.at(NOW), CLOSE)
    assert {one[2:] for one in facts(db, settled(db, audit_rate=0.0))} == {(0.0, False, False)}
    called_unsafe = batch(db, ["one"], audit_rate=0.1)
    (case_id,) = waiting(db)
    made = run("U" * 20 + "S" * 6, Label.UNSAFE)
    commit_run(db, case_id, 0, made)
    assert commit(db, case_id, screening(Outcome.UNSAFE, made))
    ((_, doubt, probability, _, _),) = facts(db, called_unsafe)
    assert (doubt, probability) == (None, 0.1)


def test_estimates_use_the_recorded_probability_and_the_guarantee_the_coin_of_the_batch(db: Database) -> None:
    allocate(db, LOCAL_USER.at(NOW), CLOSE)
    found = facts(db, settled(db))
    sample = audit_sample(db, LOCAL_USER, CONFIGURATION.version)
    tallies = {each.probability: (each.cases, each.selected) for each in tally_by_stratum(sample.case_counts)}
    assert tallies == {
        probability: (30, sum(audited for _, _, pi, audited, _ in found if pi == probability))
        for probability in (0.1, 0.6)
    }
    assert {each.case.coin_probability for each in sample.readings} == {0.1}
    assert {each.name: each.cases for each in sample.seen} == {"none": 30, "close": 30}


def test_putting_one_in_force_is_an_administrator_s_and_in_the_audit_log(db: Database) -> None:
    with pytest.raises(Forbidden):
        allocate(db, ANN.at(NOW), CLOSE)
    allocate(db, LOCAL_USER.at(NOW), CLOSE)
    event = db.row(select(audit_events).where(audit_events.c.action == "audit_allocated"))
    assert json.loads(event.details) == {"probabilities": ["close 0.6"]} and event.actor == LOCAL_USER.id
