"""What an audit may count: only blind first reviews of cases drawn at random or escalated; and what
research pages keep is kept only while nothing that it follows from has changed.
"""

from typing import Any

import pytest
from sqlalchemy import insert

from screening.evaluation.audit import Stratum, guarantee_of, tally_by_stratum
from screening.evaluation.estimates import estimate
from screening.labels import Outcome
from screening.review.actors import LOCAL_USER
from screening.review.reach import Reach
from screening.review.review_form import ReviewLabel
from storage.clock import new_id
from storage.database import Database
from storage.research import reliability
from storage.research.corrected_labels import export_corrected_labels
from storage.research.standing import batch_now, configuration_now
from storage.review.adjudication import Method, adjudicate, amend
from storage.review.claims import claim_next
from storage.review.erasure import By, Selection, erase
from storage.review.reviews import submit_review, take_back
from storage.review.worklist import request_second_looks
from storage.schema import unblindings
from tests.databases import write
from tests.storage.batch_of import CONFIGURATION, LATER, NOW, batch, decide, waiting
from tests.storage.inbox_cases import form, read, register, take
from tests.storage.people import ANN, BO, SENIOR

VERSION, ME = CONFIGURATION.version, LOCAL_USER.at(LATER)


def settled(
    db: Database, cases: int, audit_rate: float, outcome: Outcome = Outcome.SAFE, reach: Reach = Reach.COUNT
) -> list[str]:
    """Cases of one batch, all with this outcome."""
    batch(db, [f"text {number}" for number in range(cases)], audit_rate=audit_rate, reach=reach)
    case_ids = waiting(db)
    for case_id in case_ids:
        decide(db, case_id, outcome)
    return case_ids


def read_all(db: Database, label: str) -> int:
    """Rate everything in the inbox; how many."""
    count = 0
    while (claim := claim_next(db, ME)) is not None:
        submit_review(db, ME, claim.case_id, claim.token, form(label), new_id(LATER))
        count += 1
    return count


def _sample(db: Database) -> reliability.AuditSample:
    return reliability.audit_sample(db, LOCAL_USER, VERSION)


def _stratum(db: Database) -> Stratum:
    (stratum,) = tally_by_stratum(_sample(db).case_counts)
    return stratum


def _erase(db: Database, case_id: str) -> None:
    erase(db, ME, Selection(by=By.CASE, value=case_id), "asked for")


def test_audited_cases_are_read_and_the_others_stand_behind_them(db: Database) -> None:
    settled(db, 40, audit_rate=0.3)
    before = _stratum(db)
    due = before.selected
    assert 0 < due < 40 and (before.cases, before.waiting) == (40, due)
    assert read_all(db, "unsafe") == due  # what the inbox holds is what the coins selected
    after = _sample(db)
    missed = estimate(tally_by_stratum(after.case_counts)).missed
    assert (missed.cases, missed.read, missed.missed) == (40, due, due)
    assert missed.per_thousand == pytest.approx(1000)
    assert all(review.read_at == LATER for review in after.reviews if review.case.read)


@pytest.mark.parametrize(
    ("outcome", "reach", "rate", "probability", "all_read"),
    [
        pytest.param(Outcome.UNSAFE, Reach.READ, 0.05, 1.0, True, id="each stands for itself alone"),
        pytest.param(Outcome.UNSAFE, Reach.COUNT, 0.3, 0.3, False, id="the audit alone reads it"),
        pytest.param(Outcome.HUMAN_REVIEW, Reach.COUNT, 0.01, 1.0, True, id="what the engine left is always due"),
    ],
)
def test_a_case_stands_for_as_many_as_its_chance_of_being_read(
    db: Database, outcome: Outcome, reach: Reach, rate: float, probability: float, all_read: bool
) -> None:
    settled(db, 20, rate, outcome, reach)
    count = read_all(db, "safe")
    found, stratum = _sample(db), _stratum(db)
    assert (stratum.probability, stratum.cases, stratum.read) == (probability, 20, count)
    assert count > 0 and (count == 20) is all_read
    assert (found.reaches, found.not_blind) == ({reach}, 0)


