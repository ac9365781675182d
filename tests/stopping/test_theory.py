"""Bounds against their formulas written out; what rules do against all sequences of answers, and simulated. And the
certificates hold, by counting, by proof, and by an oracle that knows neither.
"""

from itertools import product
from math import exp, factorial, inf, log, pi

import numpy as np
import pytest
from pydantic import ValidationError
from scipy.stats import binomtest

from screening.labels import LABELS
from screening.stopping.certificates import (
    CERTIFICATES,
    DIGITS,
    CertifiedMixture,
    Patch,
    calibrate,
    find,
    largest,
    naming_coefficients,
    pooled,
    worst_errors,
)
from screening.stopping.evidence import algorithm_one_radius, clopper_pearson, confidence_sequence, log_evidence
from screening.stopping.rules import (
    DEFAULT_CONTRACT,
    NONE,
    Contract,
    MajorityVote,
    PairwiseMixture,
    SuccessiveElimination,
    minimum_budget,
    run,
)
from screening.stopping.theory import (
    OperatingCharacteristics,
    Schedule,
    adapt,
    dkw_radius,
    evidence_table,
    expected_wrong_commits,
    fixed_sample_size,
    information_bound,
    operating_characteristics,
    scheduled_deltas,
    simulate_regret,
)
from tests.fixtures import tables


def test_the_information_bound_and_that_nothing_drawn_tells_nothing_and_what_cannot_be_is_refused():
    for p in [(1, 0, 0), (0.95, 0.03, 0.02), (0.1, 0.8, 0.1), (0.5, 0.25, 0.25)]:
        a, b = sorted(p)[-1], sorted(p)[-2]
        to_tie = a * log(2 * a / (a + b)) + (b * log(2 * b / (a + b)) if b else 0)
        assert information_bound(p, 0.05) == pytest.approx((0.95 * log(19) + 0.05 * log(1 / 19)) / to_tie)
    assert algorithm_one_radius(0, 0.05) == dkw_radius(0, 0.05) == inf
    assert information_bound((0.5, 0.5, 0.0), 0.05) == fixed_sample_size(0.0, 0.05) == inf
    for delta in (0, 1, -1):
        with pytest.raises(ValueError, match="delta"):
            dkw_radius(10, delta)
    with pytest.raises(ValueError, match="successes"):
        confidence_sequence(3, 2, 0.05)
    for p in [(0.5, 0.5), (0.5, 0.6, 0.0), (1.2, -0.2, 0.0)]:
        with pytest.raises(ValueError, match="adding up to 1"):
            operating_characteristics(MajorityVote(n=1), p)


@pytest.mark.parametrize(("successes", "draws"), [(0, 10), (1, 10), (5, 10), (10, 10), (3, 400), (399, 400)])
def test_a_limit_of_the_confidence_sequence_is_where_the_martingale_reaches_one_over_delta(successes, draws):
    angles = pi / 2 * (np.arange(200_000) + 0.5) / 200_000  # Beta(½, ½) is sin² of a uniform angle
    mixture = np.mean(np.sin(angles) ** (2 * successes) * np.cos(angles) ** (2 * (draws - successes)))
    low, high = confidence_sequence(successes, draws, 0.05)
    for limit, end in ((low, 0.0), (high, 1.0)):
        if limit != end:
            martingale = log(mixture) - successes * log(limit) - (draws - successes) * log(1 - limit)
            assert exp(martingale) == pytest.approx(20, rel=1e-6)
    assert low <= successes / draws <= high
    assert (low == 0.0, high == 1.0) == (successes == 0, successes == draws)


def test_the_confidence_sequence_survives_extremes_and_the_exact_interval_is_that_of_scipy():
    assert 0 < confidence_sequence(10**6, 10**6, 0.05)[0] < 1
    assert 0 < confidence_sequence(1, 10**6, 0.05)[0] < 1e-6
    for successes, draws, delta in product((0, 1, 5, 10), (10, 60), (0.05, 0.2)):
        theirs = binomtest(successes, draws).proportion_ci(1 - delta, "exact")
        assert clopper_pearson(successes, draws, delta) == pytest.approx((theirs.low, theirs.high))
    assert clopper_pearson(0, 0, 0.05) == (0.0, 1.0)


# --- what a rule does at a given mix


def wrong(found):
    """What the contract bounds: the probability of naming a label that is not the mode."""
    top = max(found.probabilities)
    return sum(named for named, each in zip(found.identified, found.probabilities, strict=True) if each != top)


