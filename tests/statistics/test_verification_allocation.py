"""Neyman's allocation, and estimates over strata too small to have been read."""

from itertools import product
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from screening.labels import Outcome
from screening.statistics.verification import Allocation, Seen, Stratum, estimate, neyman
from screening.statistics.verification.allocation import PRIOR_MISSES


def seen(*tallies: tuple[int, int, int]) -> list[Seen]:
    return [Seen(name=str(place), cases=cases, read=read, unsafe=unsafe)
            for place, (cases, read, unsafe) in enumerate(tallies)]  # fmt: skip


def test_strata_are_read_in_proportion_to_their_standard_deviations() -> None:
    """Rates .01 and .09, known well: √(.01·.99) = .0995 and √(.09·.91) = .2862, so 2.88 times as often."""
    found = neyman(seen((50_000, 50_000, 500), (50_000, 50_000, 4_500)), floor=0.01, mean=0.1).probabilities
    assert found["1"] / found["0"] == pytest.approx(sqrt(0.09 * 0.91 / (0.01 * 0.99)), rel=0.03)
    assert (found["0"] + found["1"]) / 2 == pytest.approx(0.1, abs=0.001)


def test_no_other_split_of_the_same_readings_has_less_variance() -> None:
    tallies = [(60_000, 6_000, 30), (30_000, 3_000, 120), (10_000, 1_000, 150)]
    best = [neyman(seen(*tallies), floor=0.001, mean=0.05).probabilities[str(place)] for place in range(3)]

    def variance(shares: list[float]) -> float:
        return sum(n * (x / m) * (1 - x / m) / share for (n, m, x), share in zip(tallies, shares, strict=True))

    spent = sum(n * share for (n, _, _), share in zip(tallies, best, strict=True))
    for one, two in product((0.5, 0.8, 1.25, 2.0), repeat=2):
        first, second = best[0] * one, best[1] * two
        third = (spent - 60_000 * first - 30_000 * second) / 10_000
        if 0 < third <= 1:
            assert variance(best) <= 1.02 * variance([first, second, third])


def test_a_handful_of_readings_moves_little_and_none_moves_nothing() -> None:
    nothing = neyman(seen((900, 0, 0), (100, 0, 0)), floor=0.05, mean=0.1).probabilities
    assert nothing == {"0": 0.1, "1": 0.1}
    one_miss = neyman(seen((900, 45, 0), (100, 5, 1)), floor=0.05, mean=0.1).probabilities
    assert 0.1 < one_miss["1"] < 0.14


@given(
    tallies=st.lists(
        st.tuples(st.integers(1, 5_000), st.integers(0, 400), st.integers(0, 400)), min_size=1, max_size=6
    ),
    floor=st.floats(0.01, 0.3),
    more=st.floats(0, 0.6),
)
def test_the_share_read_is_kept_and_nobody_falls_below_the_plan(
    tallies: list[tuple[int, int, int]], floor: float, more: float
) -> None:
    strata = seen(*((cases, min(read, cases), min(unsafe, read, cases)) for cases, read, unsafe in tallies))
    found, mean = neyman(strata, floor, floor + more), floor + more
    shares = [found.probability(each.name, floor) for each in strata]
    assert all(floor <= share <= 1 for share in shares) and len(set(shares)) <= 6
    read = sum(share * each.cases for share, each in zip(shares, strata, strict=True))
    total = sum(each.cases for each in strata)
    assert mean * total - 1e-6 <= read <= (mean + 0.001) * total + 1e-6


def test_a_text_without_an_audit_stays_without_one() -> None:
    assert Allocation(probabilities={"close": 0.4}).probability("close", 0.0) == 0.0
    assert Allocation(probabilities={"close": 0.4}).probability(None, 0.05) == 0.05
    assert Allocation(probabilities={"close": 0.01}).probability("close", 0.05) == 0.05
    with pytest.raises(ValueError, match="above 0"):
        Allocation(probabilities={"close": 0.0})
    with pytest.raises(ValueError, match="between the plan's probability and 1"):
        neyman(seen((1, 1, 0)), floor=0.1, mean=0.05)


def tally(name: str, cases: int, read: int, unsafe: int, probability: float) -> Stratum:
    return Stratum(name=name, outcome=Outcome.SAFE, probability=probability, cases=cases, selected=read, read=read,
                   unsafe=unsafe)  # fmt: skip


def test_a_tiny_stratum_that_no_coin_chose_counts_as_missed_in_the_bound() -> None:
    large, tiny = tally("a", 9_950, 1_000, 10, 0.1), tally("b", 50, 0, 0, 0.2)
    alone, both = estimate([large]).missed, estimate([large, tiny]).missed
    assert alone.at_most_per_thousand is not None and both.at_most_per_thousand is not None
    assert both.per_thousand == pytest.approx(10.0)  # like the others: 10 in 1,000 read
    assert both.at_most_per_thousand == pytest.approx(alone.at_most_per_thousand * 0.995 + 5)  # 50 of 10,000
    assert estimate([large, tally("b", 200, 0, 0, 0.2)]).missed.per_thousand is None  # 2 % of them: too many
    caught = Stratum(name="c", outcome=Outcome.UNSAFE, probability=1.0, cases=300, selected=300, read=300, unsafe=300)
    known, found = estimate([caught, large]).sensitivity, estimate([caught, large, tiny]).sensitivity
    assert known.low is not None and found.low is not None and found.low < known.low - 0.04
    assert found.value == pytest.approx(300 / (300 + 100))


def test_every_text_may_be_read_and_no_share_is_above_1() -> None:
    assert Allocation(probabilities={"close": 1.0}).probability("close", 0.05) == 1.0
    with pytest.raises(ValueError, match="at most 1"):
        Allocation(probabilities={"close": 1.5})
    all_of_them = neyman(seen((900, 90, 0), (100, 50, 10)), floor=0.05, mean=1.0)
    assert set(all_of_them.probabilities.values()) == {1.0}
    for floor, mean in ((0.0, 0.1), (0.1, 1.2)):
        with pytest.raises(ValueError, match="between the plan's probability and 1"):
            neyman(seen((1, 1, 0)), floor=floor, mean=mean)


def test_a_rate_above_a_half_is_read_like_a_half() -> None:
    """√(p(1-p)) falls again above ½, but where nearly all are missed nobody reads less."""
    found = neyman(seen((1_000, 1_000, 500), (1_000, 1_000, 950), (1_000, 1_000, 10)), floor=0.01, mean=0.2)
    assert found.probabilities["1"] == pytest.approx(found.probabilities["0"], abs=0.001)
    assert found.probabilities["1"] > 2 * found.probabilities["2"]


def test_few_readings_are_drawn_towards_the_common_rate() -> None:
    """No miss in 10 and in 400: the common rate is 0.5/411, and (0 + a)/(expected + a) of it is left in each."""
    found = neyman(seen((1_000, 10, 0), (1_000, 400, 0)), floor=0.001, mean=0.3).probabilities
    common = 0.5 / 411
    few, many = (common * PRIOR_MISSES / (read * common + PRIOR_MISSES) for read in (10, 400))
    assert found["0"] / found["1"] == pytest.approx(sqrt(few * (1 - few) / (many * (1 - many))), rel=0.01)
