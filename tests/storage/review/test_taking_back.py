"""A reading taken back at once: the case is open and in its reader's hands, nothing of it counts, nothing is lost."""

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest
from sqlalchemy import select

from screening.review.policy import Forbidden
from screening.review.rating_form import RatingLabel
from screening.review.triage import Tier
from storage.database import Database
from storage.identifiers import new_id
from storage.review import claims, ratings
from storage.review.adjudication import adjudicate, amend
from storage.review.drafts import load_draft
from storage.review.erasure import erase_rows
from storage.review.evidence import reveal_evidence
from storage.review.ratings import TooLate, my_readings, take_back
from storage.review.standing import Place, Standing, standing
from storage.schema import (
    adjudications,
    audit_events,
    drafts,
    inbox_entries,
    readings_taken_back,
    second_reading_requests,
)
from storage.schema import ratings as ratings_table
from storage.site.accounts import colleagues
from tests.storage.inbox_cases import ANN, BO, MINUTE, NOW, SENIOR, fill, form, read, register, take

SECOND = timedelta(seconds=1)


def _read(db: Database, case_id: str, label: str = "unsafe", at: datetime = NOW, certainty: int = 4) -> str:
    taken = take(db, ANN, at)
    assert taken.case_id == case_id
    given = new_id(at)
    ratings.submit_rating(db, ANN.at(at), case_id, taken.token, form(label, certainty), given)
    return given


def _all(db: Database, table: object) -> list[object]:
    return list(db.rows(select(table)))  # type: ignore[call-overload]


def test_the_case_is_open_in_the_same_hands_and_the_next_reading_is_the_first_and_blind(db: Database) -> None:
    register(db, ANN, BO)
    [case_id] = fill(db)
    given = _read(db, case_id)
    assert standing(db, ANN.at(NOW), case_id, None) == Standing(
        place=Place.READ, closed=True, at=NOW, label=RatingLabel.UNSAFE
    )
    claim = take_back(db, ANN.at(NOW + 20 * SECOND), case_id, given)
    assert standing(db, ANN.at(NOW + 21 * SECOND), case_id, claim.token) == Standing(place=Place.HELD)
    assert _all(db, adjudications) == [] == _all(db, ratings_table)
    assert [row.rating_id for row in _all(db, readings_taken_back)] == [given]
    assert load_draft(db, ANN, case_id)["label"] == "unsafe"
    again = new_id(NOW)
    ratings.submit_rating(db, ANN.at(NOW + 30 * SECOND), case_id, claim.token, form("safe", 5), again)
    mine = ratings.my_rating(db, ANN, case_id)
    assert mine is not None and (mine.id, mine.version, mine.blind, mine.form.label) == (again, 1, True, "safe")
    assert [row.label for row in _all(db, adjudications)] == ["safe"]
    assert "reading_taken_back" in [row.action for row in _all(db, audit_events)]


def test_a_press_that_arrives_twice_takes_back_once(db: Database) -> None:
    [case_id] = fill(db)
    given = _read(db, case_id)
    take_back(db, ANN.at(NOW + SECOND), case_id, given)
    assert take_back(db, ANN.at(NOW + 2 * SECOND), case_id, given).case_id == case_id
    assert len(_all(db, readings_taken_back)) == 1


def test_a_second_reading_by_rule_is_not_asked_for_any_more(db: Database) -> None:
    register(db, ANN, BO)
    [case_id] = fill(db)
    given = _read(db, case_id, "insufficient_information")
    assert len(_all(db, second_reading_requests)) == 1 and len(colleagues(db, ANN)) == 1
    take_back(db, ANN.at(NOW + SECOND), case_id, given)
    assert _all(db, second_reading_requests) == []


def _senior_decides(db: Database, case_id: str, at: datetime) -> None:
    adjudicate(db, SENIOR.at(at), case_id, RatingLabel.UNSAFE, "a plan in the last line")


def _erase(db: Database, case_id: str, at: datetime) -> None:
    with db.write() as conn:
        erase_rows(conn, [case_id], None, at)


