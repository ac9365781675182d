"""Paired differences: known values, coverage, and what degenerate data give."""

import numpy as np
import pytest

from screening.statistics.paired import exact_mcnemar, paired_difference


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
    found = paired_difference([10, 20, 30], [7, 17, 27])
    assert (found.first, found.second, found.value, found.low, found.high) == (20.0, 17.0, -3.0, -3.0, -3.0)


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
