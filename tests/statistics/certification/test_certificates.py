"""The certificates hold, by counting, by proof, and by an oracle that knows neither."""

from itertools import product
from math import factorial

import numpy as np
import pytest
from pydantic import ValidationError

from screening.engine.certified_mixture import CertificateConfig, CertifiedMixtureConfig
from screening.engine.pipeline import PairwiseMixtureConfig, PipelineConfig, pooled_rule, preset
from screening.labels import LABELS, Label
from screening.statistics.certification.bernstein import Patch, largest
from screening.statistics.certification.certificates import (
    CERTIFICATES,
    DEFAULT_CONTRACT,
    Certificate,
    find,
    symmetric_contract,
)
from screening.statistics.certification.worst_case import naming_coefficients, worst_errors
from screening.statistics.performance import exact_performance
from screening.statistics.rules.contract import Contract
from screening.statistics.rules.pairwise_mixture import ErrorLevels, PairwiseMixture

SAFE, UNSAFE, ESCALATE = LABELS
ONE_LEVEL = ErrorLevels(default=0.0903, overrides=())


@pytest.mark.parametrize("certificate", [each for each in CERTIFICATES if each.budget <= 100], ids=str)
def test_every_certificate_is_proven_anew(certificate: Certificate) -> None:
    errors = certificate.recompute()
    assert errors.keep(certificate.contract)
    assert certificate.worst - 2e-6 < errors.any_wrong.bound <= certificate.worst  # said rounded up, not loosely


@pytest.mark.slow
def test_the_largest_certificate_of_the_default_contract_is_proven_too() -> None:
    certificate = find(DEFAULT_CONTRACT, 300)
    assert certificate is not None and certificate.recompute().keep(DEFAULT_CONTRACT)


def test_the_worst_mixes_are_ties_and_the_exact_programme_finds_the_same_error_there() -> None:
    worst = worst_errors(ONE_LEVEL, 100)
    beside_a_tie = exact_performance(
        PairwiseMixture(budget=100, errors=ONE_LEVEL, curtail=False), (0.5 + 1e-9, 0.5 - 1e-9, 0)
    )
    assert beside_a_tie.wrong == pytest.approx(worst.any_wrong.reached, abs=1e-6)
    assert worst.any_wrong.bound == pytest.approx(0.0491, abs=5e-5)  # as found independently of this program


@pytest.mark.parametrize("mix", [(0.5, 0.49, 0.01), (0.4, 0.35, 0.25), (0.34, 0.33, 0.33), (0.52, 0.47, 0.01)])
def test_no_mix_errs_more_than_the_worst(mix: tuple[float, float, float]) -> None:
    found, bound = find(DEFAULT_CONTRACT, 100), DEFAULT_CONTRACT.any_wrong
    assert found is not None
    for turn in range(3):
        turned = (*mix[turn:], *mix[:turn])
        performance = exact_performance(PairwiseMixture(budget=100, errors=found.levels), turned)
        assert performance.wrong <= found.worst <= bound
        mode = turned.index(max(turned))
        assert mode == 0 or performance.identified[0] <= found.worst_safe <= 0.001


def test_the_coefficients_are_the_share_of_orders_that_were_named() -> None:
    budget, levels = 7, ErrorLevels(default=0.3, overrides=(((SAFE, UNSAFE), 0.1),))
    rule = PairwiseMixture(budget=budget, errors=levels, curtail=False)
    named = np.zeros((3, budget + 1, budget + 1))
    for order in product(range(3), repeat=budget):
        state = rule.start()
        for draw in order:
            if state.verdict() is not None:
                break
            state = state.observe(LABELS[draw])
        verdict = state.verdict()
        if verdict is not None and verdict.label is not None:
            named[LABELS.index(verdict.label), order.count(0), order.count(1)] += 1
    for i, j in product(range(budget + 1), repeat=2):
        if i + j <= budget:
            named[:, i, j] *= factorial(i) * factorial(j) * factorial(budget - i - j) / factorial(budget)
    assert naming_coefficients(levels, budget) == pytest.approx(named, abs=1e-12)


