"""Bets against their formulas, written out value by value: confidence sequences, and the drift of outcomes."""

from math import exp, inf, log, sqrt
from random import Random

import numpy as np
import pytest
from scipy.stats import beta, fisher_exact

from screening.evaluation.metrics import Proportion
from screening.evaluation.monitoring import (
    MOST_STAKE,
    RATIOS,
    Drift,
    Look,
    bets,
    betting_sequence,
    drift,
    log_capitals,
    rises,
    upper_limits,
)

VALUES = Random(3).choices([0.0, 0.3, 1.0], [4, 1, 1], k=60)


def stakes(values: list[float], delta: float) -> list[float]:
    """Waudby-Smith and Ramdas, equation 26, one value after the other."""
    found, total, spread = [], 0.5, 0.25
    for t, value in enumerate(values, start=1):
        before = spread / t  # the variance of the t - 1 values before, started at ¼
        found.append(sqrt(2 * log(2 / delta) / (before * t * log(t + 1))))
        total += value
        spread += (value - total / (t + 1)) ** 2
    return found


def capitals(values: list[float], mean: float, delta: float) -> tuple[list[float], list[float]]:
    more, less, found = 1.0, 1.0, ([], [])
    for value, stake in zip(values, stakes(values, delta), strict=True):
        more *= 1 + min(stake, MOST_STAKE / mean if mean else inf) * (value - mean)
        less *= 1 - min(stake, MOST_STAKE / (1 - mean) if mean < 1 else inf) * (value - mean)
        found[0].append(log(more))
        found[1].append(log(less))
    return found


@pytest.mark.parametrize("delta", [0.05, 0.2])
@pytest.mark.parametrize("mean", [0.02, 0.3, 0.9])
def test_stakes_and_capitals_are_those_of_the_paper(mean: float, delta: float) -> None:
    assert bets(VALUES, delta) == pytest.approx(stakes(VALUES, delta))
    for ours, theirs in zip(log_capitals(VALUES, mean, delta), capitals(VALUES, mean, delta), strict=True):
        assert list(ours) == pytest.approx(theirs)
    assert bets(VALUES) == pytest.approx(stakes(VALUES, 0.05)), "95 % where nothing else is said"
    assert list(log_capitals(VALUES, mean)[0]) == pytest.approx(capitals(VALUES, mean, 0.05)[0])


def excludes(values: list[float], mean: float, delta: float) -> bool:
    """Whether the capital on "more" is 2/δ or more now; it falls as the mean rises."""
    return capitals(values, mean, delta)[0][-1] >= log(2 / delta)


def is_limit(values: list[float], low: float, delta: float) -> bool:
    return not excludes(values, low + 1e-9, delta) and (low < 1e-9 or excludes(values, low - 1e-9, delta))


@pytest.mark.parametrize("delta", [0.05, 0.2])
def test_the_limits_are_the_means_against_which_no_capital_is_large_now(delta: float) -> None:
    looks = betting_sequence(VALUES, looks=[1, 20, 60], delta=delta)
    assert [look.observations for look in looks] == [1, 20, 60]
    for look in looks:
        seen = VALUES[: look.observations]
        assert look.estimate == pytest.approx(sum(seen) / len(seen))
        assert is_limit(seen, look.low, delta)
        assert is_limit([1 - value for value in seen], 1 - look.high, delta)
    assert 0 < looks[2].low < looks[2].high < 1
    default = betting_sequence(VALUES, looks=[60])
    assert default == betting_sequence(VALUES, looks=[60], delta=0.05)
    for one, both in zip(upper_limits(VALUES, looks=[60], delta=delta / 2), looks[2:], strict=True):
        assert (one.low, one.high, one.estimate) == (0.0, both.high, both.estimate)


def test_all_values_from_0_to_1_and_looks_from_the_first_to_the_last_are_taken() -> None:
    assert len(betting_sequence([0.0, 1.0], looks=[1, 2])) == 2
    for values, looks in (([0.0, -0.1], [1]), ([1.1, 0.0], [1])):
        with pytest.raises(ValueError, match=r"\[0, 1\]"):
            betting_sequence(values, looks=looks)
    for looks in ([1, 1], [-1], [1, 3]):
        with pytest.raises(ValueError, match="rising"):
            betting_sequence([0.0, 1.0], looks=looks)


def test_limits_that_meet_do_not_contradict_each_other() -> None:
    assert not Look(observations=1, estimate=0.5, low=0.5, high=0.5).contradictory
    assert Look(observations=1, estimate=0.5, low=0.51, high=0.5).contradictory


# --- drift


def share_evidence(reference: int, total: int, hits: int, n: int, level: float) -> float:
    """The mean of both bets: above the upper limit of a share, and below its lower one; 1 where there is no bet."""
    low = beta.ppf(level / 2, reference, total - reference + 1) if reference else 0.0
    high = beta.ppf(1 - level / 2, reference + 1, total - reference) if reference < total else 1.0

    def mean_of(alternatives: list[float], of: float) -> float:
        bets = [(to / of) ** hits * ((1 - to) / (1 - of)) ** (n - hits) for to in alternatives]
        return sum(bets) / len(bets) if bets else 1.0

    rises = [rise for ratio in RATIOS if (rise := min(0.999, ratio * high)) > high]
    falls = [fall for ratio in RATIOS if (fall := low / ratio) < low]
    return (mean_of(rises, high) + mean_of(falls, low)) / 2


REFERENCE = {"safe": 150, "unsafe": 30, "never": 0}


