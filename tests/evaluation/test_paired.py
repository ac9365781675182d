"""Paired differences: known values, coverage, and what degenerate data give."""

import numpy as np
import pytest

from screening.evaluation.metrics import wilson
from screening.evaluation.paired import exact_mcnemar, paired_amounts, paired_rates


def test_mcnemar_is_the_binomial_of_the_pairs_that_part() -> None:
    # 3 of 10 either way: 2·(1 + 10 + 45 + 120)/1024
    assert exact_mcnemar(3, 7) == exact_mcnemar(7, 3) == pytest.approx(352 / 1024)
    assert exact_mcnemar(5, 5) == 1.0


def test_without_pairs_there_is_no_figure_and_lengths_must_agree() -> None:
    for found in (paired_rates([], []), paired_amounts([], [], (-1, 1))):
        assert (found.n, found.value, found.low) == (0, None, None)
    with pytest.raises(ValueError, match="one figure for each case"):
        paired_rates([1], [1, 0])
    with pytest.raises(ValueError, match="out of its bounds"):
        paired_amounts([1, 2], [5, 2], (-3, 3))


def test_rates_have_the_adjusted_interval_by_hand() -> None:
    # 2 of 20 pairs part one way, none the other: shares 3/22 and 1/22, difference 2/22
    first, second = [0] * 20, [1] * 2 + [0] * 18
    z = 1.959963984540054
    spread = z * np.sqrt((4 / 22 - (2 / 22) ** 2) / 22)
    (low, high), (_, none) = wilson(2, 20, z), wilson(0, 20, z)  # type: ignore[misc]
    found, turned = paired_rates(first, second), paired_rates(second, first)
    assert found.value == pytest.approx(0.1)
    assert found.low == pytest.approx(min(2 / 22 - spread, 0.1 - np.hypot(0.1 - low, none)))
    assert found.high == pytest.approx(max(2 / 22 + spread, high))
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low))  # type: ignore[operator]
    same = paired_rates([1] * 20, [1] * 20)
    assert same.value == 0.0 and same.low is not None and same.low < -0.05 and same.high == -same.low
    assert paired_rates([0, 0], [1, 1]).high == 1.0 and paired_rates([1, 1], [0, 0]).low == -1.0


@pytest.mark.parametrize(("n", "dear"), [(10, 0.25), (200, 0.02), (200, 0.05)])
def test_calls_are_covered_where_few_texts_take_most_of_them_and_the_width_is_of_use(n: int, dear: float) -> None:
    """Resamples and Student's t cover in .71 to .85 here, as most samples hold too few of the dear texts."""
    rng, covered, widths, runs = np.random.default_rng(1), 0, [], 300
    for run in range(runs):
        hard = rng.random(n) < dear
        first = np.where(hard, rng.integers(200, 301, n), rng.integers(72, 100, n))  # means 250 and 85.5
        second = np.where(hard, rng.integers(100, 301, n), rng.integers(5, 12, n))  # means 200 and 8
        found = paired_amounts(first, second, (-300, 300), seed=run)
        assert found.low is not None and found.high is not None
        covered += found.low <= dear * -50 + (1 - dear) * -77.5 <= found.high
        widths.append(found.high - found.low)
    assert covered / runs >= 0.94
    assert np.mean(widths) < (600 if n == 10 else 20)


def test_amounts_follow_their_confidence_and_a_sorted_file_does_no_harm() -> None:
    first = np.sort(np.random.default_rng(2).integers(5, 60, 300))
    found = paired_amounts(np.zeros(300), first, (-300, 300))
    narrow = paired_amounts(np.zeros(300), first, (-300, 300), confidence=0.5)
    assert (found.n, found.first, found.second, found.value) == (300, 0.0, first.mean(), first.mean())
    assert found.low < narrow.low < found.value < narrow.high < found.high  # type: ignore[operator]
    assert found == paired_amounts(np.zeros(300), first, (-300, 300), seed=0)
    turned = paired_amounts(first, np.zeros(300), (-300, 300))
    assert (turned.low, turned.high) == pytest.approx((-found.high, -found.low), abs=1)  # type: ignore[operator]


def test_amounts_that_cannot_differ_do_not_and_without_bounds_there_is_no_interval() -> None:
    exact = paired_amounts([2, 2], [2, 2], (0, 0))
    assert (exact.low, exact.high) == (0, 0)
    unknown = paired_amounts([0.5] * 12, [0.7] * 12, None)
    assert unknown.value == pytest.approx(0.2) and (unknown.low, unknown.high) == (None, None)