def _value(patch: Patch, weights: np.ndarray) -> float:
    n, (u, v, w) = len(patch.coefficients) - 1, weights
    return sum(
        patch.coefficients[i, j]
        * factorial(n) / (factorial(i) * factorial(j) * factorial(n - i - j))
        * u**i * v**j * w ** (n - i - j)
        for i in range(n + 1) for j in range(n + 1 - i)
    )  # fmt: skip


def test_a_cut_patch_is_the_same_polynomial_and_its_largest_value_is_found() -> None:
    generator = np.random.default_rng(3)
    i, j = np.indices((6, 6))
    whole = Patch(coefficients=np.where(i + j <= 5, generator.random((6, 6)), 0.0), corners=np.eye(3))
    for part in whole.rotate().cut(0.3):
        weights = generator.dirichlet((1, 1, 1))
        assert _value(part, weights) == pytest.approx(_value(whole, weights @ part.corners))
    found = largest([whole], 1e-6)
    values = [_value(whole, each) for each in generator.dirichlet((1, 1, 1), 3000)]
    assert max(values) <= found.bound <= found.reached + 2e-6
    assert found.reached == pytest.approx(max(values), abs=0.02)


@pytest.mark.slow
def test_a_certificate_covers_every_smaller_budget_and_none_larger() -> None:
    found = find(DEFAULT_CONTRACT, 100)
    assert found is not None and found.budget == 100
    assert worst_errors(found.levels, 60).any_wrong.bound < found.worst
    assert not worst_errors(found.levels, 150).keep(DEFAULT_CONTRACT)
    record = CertificateConfig.of(found)
    assert CertifiedMixtureConfig(budget=60, certificate=record).rule().delta == 0.05
    with pytest.raises(ValidationError, match="covers budgets up to 100"):
        CertifiedMixtureConfig(budget=101, certificate=record)
    assert isinstance(pooled_rule(None, 5_000), PairwiseMixtureConfig)


@pytest.mark.parametrize(
    "change",
    [
        {"level": 0.0999},
        {"budget": 101, "worst": 0.02},
        {"pairs": {"safe|unsafe": 0.0001}},
        {"any_wrong": 0.04},
        {"worst_safe": 0.0009},
        {"worst_safe": 0.0},
        {"worst": 0.049},
    ],
)
def test_a_certificate_that_does_not_hold_is_refused(change: dict[str, object]) -> None:
    record = CertificateConfig.of(CERTIFICATES[0]).model_dump()
    with pytest.raises(ValidationError, match="does not hold"):
        CertificateConfig.model_validate(record | change)


def test_a_site_may_bring_its_own_that_holds() -> None:
    record = CertificateConfig.of(CERTIFICATES[0]).model_dump() | {"budget": 40}
    assert CertificateConfig.model_validate(record).certificate().budget == 40


def test_the_default_keeps_its_contract_in_five_and_eleven_calls() -> None:
    rule = preset("certified").nodes[0].rule.rule()
    assert isinstance(rule, PairwiseMixture) and rule.contract == DEFAULT_CONTRACT
    assert rule.minimum_budget_for(UNSAFE) == 5 and rule.minimum_budget_for(SAFE) == 11
    assert (rule.delta, rule.error_bound(SAFE, ESCALATE), rule.error_bound(UNSAFE, SAFE)) == (0.05, 0.001, 0.05)
    calls = [exact_performance(rule, (rest, p, rest)) for p, rest in ((0.9, 0.05), (0.8, 0.1), (0.6, 0.2))]
    assert [round(each.mean_calls, 1) for each in calls] == [8.0, 13.0, 44.2]
    assert round(calls[-1].abstained, 3) == 0.053


def test_the_certificate_is_part_of_the_configuration() -> None:
    pipeline = preset("certified")
    body = pipeline.model_dump(mode="json")
    assert body["nodes"][0]["rule"]["certificate"]["worst"] <= 0.05
    assert PipelineConfig.model_validate(body) == pipeline
    body["nodes"][0]["rule"]["certificate"]["level"] = 0.2
    with pytest.raises(ValidationError, match="does not hold"):
        PipelineConfig.model_validate(body)


