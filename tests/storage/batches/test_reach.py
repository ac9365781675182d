"""What is called unsafe reaches a person where its batch says so, in the transaction that settles it."""

from datetime import timedelta

import pytest
from sqlalchemy import select

from screening.labels import Outcome
from screening.review.actors import LOCAL_USER, Actor
from screening.review.reach import Reach
from screening.review.triage import Tier
from storage.batches.batches import find_batch, progress
from storage.batches.counts import IN_REVIEW
from storage.batches.results import results
from storage.batches.unscreened import bring_in
from storage.database import Database
from storage.identifiers import new_id
from storage.research.reading_table import readings_by_tier
from storage.review.ratings import my_rating, submit_rating
from storage.schema import inbox_entries, ratings
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
    labeled, *_ = waiting(db)
    decide(db, labeled, Outcome.UNSAFE)
    assert db.rows(select(inbox_entries.c.tier)) == [(Tier.P0,)]
    claim = take(db, ANN, LATER)
    submit_rating(db, ANN.at(LATER), claim.case_id, claim.token, form("unsafe"), new_id(LATER))
    mine = my_rating(db, ANN, claim.case_id)
    assert mine is not None and mine.blind
    entered = bring_in(db, NOW + timedelta(hours=2))  # no worker
    assert entered == (2 if reach is Reach.READ else 1)


def test_what_is_to_be_reviewed_is_hidden_from_lists_at_once_and_counted_as_it_ended(db: Database) -> None:
    batch_id = settled(db, Reach.READ)
    [row] = results(db, SENIOR.at(NOW), batch_id)
    assert (row.outcome, row.hidden, row.calls) == (IN_REVIEW, True, None)
    counted = progress(db, batch_id)
    assert (counted.unsafe, counted.human_review) == (1, 0)


@pytest.mark.parametrize("reader", [ANN, SENIOR], ids=["reviewer", "senior"])
def test_it_is_read_blind_and_the_tier_shown_is_kept(db: Database, reader: Actor) -> None:
    settled(db, Reach.READ)
    claim = take(db, reader, LATER)
    assert claim.tier is Tier.P1
    submit_rating(db, reader.at(LATER), claim.case_id, claim.token, form("unsafe"), new_id(LATER))
    mine = my_rating(db, reader, claim.case_id)
    assert mine is not None and mine.blind
    assert db.value(select(ratings.c.tier)) == Tier.P1
    [by_tier] = readings_by_tier(db, LOCAL_USER)
    assert (by_tier.tier, by_tier.labels, by_tier.total) == (Tier.P1, {"unsafe": 1}, 1)
