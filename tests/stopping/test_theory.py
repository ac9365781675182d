"""Bounds against their formulas written out, against enumeration, and against the paper's numbers."""

from math import exp, inf, log, pi

import numpy as np
import pytest
from scipy.stats import binomtest

from screening.stopping.evidence import (
    algorithm_one_radius,
    clopper_pearson,
    confidence_sequence,
    log_evidence,
)
from screening.stopping.operating_characteristics import operating_characteristics
from screening.stopping.rules import PairwiseMixture
from screening.stopping.theory import (
    Schedule,
    adapt,
    dkw_radius,
    evidence_table,
    expected_wrong_commits,
    fixed_sample_size,
    information_bound,
    scheduled_delta,
    simulate_regret,
)


def test_nothing_drawn_tells_nothing_and_what_cannot_be_is_refused() -> None:
    assert algorithm_one_radius(0, 0.05) == dkw_radius(0, 0.05) == inf
    assert information_bound((0.5, 0.5, 0.0), 0.05) == fixed_sample_size(0.0, 0.05) == inf
    for delta in (0, 1, -1):
        with pytest.raises(ValueError, match="delta"):
            dkw_radius(10, delta)
    with pytest.raises(ValueError, match="from 1"):
        scheduled_delta(Schedule.HARMONIC, 0.05, 0)


@pytest.mark.parametrize("p", [(1, 0, 0), (0.95, 0.03, 0.02), (0.1, 0.8, 0.1), (0.5, 0.25, 0.25)])
def test_the_information_bound(p: tuple[float, ...]) -> None:
    a, b = sorted(p)[-1], sorted(p)[-2]
    to_tie = a * log(2 * a / (a + b)) + (b * log(2 * b / (a + b)) if b else 0)
    assert information_bound(p, 0.05) == pytest.approx((0.95 * log(19) + 0.05 * log(1 / 19)) / to_tie)


@pytest.mark.parametrize(("successes", "draws"), [(0, 10), (1, 10), (5, 10), (10, 10), (3, 400), (399, 400)])
def test_a_limit_of_the_confidence_sequence_is_where_the_martingale_reaches_one_over_delta(
    successes: int, draws: int
) -> None:
    grid = (np.arange(200_000) + 0.5) / 200_000
    mixture = np.mean(  # Beta(½, ½) is sin² of a uniform angle
        np.sin(pi / 2 * grid) ** (2 * successes) * np.cos(pi / 2 * grid) ** (2 * (draws - successes))
    )
    low, high = confidence_sequence(successes, draws, 0.05)
    for limit, end in ((low, 0.0), (high, 1.0)):
        if limit != end:
            martingale = log(mixture) - successes * log(limit) - (draws - successes) * log(1 - limit)
            assert exp(martingale) == pytest.approx(20, rel=1e-6)
    assert low <= successes / draws <= high
    assert (low == 0.0) == (successes == 0)
    assert (high == 1.0) == (successes == draws)


@pytest.mark.slow
@pytest.mark.parametrize("p", [0.02, 0.3, 0.5, 0.9])
def test_the_confidence_sequence_ever_misses_with_probability_at_most_delta(p: float) -> None:
    """Exactly, over all sequences of 200 draws, by following the number of successes."""
    live, missed = {0: 1.0}, 0.0
    for draws in range(1, 201):
        after: dict[int, float] = {}
        for successes, mass in live.items():
            after[successes] = after.get(successes, 0.0) + mass * (1 - p)
            after[successes + 1] = after.get(successes + 1, 0.0) + mass * p
        bands = {successes: confidence_sequence(successes, draws, 0.1) for successes in after}
        live = {s: mass for s, mass in after.items() if bands[s][0] <= p <= bands[s][1]}
        missed += sum(after.values()) - sum(live.values())
    assert 0.001 < missed <= 0.1


def test_the_confidence_sequence_is_everything_before_the_first_draw_and_survives_extremes() -> None:
    assert confidence_sequence(0, 0, 0.05) == (0.0, 1.0)
    assert 0 < confidence_sequence(10**6, 10**6, 0.05)[0] < 1
    assert 0 < confidence_sequence(1, 10**6, 0.05)[0] < 1e-6
    with pytest.raises(ValueError, match="successes"):
        confidence_sequence(3, 2, 0.05)


