"""To whom the engine's view of a case may be given, and what of it makes a reading no longer blind."""

from datetime import timedelta

import pytest
from sqlalchemy import select, update

from screening.review.actors import Actor, Role
from screening.review.policy import Forbidden
from screening.review.triage import Tier
from storage.database import Database
from storage.review.ratings import my_rating, revise, submit_rating
from storage.schema import inbox_entries, unblindings
from storage.visibility import NotYetRated, Unread, is_blind, reveal, see_readings
from tests.databases import write
from tests.storage.inbox_cases import ANN, BO, MINUTE, NOW, RESEARCHER, SENIOR, fill, form, person, read, register, take

BOTH = person("eve", Role.REVIEWER, Role.RESEARCHER)
LATER = NOW + MINUTE


@pytest.fixture(autouse=True)
def people(db: Database) -> None:
    """All of them have accounts."""
    register(db, ANN, BO, SENIOR, BOTH)


def served(db: Database, who: Actor, case_id: str, *, at: timedelta = timedelta(), open_at_once: bool = False) -> None:
    with db.write() as conn:
        reveal(conn, who.at(NOW + at), case_id, open_at_once=open_at_once)


def blind(db: Database, who: Actor, case_id: str, *, first: bool = True) -> bool:
    with db.read() as conn:
        return is_blind(conn, who, case_id, first=first)


def kept(db: Database) -> list[tuple[str, bool]]:
    return [(row.reviewer, row.before_rating) for row in db.rows(select(unblindings).order_by(unblindings.c.reviewer))]


@pytest.mark.parametrize("tier", list(Tier))
def test_only_an_urgent_case_in_ones_own_hands_is_opened_at_once(db: Database, tier: Tier) -> None:
    (case_id,) = fill(db, [tier])
    claim = take(db, SENIOR)
    with db.write() as conn, pytest.raises(NotYetRated):
        reveal(conn, SENIOR.at(NOW), case_id)
    with pytest.raises(NotYetRated):
        served(db, BOTH, case_id, open_at_once=True)
    over = claim.expires_at - NOW
    with pytest.raises(NotYetRated):
        served(db, SENIOR, case_id, at=over, open_at_once=True)
    if tier is Tier.P0:
        served(db, SENIOR, case_id, at=over - timedelta(microseconds=1), open_at_once=True)
        assert kept(db) == [("sue", True)] and not blind(db, SENIOR, case_id)
    else:
        with pytest.raises(NotYetRated):
            served(db, SENIOR, case_id, open_at_once=True)
        assert kept(db) == [] and blind(db, SENIOR, case_id)


def test_a_reviewer_is_given_the_view_of_what_they_read_and_of_nothing_else(db: Database) -> None:
    first, second = fill(db, [Tier.P2] * 2)
    read(db, ANN, form("unsafe", 5), "a")
    served(db, ANN, first)
    assert kept(db) == [("ann", False)], "after their rating: it was blind"
    for case_id in (first, second):
        with pytest.raises(Forbidden):
            served(db, BO, case_id)
    with pytest.raises(Forbidden):
        served(db, ANN, second)
    with pytest.raises(NotYetRated):
        served(db, BOTH, second)
    served(db, BOTH, first)
    assert kept(db) == [("ann", False), ("eve", True)]


def test_what_was_seen_before_a_rating_stays_seen_before_it(db: Database) -> None:
    (case_id,) = fill(db, [Tier.P0])
    claim = take(db, ANN)
    served(db, ANN, case_id, open_at_once=True)
    submit_rating(db, ANN.at(NOW), case_id, claim.token, form(), "a" * 32)
    served(db, ANN, case_id)
    assert kept(db) == [("ann", True)]
    mine = my_rating(db, ANN, case_id)
    assert mine is not None and not mine.blind


def test_a_revision_is_blind_while_nothing_at_all_was_served(db: Database) -> None:
    one, other = fill(db, [Tier.P2] * 2)
    read(db, ANN, form("unsafe", 5), "a")
    read(db, ANN, form("unsafe", 5), "b")
    served(db, ANN, other)
    assert blind(db, ANN, one, first=False) and not blind(db, ANN, other, first=False)
    assert blind(db, ANN, other, first=True), "what is served after a rating does not unblind that one"
    assert blind(db, BO, other, first=False), "it was served to Ann"
    for case_id, expected in ((one, True), (other, False)):
        revise(db, ANN.at(LATER), case_id, form("unsafe", 5), "surer", ("c" if expected else "d") * 32)
        mine = my_rating(db, ANN, case_id)
        assert mine is not None and mine.blind is expected


@pytest.mark.parametrize(
    ("kind", "created_by", "expected"),
    [("interactive", "ann", False), ("interactive", "bo", True), ("batch", "ann", True)],
)
def test_only_who_had_a_text_screened_by_itself_watched_the_engine(
    db: Database, kind: str, created_by: str, expected: bool
) -> None:
    (case_id,) = fill(db, kind=kind, created_by=created_by)
    fill(db, kind="interactive", created_by="ann")
    assert blind(db, ANN, case_id) is expected
    assert blind(db, ANN, case_id, first=False) is expected


def test_readings_of_an_open_case_are_for_those_who_read_it_and_for_a_senior_once_two_disagree(db: Database) -> None:
    (case_id,) = fill(db)
    read(db, ANN, form("unsafe", 5), "a", ask=True)
    for who, refusal in ((SENIOR, Unread), (RESEARCHER, Unread), (BO, Forbidden)):
        with db.write() as conn, pytest.raises(refusal):
            see_readings(conn, who.at(NOW), case_id)
    with db.write() as conn:
        see_readings(conn, ANN.at(NOW), case_id)
    assert kept(db) == [], "one's own reading is in: nothing is given away"
    read(db, BO, form("safe", 5), "b")
    with db.write() as conn, pytest.raises(Unread):
        see_readings(conn, RESEARCHER.at(NOW), case_id)
    with db.write() as conn:
        see_readings(conn, SENIOR.at(NOW), case_id)
    assert kept(db) == [("sue", True)] and not blind(db, SENIOR, case_id)


def test_readings_of_a_closed_case_unblind_whoever_looked_should_it_be_opened_again(db: Database) -> None:
    (case_id,) = fill(db)
    read(db, ANN, form("unsafe", 5), "a")
    with db.write() as conn:
        see_readings(conn, BOTH.at(NOW), case_id)
    assert kept(db) == [("eve", True)] and not blind(db, BOTH, case_id)


def test_the_view_of_a_case_that_is_in_no_inbox_is_for_those_who_may_see_results(db: Database) -> None:
    (case_id,) = fill(db, entered=False, outcome="safe")
    served(db, RESEARCHER, case_id)
    with db.write() as conn:
        see_readings(conn, RESEARCHER.at(NOW), case_id)
    with pytest.raises(Forbidden):
        served(db, ANN, case_id)
    write(db, update(inbox_entries).values(closed_at=NOW))
    assert kept(db) == [("rae", True)]
