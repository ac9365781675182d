"""The simulated rules are the real ones, keep their bounds, and cost what exact calculation says."""

import numpy as np
import pytest

from screening.labels import LABELS, Label
from screening.statistics.regret import CaseKind, adapt, evidence_table, logarithmic_bound, simulate_regret, vote
from screening.statistics.rules.evidence import log_evidence
from screening.statistics.rules.majority_vote import MajorityVote
from screening.statistics.rules.pairwise_mixture import ErrorLevels, PairwiseMixture
from screening.statistics.rules.protocol import StoppingRule


def alone(*probabilities: float) -> list[CaseKind]:
    return [CaseKind(share=1.0, probabilities=probabilities)]


def run(rule: StoppingRule, labels: list[Label]) -> tuple[int, int]:
    state = rule.start()
    for label in labels:
        state = state.observe(label)
        if (verdict := state.verdict()) is not None:
            named = verdict.label if verdict.ended == "identified" else None
            return (-1 if named is None else LABELS.index(named)), verdict.calls
    raise AssertionError("no verdict within the budget")


@pytest.mark.parametrize("delta", [0.2, 0.05, 0.001])
def test_the_vectorised_rules_are_the_real_rules(delta):
    draws = np.random.default_rng(8).choice(3, size=(150, 40), p=[0.6, 0.3, 0.1])
    rule = PairwiseMixture(budget=40, errors=ErrorLevels.symmetric(delta), curtail=False)
    stops = adapt(draws, np.full(150, delta), evidence_table(40))
    votes = vote(draws, 5)
    for row, *ours in zip(draws, stops.labels, stops.calls, votes.labels, votes.calls, strict=True):
        labels = [LABELS[index] for index in row]
        assert (*run(rule, labels), *run(MajorityVote(n=5), labels)) == tuple(ours)
    assert {-1, 0} <= set(stops.labels.tolist())  # both ways to end were compared


@pytest.mark.parametrize(("probabilities", "calls"), [((0.9, 0.05, 0.05), 10.28), ((0.8, 0.1, 0.1), 17.15)])
def test_mean_calls_are_those_of_exact_calculation(probabilities, calls):
    curves = simulate_regret(alone(*probabilities), seed=1, cases=500, runs=20)
    constant = next(curve for curve in curves if curve.name == "adaptive, constant δ")
    assert constant.mean_calls == pytest.approx(calls, rel=0.03)
    assert constant.abstained < 0.001


def test_a_hard_case_abstains_as_often_as_exact_calculation_says():
    curves = simulate_regret(alone(0.6, 0.2, 0.2), seed=2, cases=500, runs=20)
    constant = next(curve for curve in curves if curve.name == "adaptive, constant δ")
    assert constant.abstained == pytest.approx(0.1224, abs=0.012)  # four standard errors of 10,000 cases


@pytest.mark.slow
def test_majority_vote_grows_in_proportion_and_the_adaptive_rule_keeps_its_bounds():
    vote_curve, constant, harmonic, summable = simulate_regret(seed=3, cases=2000, runs=20)
    # The hard tenth at (0.42, 0.53, 0.05) is enough for one vote of five in ten to miss its mode.
    assert vote_curve.wrong[-1] == pytest.approx(2 * vote_curve.wrong[999], rel=0.1) and vote_curve.wrong[-1] > 50
    assert vote_curve.bound is None and vote_curve.mean_calls == 5
    for curve in (constant, harmonic, summable):
        assert (curve.wrong <= curve.bound + 0.25).all()  # 0.25: a few wrong commits by chance in 20 runs
    assert constant.bound[-1] == pytest.approx(100) and summable.bound[-1] < 0.05
    assert harmonic.bound[-1] <= logarithmic_bound(0.05, 2000)
    assert constant.wrong[-1] > harmonic.wrong[-1] and vote_curve.wrong[-1] > 20 * constant.wrong[-1]
    assert constant.mean_calls < harmonic.mean_calls < summable.mean_calls  # the price


@pytest.mark.parametrize(("probabilities", "wrong"), [((0.7, 0.2, 0.1), 0.3), ((0.3, 0.6, 0.1), 0.4)])
def test_one_vote_errs_as_often_as_a_draw(probabilities, wrong):
    """Also where the wrong label is the first of all."""
    (single, *_) = simulate_regret(alone(*probabilities), seed=4, cases=2000, runs=5, votes=1)
    assert single.wrong[-1] / 2000 == pytest.approx(wrong, abs=0.02)


def test_the_table_holds_the_evidence_of_every_lead_within_the_budget():
    table = evidence_table(6)
    assert table.shape == (7, 7)
    for (ahead, behind), found in np.ndenumerate(table):
        leads = ahead > behind and ahead + behind <= 6
        assert found == (log_evidence(ahead, behind) if leads else -np.inf)


def test_the_seed_decides_and_impossible_settings_are_refused():
    def total(seed: int) -> list[float]:
        return [float(curve.wrong[-1]) for curve in simulate_regret(seed=seed, cases=200, runs=2)]

    assert total(1) == total(1) != total(2)
    with pytest.raises(ValueError, match="budget"):
        simulate_regret(seed=1, budget=3)
    with pytest.raises(ValueError, match="one mode"):
        CaseKind(share=1.0, probabilities=(0.5, 0.5, 0.0))
    with pytest.raises(ValueError, match="add to 1"):
        CaseKind(share=1.0, probabilities=(0.5, 0.3, 0.1))
