"""Paired differences: known values, coverage, and what degenerate data give."""

import numpy as np
import pytest
from scipy.stats import norm

from screening.statistics.paired import exact_mcnemar, paired_difference, quantile_difference


def test_mcnemar_is_the_binomial_of_the_pairs_that_part() -> None:
    # 3 of 10 either way: 2·(1 + 10 + 45 + 120)/1024
    assert exact_mcnemar(3, 7) == exact_mcnemar(7, 3) == pytest.approx(352 / 1024)
    assert exact_mcnemar(5, 5) == 1.0


def test_without_pairs_there_is_no_figure_and_lengths_must_agree() -> None:
    nothing = paired_difference([], [])
    assert (nothing.n, nothing.value, nothing.low) == (0, None, None)
    with pytest.raises(ValueError, match="one figure for each case"):
        paired_difference([1], [1, 0])


def test_pairs_that_never_part_leave_room_for_what_was_not_seen() -> None:
    found = paired_difference([1.0] * 20, [1.0] * 20)
    assert found.value == 0.0 and found.low is not None and found.low < -0.05 and found.high == -found.low


def test_calls_that_differ_by_a_constant_differ_by_it_exactly() -> None:
    found = paired_difference([10, 20, 30] * 4, [7, 17, 27] * 4)
    assert (found.first, found.second, found.value, found.low, found.high) == (20.0, 17.0, -3.0, -3.0, -3.0)


@pytest.mark.parametrize("n", [1, 2, 9, 10])
def test_amounts_of_fewer_than_ten_pairs_have_no_interval_and_rates_have(n: int) -> None:
    """With one pair it had the width 0; with 2, 3 and 5 pairs of calls it covered in 52, 76 and 83 of 100."""
    first, second = _figures(n)
    for found in (paired_difference(first, second), quantile_difference(first, second, 0.9)):
        assert found.value is not None and (found.low is None, found.high is None) == (n < 10, n < 10)
    assert paired_difference([0.0] * n, [1.0] * n).low is not None


@pytest.mark.parametrize(("n", "up", "down"), [(30, 0.05, 0.05), (50, 0.1, 0.02), (200, 0.03, 0.0)])
def test_the_interval_covers_as_often_as_it_says(n: int, up: float, down: float) -> None:
    rng, covered, runs = np.random.default_rng(5), 0, 400
    for run in range(runs):
        parted = rng.choice([1, -1, 0], size=n, p=[up, down, 1 - up - down])
        first = np.where(parted == 1, 0, np.where(parted == -1, 1, rng.integers(0, 2, n)))
        found = paired_difference(list(first), list(first + parted), seed=run)
        assert found.low is not None and found.high is not None
        covered += found.low <= up - down <= found.high
    # 95 % nominal; 400 runs have a standard error of 1.1 points.
    assert covered / runs >= 0.93


def _figures(n: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    first = random.integers(5, 60, n).astype(float)
    return first, first + random.integers(-6, 15, n)


@pytest.mark.parametrize("confidence", [0.95, 0.8])
def test_the_interval_of_many_pairs_is_that_of_their_mean(confidence: float) -> None:
    first, second = _figures(900)
    found = paired_difference(first, second, confidence=confidence)
    differences = second - first
    half = norm.ppf(0.5 + confidence / 2) * differences.std() / 30  # √900
    assert (found.n, found.confidence) == (900, confidence)
    assert (found.first, found.second, found.value) == pytest.approx((first.mean(), second.mean(), differences.mean()))
    # 4,000 resamples give a limit to about a fortieth of the half width
    assert (found.low, found.high) == pytest.approx(
        (differences.mean() - half, differences.mean() + half), abs=half / 10
    )
    assert paired_difference(first, second) == paired_difference(first, second, confidence=0.95, seed=0)
    assert paired_difference(first, second, seed=1).low != paired_difference(first, second).low


@pytest.mark.parametrize("scale", [0.25, 3.0, 40_000.0])
def test_counting_whole_numbers_and_sorting_others_give_the_same(scale: float) -> None:
    """Quarters are sorted, whole numbers are counted, and those far apart are sorted again."""
    first, second = _figures(40)
    one, other = paired_difference(first, second), paired_difference(scale * first, scale * second)
    assert (other.value, other.low, other.high) == pytest.approx(
        [scale * (x or 0) for x in (one.value, one.low, one.high)]
    )
    assert one.low is not None and one.high is not None and one.low < one.high


def test_rates_are_widened_to_the_adjusted_interval_by_hand() -> None:
    # 2 of 20 pairs part one way, none the other: shares 3/22 and 1/22, difference 2/22
    first, second = [0] * 20, [1] * 2 + [0] * 18
    spread = 1.959963984540054 * np.sqrt((4 / 22 - (2 / 22) ** 2) / 22)
    found, turned = paired_difference(first, second), paired_difference(second, first)
    assert found.value == pytest.approx(0.1)
    assert found.low == pytest.approx(2 / 22 - spread)
    assert found.high == pytest.approx(max(2 / 22 + spread, 0.25), abs=0.01)  # of resamples: 5 of 20 at most, nearly
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low), abs=0.03)  # type: ignore[operator]
    apart = paired_difference([0, 0], [1, 1])
    assert apart.high == 1.0, "no difference of rates is above 1"
    assert paired_difference([1, 1], [0, 0]).low == -1.0


