"""Bets against their formulas, written out value by value: confidence sequences, and the drift of outcomes."""

from itertools import product
from math import exp, inf, log, sqrt
from random import Random

import numpy as np
import pytest
from scipy.stats import beta, fisher_exact

from screening.evaluation.estimates import RATIOS, Drift, drift, rises
from screening.evaluation.metrics import Proportion
from screening.stopping.evidence import MOST_STAKE, Look, _log_gains, bets, betting_sequence, upper_limits

VALUES = Random(3).choices([0.0, 0.3, 1.0], [4, 1, 1], k=60)


def stakes(values, delta):
    """Waudby-Smith and Ramdas, equation 26, one value after the other."""
    found, total, spread = [], 0.5, 0.25
    for t, value in enumerate(values, start=1):
        before = spread / t  # the variance of the t - 1 values before, started at ¼
        found.append(sqrt(2 * log(2 / delta) / (before * t * log(t + 1))))
        total += value
        spread += (value - total / (t + 1)) ** 2
    return found


def capitals(values, mean, delta):
    more, less, found = 1.0, 1.0, ([], [])
    for value, stake in zip(values, stakes(values, delta), strict=True):
        more *= 1 + min(stake, MOST_STAKE / mean if mean else inf) * (value - mean)
        less *= 1 - min(stake, MOST_STAKE / (1 - mean) if mean < 1 else inf) * (value - mean)
        found[0].append(log(more))
        found[1].append(log(less))
    return found


def test_stakes_and_capitals_are_those_of_the_paper():
    assert bets(VALUES) == pytest.approx(stakes(VALUES, 0.05)), "95 % where nothing else is said"
    for delta, mean in product((0.05, 0.2), (0.02, 0.3, 0.9)):
        assert bets(VALUES, delta) == pytest.approx(stakes(VALUES, delta))
        data, both = np.array(VALUES), bets(VALUES, delta)
        gains = _log_gains(data, both, mean), _log_gains(1 - data, both, 1 - mean)
        for ours, theirs in zip(np.cumsum(gains, axis=-1), capitals(VALUES, mean, delta), strict=True):
            assert list(ours) == pytest.approx(theirs)


@pytest.mark.parametrize("delta", [0.05, 0.2])
def test_the_limits_are_the_means_against_which_no_capital_is_large_now(delta):
    def excludes(values, mean):  # the capital on "more" falls as the mean rises
        return capitals(values, mean, delta)[0][-1] >= log(2 / delta)

    looks = betting_sequence(VALUES, looks=[1, 20, 60], delta=delta)
    assert [look.observations for look in looks] == [1, 20, 60]
    for look in looks:
        seen = VALUES[: look.observations]
        assert look.estimate == pytest.approx(sum(seen) / len(seen))
        for values, limit in ((seen, look.low), ([1 - value for value in seen], 1 - look.high)):
            assert not excludes(values, limit + 1e-9) and (limit < 1e-9 or excludes(values, limit - 1e-9))
    assert 0 < looks[2].low < looks[2].high < 1
    assert betting_sequence(VALUES, looks=[60]) == betting_sequence(VALUES, looks=[60], delta=0.05)
    (one,) = upper_limits(VALUES, looks=[60], delta=delta / 2)
    assert (one.low, one.high, one.estimate) == (0.0, looks[2].high, looks[2].estimate)


def test_what_is_taken_and_that_nothing_is_found_without_both_sides():
    assert len(betting_sequence([0.0, 1.0], looks=[1, 2])) == 2
    for values, looks in (([0.0, -0.1], [1]), ([1.1, 0.0], [1])):
        with pytest.raises(ValueError, match=r"\[0, 1\]"):
            betting_sequence(values, looks=looks)
    for looks in ([1, 1], [-1], [1, 3]):
        with pytest.raises(ValueError, match="rising"):
            betting_sequence([0.0, 1.0], looks=looks)
    for found in (drift({"safe": 9}, []), drift({}, [{"safe": 9}])):
        assert (found.shares, found.evidence, found.most, found.alarm_rate) == ((), 1.0, 1.0, 0.05)
    assert drift({}, [], 0.1).alarm_rate == 0.1
    assert drift({}, []).reason == "the reference is not complete yet"
    assert drift({}, [{"safe": 9}]).reason == "the reference is empty" and betting_sequence([], looks=[]) == ()