@pytest.mark.parametrize(
    ("label", "certainty", "happens", "words"),
    [
        ("unsafe", 4, lambda db, case_id, at: reveal_evidence(db, ANN.at(at), case_id), "you have seen the AI"),
        ("insufficient_information", 4, lambda db, case_id, at: claims.claim_next(db, BO.at(at)), "has begun"),
        ("safe", 1, lambda db, case_id, at: read(db, BO, form("unsafe", 5), "b", at), "another reviewer"),
        (
            "safe",
            5,
            lambda db, case_id, at: amend(db, SENIOR.at(at), case_id, RatingLabel.UNSAFE, "a plan in it", 1),
            "decided since",
        ),
        ("insufficient_information", 5, _senior_decides, "decided since"),
        (
            "unsafe",
            4,
            lambda db, case_id, at: ratings.revise(db, ANN.at(at), case_id, form("safe", 5), "thought again", "c" * 32),
            "you have changed your review since",
        ),
        ("unsafe", 4, _erase, "was deleted"),
        ("unsafe", 4, lambda db, case_id, at: None, None),
    ],
    ids=["seen", "taken", "read", "amended", "decided", "changed", "erased", "nothing, but the time is over"],
)
def test_it_is_too_late_and_all_stays_as_it_is_once_something_rests_on_it(
    db: Database, label: str, certainty: int, happens: Callable[[Database, str, datetime], object], words: str | None
) -> None:
    register(db, ANN, BO, SENIOR)
    [case_id] = fill(db)
    given = _read(db, case_id, label, certainty=certainty)
    happens(db, case_id, NOW + SECOND)
    tables = (adjudications, ratings_table, inbox_entries, readings_taken_back, drafts)
    before = [_all(db, table) for table in tables]
    with pytest.raises(TooLate, match=words):
        take_back(db, ANN.at(NOW + (2 * SECOND if words else MINUTE)), case_id, given)
    assert [_all(db, table) for table in tables] == before


def test_an_agreement_goes_with_the_reading_that_made_it_and_the_first_reading_stays(db: Database) -> None:
    register(db, ANN, BO)
    [case_id] = fill(db)
    read(db, BO, form(), "b", ask=True)
    given = _read(db, case_id, at=NOW + SECOND)
    assert [row.method for row in _all(db, adjudications)] == ["agreement"]
    take_back(db, ANN.at(NOW + 2 * SECOND), case_id, given)
    assert (_all(db, adjudications), [row.id for row in _all(db, ratings_table)]) == ([], ["b" * 32])


def test_a_reading_is_moved_only_where_its_reader_gets_the_case(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    [case_id] = fill(db)
    given = _read(db, case_id)

    def refuse(*_args: object) -> None:
        raise claims.NotAvailable("this case is assigned to somebody else")

    monkeypatch.setattr(ratings, "claim_in", refuse)
    with pytest.raises(claims.NotAvailable):
        take_back(db, ANN.at(NOW + SECOND), case_id, given)
    assert [row.id for row in _all(db, ratings_table)] == [given] and len(_all(db, adjudications)) == 1
    assert _all(db, readings_taken_back) == []


def test_nobody_takes_back_what_somebody_else_read(db: Database) -> None:
    [case_id] = fill(db)
    given = _read(db, case_id)
    with pytest.raises(Forbidden):
        take_back(db, BO.at(NOW + SECOND), case_id, given)


def test_my_readings_say_what_became_of_them(db: Database) -> None:
    register(db, ANN, BO)
    plain, waiting = fill(db, [Tier.P2, Tier.P3])
    _read(db, plain)
    _read(db, waiting, "insufficient_information", NOW + MINUTE)
    newest, oldest = my_readings(db, ANN)
    assert (newest.case_id, newest.waits_for, newest.accepted, newest.otherwise) == (waiting, "second", None, False)
    assert (oldest.case_id, oldest.accepted, oldest.otherwise) == (plain, RatingLabel.UNSAFE, False)
    ratings.revise(db, ANN.at(NOW + 2 * MINUTE), plain, form("safe", 5), "second thoughts", new_id(NOW))
    revised, before = my_readings(db, ANN)
    assert (revised.case_id, revised.label, before.case_id) == (plain, RatingLabel.SAFE, waiting)
    assert my_readings(db, BO) == () and my_readings(db, ANN, before=NOW + MINUTE) == ()
    assert my_readings(db, ANN, before=revised.at) == (before,)
    with db.write() as conn:
        erase_rows(conn, [waiting], None, NOW)
    erased = my_readings(db, ANN)[1]
    assert (erased.case_id, erased.waits_for, erased.accepted) == (waiting, None, None)
