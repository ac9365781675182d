"""The recommended rule against the numbers of the specification, numerical integration and brute force."""

from functools import cache
from itertools import pairwise
from math import exp, inf, log

import pytest
from scipy.integrate import quad
from scipy.special import beta

from screening.labels import LABELS, Label
from screening.statistics.bounds import confidence_sequence
from screening.statistics.rules.contract import Contract
from screening.statistics.rules.evidence import least_count, log_evidence
from screening.statistics.rules.pairwise_mixture import ErrorLevels, PairwiseMixture, PairwiseState
from screening.statistics.rules.protocol import Ended

SAFE, UNSAFE, ESCALATE = LABELS
SYMMETRIC = ErrorLevels.symmetric(0.05)


def followed(rule: PairwiseMixture, labels: list[Label]) -> PairwiseState:
    state = rule.start()
    for label in labels:
        state = state.observe(label)
    return state


@pytest.mark.parametrize(
    ("ahead", "behind", "evidence"),
    [(6, 0, 40.126), (5, 0, 20.982), (8, 1, 8.7405), (7, 1, 5.0974), (20, 6, 10.858), (0, 0, 1.0)],
)
def test_the_evidence_is_the_mean_likelihood_ratio_over_the_upper_half_of_the_prior(
    ahead: int, behind: int, evidence: float
) -> None:
    def integrand(theta: float) -> float:
        return (2 * theta) ** ahead * (2 * (1 - theta)) ** behind * theta**-0.75

    # Half the Beta(¼, ¼) mass lies above ½, hence the factor 2; quad knows of the singular end, (1 - θ)^-¾.
    integral = quad(integrand, 0.5, 1, weight="alg", wvar=(0, -0.75))[0]
    assert exp(log_evidence(ahead, behind)) == pytest.approx(2 * integral / beta(0.25, 0.25), rel=1e-6)
    assert exp(log_evidence(ahead, behind)) == pytest.approx(evidence, rel=5e-5)


@pytest.mark.parametrize(("ahead", "behind"), [(10, 900), (0, 5000), (100, 100_000), (40, 1500)])
def test_the_evidence_stays_accurate_far_behind_where_the_probability_underflows(ahead: int, behind: int) -> None:
    def integrand(theta: float) -> float:
        exponent = ahead * log(2 * theta) + behind * log(2 * (1 - theta))
        return exp(exponent - 0.75 * (log(theta) + log(1 - theta)))

    integral = quad(integrand, 0.5, 0.5 + 40 / behind, epsabs=0)[0]
    assert log_evidence(ahead, behind) == pytest.approx(log(2 * integral / beta(0.25, 0.25)), abs=1e-6)


@pytest.mark.parametrize(("x", "y"), [(0, 0), (3, 1), (50, 40), (900, 20), (3, 700)])
def test_the_evidence_is_a_martingale_where_both_labels_are_equally_likely(x: int, y: int) -> None:
    mean = (exp(log_evidence(x + 1, y)) + exp(log_evidence(x, y + 1))) / 2
    assert mean == pytest.approx(exp(log_evidence(x, y)), rel=1e-9)


def test_the_evidence_of_a_million_draws_is_finite() -> None:
    assert -50 < log_evidence(500_000, 500_000) < 0
    assert 0 < log_evidence(10**6, 0) < inf


def test_counts_below_zero_are_refused() -> None:
    with pytest.raises(ValueError, match="negative"):
        log_evidence(-1, 0)


@pytest.mark.parametrize("level", [0.025, 0.001, 0.3, 1e-6])
def test_the_least_count_is_the_first_that_reaches_the_level(level: float) -> None:
    counts = [least_count(behind, level) for behind in range(60)]
    for behind, ahead in enumerate(counts):
        assert log_evidence(ahead, behind) >= -log(level) > log_evidence(ahead - 1, behind)
    assert all(earlier < later for earlier, later in pairwise(counts))


@pytest.mark.parametrize(
    ("delta", "calls"),
    [(0.2, 4), (0.1, 5), (0.05, 6), (0.02, 8), (0.01, 9), (0.005, 10), (0.001, 12), (1e-4, 16), (1e-6, 23)],
)
@pytest.mark.parametrize("label", LABELS)
def test_a_unanimous_model_is_identified_once_the_evidence_reaches_two_over_delta(
    delta: float, calls: int, label: Label
) -> None:
    # δ/(K-1) = δ/2 for each rival, so E(n, 0) ≥ 2/δ.
    assert exp(log_evidence(calls, 0)) >= 2 / delta > exp(log_evidence(calls - 1, 0))
    rule = PairwiseMixture(budget=100, errors=ErrorLevels.symmetric(delta))
    verdict = followed(rule, [label] * calls).verdict()
    assert verdict is not None
    assert (verdict.label, verdict.ended, verdict.calls) == (label, Ended.IDENTIFIED, calls)
    assert rule.start().next_wave() == rule.minimum_budget() == calls
    assert rule.delta == pytest.approx(delta)