def test_a_moved_mean_shows_as_a_contradiction():
    looks = betting_sequence([0.0] * 500 + [1.0] * 500, looks=[500, 1000])
    assert not looks[0].contradictory and looks[1].contradictory
    risen = (np.random.default_rng(1).random(1300) < np.repeat([0.002, 0.1], [1000, 300])).astype(float)
    assert [look.contradictory for look in upper_limits(risen, looks=[1000, 1300])] == [False, True]
    meeting = [Look(observations=1, estimate=0.5, low=low, high=0.5).contradictory for low in (0.5, 0.51)]
    assert meeting == [False, True]


# --- drift


def share_evidence(reference, total, hits, n, level):
    """The mean of both bets: above the upper limit of a share, and below its lower one; 1 where there is no bet."""
    low = beta.ppf(level / 2, reference, total - reference + 1) if reference else 0.0
    high = beta.ppf(1 - level / 2, reference + 1, total - reference) if reference < total else 1.0

    def mean_of(alternatives, of):
        bets = [(to / of) ** hits * ((1 - to) / (1 - of)) ** (n - hits) for to in alternatives]
        return sum(bets) / len(bets) if bets else 1.0

    rises = [rise for ratio in RATIOS if (rise := min(0.999, ratio * high)) > high]
    falls = [fall for ratio in RATIOS if (fall := low / ratio) < low]
    return (mean_of(rises, high) + mean_of(falls, low)) / 2


@pytest.mark.parametrize("alarm_rate", [0.05, 0.2])
@pytest.mark.parametrize("reference", [{"safe": 150, "unsafe": 30, "gone": 20, "never": 0}, {"safe": 40}])
def test_the_evidence_is_the_mean_over_shares_of_bets_beyond_their_exact_limits(reference, alarm_rate):
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


def test_a_rise_is_fisher_s_exact_test_of_the_last_months_against_all_before():
    months, exact = [(300, 6), (310, 5), (290, 8), (300, 20)], {}
    for window in (1, 3):
        sums = [(sum(n for n, _ in some), sum(k for _, k in some)) for some in (months[-window:], months[:-window])]
        exact[window] = fisher_exact([[k, n - k] for n, k in sums], alternative="greater").pvalue
    last = rises(months)[-1]
    assert last.p == pytest.approx(min(exact.values())) and last.months == min(exact, key=exact.__getitem__)
    assert (last.before, last.recent) == (Proportion(19, 900), Proportion(20, 300)) and last.found
    assert last.level == pytest.approx(0.05 / 12 / 3)  # of a year's looks and three windows
    assert rises([(300, 6)]) == () and rises([(5, 1), (300, 6)]) == (), "no reference yet"
    assert not any(rise.found for rise in rises([(300, 6)] * 12)) and rises([(30, 0)] * 3)[-1].p == 1.0


def test_an_alarm_is_raised_at_the_threshold_and_stays_and_no_evidence_is_without_measure():
    at = [Drift(shares=(), evidence=1.0, most=most, alarm_rate=0.05).moved for most in (39.9, 40.0, 40.1)]
    assert at == [False, True, True]
    reference, risen = {"safe": 450, "unsafe": 50}, {"safe": 100, "unsafe": 200}
    moved, later = drift(reference, [risen]), drift(reference, [risen, {"safe": 5_000, "unsafe": 600}])
    assert moved.moved and moved.evidence == moved.most >= moved.threshold == 40
    assert later.evidence < later.most and later.moved
    endless = drift({"safe": 500, "unsafe": 500}, [{"safe": 10, "unsafe": 10_000_000}])
    assert endless.most < inf and endless.moved
    assert max(share.evidence for share in endless.shares) == pytest.approx(exp(700) * 2 / 5, rel=1)