def enumerated(rule, p):
    """The same over all sequences of answers, each with its probability."""
    sequences = np.array(list(product(range(3), repeat=rule.budget)), dtype=np.uint8)
    chances = np.prod(np.array(p)[sequences], axis=1)
    label, ended, calls = run(rule, sequences)
    named = ended == 0
    return OperatingCharacteristics(
        probabilities=p,
        identified=tuple(float(chances[named & (label == arm)].sum()) for arm in range(3)),
        abstained=float(chances[~named].sum()),
        mean_calls=float((chances * calls).sum()),
    )


@pytest.mark.parametrize(
    ("rule", "p"),
    [
        (PairwiseMixture.symmetric(0.3, 10), (0.2, 0.7, 0.1)),
        (PairwiseMixture.symmetric(0.3, 10, stop_for_futility=False), (0.6, 0.1, 0.3)),
        (PairwiseMixture(budget=9), (0.9, 0.07, 0.03)),
        (PairwiseMixture(budget=3), (0.2, 0.7, 0.1)),
        (MajorityVote(n=4), (0.2, 0.5, 0.3)),
        (MajorityVote(n=5), (0.1, 0.3, 0.6)),
    ],
)
def test_the_programme_over_counts_says_what_all_sequences_say(rule, p):
    expected, found = enumerated(rule, p), operating_characteristics(rule, p)
    assert found.probabilities == p
    assert found.identified == pytest.approx(expected.identified, rel=1e-9, abs=1e-60)
    assert (found.abstained, found.mean_calls) == pytest.approx((expected.abstained, expected.mean_calls))
    assert found.right == found.identified[p.index(max(p))]
    assert found.right + wrong(found) == pytest.approx(1 - expected.abstained)


@pytest.mark.parametrize(("p", "budget", "exact"), [((0.95, 0.03, 0.02), 200, 87.921), ((0.8, 0.1, 0.1), 450, 169.858)])
def test_algorithm_one_is_simulated_with_the_mean_calls_of_exact_calculation(p, budget, exact):
    rule = SuccessiveElimination(budget=budget, stop_for_futility=False)
    found = operating_characteristics(rule, p)
    assert found == operating_characteristics(rule, p)
    assert found.mean_calls == pytest.approx(exact, rel=0.02) and found.right > 0.999
    assert sum(found.identified) + found.abstained == pytest.approx(1)


# --- errors over many cases, simulated


def test_the_error_level_of_each_case_and_their_sum():
    squares = (6 / pi**2, 1.5 / pi**2, 2 / 3 / pi**2)
    for schedule, shares in zip(Schedule, [(1, 1, 1), (1, 1 / 2, 1 / 3), squares], strict=True):
        assert scheduled_deltas(schedule, 0.05, 3) / 0.05 == pytest.approx(np.array(shares))
        assert expected_wrong_commits(schedule, 0.05, 3) == pytest.approx(0.05 * sum(shares))
        assert expected_wrong_commits(schedule, 0.05, 0) == 0


@pytest.mark.parametrize("delta", [0.2, 0.05, 0.001])
def test_the_rule_at_a_delta_of_each_case_is_the_real_rule(delta):
    draws = np.random.default_rng(8).choice(3, size=(150, 40), p=[0.6, 0.3, 0.1]).astype(np.uint8)
    found = adapt(draws, np.full(150, delta), evidence_table(40))
    expected = PairwiseMixture.symmetric(delta, 40, stop_for_futility=False).stops(draws)
    assert [values.tolist() for values in found] == [values.tolist() for values in expected]
    assert {-1, 0} <= set(found[0].tolist())  # both ways to end were compared
    table = evidence_table(6)
    leads = [(ahead, behind) for ahead, behind in np.argwhere(table > -inf).tolist() if ahead + behind == 6]
    assert table.shape == (7, 7) and leads == [(4, 2), (5, 1), (6, 0)] and table[4, 2] == log_evidence(4, 2)


