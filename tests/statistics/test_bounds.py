"""Bounds against their formulas written out, against enumeration, and against the paper's numbers."""

from math import comb, exp, inf, log, pi, sqrt

import numpy as np
import pytest

from screening.statistics.bounds import (
    Band,
    Schedule,
    algorithm_one_radius,
    clopper_pearson,
    confidence_sequence,
    dkw_label_radius,
    dkw_radius,
    expected_wrong_commits,
    fixed_sample_size,
    information_bound,
    scheduled_delta,
)


def test_algorithm_ones_radius() -> None:
    assert algorithm_one_radius(24, 0.05) == pytest.approx(sqrt(log(4 * 3 * 24**2 / 0.05) / 48))
    assert algorithm_one_radius(0, 0.05) == inf


@pytest.mark.parametrize(("gap", "pulls", "calls"), [(0.5, 29.5, 90), (0.4, 46.1, 138)])
def test_the_papers_fixed_sample_size(gap: float, pulls: float, calls: int) -> None:
    assert fixed_sample_size(gap, 0.05) == pytest.approx(2 * log(40) / gap**2)
    assert fixed_sample_size(gap, 0.05) == pytest.approx(pulls, abs=0.05)
    assert 3 * fixed_sample_size(gap, 0.05) == pytest.approx(calls, abs=2)  # the paper's ≈ 90 and ≈ 138 calls
    assert fixed_sample_size(0.0, 0.05) == inf


def test_the_time_uniform_rule_needs_more_than_the_fixed_sample_size() -> None:
    pulls = round(fixed_sample_size(0.5, 0.05))
    assert 2 * algorithm_one_radius(pulls, 0.05) > 0.5
    assert dkw_radius(pulls, 0.05) == pytest.approx(0.25, abs=0.005)  # n* is where ε = Δ/2


def test_what_the_papers_proof_gives_is_twice_what_its_theorem_states() -> None:
    assert dkw_radius(100, 0.05) == pytest.approx(sqrt(log(40) / 200))
    assert dkw_label_radius(100, 0.05) == 2 * dkw_radius(100, 0.05)
    assert dkw_radius(0, 0.05) == dkw_label_radius(0, 0.05) == inf


@pytest.mark.parametrize(
    ("p", "calls"),
    [
        ((1, 0, 0), 3.8),
        ((0.95, 0.03, 0.02), 4.9),
        ((0.9, 0.05, 0.05), 5.7),
        ((0.8, 0.1, 0.1), 8.6),
        ((0.75, 0.25, 0), 20.3),
        ((0.6, 0.2, 0.2), 25.3),
        ((0.5, 0.25, 0.25), 62.4),
    ],
)
def test_the_information_bound(p: tuple[float, ...], calls: float) -> None:
    a, b = sorted(p)[-1], sorted(p)[-2]
    to_tie = a * log(2 * a / (a + b)) + (b * log(2 * b / (a + b)) if b else 0)
    assert information_bound(p, 0.05) == pytest.approx((0.95 * log(19) + 0.05 * log(1 / 19)) / to_tie)
    assert information_bound(p, 0.05) == pytest.approx(calls, abs=0.05)


def test_no_number_of_draws_tells_apart_equal_labels() -> None:
    assert information_bound((0.5, 0.5, 0.0), 0.05) == inf


@pytest.mark.parametrize(("successes", "draws"), [(0, 10), (1, 10), (5, 10), (10, 10), (3, 400), (399, 400)])
def test_a_limit_of_the_confidence_sequence_is_where_the_martingale_reaches_one_over_delta(
    successes: int, draws: int
) -> None:
    grid = (np.arange(200_000) + 0.5) / 200_000
    mixture = np.mean(  # Beta(½, ½) is sin² of a uniform angle
        np.sin(pi / 2 * grid) ** (2 * successes) * np.cos(pi / 2 * grid) ** (2 * (draws - successes))
    )
    band = confidence_sequence(successes, draws, 0.05)
    for limit, end in ((band.low, 0.0), (band.high, 1.0)):
        if limit != end:
            martingale = log(mixture) - successes * log(limit) - (draws - successes) * log(1 - limit)
            assert exp(martingale) == pytest.approx(20, rel=1e-6)
    assert band.low <= successes / draws <= band.high
    assert (band.low == 0.0) == (successes == 0)
    assert (band.high == 1.0) == (successes == draws)


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
        missed += sum(mass for s, mass in after.items() if not bands[s].low <= p <= bands[s].high)
        live = {s: mass for s, mass in after.items() if bands[s].low <= p <= bands[s].high}
    assert 0.001 < missed <= 0.1


def test_the_confidence_sequence_is_everything_before_the_first_draw_and_survives_extremes() -> None:
    assert (confidence_sequence(0, 0, 0.05).low, confidence_sequence(0, 0, 0.05).high) == (0.0, 1.0)
    assert 0 < confidence_sequence(10**6, 10**6, 0.05).low < 1
    assert 0 < confidence_sequence(1, 10**6, 0.05).low < 1e-6
    with pytest.raises(ValueError, match="successes"):
        confidence_sequence(3, 2, 0.05)


@pytest.mark.parametrize(("successes", "draws"), [(1, 10), (5, 10), (9, 10), (3, 60)])
@pytest.mark.parametrize("delta", [0.05, 0.2])
def test_the_exact_interval_is_where_either_tail_has_half_of_delta(successes: int, draws: int, delta: float) -> None:
    def chance(p: float, counts: range) -> float:
        return sum(comb(draws, k) * p**k * (1 - p) ** (draws - k) for k in counts)

    band = clopper_pearson(successes, draws, delta)
    assert chance(band.low, range(successes, draws + 1)) == pytest.approx(delta / 2)
    assert chance(band.high, range(successes + 1)) == pytest.approx(delta / 2)


def test_the_exact_interval_ends_where_nothing_or_everything_succeeded() -> None:
    none, every = clopper_pearson(0, 10, 0.05), clopper_pearson(10, 10, 0.05)
    assert (none.low, every.high) == (0.0, 1.0)
    assert none.high == pytest.approx(1 - 0.025**0.1) == pytest.approx(1 - every.low)
    assert clopper_pearson(0, 0, 0.05) == Band(low=0.0, high=1.0)


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


def test_cases_are_counted_from_one() -> None:
    with pytest.raises(ValueError, match="from 1"):
        scheduled_delta(Schedule.HARMONIC, 0.05, 0)


@pytest.mark.parametrize("delta", [0, 1, -1])
def test_a_level_outside_the_open_unit_interval_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        dkw_radius(10, delta)
