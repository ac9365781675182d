"""Agreement is of cases drawn at random: what a first reviewer says decides neither which cases count nor how."""

import pytest

from jobs.reviews import Agreed, main_figure, measure_agreement
from screening.review.review_form import ReviewLabel
from screening.review.triage import second_review_coin
from storage.database import Database
from storage.research.review_table import review_table
from storage.review import claims
from storage.review.adjudication import adjudicate
from storage.review.reviews import submit_review
from storage.settings_store import SiteSettings, change, current
from tests.storage.inbox_cases import Priority, fill, form, register
from tests.storage.people import ADMIN, ANN, BO, MINUTE, NOW, SENIOR

KEY, CASES, RATE = "key", 24, 0.5


def _site(db: Database, rate: float) -> None:
    based_on = current(db).version
    settings = SiteSettings(second_review_rate=rate, second_review_rules=())
    change(db, ADMIN.at(NOW + based_on * MINUTE), settings, based_on)


def _labels(db: Database, rate: float) -> dict[str, tuple[str, str]]:
    """What Ann and Bo say of texts labeled safe: below the rate they agree, but once; of all others Ann says unsafe."""
    ids = fill(db, [Priority.P2] * CASES, outcome="safe")
    chosen = [case_id for case_id in ids if second_review_coin(case_id) < rate]
    agreed = {case_id: ("safe", "safe") if n % 2 else ("unsafe", "unsafe") for n, case_id in enumerate(chosen[1:])}
    return {case_id: agreed.get(case_id, ("unsafe", "safe")) for case_id in ids}


def _read_twice(db: Database, said: dict[str, tuple[str, str]], *, decide: bool = True) -> None:
    for column, who in enumerate((ANN, BO)):
        while (claim := claims.claim_next(db, who.at(NOW))) is not None:
            filled, letter = form(said[claim.case_id][column], 5, ideation=1), "ab"[column]
            submit_review(db, who.at(NOW), claim.case_id, claim.token, filled, letter + claim.case_id[1:])
    while decide and (claim := claims.claim_next(db, SENIOR.at(NOW))) is not None:  # a blind third review
        submit_review(db, SENIOR.at(NOW), claim.case_id, claim.token, form("safe", 5), "c" + claim.case_id[1:])
        adjudicate(db, SENIOR.at(NOW), claim.case_id, ReviewLabel.SAFE, "quoted")


def _measured(db: Database) -> Agreed:
    return measure_agreement(db, SENIOR, KEY, None)


def test_cases_read_twice_for_what_was_said_of_them_are_in_no_coefficient(db: Database) -> None:
    register(db, ANN, BO, SENIOR)
    _site(db, RATE)
    said = _labels(db, RATE)
    _read_twice(db, said, decide=False)
    chosen = [case_id for case_id in said if second_review_coin(case_id) < RATE]
    assert _measured(db).disputed == 1, "of the others all are disputed"
    _read_twice(db, said)
    found, n = _measured(db), len(chosen)
    assert (found.cases, found.at_random, found.otherwise, found.disputed) == (CASES, n, CASES - n, 0)
    alpha, unsafe = found.coefficients[0], found.coefficients[3]
    both = n // 2  # unsafe by both reviewers; one more by the first alone: third reviews count nowhere
    ones = 2 * both + 1
    assert alpha.cases == n
    assert alpha.value == pytest.approx(1 - (2 * n - 1) * 2 / (2 * ones * (2 * n - ones)))
    assert unsafe.value == pytest.approx(2 * both / (2 * both + 1))
    assert main_figure(db, SENIOR, KEY) == (alpha, found.disputed)
    for later in (0.0, 1.0):  # the rate that counts is the one in force when a case was read
        _site(db, later)
        assert _measured(db) == found
    table = review_table(db, SENIOR, KEY)
    assert {case.case_id: case.at_random for case in table} == {each: each in chosen for each in said}