@pytest.mark.parametrize("mix", [(0.6, 0.4, 0.0), (0.3, 0.6, 0.1), (0.2, 0.2, 0.6)])
def test_calls_errors_and_abstentions_are_those_of_exact_calculation_within_their_bounds(mix):
    vote, *adaptive = simulate_regret({mix: 1.0}, seed=1, cases=500, runs=20)
    assert vote.name == "majority vote n=5" and [each.name[10:-2] for each in adaptive] == list(Schedule)
    pooled = PairwiseMixture.symmetric(0.05, stop_for_futility=False)
    for curve, rule in ((vote, MajorityVote(n=5)), (adaptive[0], pooled)):
        exact = operating_characteristics(rule, mix)
        assert curve.mean_calls == pytest.approx(exact.mean_calls, rel=0.03)
        assert (curve.wrong[-1] / 500, curve.abstained) == pytest.approx((wrong(exact), exact.abstained), abs=0.02)
    for curve, schedule in zip(adaptive, Schedule, strict=True):
        expected = [expected_wrong_commits(schedule, 0.05, t) for t in (1, 10, 500)]
        assert curve.bound[[0, 9, 499]] == pytest.approx(expected)
        assert (curve.wrong <= curve.bound + 0.25).all()  # 0.25: a few wrong commits by chance in 20 runs
    calls = [curve.mean_calls for curve in adaptive]
    assert vote.bound is None and calls == sorted(calls)  # the price


def test_the_seed_decides():
    def total(seed):
        return [float(curve.wrong[-1]) for curve in simulate_regret(seed=seed, cases=200, runs=2)]

    assert total(1) == total(1) != total(2)


SAFE, UNSAFE, ESCALATE = LABELS
ONE_LEVEL = pooled(0.0903, ())
RECORD = CERTIFICATES[0].model_dump()