def test_the_default_needs_eleven_draws_for_safe_and_six_for_unsafe() -> None:
    # 1/0.001 = 1000 lies between E(10, 0) and E(11, 0); 1/0.025 = 40 between E(5, 0) and E(6, 0).
    assert exp(log_evidence(10, 0)) < 1000 <= exp(log_evidence(11, 0))
    rule = PairwiseMixture(budget=100)
    assert followed(rule, [SAFE] * 10).verdict() is None
    assert followed(rule, [SAFE] * 11).verdict() is not None
    assert followed(rule, [UNSAFE] * 6).verdict() is not None
    assert [rule.minimum_budget_for(label) for label in LABELS] == [11, 6, 6]
    assert rule.minimum_budget() == 6


def test_delta_is_the_worst_sum_of_error_levels_over_the_modes() -> None:
    errors = ErrorLevels()
    assert errors.delta_of_mode(UNSAFE) == pytest.approx(0.001 + 0.025)  # saying safe, saying escalate
    assert errors.delta_of_mode(SAFE) == pytest.approx(0.025 + 0.025)
    assert PairwiseMixture(budget=9).delta == pytest.approx(0.05)
    assert errors.level(SAFE, UNSAFE) == 0.001
    assert errors.level(UNSAFE, SAFE) == 0.025


@pytest.mark.parametrize(
    ("budget", "gap"), [(50, 0.48), (75, 0.413), (100, 0.36), (124, 0.323), (150, 0.293), (300, 0.213)]
)
def test_the_smallest_decidable_gap_of_two_labels_that_share_the_budget(budget: int, gap: float) -> None:
    ahead = round(budget * (1 + gap) / 2)
    assert log_evidence(ahead, budget - ahead) >= log(40) > log_evidence(ahead - 1, budget - ahead + 1)
    rule = PairwiseMixture(budget=budget, errors=SYMMETRIC)
    assert rule.smallest_decidable_gap() == pytest.approx(gap, abs=5e-4)


def test_no_gap_is_decidable_below_the_minimum_budget() -> None:
    assert PairwiseMixture(budget=5, errors=SYMMETRIC).smallest_decidable_gap() is None


def test_every_rival_must_be_beaten() -> None:
    state = followed(PairwiseMixture(budget=100, errors=SYMMETRIC), [UNSAFE] + [SAFE] * 10)
    assert [arm.eliminated for arm in state.arms()] == [False, False, True]
    assert state.verdict() is None  # `safe` beats `escalate` 10 : 0 but not yet `unsafe` 10 : 1
    assert state.draws_to_earliest_decision() == least_count(1, 0.025) - 10


def test_a_hopeless_run_is_curtailed_at_once_and_not_a_draw_earlier() -> None:
    rule = PairwiseMixture(budget=6, errors=SYMMETRIC)
    assert followed(rule, [SAFE]).verdict() is None
    verdict = followed(rule, [SAFE, UNSAFE]).verdict()
    assert verdict is not None
    assert (verdict.label, verdict.ended, verdict.calls) == (None, Ended.CURTAILED, 2)


def test_without_curtailment_the_whole_budget_is_drawn() -> None:
    rule = PairwiseMixture(budget=6, errors=SYMMETRIC, curtail=False)
    state = followed(rule, [SAFE, UNSAFE])
    assert (state.verdict(), state.next_wave()) == (None, 4)
    verdict = followed(rule, [SAFE, UNSAFE, SAFE, SAFE, SAFE, SAFE]).verdict()
    assert verdict is not None
    assert (verdict.label, verdict.ended, verdict.calls) == (None, Ended.EXHAUSTED, 6)


def test_an_empty_budget_is_exhausted_before_the_first_draw() -> None:
    verdict = PairwiseMixture(budget=0).start().verdict()
    assert verdict is not None
    assert (verdict.ended, verdict.calls) == (Ended.EXHAUSTED, 0)


@pytest.mark.parametrize("errors", [SYMMETRIC, ErrorLevels(), ErrorLevels(default=0.4, overrides=())])
def test_the_earliest_decision_is_the_shortest_way_over_all_answers(errors: ErrorLevels) -> None:
    rule = PairwiseMixture(budget=20, errors=errors, curtail=False)

    @cache
    def shortest(state: PairwiseState) -> float:
        if (verdict := state.verdict()) is not None:
            return 0 if verdict.ended is Ended.IDENTIFIED else inf
        found = 1 + min(shortest(state.observe(label)) for label in LABELS)
        needed = state.draws_to_earliest_decision()
        assert found == (needed if needed <= state.remaining else inf)
        return found

    assert shortest(rule.start()) == rule.minimum_budget()


@pytest.mark.parametrize(
    "arguments",
    [
        {"default": 0.0},
        {"default": 1.0},
        {"overrides": (((SAFE, UNSAFE), 1.2),)},
        {"overrides": (((SAFE, SAFE), 0.1),)},
        {"overrides": (((SAFE, UNSAFE), 0.1), ((SAFE, UNSAFE), 0.2))},
    ],
)
def test_impossible_error_levels_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="error level"):
        ErrorLevels(**arguments)  # type: ignore[arg-type]


