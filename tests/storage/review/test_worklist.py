"""A worklist holds what its batch called unsafe until somebody has seen it, and never what is yet to be read blind."""

import pytest

from screening.labels import Outcome
from screening.review.actors import LOCAL_USER, Actor
from screening.review.policy import Forbidden
from screening.review.reach import Reach
from storage.database import Database
from storage.review.ratings import my_rating
from storage.review.worklist import acknowledge, request_second_looks, worklist
from tests.storage.batch_of import LATER, NOW, batch, decide, waiting
from tests.storage.inbox_cases import ADMIN, ANN, SENIOR, form, read, take


def listed(db: Database, reach: Reach = Reach.LIST, audit_rate: float = 0.0) -> str:
    """A batch of three: two called unsafe, one safe."""
    batch_id = batch(db, ["one", "two", "three"], reach=reach, audit_rate=audit_rate)
    for case_id, outcome in zip(waiting(db), [Outcome.UNSAFE, Outcome.UNSAFE, Outcome.SAFE], strict=True):
        decide(db, case_id, outcome)
    return batch_id


def test_it_holds_what_was_called_unsafe_until_it_is_acknowledged(db: Database) -> None:
    batch_id = listed(db)
    found, waiting_now = worklist(db, SENIOR, batch_id, limit=1)
    assert (waiting_now, [one.row for one in found]) == (2, [1])
    first = found[0].case_id
    assert [acknowledge(db, SENIOR.at(LATER), [first]) for _ in range(2)] == [1, 0]
    assert [one.row for one in worklist(db, SENIOR, batch_id)[0]] == [2]


@pytest.mark.parametrize("reach", [Reach.READ, Reach.COUNT])
def test_another_batch_has_none(db: Database, reach: Reach) -> None:
    batch_id = listed(db, reach)
    assert worklist(db, LOCAL_USER, batch_id) == ((), 0)


def test_what_is_yet_to_be_read_blind_is_not_on_it_and_cannot_be_acknowledged(db: Database) -> None:
    batch_id = listed(db, audit_rate=1.0)
    assert worklist(db, SENIOR, batch_id) == ((), 0)
    claim = take(db, ANN, LATER)
    assert acknowledge(db, SENIOR.at(LATER), [claim.case_id]) == 0


def test_who_acknowledged_a_case_does_not_read_it_blind(db: Database) -> None:
    batch_id = listed(db)
    case_id = worklist(db, SENIOR, batch_id)[0][0].case_id
    acknowledge(db, SENIOR.at(NOW), [case_id])
    request_second_looks(db, LOCAL_USER.at(LATER), [case_id])
    read(db, SENIOR, form("unsafe"), now=LATER)
    mine = my_rating(db, SENIOR, case_id)
    assert mine is not None and not mine.blind


@pytest.mark.parametrize("who", [ANN, ADMIN], ids=["reviewer", "admin"])
def test_it_is_for_those_who_may_see_outcomes(db: Database, who: Actor) -> None:
    with pytest.raises(Forbidden):
        worklist(db, who, listed(db))
    with pytest.raises(Forbidden):
        acknowledge(db, who.at(LATER), [])
