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


def log_capitals(values, mean, delta=0.05):
    """Log capital after each value of two gamblers, on "more than ``mean``" and on "less", from 1 each."""
    data, stakes = np.asarray(values, dtype=float), bets(values, delta)
    gains = _log_gains(data, stakes, mean), _log_gains(1 - data, stakes, 1 - mean)
    return tuple(np.cumsum(each, axis=-1) for each in gains)


def ever_excluded(values, mean, delta=0.05):
    """Whether the confidence sequence excludes ``mean`` at any look, for each run along the last axis."""
    return np.maximum(*log_capitals(values, mean, delta)).max(axis=-1) >= np.log(2 / delta)


@pytest.mark.parametrize("rate", [0.005, 0.05, 0.15, 0.5])
def test_the_mean_is_excluded_at_some_look_in_at_most_five_percent_of_runs(rate):
    runs = (np.random.default_rng(1).random((1000, 1000)) < rate).astype(float)
    assert ever_excluded(runs, rate).mean() <= 0.05


def test_the_capitals_are_martingales_at_the_mean():
    # Exactly, over all 2^10 sequences: the expected capital is 1 whatever the mean, so Ville applies.
    sequences = np.array(list(product([0.0, 1.0], repeat=10)))
    for mean in (0.1, 0.5, 0.8):
        ones = sequences.sum(axis=1)
        weights = mean**ones * (1 - mean) ** (10 - ones)
        for log_capital in log_capitals(sequences, mean):
            assert weights @ np.exp(log_capital[:, -1]) == pytest.approx(1.0)


def test_a_moved_mean_shows_as_a_contradiction():
    looks = betting_sequence([0.0] * 500 + [1.0] * 500, looks=[500, 1000])
    assert not looks[0].contradictory and looks[1].contradictory
    risen = (np.random.default_rng(1).random(1300) < np.repeat([0.002, 0.1], [1000, 300])).astype(float)
    assert [look.contradictory for look in upper_limits(risen, looks=[1000, 1300])] == [False, True]


def test_a_mean_that_does_not_move_is_seldom_called_moved() -> None:
    runs = (np.random.default_rng(9).random((40, 600)) < 0.05).astype(float)
    assert not any(look.contradictory for run in runs for look in upper_limits(run, looks=range(20, 601, 20)))


def test_all_of_the_level_above_lies_lower_and_is_exceeded_in_at_most_five_percent_of_years() -> None:
    """A limit lies below .03 at some look once the capital bet on less than .03 has reached 1/.05 by then."""
    runs = (np.random.default_rng(5).random((300, 400)) < 0.03).astype(float)
    rich = log_capitals(runs, 0.03, delta=0.1)[1].max(axis=-1) >= np.log(20)
    assert np.mean(rich) <= 0.05
    for run in (int(np.flatnonzero(rich)[0]), int(np.flatnonzero(~rich)[0])):
        assert any(look.high < 0.03 for look in upper_limits(runs[run], looks=range(1, 401, 3))) == rich[run]
    (one,), (both,) = upper_limits([0.0] * 200, looks=[200]), betting_sequence([0.0] * 200, looks=[200])
    assert one.low == 0.0 and 3 / 200 < one.high < both.high  # the rule of three holds at one look only


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


REFERENCE = {"safe": 150, "unsafe": 30, "gone": 20, "never": 0}


@pytest.mark.parametrize("alarm_rate", [0.05, 0.2])
def test_the_evidence_is_the_mean_over_shares_of_bets_beyond_their_exact_limits(alarm_rate: float) -> None:
    looks = [{"safe": 30, "unsafe": 10}, {"safe": 40, "unsafe": 25, "new": 3}]
    found = drift(REFERENCE, looks, alarm_rate)
    names = ["gone", "new", "safe", "unsafe"]
    assert [share.name for share in found.shares] == names, "an outcome that nobody ever saw has no share"
    evidence = [
        [share_evidence(REFERENCE.get(name, 0), 200, look.get(name, 0), sum(look.values()), alarm_rate / 2 / 4)
         for name in names] for look in looks
    ]  # fmt: skip
    assert [share.evidence for share in found.shares] == pytest.approx(evidence[1])
    means = [sum(each) / 4 for each in evidence]
    assert (found.evidence, found.most) == pytest.approx((means[1], max(means)))
    assert [share.since for share in found.shares] == [Proportion(k, 68) for k in (0, 3, 40, 25)]
    assert [share.reference for share in found.shares] == [Proportion(k, 200) for k in (20, 0, 150, 30)]
    assert (found.alarm_rate, found.threshold, found.reason) == (alarm_rate, 2 / alarm_rate, None)
    assert drift(REFERENCE, looks).alarm_rate == 0.05


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


NODE_ENDS = ("safe", "unsafe", "escalate", "exhausted")


def ends(random: np.random.Generator, shares: tuple[float, ...], days: int, per_day: int) -> list[dict[str, int]]:
    """Rising counts at the end of each day."""
    rising = random.multinomial(per_day, shares, size=days).cumsum(axis=0)
    return [dict(zip(NODE_ENDS, map(int, day), strict=True)) for day in rising]


@pytest.mark.slow
def test_a_quiet_year_is_seldom_called_drift_and_a_doubled_share_is_found() -> None:
    random, quiet, doubled = np.random.default_rng(6), (0.7, 0.1, 0.15, 0.05), (0.6, 0.2, 0.15, 0.05)
    alarms, delays = 0, []
    for _ in range(200):
        (reference,) = ends(random, quiet, 1, 500)
        alarms += drift(reference, ends(random, quiet, 365, 20)).moved
        (reference,) = ends(random, quiet, 1, 500)
        after = ends(random, doubled, 365, 20)
        if _ < 20:
            delays.append(next(day for day in range(1, 366) if drift(reference, after[:day]).moved))
    assert alarms <= 0.05 * 200
    assert 0 < np.median(delays) * 20 < 2_500  # cases until it is found


def test_the_reference_is_frozen_and_an_alarm_once_raised_stays() -> None:
    reference = {"safe": 450, "unsafe": 50}
    moved = drift(reference, [{"safe": 100, "unsafe": 200}])
    assert moved.moved and moved.evidence == moved.most >= moved.threshold == 40
    later = drift(reference, [{"safe": 100, "unsafe": 200}, {"safe": 5_000, "unsafe": 600}])
    assert later.evidence < later.most and later.moved
    assert [share.name for share in later.shares] == ["safe", "unsafe"]


def test_the_bets_on_a_share_at_its_limit_are_fair() -> None:
    # Exactly, over all numbers of hits in 30: with the share at the upper limit, the mean bet above it is 1.
    _, limit = clopper_pearson(50, 500, 0.05 / 2 / 2)
    hits = np.arange(31)
    chances = binom.pmf(hits, 30, limit)
    for ratio in RATIOS:
        bets_of = [
            (min(0.999, ratio * limit) / limit) ** x * ((1 - min(0.999, ratio * limit)) / (1 - limit)) ** (30 - x)
            for x in hits
        ]
        assert chances @ np.array(bets_of) == pytest.approx(1.0)
    found = [drift({"a": 50, "b": 450}, [{"a": int(x), "b": int(30 - x)}]).evidence for x in hits]
    assert chances @ np.array(found) <= 1.0 + 1e-9
