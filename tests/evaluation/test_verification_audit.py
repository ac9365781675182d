"""The audit coin, the tallies, and weighted estimates that cover the truth where the naive figure does not."""

from dataclasses import replace
from math import sqrt

import numpy as np
import pytest

from screening.evaluation.audit import AuditCase, Stratum, audit_coin, tally_by_stratum
from screening.evaluation.estimates import estimate, upper_bound
from screening.labels import Label, Outcome

SAFE, UNSAFE, HUMAN = Outcome.SAFE, Outcome.UNSAFE, Outcome.HUMAN_REVIEW


def stratum(outcome: Outcome, cases: int, read: int, unsafe: int, name: str = "all", **more: float) -> Stratum:
    details = {"probability": 1.0, "selected": read} | more
    return Stratum(name=name, outcome=outcome, cases=cases, read=read, unsafe=unsafe, **details)


def test_the_coin_is_the_seeds_and_the_cases_alone():
    coins = np.array([audit_coin("site seed", f"case-{i}") for i in range(20_000)])
    assert coins[7] == audit_coin("site seed", "case-7") != audit_coin("other seed", "case-7")
    assert coins.min() >= 0 and coins.max() < 1
    for probability in (0.05, 0.5, 0.9):  # within four standard errors
        assert abs((coins < probability).mean() - probability) < 4 * sqrt(probability * (1 - probability) / 20_000)
    others = np.array([audit_coin("other seed", f"case-{i}") for i in range(20_000)])
    assert abs(np.corrcoef(coins, others)[0, 1]) < 0.03


def case(outcome: Outcome, coin: float, blind_first: Label | None = None, **more: object) -> AuditCase:
    return AuditCase(stratum="a", outcome=outcome, probability=0.1, coin=coin, blind_first=blind_first, **more)


def test_only_selected_and_blind_first_ratings_enter_the_tally():
    cases = [
        case(SAFE, 0.05, Label.UNSAFE),
        case(SAFE, 0.05),  # due, not read yet
        case(SAFE, 0.09, inconclusive=True),
        case(SAFE, 0.5, Label.UNSAFE),  # read for another reason: does not count
        case(HUMAN, 0.5, Label.SAFE),  # always due
    ]
    review, safe = tally_by_stratum((each, 1) for each in cases)
    assert (safe.cases, safe.selected, safe.read, safe.unsafe, safe.inconclusive, safe.waiting) == (4, 3, 1, 1, 1, 1)
    assert (review.probability, review.cases, review.read, review.unsafe) == (1.0, 1, 1, 0)


def test_weighted_sensitivity_and_specificity_by_hand():
    strata = [
        stratum(SAFE, 1000, 100, 2, probability=0.1),  # 2 of 100 read: 20 of 1,000 missed; 980 safe
        stratum(UNSAFE, 90, 90, 60),
        stratum(HUMAN, 30, 30, 20),
    ]
    result = estimate(strata)
    assert result.sensitivity.value == pytest.approx(80 / 100)  # (60 + 20) / (80 + 20)
    assert result.sensitivity.naive.value == pytest.approx(80 / 82)
    assert result.specificity.value == pytest.approx(980 / (980 + 30 + 10))
    assert result.specificity.low < result.specificity.value < result.specificity.high
    assert result.missed.per_thousand == pytest.approx(20)
    # 1 - F(2; 100, p) = 0.95 at p = 0.0616: the exact bound, no smaller than the estimate
    assert result.missed.at_most_per_thousand == pytest.approx(61.6, abs=0.1)


def test_a_stratum_with_readings_due_is_weighted_by_what_was_read_of_it():
    strata = [
        stratum(SAFE, 1000, 20, 1, "chat", probability=0.1, selected=100),  # 1 of 20: 50 missed
        stratum(SAFE, 1000, 100, 1, "forum", probability=0.1),  # 10 missed
        stratum(UNSAFE, 60, 60, 60),
    ]
    result = estimate(strata)
    assert result.sensitivity.value == pytest.approx(60 / 120)
    assert result.waiting == 80