def test_a_second_look_that_somebody_picked_counts_nowhere(db: Database) -> None:
    case_ids = settled(db, 20, audit_rate=0.05)
    due = _stratum(db).selected
    assert request_second_looks(db, ME, case_ids).opened == 20 - due
    assert read_all(db, "unsafe") == 20
    found = _sample(db)
    assert sum(count for case, count in found.case_counts if case.read) == due
    assert estimate(tally_by_stratum(found.case_counts)).missed.read == due
    assert found.not_blind == 0  # nor among the reviews that are missing from the audit


def test_insufficient_information_is_inconclusive_and_what_has_no_audit_is_counted_apart(db: Database) -> None:
    assert not reliability.measured_configurations(db, LOCAL_USER)
    settled(db, 2, audit_rate=0.0)
    assert (_sample(db).reviews, _sample(db).without_audit) == ((), 2)
    settled(db, 3, audit_rate=1.0)
    read_all(db, "insufficient_information")
    missed = estimate(tally_by_stratum(_sample(db).case_counts)).missed
    assert (missed.inconclusive, missed.read, missed.per_thousand) == (3, 0, None)
    assert [(one.version, one.settled) for one in reliability.measured_configurations(db, LOCAL_USER)] == [(VERSION, 5)]


def test_the_mix_of_ends_has_a_reference_that_never_moves_and_as_many_cases_as_it_says(db: Database) -> None:
    settled(db, 3, audit_rate=0.1)
    early = reliability.outcome_mix(db, LOCAL_USER, VERSION, reference=4)
    assert (early.reference, early.looks, early.until) == ({"safe": 3}, (), None)
    settled(db, 2, audit_rate=0.0, outcome=Outcome.HUMAN_REVIEW)
    mix = reliability.outcome_mix(db, LOCAL_USER, VERSION, reference=3)
    assert mix.reference["safe"] == 3 and mix.until is not None
    assert sum(mix.reference.values()) + sum(sum(look.values()) for look in mix.looks[-1:]) == 5

    def found(most: int = 10, **wanted: Any) -> int:
        return len(reliability.settled_cases(db, LOCAL_USER, VERSION, most, reference=3, **wanted))

    assert (found(), found(most=4), found(sampled=True), found(sampled=False)) == (5, 4, 3, 2)
    assert found(outcome=Outcome.HUMAN_REVIEW) == 2
    for end in ("safe", "unsafe", "escalate", "abstained"):
        assert found(first_end=end, in_reference=True) == mix.reference.get(end, 0)
        assert found(first_end=end, in_reference=False) == (mix.looks[-1].get(end, 0) if mix.looks else 0)


def test_a_review_that_is_not_blind_is_found_apart(db: Database) -> None:
    (case_id,) = settled(db, 1, audit_rate=1.0)
    write(db, insert(unblindings).values(case_id=case_id, reviewer=LOCAL_USER.id, before_review=True, at=LATER))
    read(db, LOCAL_USER, form("safe"), now=LATER)
    (found,) = reliability.audited_reviews(db, LOCAL_USER, VERSION)
    assert found[0] == case_id and found[1].unreadable and not found[1].read
    stratum = _stratum(db)
    assert (_sample(db).not_blind, stratum.lost, stratum.waiting) == (1, 1, 0)


@pytest.mark.parametrize("outcome", [Outcome.SAFE, Outcome.UNSAFE])
def test_a_text_that_is_erased_before_it_was_read_is_lost_and_no_longer_due(db: Database, outcome: Outcome) -> None:
    first, _ = settled(db, 2, audit_rate=1.0, outcome=outcome)
    _erase(db, first)
    read(db, LOCAL_USER, form("unsafe"), now=LATER)
    assert claim_next(db, ME) is None
    stratum = _stratum(db)
    assert (stratum.selected, stratum.read, stratum.lost, stratum.waiting) == (2, 1, 1, 0)
    guarantee = guarantee_of((case for case, _ in _sample(db).case_counts), floor=1.0)
    assert (guarantee.waiting, guarantee.lost_safe) == (0, int(outcome is Outcome.SAFE))


