"""What is called unsafe reaches a person where its batch says so, in the transaction that settles it."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from screening.labels import Outcome
from screening.review.actors import LOCAL_USER, Actor
from screening.review.reach import Reach
from screening.review.triage import Priority
from storage.batches.batches import find_batch
from storage.batches.entries import bring_in
from storage.clock import new_id
from storage.database import Database
from storage.research.review_table import reviews_by_priority
from storage.review.reviews import my_review, submit_review
from storage.schema import inbox_entries, reviews
from tests.storage.batch_of import LATER, NOW, batch, decide, waiting
from tests.storage.inbox_cases import ANN, SENIOR, form, take


def settled(db: Database, reach: Reach, outcome: Outcome = Outcome.UNSAFE, kind: str = "batch") -> str:
    """A batch of one case with this outcome; its id."""
    batch_id = batch(db, ["one text"], reach=reach, kind=kind)
    decide(db, waiting(db)[0], outcome)
    return batch_id


@pytest.mark.parametrize(
    ("reach", "outcome", "entered"),
    [
        (Reach.READ, Outcome.UNSAFE, True),
        (Reach.LIST, Outcome.UNSAFE, False),
        (Reach.COUNT, Outcome.UNSAFE, False),
        (Reach.READ, Outcome.SAFE, False),
        (Reach.COUNT, Outcome.HUMAN_REVIEW, True),
    ],
)
def test_the_batch_says_whether_unsafe_is_read(db: Database, reach: Reach, outcome: Outcome, entered: bool) -> None:
    batch_id = settled(db, reach, outcome)
    assert len(db.rows(select(inbox_entries))) == entered
    assert find_batch(db, LOCAL_USER, batch_id).reach is reach


@pytest.mark.parametrize("reach", Reach)
def test_a_stated_imminent_risk_is_reviewed_whatever_the_batch_does(db: Database, reach: Reach) -> None:
    batch(db, ["I am going to kill myself tonight", "I am going to kill myself tonight", "a plain day"], reach=reach)
    assert db.values(select(inbox_entries.c.priority)) == [Priority.P0, Priority.P0], "before an agent is asked"
    labeled, *_ = waiting(db)
    decide(db, labeled, Outcome.UNSAFE)
    assert db.values(select(inbox_entries.c.priority)) == [Priority.P0, Priority.P0]
    claim = take(db, ANN, LATER)
    submit_review(db, ANN.at(LATER), claim.case_id, claim.token, form("unsafe"), new_id(LATER))
    mine = my_review(db, ANN, claim.case_id)
    assert mine is not None and mine.blind
    entered = bring_in(db, NOW + timedelta(hours=2))  # no worker
    assert entered == (1 if reach is Reach.READ else 0)


@pytest.mark.parametrize("reviewer", [ANN, SENIOR], ids=["reviewer", "senior"])
def test_it_is_read_blind_and_the_priority_shown_is_kept(db: Database, reviewer: Actor) -> None:
    settled(db, Reach.READ)
    claim = take(db, reviewer, LATER)
    assert claim.priority is Priority.P1
    submit_review(db, reviewer.at(LATER), claim.case_id, claim.token, form("unsafe"), new_id(LATER))
    mine = my_review(db, reviewer, claim.case_id)
    assert mine is not None and mine.blind
    assert db.value(select(reviews.c.priority)) == Priority.P1
    assert reviews_by_priority(db, LOCAL_USER) == {Priority.P1: {"unsafe": 1}}
