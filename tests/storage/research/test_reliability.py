"""Only blind first reviews of cases that the coin or the engine sent to a person count."""

from typing import Any

import pytest
from sqlalchemy import insert

from screening.evaluation.audit import guarantee_of, tally_by_stratum
from screening.evaluation.estimates import estimate
from screening.labels import Label, Outcome
from screening.pipeline.engine import Reason
from screening.review.actors import LOCAL_USER
from screening.review.reach import Reach
from screening.review.review_form import ReviewLabel
from storage.clock import new_id
from storage.database import Database
from storage.research.reliability import (
    AuditSample,
    audit_sample,
    audited_reviews,
    measured_configurations,
    outcome_mix,
    settled_cases,
)
from storage.review.adjudication import Method, adjudicate
from storage.review.claims import claim_next
from storage.review.erasure import By, Selection, erase
from storage.review.reviews import submit_review
from storage.review.worklist import request_second_looks
from storage.schema import unblindings
from tests.databases import write
from tests.storage.batch_of import CONFIGURATION, LATER, batch, commit, commit_run, run, screening, waiting
from tests.storage.inbox_cases import ANN, BO, SENIOR, form, read, register

VERSION = CONFIGURATION.version


def settled(
    db: Database, cases: int, audit_rate: float, outcome: Outcome = Outcome.SAFE, reach: Reach = Reach.COUNT
) -> list[str]:
    """Cases of one batch, all with this outcome."""
    batch(db, [f"text {number}" for number in range(cases)], audit_rate=audit_rate, reach=reach)
    case_ids = waiting(db)
    label = None if outcome is Outcome.HUMAN_REVIEW else Label(outcome.value)
    for case_id in case_ids:
        made = run({Outcome.SAFE: "S" * 11, Outcome.UNSAFE: "U" * 6}.get(outcome, "SU" * 40), label)
        commit_run(db, case_id, 0, made)
        reason = Reason.IDENTIFIED if label else Reason.EXHAUSTED
        assert commit(db, case_id, screening(outcome, made, reason=reason))
    return case_ids


def read_all(db: Database, label: str) -> int:
    """Rate everything in the inbox; how many."""
    read = 0
    while (claim := claim_next(db, LOCAL_USER.at(LATER))) is not None:
        submit_review(db, LOCAL_USER.at(LATER), claim.case_id, claim.token, form(label), new_id(LATER))
        read += 1
    return read


def _due(found: AuditSample) -> int:
    return sum(count for case, count in found.case_counts if case.selected)


def test_audited_cases_are_read_and_the_others_stand_behind_them(db: Database) -> None:
    settled(db, 40, audit_rate=0.3)
    before = audit_sample(db, LOCAL_USER, VERSION)
    (tally,) = tally_by_stratum(before.case_counts)
    due = tally.selected
    assert 0 < due < 40 and (tally.cases, tally.waiting) == (40, due)
    assert read_all(db, "unsafe") == due  # what the inbox holds is what the coins selected
    after = audit_sample(db, LOCAL_USER, VERSION)
    missed = estimate(tally_by_stratum(after.case_counts)).missed
    assert (missed.cases, missed.read, missed.missed) == (40, due, due)
    assert missed.per_thousand == pytest.approx(1000)
    assert all(review.read_at == LATER for review in after.reviews if review.case.read)


def test_where_all_that_is_called_unsafe_is_read_each_review_stands_for_itself_alone(db: Database) -> None:
    settled(db, 20, audit_rate=0.05, outcome=Outcome.UNSAFE, reach=Reach.READ)
    assert read_all(db, "safe") == 20
    found = audit_sample(db, LOCAL_USER, VERSION)
    assert [(one.probability, one.cases, one.read) for one in tally_by_stratum(found.case_counts)] == [(1.0, 20, 20)]
    assert (found.reaches, found.not_blind) == ({Reach.READ}, 0)


def test_where_what_is_called_unsafe_is_only_counted_the_audit_alone_reads_it(db: Database) -> None:
    settled(db, 40, audit_rate=0.3, outcome=Outcome.UNSAFE)
    found = audit_sample(db, LOCAL_USER, VERSION)
    due = _due(found)
    assert 0 < due < 40 and read_all(db, "safe") == due
    assert {case.probability for case, _ in found.case_counts} == {0.3} and found.reaches == {Reach.COUNT}


def test_a_second_look_that_somebody_picked_counts_nowhere(db: Database) -> None:
    case_ids = settled(db, 20, audit_rate=0.05)
    due = _due(audit_sample(db, LOCAL_USER, VERSION))
    opened = request_second_looks(db, LOCAL_USER.at(LATER), case_ids).opened
    assert opened == 20 - due
    assert read_all(db, "unsafe") == 20
    found = audit_sample(db, LOCAL_USER, VERSION)
    assert sum(count for case, count in found.case_counts if case.read) == due
    assert estimate(tally_by_stratum(found.case_counts)).missed.read == due
    assert found.not_blind == 0  # nor among the reviews that are missing from the audit


def test_insufficient_information_is_inconclusive_not_a_miss(db: Database) -> None:
    settled(db, 3, audit_rate=1.0)
    read_all(db, "insufficient_information")
    found = estimate(tally_by_stratum(audit_sample(db, LOCAL_USER, VERSION).case_counts))
    assert (found.missed.inconclusive, found.missed.read, found.missed.per_thousand) == (3, 0, None)


def test_cases_without_an_audit_are_counted_apart(db: Database) -> None:
    settled(db, 2, audit_rate=0.0)
    found = audit_sample(db, LOCAL_USER, VERSION)
    assert (found.reviews, found.without_audit) == ((), 2)