def test_contracts_say_what_they_hold() -> None:
    assert symmetric_contract(0.1).words() == "any label but the mode: at most 0.1 in all"
    assert Label.SAFE in {said for (said, _), _ in DEFAULT_CONTRACT.pairs}


def test_the_smallest_certificate_that_covers_a_budget_is_found() -> None:
    for contract in (DEFAULT_CONTRACT, symmetric_contract(0.01)):
        found = [find(contract, budget) for budget in (1, 100, 101, 150, 151, 300)]
        assert [each.budget for each in found if each] == [100, 100, 150, 150, 300, 300]
        assert {each.contract for each in found if each} == {contract}
        assert find(contract, 301) is None
    assert find(symmetric_contract(0.03), 100) is None


def test_a_certificate_has_the_levels_and_the_worst_errors_of_its_row() -> None:
    found, alike = find(DEFAULT_CONTRACT, 100), find(symmetric_contract(0.01), 150)
    safe = tuple(((SAFE, mode), 0.00177) for mode in (UNSAFE, ESCALATE))
    assert found is not None and found.levels == ErrorLevels(default=0.0903, overrides=safe)
    assert (found.worst, found.worst_safe) == (0.04908, 0.000904)
    assert alike is not None and alike.levels == ErrorLevels(default=0.0129, overrides=())
    assert (alike.worst, alike.worst_safe) == (0.007328, 0.007328)


@pytest.mark.parametrize("bound", [0.0, 1.0, 1.5])
def test_a_bound_of_a_contract_lies_strictly_between_0_and_1(bound: float) -> None:
    with pytest.raises(ValueError, match="strictly between"):
        Contract(any_wrong=bound)
    with pytest.raises(ValueError, match="strictly between"):
        Contract(any_wrong=0.05, pairs=(((Label.SAFE, Label.UNSAFE), bound),))


def test_without_one_or_by_the_word_default_a_rule_has_the_default_contracts_certificate_for_its_budget() -> None:
    plain = CertifiedMixtureConfig.model_validate({})
    assert plain.budget == 100 and plain.certificate.certificate() == find(DEFAULT_CONTRACT, 100)
    assert CertifiedMixtureConfig.model_validate({"certificate": "default"}) == plain
    longer = CertifiedMixtureConfig.model_validate({"budget": 101, "certificate": "default"})
    assert longer.budget == 101 and longer.certificate.certificate() == find(DEFAULT_CONTRACT, 150)
    assert plain.certificate.budget == 100 < longer.certificate.budget == 150
    with pytest.raises(ValidationError, match="no certificate of the default contract covers so large a budget"):
        CertifiedMixtureConfig.model_validate({"budget": 1_000_000})
    with pytest.raises(ValidationError, match="covers budgets up to 100 calls, not 101"):
        CertifiedMixtureConfig(budget=101, certificate=plain.certificate)


@pytest.mark.parametrize("curtail", [True, False])
def test_the_rule_has_the_certificates_levels_and_contract_and_the_settings_curtailment(curtail: bool) -> None:
    config = CertifiedMixtureConfig.model_validate({"budget": 80, "curtail": curtail})
    known = find(DEFAULT_CONTRACT, 80)
    assert known is not None
    assert config.rule() == PairwiseMixture(budget=80, errors=known.levels, curtail=curtail, contract=DEFAULT_CONTRACT)


def test_a_bound_leaves_room_for_rounding_and_nothing_is_cut_that_need_not_be() -> None:
    flat = Patch(coefficients=np.array([[0.25, 0.25], [0.25, 0.0]]), corners=np.eye(3))
    found = largest([flat], 0.0)
    assert found.reached == 0.25 < found.bound <= 0.25 * (1 + 1e-8) and found.patches == 1
    bump = Patch(coefficients=np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), corners=np.eye(3))
    cut = largest([bump], 0.0, most=3)  # its largest value is 0.5, in the middle of a side
    assert cut.reached <= 0.5 <= cut.bound < 1.0 + 1e-8 and cut.patches == 3