def test_bands_hold_the_estimate_and_shrink() -> None:
    few = followed(PairwiseMixture(budget=300), [SAFE, UNSAFE] * 5).arms()
    many = followed(PairwiseMixture(budget=300), [SAFE, UNSAFE] * 50).arms()
    for arm in (*few, *many):
        assert arm.estimate is not None
        assert 0 <= arm.low <= arm.estimate <= arm.high <= 1
    assert many[0].high - many[0].low < few[0].high - few[0].low
    assert PairwiseMixture(budget=300).start().arms()[0].estimate is None


@pytest.mark.parametrize("delta", [0.0, 1.0, 1.5])
def test_a_symmetric_level_lies_strictly_between_0_and_1(delta: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        ErrorLevels.symmetric(delta)


def test_the_promise_is_the_contract_where_there_is_one_and_else_the_levels() -> None:
    ville = PairwiseMixture(budget=100)
    assert (ville.error_bound(SAFE, UNSAFE), ville.error_bound(UNSAFE, SAFE)) == (0.001, 0.025)
    contract = Contract(any_wrong=0.04, pairs=(((SAFE, UNSAFE), 0.002),))
    proven = PairwiseMixture(budget=100, contract=contract)
    assert proven.delta == 0.04
    assert (proven.error_bound(SAFE, UNSAFE), proven.error_bound(UNSAFE, SAFE)) == (0.002, 0.04)


def test_nothing_is_observed_after_the_end_but_by_who_uses_the_whole_budget() -> None:
    rule = PairwiseMixture(budget=6, errors=SYMMETRIC)
    for codes in ([SAFE] * 6, [SAFE, UNSAFE] * 3):  # identified, exhausted
        with pytest.raises(ValueError, match="stopped"):
            followed(rule, codes).observe(SAFE)
    curtailed = followed(rule, [SAFE, UNSAFE])
    assert curtailed.observe(SAFE).calls == 3
    assert curtailed.draws_to_earliest_decision() == 0


@pytest.mark.parametrize("budget", [6, 7, 13, 100, 101])
def test_the_gap_that_a_budget_decides_is_the_smallest_of_all_ways_to_share_it(budget: int) -> None:
    rule = PairwiseMixture(budget=budget, errors=SYMMETRIC)
    shared = [(2 * ahead - budget) / budget for ahead in range(budget + 1)]
    reached = [log_evidence(ahead, budget - ahead) >= log(40) and 2 * ahead > budget for ahead in range(budget + 1)]
    assert rule.smallest_decidable_gap() == min(gap for gap, enough in zip(shared, reached, strict=True) if enough)


def test_a_comparison_holds_the_evidence_over_each_rival_against_its_own_line() -> None:
    """Safe 11 : 0 over escalate, at 0.025; 11 : 1 over unsafe, at 0.001: the first is beaten, the second is not."""
    state = followed(PairwiseMixture(budget=100), [UNSAFE] + [SAFE] * 11)
    unsafe, escalate = state.comparisons()
    assert (unsafe.leader, unsafe.rival, unsafe.scale, unsafe.excluded) == (SAFE, UNSAFE, "evidence", False)
    assert (escalate.leader, escalate.rival, escalate.scale, escalate.excluded) == (SAFE, ESCALATE, "evidence", True)
    assert (unsafe.value, unsafe.needed) == pytest.approx((log_evidence(11, 1), log(1000)))
    assert (escalate.value, escalate.needed) == pytest.approx((log_evidence(11, 0), log(40)))
    assert [arm.eliminated for arm in state.arms()] == [False, False, True]


def test_a_rival_is_beaten_at_the_very_draw_that_reaches_its_line() -> None:
    rule = PairwiseMixture(budget=100)
    before, at = followed(rule, [SAFE] * 5 + [UNSAFE]), followed(rule, [SAFE] * 6 + [UNSAFE])
    assert [each.excluded for each in before.comparisons()] == [False, False]
    assert [each.excluded for each in at.comparisons()] == [False, True]  # E(6, 0) is the first above 40


def test_the_bands_of_all_labels_share_delta() -> None:
    state = followed(PairwiseMixture(budget=100, errors=SYMMETRIC), [SAFE, SAFE, UNSAFE])
    for arm, count in zip(state.arms(), (2, 1, 0), strict=True):
        band = confidence_sequence(count, 3, 0.05 / 3)
        assert (arm.low, arm.high, arm.draws, arm.estimate) == (band.low, band.high, 3, count / 3)
    assert [arm.label for arm in state.arms()] == list(LABELS)
    loose = PairwiseMixture(budget=100, errors=ErrorLevels(default=0.4, overrides=()))  # two of 0.4 are above a half
    assert followed(loose, [SAFE]).arms()[0].low == confidence_sequence(1, 1, 0.5 / 3).low