@pytest.mark.parametrize(("successes", "draws"), [(0, 10), (1, 10), (5, 10), (10, 10), (3, 60)])
def test_the_exact_interval_is_that_of_scipy(successes: int, draws: int) -> None:
    for delta in (0.05, 0.2):
        theirs = binomtest(successes, draws).proportion_ci(1 - delta, "exact")
        assert clopper_pearson(successes, draws, delta) == pytest.approx((theirs.low, theirs.high))
    assert clopper_pearson(0, 0, 0.05) == (0.0, 1.0)


def test_wrong_commits_grow_with_the_cases_or_their_logarithm_or_stop() -> None:
    cases = 5000
    assert expected_wrong_commits(Schedule.CONSTANT, 0.05, cases) == pytest.approx(0.05 * cases)
    harmonic = expected_wrong_commits(Schedule.HARMONIC, 0.05, cases)
    assert 0.05 * log(cases) < harmonic <= 0.05 * (1 + log(cases))
    summable = expected_wrong_commits(Schedule.SUMMABLE, 0.05, cases)
    assert 0.05 * (1 - 6 / pi**2 / cases) < summable + 1e-12 <= 0.05
    assert expected_wrong_commits(Schedule.CONSTANT, 0.05, 0) == 0


@pytest.mark.parametrize(("schedule", "share"), [("constant", 1), ("harmonic", 1 / 4), ("summable", 6 / pi**2 / 16)])
def test_the_error_level_of_the_fourth_case(schedule: str, share: float) -> None:
    assert scheduled_delta(Schedule(schedule), 0.05, 4) == pytest.approx(0.05 * share)


# --- errors over many cases, simulated


def alone(*probabilities):
    return {probabilities: 1.0}


@pytest.mark.parametrize("delta", [0.2, 0.05, 0.001])
def test_the_rule_at_a_delta_of_each_case_is_the_real_rule(delta):
    draws = np.random.default_rng(8).choice(3, size=(150, 40), p=[0.6, 0.3, 0.1]).astype(np.uint8)
    found = adapt(draws, np.full(150, delta), evidence_table(40))
    expected = PairwiseMixture.symmetric(delta, 40, stop_for_futility=False).stops(draws)
    assert [values.tolist() for values in found] == [values.tolist() for values in expected]
    assert {-1, 0} <= set(found[0].tolist())  # both ways to end were compared


@pytest.mark.parametrize("probabilities", [(0.9, 0.05, 0.05), (0.6, 0.2, 0.2)])
def test_calls_and_abstentions_are_those_of_exact_calculation(probabilities):
    curves = simulate_regret(alone(*probabilities), seed=1, cases=500, runs=20)
    constant = next(curve for curve in curves if curve.name == "adaptive, constant δ")
    exact = operating_characteristics(PairwiseMixture.symmetric(0.05, stop_for_futility=False), probabilities)
    assert constant.mean_calls == pytest.approx(exact.mean_calls, rel=0.03)
    assert constant.abstained == pytest.approx(exact.abstained, abs=0.012)  # four standard errors of 10,000 cases


@pytest.mark.slow
def test_majority_vote_grows_in_proportion_and_the_adaptive_rule_keeps_its_bounds():
    vote_curve, constant, harmonic, summable = simulate_regret(seed=3, cases=2000, runs=20)
    # The hard tenth at (0.42, 0.53, 0.05) is enough for one vote of five in ten to miss its mode.
    assert vote_curve.wrong[-1] == pytest.approx(2 * vote_curve.wrong[999], rel=0.1) and vote_curve.wrong[-1] > 50
    assert vote_curve.bound is None and vote_curve.mean_calls == 5
    for curve in (constant, harmonic, summable):
        assert (curve.wrong <= curve.bound + 0.25).all()  # 0.25: a few wrong commits by chance in 20 runs
    assert constant.bound[-1] == pytest.approx(100) and summable.bound[-1] < 0.05
    assert harmonic.bound[-1] <= 0.05 * (1 + log(2000))
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
        simulate_regret(alone(0.5, 0.5, 0.0), seed=1)
    with pytest.raises(ValueError, match="add to 1"):
        simulate_regret(alone(0.5, 0.3, 0.1), seed=1)
