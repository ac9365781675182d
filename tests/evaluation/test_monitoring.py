"""Bets against their formulas, written out value by value: confidence sequences, and the drift of outcomes."""

from itertools import product
from math import exp, inf, log, sqrt
from random import Random

import numpy as np
import pytest
from scipy.stats import beta, binom, fisher_exact

from screening.evaluation.metrics import Proportion
from screening.evaluation.monitoring import (
    MOST_STAKE,
    RATIOS,
    Drift,
    Look,
    _log_gains,
    bets,
    betting_sequence,
    drift,
    rises,
    upper_limits,
)
from screening.stopping.evidence import clopper_pearson

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
    data, both = np.array(VALUES), bets(VALUES, delta)
    gains = _log_gains(data, both, mean), _log_gains(1 - data, both, 1 - mean)
    for ours, theirs in zip(np.cumsum(gains, axis=-1), capitals(VALUES, mean, delta), strict=True):
        assert list(ours) == pytest.approx(theirs)
    assert bets(VALUES) == pytest.approx(stakes(VALUES, 0.05)), "95 % where nothing else is said"


def is_limit(values: list[float], low: float, delta: float) -> bool:
    """Whether the capital on "more" reaches 2/δ just below it and not just above: it falls as the mean rises."""

    def excludes(mean: float) -> bool:
        return capitals(values, mean, delta)[0][-1] >= log(2 / delta)

    return not excludes(low + 1e-9) and (low < 1e-9 or excludes(low - 1e-9))


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


def test_the_capitals_are_martingales_at_the_mean() -> None:
    # Exactly, over all 2^10 sequences: the expected capital is 1 whatever the mean, so Ville applies.
    sequences = np.array(list(product([0.0, 1.0], repeat=10)))
    for mean in (0.1, 0.5, 0.8):
        ones, stake = sequences.sum(axis=1), bets(sequences, 0.05)
        weights = mean**ones * (1 - mean) ** (10 - ones)
        for gains in (_log_gains(sequences, stake, mean), _log_gains(1 - sequences, stake, 1 - mean)):
            assert weights @ np.exp(gains.sum(axis=-1)) == pytest.approx(1.0)


def test_a_moved_mean_shows_as_a_contradiction() -> None:
    looks = betting_sequence([0.0] * 500 + [1.0] * 500, looks=[500, 1000])
    assert not looks[0].contradictory and looks[1].contradictory
    risen = (np.random.default_rng(1).random(1300) < np.repeat([0.002, 0.1], [1000, 300])).astype(float)
    assert [look.contradictory for look in upper_limits(risen, looks=[1000, 1300])] == [False, True]
    meeting = [Look(observations=1, estimate=0.5, low=low, high=0.5).contradictory for low in (0.5, 0.51)]
    assert meeting == [False, True]


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


@pytest.mark.parametrize("alarm_rate", [0.05, 0.2])
@pytest.mark.parametrize("reference", [{"safe": 150, "unsafe": 30, "gone": 20, "never": 0}, {"safe": 40}])
def test_the_evidence_is_the_mean_over_shares_of_bets_beyond_their_exact_limits(
    reference: dict[str, int], alarm_rate: float
) -> None:
    """A share that was everything can only be bet on to fall; an outcome that nobody ever saw has no share."""
    looks, total = [{"safe": 30, "unsafe": 10}, {"safe": 40, "unsafe": 25, "new": 3}], sum(reference.values())
    found = drift(reference, looks, alarm_rate)
    names = sorted({"safe", "unsafe", "new", *reference} - {"never"})
    assert [share.name for share in found.shares] == names
    level = alarm_rate / 2 / len(names)
    evidence = [
        [share_evidence(reference.get(name, 0), total, look.get(name, 0), sum(look.values()), level) for name in names]
        for look in looks
    ]
    assert [share.evidence for share in found.shares] == pytest.approx(evidence[1])
    means = [sum(each) / len(names) for each in evidence]
    assert (found.evidence, found.most) == pytest.approx((means[1], max(means)))
    assert [share.since for share in found.shares] == [Proportion(looks[1].get(name, 0), 68) for name in names]
    assert [share.reference for share in found.shares] == [Proportion(reference.get(n, 0), total) for n in names]
    assert (found.alarm_rate, found.threshold, found.reason) == (alarm_rate, 2 / alarm_rate, None)


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


def test_an_alarm_is_raised_at_the_threshold_and_stays_and_no_evidence_is_without_measure() -> None:
    at = [Drift(shares=(), evidence=1.0, most=most, alarm_rate=0.05).moved for most in (39.9, 40.0, 40.1)]
    assert at == [False, True, True]
    reference, risen = {"safe": 450, "unsafe": 50}, {"safe": 100, "unsafe": 200}
    moved, later = drift(reference, [risen]), drift(reference, [risen, {"safe": 5_000, "unsafe": 600}])
    assert moved.moved and moved.evidence == moved.most >= moved.threshold == 40
    assert later.evidence < later.most and later.moved
    endless = drift({"safe": 500, "unsafe": 500}, [{"safe": 10, "unsafe": 10_000_000}])
    assert endless.most < inf and endless.moved
    assert max(share.evidence for share in endless.shares) == pytest.approx(exp(700) * 2 / 5, rel=1)


def test_the_bets_on_a_share_at_its_limit_are_fair() -> None:
    # Exactly, over all numbers of hits in 30, with the share at its upper limit.
    _, limit = clopper_pearson(50, 500, 0.05 / 2 / 2)
    chances = binom.pmf(np.arange(31), 30, limit)
    found = [drift({"a": 50, "b": 450}, [{"a": hits, "b": 30 - hits}]).evidence for hits in range(31)]
    assert 0.5 < chances @ np.array(found) <= 1.0 + 1e-9
