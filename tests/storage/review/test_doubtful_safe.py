"""A safe that contradicts the tier, the agents or the text itself is never one person's word alone."""

import pytest
from sqlalchemy import select, update

from screening.review.triage import Tier
from storage.database import Database
from storage.identifiers import new_id
from storage.review.adjudication import Next
from storage.review.claims import claim_next
from storage.review.follow_ups import For, open_ones
from storage.review.inbox import decline
from storage.review.ratings import revise, submit_rating, take_back
from storage.schema import cases, ratings, second_reading_requests
from tests.storage.inbox_cases import ANN, BO, NOW, fill, form, register


def read(db: Database, label: str = "safe") -> Next | None:
    """Ann reads the next case; what follows from it."""
    claim = claim_next(db, ANN.at(NOW))
    assert claim is not None
    return submit_rating(db, ANN.at(NOW), claim.case_id, claim.token, form(label, 5), new_id(NOW)).next


def prepare(db: Database, why: str) -> str:
    """One case with this ground for doubt."""
    [case_id] = fill(db, [Tier.P0 if why == "p0" else Tier.P2], outcome="unsafe" if why == "called" else "human_review")
    if why == "stated":
        with db.write() as conn:
            flags = {"text": ["stated_risk"], "reply": []}
            conn.execute(update(cases).where(cases.c.id == case_id).values(flags=flags))
    return case_id


GROUNDS = pytest.mark.parametrize("why", ["p0", "called", "stated"])


@GROUNDS
def test_such_a_safe_is_read_again_and_nothing_marks_it(db: Database, why: str) -> None:
    register(db, ANN, BO)
    case_id = prepare(db, why)
    assert read(db) is Next.SECOND_READING
    claim = claim_next(db, BO.at(NOW))
    assert claim is not None and (claim.case_id, claim.why) == (case_id, "unsettled")


@GROUNDS
def test_with_one_reader_it_stays_open_as_a_follow_up(db: Database, why: str) -> None:
    register(db, ANN)
    case_id = prepare(db, why)
    assert read(db) is Next.CLOSED
    assert [(one.case_id, one.disposition) for one in open_ones(db, ANN.at(NOW)).shown] == [
        (case_id, For.SECOND_READING)
    ]


def test_it_stays_open_as_a_follow_up_where_the_only_other_reader_gave_it_back_as_not_theirs(db: Database) -> None:
    """It never comes to them again: as a case that waits for a second reader it would wait for ever."""
    register(db, ANN, BO)
    case_id = prepare(db, "p0")
    declined = claim_next(db, BO.at(NOW))
    assert declined is not None
    decline(db, BO.at(NOW), case_id, declined.token)
    assert read(db) is Next.CLOSED
    assert [one.disposition for one in open_ones(db, ANN.at(NOW)).shown] == [For.SECOND_READING]


def test_what_stays_open_for_a_second_reading_goes_with_the_reading_that_is_taken_back(db: Database) -> None:
    register(db, ANN)
    case_id = prepare(db, "p0")
    read(db)
    [given] = db.values(select(ratings.c.id))
    take_back(db, ANN.at(NOW), case_id, given)
    assert not open_ones(db, ANN.at(NOW)).shown, "it was not read as safe by one person"


@GROUNDS
def test_unsafe_on_the_same_case_closes_it(db: Database, why: str) -> None:
    register(db, ANN, BO)
    prepare(db, why)
    assert read(db, "unsafe") is Next.CLOSED
    assert not open_ones(db, ANN.at(NOW)).shown


def test_an_ordinary_safe_closes_at_once(db: Database) -> None:
    register(db, ANN, BO)
    prepare(db, "none")
    assert read(db) is Next.CLOSED
    assert db.rows(second_reading_requests.select()) == []


def test_a_reading_softened_to_safe_is_one_too(db: Database) -> None:
    register(db, ANN)
    case_id = prepare(db, "p0")
    assert read(db, "insufficient_information") is Next.CLOSED
    revise(db, ANN.at(NOW), case_id, form("safe", 5), "read again", new_id(NOW))
    assert [one.disposition for one in open_ones(db, ANN.at(NOW)).shown] == [For.SECOND_READING]