@pytest.mark.parametrize(
    "certificate",
    [
        *(each for each in CERTIFICATES if each.budget <= 100),
        pytest.param(find(DEFAULT_CONTRACT, 300), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_every_certificate_is_proven_anew(certificate):
    errors = certificate.recompute()
    assert errors.keep(certificate.contract)
    assert certificate.worst - 2e-6 < errors.any_wrong.bound <= certificate.worst  # said rounded up, not loosely


def test_the_worst_mixes_are_ties_and_the_exact_programme_finds_the_same_error_there():
    worst = worst_errors(ONE_LEVEL, 100)
    beside_a_tie = operating_characteristics(ONE_LEVEL, (0.5 + 1e-9, 0.5 - 1e-9, 0))
    assert wrong(beside_a_tie) == pytest.approx(worst.any_wrong.reached, abs=1e-6)
    assert worst.any_wrong.bound == pytest.approx(0.0491, abs=5e-5)  # as found independently of this program


@pytest.mark.parametrize("mix", [(0.5, 0.49, 0.01), (0.4, 0.35, 0.25), (0.34, 0.33, 0.33), (0.52, 0.47, 0.01)])
def test_no_mix_errs_more_than_the_worst(mix):
    found, bound = find(DEFAULT_CONTRACT, 100), DEFAULT_CONTRACT.any_wrong
    assert found is not None
    for turn in range(3):
        turned = (*mix[turn:], *mix[:turn])
        performance = operating_characteristics(pooled(found.level, found.levels), turned)
        assert wrong(performance) <= found.worst <= bound
        mode = turned.index(max(turned))
        assert mode == 0 or performance.identified[0] <= found.worst_safe <= 0.001


def test_the_coefficients_are_the_share_of_orders_that_were_named():
    budget = 7
    rule = PairwiseMixture(budget=budget, default_error=0.3, errors={"safe|unsafe": 0.1}, stop_for_futility=False)
    named = np.zeros((3, budget + 1, budget + 1))
    orders = np.array(list(product(range(3), repeat=budget)), dtype=np.uint8)
    for order, label in zip(orders.tolist(), rule.stops(orders)[0], strict=True):
        if label != NONE:
            named[label, order.count(0), order.count(1)] += 1
    for i, j in product(range(budget + 1), repeat=2):
        if i + j <= budget:
            named[:, i, j] *= factorial(i) * factorial(j) * factorial(budget - i - j) / factorial(budget)
    assert naming_coefficients(rule, budget) == pytest.approx(named, abs=1e-12)


def _value(patch, weights):
    n, total = len(patch.coefficients) - 1, 0.0
    for i, j in product(range(n + 1), repeat=2):
        if (k := n - i - j) >= 0:
            orders = factorial(n) / (factorial(i) * factorial(j) * factorial(k))
            total += patch.coefficients[i, j] * orders * np.prod(weights ** np.array([i, j, k]))
    return total


def test_a_cut_patch_is_the_same_polynomial_and_its_largest_value_is_found():
    generator = np.random.default_rng(3)
    i, j = np.indices((6, 6))
    whole = Patch(coefficients=np.where(i + j <= 5, generator.random((6, 6)), 0.0), corners=np.eye(3))
    turned = whole.rotate()
    assert whole.largest_corner == turned.largest_corner == turned.rotate().largest_corner
    for part in (*turned.cut(0.3), *whole.cut()[0].halve()):
        weights = generator.dirichlet((1, 1, 1))
        assert _value(part, weights) == pytest.approx(_value(whole, weights @ part.corners))
    found = largest([whole], 1e-6)
    values = [_value(whole, each) for each in generator.dirichlet((1, 1, 1), 1000)]
    assert max(values) <= found.bound <= found.reached + 2e-6
    assert found.reached == pytest.approx(max(values), abs=0.02) and found.patches < 200


def test_a_certificate_that_does_not_hold_is_refused():
    for change in tables(__file__)["untrue"]:
        with pytest.raises(ValidationError, match="does not hold"):
            CertifiedMixture(budget=40, certificate=RECORD | change)
    assert CertifiedMixture(budget=40, certificate=RECORD | {"budget": 40}).certificate.budget == 40, "one that does"


def test_the_smallest_certificate_that_covers_a_budget_is_found_and_is_that_of_the_default():
    for contract in (DEFAULT_CONTRACT, Contract(any_wrong=0.01)):
        found = [find(contract, budget) for budget in (1, 100, 101, 150, 151, 300)]
        assert [each.budget for each in found if each] == [100, 100, 150, 150, 300, 300]
        assert {each.contract for each in found if each} == {contract} and find(contract, 301) is None
        made = CertifiedMixture.for_contract(contract, 120)
        assert made is not None and (made.budget, made.certificate) == (120, find(contract, 120))
    assert find(Contract(any_wrong=0.03), 100) is None
    for given in ({}, {"certificate": "default"}, {"budget": 101}, {"budget": 101, "certificate": "default"}):
        made = CertifiedMixture.model_validate(given)
        assert made.certificate == find(DEFAULT_CONTRACT, made.budget) and made.budget == given.get("budget", 100)
        assert made.error_bound == 0.05 and minimum_budget(made, UNSAFE) == 5
    with pytest.raises(ValidationError, match="no certificate of the default contract covers so large a budget"):
        CertifiedMixture.model_validate({"budget": 1_000_000})
    with pytest.raises(ValidationError, match="covers budgets up to 100 calls, not 101"):
        CertifiedMixture(budget=101, certificate=find(DEFAULT_CONTRACT, 100))


def test_a_bound_leaves_room_for_rounding_and_nothing_is_cut_that_need_not_be():
    flat = Patch(coefficients=np.array([[0.25, 0.25], [0.25, 0.0]]), corners=np.eye(3))
    found = largest([flat], 0.0)
    assert found.reached == 0.25 < found.bound <= 0.25 * (1 + 1e-8) and found.patches == 1
    bump = Patch(coefficients=np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), corners=np.eye(3))
    cut = largest([bump], 0.0, most=3)  # its largest value is 0.5, in the middle of a side
    assert cut.reached <= 0.5 <= cut.bound < 1.0 + 1e-8 and cut.patches == 3


# --- calibration


BUDGET = 14


def test_a_level_is_the_largest_that_keeps_the_contract_and_saying_safe_is_held_to_its_own_bound():
    plain, pairs = Contract(any_wrong=0.2), tuple(((SAFE, mode), 0.02) for mode in (UNSAFE, ESCALATE))
    found, strict = (calibrate(each, BUDGET) for each in (plain, Contract(any_wrong=0.2, pairs=pairs)))
    assert (found.contract, found.budget, found.levels) == (plain, BUDGET, ())
    assert found.recompute().keep(plain) and found.worst == found.recompute().any_wrong.bound <= 0.2
    assert float(f"{found.level:.{DIGITS}g}") == found.level
    # The proof steps where a stopping boundary moves: the next level of three digits may still keep it, 1 % more not.
    assert not worst_errors(pooled(found.level * 1.01, ()), BUDGET).keep(plain)
    errors = strict.recompute()
    assert errors.keep(strict.contract)
    assert strict.worst_safe == max(errors.pairs[SAFE, mode].bound for mode in (UNSAFE, ESCALATE)) <= 0.02
    (unsafe, safe), (escalate, other) = strict.levels
    assert (unsafe, escalate) == ((SAFE, UNSAFE), (SAFE, ESCALATE)) and safe == other < strict.level
    assert strict.level >= found.level, "what safe does not use of the bound is left to the other labels"
    # Naming anything at all with two draws: a level below ½ that has any error has far more than this.
    with pytest.raises(ValueError, match="no level found"):
        calibrate(Contract(any_wrong=0.4, pairs=(((UNSAFE, SAFE), 1e-9),)), BUDGET)