def test_amounts_of_few_pairs_of_which_some_take_most_calls_are_widened_to_students_t() -> None:
    # 0 … 9: mean 4.5, standard deviation √(82.5 / 9) = 3.0277, t with 9 degrees of freedom 2.2622
    found = paired_difference([0] * 10, list(range(10)))
    assert (found.low, found.high) == pytest.approx(
        (4.5 - 2.2622 * 3.0277 / 10**0.5, 4.5 + 2.2622 * 3.0277 / 10**0.5), abs=1e-3
    )
    rng, covered, runs = np.random.default_rng(1), 0, 400
    for run in range(runs):
        hard = rng.random(10) < 0.25  # means 0.25 · 179.5 + 0.75 · 85.5 = 109 and 0.25 · 102 + 0.75 · 8 = 31.5
        first = np.where(hard, rng.integers(60, 300, 10), rng.integers(72, 100, 10))
        second = np.where(hard, rng.integers(5, 200, 10), rng.integers(5, 12, 10))
        some = paired_difference(first, second, seed=run)
        assert some.low is not None and some.high is not None
        covered += some.low <= 31.5 - 109 <= some.high
    assert covered / runs >= 0.93, "by resamples alone it is 0.865"


def test_amounts_that_are_all_0_or_1_are_no_rates() -> None:
    """Simulated agents cost nothing: an interval of shares about it was one of 40 cents."""
    nothing = paired_difference([0.0] * 12, [0.0] * 12, amounts=True)
    assert (nothing.value, nothing.low, nothing.high) == (0.0, 0.0, 0.0)
    assert paired_difference([1] * 5, [1] * 5, amounts=True).low is None, "as of other amounts of few pairs"


def test_amounts_that_do_not_vary_are_not_widened() -> None:
    assert paired_difference([0] * 12, [2] * 12).low == 2.0
    assert paired_difference([2, 0] * 5, [2, 0] * 5).high == 0.0
    halves = paired_difference([0.0] * 12, [0.5] * 12)
    assert (halves.low, halves.high) == (0.5, 0.5)


def test_a_quantile_of_pairs_moves_with_them() -> None:
    first, second = _figures(300)
    moved = quantile_difference(first, first + 4, 0.9)
    assert (moved.value, moved.low, moved.high) == pytest.approx((4, 4, 4))
    found = quantile_difference(first, second, 0.9)
    assert (found.n, found.confidence) == (300, 0.95)
    assert (found.first, found.second) == pytest.approx((np.quantile(first, 0.9), np.quantile(second, 0.9)))
    assert found.value == pytest.approx(np.quantile(second, 0.9) - np.quantile(first, 0.9))
    assert found.low is not None and found.high is not None and found.low < found.value < found.high  # type: ignore[operator]
    wide, narrow = found, quantile_difference(first, second, 0.9, confidence=0.5)
    assert wide.low <= narrow.low < narrow.high <= wide.high and narrow.confidence == 0.5  # type: ignore[operator]
    assert quantile_difference(first, second, 0.9) == quantile_difference(first, second, 0.9, seed=0)


def test_the_limits_of_a_quantile_leave_out_half_of_the_rest_on_either_side_and_follow_the_seed() -> None:
    first, second = np.random.default_rng(3).normal(size=(2, 200))
    point = quantile_difference(first, second, 0.5, confidence=0.0)
    assert point.low == point.high, "half of the resamples lie on either side of it"
    found = quantile_difference(first, second, 0.5)
    assert found == quantile_difference(first, second, 0.5, seed=0) != quantile_difference(first, second, 0.5, seed=1)


def test_whole_pairs_are_drawn_again() -> None:
    """Each alone varies widely; taken by pairs they differ by 0 or 1."""
    first = np.arange(200.0)
    found = quantile_difference(first, first + np.arange(200) % 2, 0.5)
    assert found.low is not None and found.high is not None
    assert -0.5 <= found.low <= found.high <= 1.5


def test_quantiles_of_nothing_of_one_pair_and_of_unequal_lengths() -> None:
    nothing = quantile_difference([], [], 0.5, confidence=0.8)
    assert (nothing.n, nothing.first, nothing.second, nothing.value, nothing.low, nothing.high, nothing.confidence) == (
        0, None, None, None, None, None, 0.8,
    )  # fmt: skip
    one = quantile_difference([2.0], [5.0], 0.9)
    assert (one.n, one.first, one.second, one.value, one.low, one.high) == (1, 2.0, 5.0, 3.0, None, None)
    with pytest.raises(ValueError):
        quantile_difference([1.0], [1.0, 2.0], 0.5)