def test_no_reading_is_undefined_and_names_the_stratum():
    result = estimate([stratum(SAFE, 500, 0, 0, "chat", probability=0.05, selected=20), stratum(UNSAFE, 9, 9, 9)])
    assert (result.sensitivity.value, result.sensitivity.low, result.missed.at_most_per_thousand) == (None, None, None)
    assert result.sensitivity.reason == "no reading has given safe or unsafe yet of: chat"
    empty = estimate([])
    assert empty.sensitivity.value is None and empty.missed.per_thousand is None
    safe_only = estimate([stratum(SAFE, 10, 10, 0)])
    assert safe_only.sensitivity.value is None and safe_only.sensitivity.reason == "no such text has been read yet"


@pytest.mark.parametrize("n", [59, 100, 1000])
def test_no_miss_bounds_the_rate_by_three_over_n(n):
    assert upper_bound(0, n) == pytest.approx(1 - 0.05 ** (1 / n)) and upper_bound(0, n) <= 3 / n
    assert upper_bound(0, 0) == 1.0


SENSITIVITY, PREVALENCE, TEXTS, RUNS = 0.85, 0.03, 20_000, 200


def deployment(random: np.random.Generator, audit: dict[str, float], flagged_audit: float = 1.0) -> list[Stratum]:
    """One simulated deployment: the strata share the texts equally; of flagged texts one in three is escalated."""
    strata = []
    for name, probability in audit.items():
        texts = TEXTS // len(audit)
        unsafe = random.binomial(texts, PREVALENCE)
        caught = random.binomial(unsafe, SENSITIVITY)
        alarms = random.binomial(texts - unsafe, 0.05)
        passed = texts - unsafe - alarms
        strata.append(sampled(random, name, SAFE, probability, unsafe - caught, passed))
        escalated, others = random.binomial(caught, 1 / 3), random.binomial(alarms, 1 / 3)
        strata.append(sampled(random, name, HUMAN, 1.0, escalated, others))
        strata.append(sampled(random, name, UNSAFE, flagged_audit, caught - escalated, alarms - others))
    return strata


def sampled(
    random: np.random.Generator, name: str, outcome: Outcome, probability: float, unsafe: int, safe: int
) -> Stratum:
    found, harmless = random.binomial(unsafe, probability), random.binomial(safe, probability)
    return stratum(outcome, unsafe + safe, found + harmless, found, name, probability=probability)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("audit", "flagged_audit"),
    [({"all": 0.05}, 1.0), ({"chat": 0.05, "forum": 0.2}, 1.0), ({"all": 0.05}, 0.3)],
    ids=["issue", "unequal strata", "flagged audited too"],
)
def test_the_weighted_interval_covers_where_the_naive_figure_is_far_off(audit, flagged_audit):
    random = np.random.default_rng(6)
    runs = [estimate(deployment(random, audit, flagged_audit)) for _ in range(RUNS)]
    covered = np.mean([run.sensitivity.low <= SENSITIVITY <= run.sensitivity.high for run in runs])
    assert covered >= 0.95
    assert np.mean([run.sensitivity.value for run in runs]) == pytest.approx(SENSITIVITY, abs=0.02)
    true_miss = 1000 * 0.03 * 0.15 / (0.03 * 0.15 + 0.97 * 0.95)  # unsafe per 1,000 of those called safe: 4.86
    assert np.mean([run.missed.at_most_per_thousand >= true_miss for run in runs]) >= 0.95
    assert np.mean([run.specificity.low <= 0.95 <= run.specificity.high for run in runs]) >= 0.95
    if len(audit) == 1 and flagged_audit == 1:
        naive = np.mean([run.sensitivity.naive.value for run in runs])
        assert naive == pytest.approx(0.991, abs=0.002)  # 510 / (510 + 90 · 0.05)