@pytest.mark.parametrize("alarm_rate", [0.05, 0.2])
def test_the_evidence_is_the_mean_over_shares_of_bets_beyond_their_exact_limits(alarm_rate: float) -> None:
    looks = [{"safe": 30, "unsafe": 10}, {"safe": 40, "unsafe": 25, "new": 3}]
    found = drift(REFERENCE, looks, alarm_rate)
    names = ["new", "safe", "unsafe"]
    assert [share.name for share in found.shares] == names, "an outcome that nobody ever saw has no share"
    evidence = [
        [share_evidence(REFERENCE.get(name, 0), 180, look.get(name, 0), sum(look.values()), alarm_rate / 2 / 3)
         for name in names] for look in looks
    ]  # fmt: skip
    assert [share.evidence for share in found.shares] == pytest.approx(evidence[1])
    means = [sum(each) / 3 for each in evidence]
    assert (found.evidence, found.most) == pytest.approx((means[1], max(means)))
    assert [share.since for share in found.shares] == [Proportion(3, 68), Proportion(40, 68), Proportion(25, 68)]
    assert [share.reference for share in found.shares] == [Proportion(k, 180) for k in (0, 150, 30)]
    assert (found.alarm_rate, found.threshold, found.reason) == (alarm_rate, 2 / alarm_rate, None)
    assert drift(REFERENCE, looks).alarm_rate == 0.05


def test_an_outcome_that_came_no_more_has_a_share_and_one_that_never_came_has_none() -> None:
    found = drift({"safe": 150, "gone": 30, "same": 20}, [{"safe": 40, "same": 20, "never": 0}])
    assert [(share.name, share.reference, share.since) for share in found.shares] == [
        ("gone", Proportion(30, 200), Proportion(0, 60)),
        ("safe", Proportion(150, 200), Proportion(40, 60)),
        ("same", Proportion(20, 200), Proportion(20, 60)),
    ]
    counts = [(30, 0), (150, 40), (20, 20)]
    expected = [share_evidence(before, 200, since, 60, 0.05 / 2 / 3) for before, since in counts]
    assert [share.evidence for share in found.shares] == pytest.approx(expected)


def test_a_share_that_was_everything_can_only_be_bet_on_to_fall() -> None:
    found = drift({"safe": 40}, [{"safe": 20, "unsafe": 20}])
    by_name = {share.name: share.evidence for share in found.shares}
    assert by_name["safe"] == pytest.approx(share_evidence(40, 40, 20, 40, 0.05 / 2 / 2)) and by_name["safe"] > 1
    assert by_name["unsafe"] == pytest.approx(share_evidence(0, 40, 20, 40, 0.05 / 2 / 2)) and by_name["unsafe"] > 1


def test_evidence_without_measure_stays_a_number() -> None:
    found = drift({"safe": 500, "unsafe": 500}, [{"safe": 10, "unsafe": 10_000_000}])
    assert found.most < inf and found.moved
    assert max(share.evidence for share in found.shares) == pytest.approx(exp(700) * 2 / 5, rel=1)


def test_the_alarm_is_raised_at_the_threshold() -> None:
    at = [Drift(shares=(), evidence=1.0, most=most, alarm_rate=0.05).moved for most in (39.9, 40.0, 40.1)]
    assert at == [False, True, True]


def test_nothing_is_found_without_both_sides() -> None:
    for found in (drift({"safe": 9}, []), drift({}, [{"safe": 9}])):
        assert (found.shares, found.evidence, found.most, found.alarm_rate) == ((), 1.0, 1.0, 0.05)
    assert drift({}, [], 0.1).alarm_rate == 0.1
    assert drift({}, []).reason == "the reference is not complete yet"
    assert drift({}, [{"safe": 9}]).reason == "the reference is empty" and betting_sequence([], looks=[]) == ()


def test_a_rise_is_fisher_s_exact_test_of_the_last_months_against_all_before() -> None:
    months = [(300, 6), (310, 5), (290, 8), (300, 20)]
    last = rises(months)[-1]
    tables = {
        window: [[hits := sum(h for _, h in months[-window:]), sum(n for n, _ in months[-window:]) - hits],
                 [early := sum(h for _, h in months[:-window]), sum(n for n, _ in months[:-window]) - early]]
        for window in (1, 3)
    }  # fmt: skip
    exact = {window: fisher_exact(table, alternative="greater").pvalue for window, table in tables.items()}
    assert last.p == pytest.approx(min(exact.values())) and last.months == min(exact, key=exact.__getitem__)
    assert (last.before, last.recent) == (Proportion(19, 900), Proportion(20, 300)) and last.found
    assert rises([(300, 6)]) == () and rises([(5, 1), (300, 6)]) == (), "no reference yet"
    assert not any(rise.found for rise in rises([(300, 6)] * 12)) and rises([(30, 0)] * 3)[-1].p == 1.0


def test_a_quiet_year_has_a_finding_in_at_most_a_twentieth_and_a_doubling_is_found() -> None:
    random = np.random.default_rng(2)

    def found(shares: list[float], a_month: int, runs: int) -> float:
        years = random.binomial(a_month, shares, size=(runs, 12))
        return sum(any(one.found for one in rises([(a_month, int(n)) for n in year])) for year in years) / runs

    assert found([0.02] * 12, 300, 400) <= 0.05
    assert found([0.02] * 6 + [0.04] * 6, 300, 200) > 0.55, "it was 29 to 42% of years"
    assert found([0.1] * 6 + [0.2] * 6, 600, 50) == 1.0