def test_a_flagged_text_that_no_coin_chose_is_lost_where_it_is_erased_unread(db: Database) -> None:
    first, _ = settled(db, 2, audit_rate=0.001, outcome=Outcome.HUMAN_REVIEW)
    _erase(db, first)
    stratum = _stratum(db)
    assert (stratum.cases, stratum.lost, stratum.waiting) == (2, 1, 1)


def test_a_text_called_safe_and_read_as_unsafe_is_read_again_and_counts_as_settled(db: Database) -> None:
    register(db, ANN, BO, SENIOR)
    (case_id,) = settled(db, 1, audit_rate=1.0)
    read(db, ANN, form("unsafe"), now=LATER)
    stratum = _stratum(db)
    assert (stratum.selected, stratum.read, stratum.read_again, stratum.waiting) == (1, 0, 1, 0)
    read(db, BO, form("safe"), now=LATER)
    adjudicate(db, SENIOR.at(LATER), case_id, ReviewLabel.SAFE, "an idiom", Method.SENIOR)
    alone = ((case.with_first_review_only(), count) for case, count in _sample(db).case_counts)
    (first,) = tally_by_stratum(alone)
    assert [(one.read, one.unsafe) for one in (_stratum(db), first)] == [(1, 0), (1, 1)]


def _accepted(db: Database, batch_id: str) -> str | None:
    """The label of the only case that people may have reviewed, as the relabelled data set has it."""
    return list(export_corrected_labels(db, ME, batch_id, "key"))[1].adjudicated_label


def test_it_changes_with_every_fact_that_a_figure_follows_from_and_with_nothing_else(db: Database) -> None:
    batch_id = batch(db, ["one", "two"])
    first, second = waiting(db)
    batch(db, ["three"])
    (third,) = set(waiting(db)) - {first, second}
    register(db, ANN)
    seen = [(batch_now(db, LOCAL_USER, batch_id), configuration_now(db, VERSION))]

    def changed() -> tuple[bool, bool]:
        seen.append((batch_now(db, LOCAL_USER, batch_id), configuration_now(db, VERSION)))
        before, now = seen[-2:]
        return now[0] != before[0], now[1] != before[1]

    assert changed() == (False, False)
    decide(db, third, Outcome.SAFE)
    assert changed() == (False, True), "another batch of the same configuration"
    decide(db, first, Outcome.SAFE)
    assert changed() == (True, True)
    decide(db, second, Outcome.HUMAN_REVIEW)
    assert changed() == (True, True)
    claim = take(db, ANN, LATER)
    assert changed() == (False, False)
    given = new_id(LATER)
    submit_review(db, ANN.at(LATER), claim.case_id, claim.token, form("safe", 5), given)
    assert changed() == (True, True) and _accepted(db, batch_id) == "safe"
    again = take_back(db, ANN.at(LATER), claim.case_id, given)
    assert changed() == (True, True) and _accepted(db, batch_id) is None
    submit_review(db, ANN.at(LATER), claim.case_id, again.token, form("unsafe"), new_id(LATER))
    assert changed() == (True, True) and _accepted(db, batch_id) == "unsafe"
    amend(db, LOCAL_USER.at(NOW), claim.case_id, ReviewLabel.SAFE, "looked again, by a clock that was set back", 1)
    assert changed() == (True, True)
    request_second_looks(db, ME, [first])
    assert changed() == (True, True)
    _erase(db, second)
    assert changed() == (True, True), "what is shown of it may hold its id and what people wrote"