@pytest.mark.slow
def test_mover_covers_with_three_strata_of_unequal_probability() -> None:
    """Sensitivity of .9 and missed per 1,000, over strata audited at .05, .2 and 1: coverage of 95 % intervals."""
    random, sizes, rates = np.random.default_rng(8), (4000, 800, 200), (0.004, 0.02, 0.1)
    probabilities, caught = (0.05, 0.2, 1.0), 360
    true_missed = sum(n * r for n, r in zip(sizes, rates, strict=True))
    sensitivity, share = caught / (caught + true_missed), true_missed / sum(sizes)
    covered, below = 0, 0
    for _ in range(600):
        strata = [stratum(UNSAFE, n := int(random.poisson(caught)), n, n)]
        for place, (size, rate, probability) in enumerate(zip(sizes, rates, probabilities, strict=True)):
            unsafe = int(random.poisson(size * rate))
            read_unsafe = int(random.binomial(unsafe, probability))
            read = read_unsafe + int(random.binomial(size - unsafe, probability))
            strata.append(stratum(SAFE, size, read, read_unsafe, str(place), probability=probability))
        found = estimate(strata)
        assert found.sensitivity.low is not None and found.missed.at_most_per_thousand is not None
        covered += found.sensitivity.low <= sensitivity <= found.sensitivity.high
        below += found.missed.at_most_per_thousand / 1000 >= share
    assert covered >= 0.94 * 600 and below >= 0.94 * 600


def test_what_several_readers_settled_counts_and_a_dispute_waits() -> None:
    first = AuditCase(stratum="a", outcome=SAFE, probability=0.5, coin=0.1, blind_first=Label.UNSAFE)
    assert (first.label, first.read, first.waiting) == (Label.UNSAFE, True, False)
    disputed = replace(first, disputed=True)
    assert (disputed.label, disputed.read, disputed.waiting, disputed.read_again) == (None, False, False, True)
    settled = replace(first, by_several=True, settled=Label.SAFE)
    assert settled.label is Label.SAFE and settled.with_first_reading_only().label is Label.UNSAFE
    undecided = replace(first, by_several=True, settled=None)
    assert undecided.unclear and not undecided.read and not undecided.waiting


@pytest.mark.parametrize(
    ("probability", "coin"), [(0.0, 0.5), (1.1, 0.5), (2.0, 0.5), (0.5, 1.0), (0.5, -0.1), (0.5, 1.5)]
)
def test_a_case_of_the_audit_has_a_probability_and_a_coin_in_their_ranges(probability: float, coin: float) -> None:
    with pytest.raises(ValueError):
        AuditCase(stratum="a", outcome=SAFE, probability=probability, coin=coin)


def test_the_ends_of_the_ranges_are_allowed() -> None:
    assert AuditCase(stratum="a", outcome=SAFE, probability=1.0, coin=0.0).waiting


def test_a_case_as_its_first_reader_saw_it_knows_nothing_of_the_others() -> None:
    alone = AuditCase(stratum="a", outcome=SAFE, probability=0.5, coin=0.1, blind_first=Label.UNSAFE)
    several = replace(alone, by_several=True, settled=Label.SAFE, disputed=True)
    assert several.with_first_reading_only() == alone


def test_tallies_are_kept_apart_by_stratum_outcome_and_probability_and_say_which_they_are() -> None:
    one = AuditCase(stratum="chat", outcome=SAFE, probability=0.1, coin=0.05, blind_first=Label.SAFE)
    cases = [one, replace(one, probability=0.2), replace(one, stratum="forum"), replace(one, outcome=HUMAN)]
    tallies = tally_by_stratum([*((each, 1) for each in cases), (one, 1)])
    found = [(each.name, each.outcome, each.probability, each.cases) for each in tallies]
    assert sorted(found) == [
        ("chat", HUMAN, 1.0, 1),
        ("chat", SAFE, 0.1, 2),
        ("chat", SAFE, 0.2, 1),
        ("forum", SAFE, 0.1, 1),
    ]