def test_what_the_engine_left_to_a_person_is_always_due(db: Database) -> None:
    settled(db, 3, audit_rate=0.01, outcome=Outcome.HUMAN_REVIEW)
    assert _due(audit_sample(db, LOCAL_USER, VERSION)) == 3


def test_the_mix_of_ends_has_a_reference_that_never_moves(db: Database) -> None:
    settled(db, 3, audit_rate=0.1)
    early = outcome_mix(db, LOCAL_USER, VERSION, reference=4)
    assert (early.reference, early.looks, early.until) == ({"safe": 3}, (), None)
    settled(db, 2, audit_rate=0.1, outcome=Outcome.HUMAN_REVIEW)
    found = outcome_mix(db, LOCAL_USER, VERSION, reference=3)
    assert found.reference | {"safe": 3} == found.reference and found.until is not None
    counted = sum(found.reference.values()) + sum(sum(look.values()) for look in found.looks[-1:])
    assert counted == 5


def test_the_cases_behind_a_count_are_as_many_as_it_says(db: Database) -> None:
    settled(db, 3, audit_rate=0.1)
    settled(db, 2, audit_rate=0.0, outcome=Outcome.HUMAN_REVIEW)

    def found(most: int = 10, **wanted: Any) -> int:
        return len(settled_cases(db, LOCAL_USER, VERSION, most, reference=3, **wanted))

    mix = outcome_mix(db, LOCAL_USER, VERSION, reference=3)
    assert found() == 5 and found(most=4) == 4
    assert (found(sampled=True), found(sampled=False)) == (3, 2)
    assert found(outcome=Outcome.HUMAN_REVIEW) == 2
    for end in ("safe", "unsafe", "escalate", "abstained"):
        assert found(first_end=end, in_reference=True) == mix.reference.get(end, 0)
        assert found(first_end=end, in_reference=False) == (mix.looks[-1].get(end, 0) if mix.looks else 0)


def test_a_review_that_is_not_blind_is_found_apart(db: Database) -> None:
    (case_id,) = settled(db, 1, audit_rate=1.0)
    write(db, insert(unblindings).values(case_id=case_id, reviewer=LOCAL_USER.id, before_review=True, at=LATER))
    read(db, LOCAL_USER, form("safe"), now=LATER)
    (found,) = audited_reviews(db, LOCAL_USER, VERSION)
    assert found[0] == case_id and found[1].unreadable and not found[1].read
    assert audit_sample(db, LOCAL_USER, VERSION).not_blind == 1
    (stratum,) = tally_by_stratum(audit_sample(db, LOCAL_USER, VERSION).case_counts)
    assert (stratum.lost, stratum.waiting) == (1, 0)


@pytest.mark.parametrize("outcome", [Outcome.SAFE, Outcome.UNSAFE])
def test_a_text_that_is_erased_before_it_was_read_is_lost_and_no_longer_due(db: Database, outcome: Outcome) -> None:
    first, _ = settled(db, 2, audit_rate=1.0, outcome=outcome)
    erase(db, LOCAL_USER.at(LATER), Selection(by=By.CASE, value=first), "asked for")
    read(db, LOCAL_USER, form("unsafe"), now=LATER)
    assert claim_next(db, LOCAL_USER.at(LATER)) is None
    found = audit_sample(db, LOCAL_USER, VERSION)
    (stratum,) = tally_by_stratum(found.case_counts)
    assert (stratum.selected, stratum.read, stratum.lost, stratum.waiting) == (2, 1, 1, 0)
    guarantee = guarantee_of((case for case, _ in found.case_counts), floor=1.0)
    assert (guarantee.waiting, guarantee.lost_safe) == (0, int(outcome is Outcome.SAFE))


def test_a_flagged_text_that_no_coin_chose_is_lost_where_it_is_erased_unread(db: Database) -> None:
    first, _ = settled(db, 2, audit_rate=0.001, outcome=Outcome.HUMAN_REVIEW)
    erase(db, LOCAL_USER.at(LATER), Selection(by=By.CASE, value=first), "asked for")
    (stratum,) = tally_by_stratum(audit_sample(db, LOCAL_USER, VERSION).case_counts)
    assert (stratum.cases, stratum.lost, stratum.waiting) == (2, 1, 1)


def test_a_text_called_safe_and_read_as_unsafe_is_read_again_and_counts_as_settled(db: Database) -> None:
    register(db, ANN, BO, SENIOR)
    (case_id,) = settled(db, 1, audit_rate=1.0)
    read(db, ANN, form("unsafe"), now=LATER)
    (stratum,) = tally_by_stratum(audit_sample(db, LOCAL_USER, VERSION).case_counts)
    assert (stratum.selected, stratum.read, stratum.read_again, stratum.waiting) == (1, 0, 1, 0)
    read(db, BO, form("safe"), now=LATER)
    adjudicate(db, SENIOR.at(LATER), case_id, ReviewLabel.SAFE, "an idiom", Method.SENIOR)
    found = audit_sample(db, LOCAL_USER, VERSION)
    (stratum,) = tally_by_stratum(found.case_counts)
    assert (stratum.read, stratum.unsafe) == (1, 0)
    (alone,) = tally_by_stratum((case.with_first_review_only(), count) for case, count in found.case_counts)
    assert (alone.read, alone.unsafe) == (1, 1)


def test_configurations_are_listed_with_what_they_settled(db: Database) -> None:
    assert not measured_configurations(db, LOCAL_USER)
    settled(db, 2, audit_rate=0.1)
    (found,) = measured_configurations(db, LOCAL_USER)
    assert (found.version, found.settled) == (VERSION, 2)
