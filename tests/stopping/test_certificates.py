"""The certificates hold, by counting, by proof, and by an oracle that knows neither."""

from itertools import product
from math import factorial

import numpy as np
import pytest
from pydantic import ValidationError

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
from screening.stopping.operating_characteristics import operating_characteristics
from screening.stopping.rules import DEFAULT_CONTRACT, NONE, Contract, PairwiseMixture, minimum_budget

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
    assert beside_a_tie.wrong == pytest.approx(worst.any_wrong.reached, abs=1e-6)
    assert worst.any_wrong.bound == pytest.approx(0.0491, abs=5e-5)  # as found independently of this program


@pytest.mark.parametrize("mix", [(0.5, 0.49, 0.01), (0.4, 0.35, 0.25), (0.34, 0.33, 0.33), (0.52, 0.47, 0.01)])
def test_no_mix_errs_more_than_the_worst(mix):
    found, bound = find(DEFAULT_CONTRACT, 100), DEFAULT_CONTRACT.any_wrong
    assert found is not None
    for turn in range(3):
        turned = (*mix[turn:], *mix[:turn])
        performance = operating_characteristics(pooled(found.level, found.levels), turned)
        assert performance.wrong <= found.worst <= bound
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
    for change in (
        {"level": 0.0999},
        {"budget": 101, "worst": 0.02},
        {"pairs": {"safe|unsafe": 0.0001}},
        {"any_wrong": 0.04},
        {"worst_safe": 0.0009},
        {"worst_safe": 0.0},
        {"worst": 0.049},
    ):
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
