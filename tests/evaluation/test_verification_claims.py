"""Looking every day, guarantees and their plans, and what changes: levels held by simulation and exact numbers."""

from collections.abc import Callable
from itertools import product
from math import comb

import numpy as np
import pytest
from scipy.stats import binom

from screening.evaluation.audit import AuditCase, recognized_share
from screening.evaluation.guarantee import Binding, Guarantee, Standing, guarantee_of, plan_readings, readings_required
from screening.evaluation.monitoring import (
    RATIOS,
    bets,
    betting_sequence,
    drift,
    log_capitals,
    upper_limits,
)
from screening.labels import Label, Outcome
from screening.stopping.evidence import clopper_pearson

# --- looking every day


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


def test_a_stake_does_not_know_its_own_value():
    one, other = np.array([0.0, 1.0, 0.0, 1.0]), np.array([0.0, 1.0, 0.0, 0.0])
    assert (bets(one) == bets(other)).all()
    assert bets(one)[2] != bets(np.array([0.0, 0.0, 0.0, 1.0]))[2]


def test_the_sequence_narrows_holds_the_mean_and_agrees_with_its_test():
    values = (np.random.default_rng(3).random(2000) < 0.15).astype(float)
    looks = betting_sequence(values, looks=[100, 500, 2000])
    widths = [look.high - look.low for look in looks]
    assert widths == sorted(widths, reverse=True) and widths[-1] < 0.1  # Wilson at one look: 0.031
    assert all(look.low <= 0.15 <= look.high and not look.contradictory for look in looks)
    last = looks[-1]
    assert ever_excluded(values, last.low - 1e-6) and ever_excluded(values, last.high + 1e-6)
    now = [log_capitals(values, last.low)[0][-1], log_capitals(values, last.high)[1][-1]]
    assert now == pytest.approx([np.log(40)] * 2)


def test_no_miss_narrows_to_the_sequences_own_rule_of_three():
    (look,) = betting_sequence([0.0] * 600, looks=[600])
    assert look.low == 0.0 and 3 / 600 < look.high < 3 * 3 / 600


def test_a_moved_mean_shows_as_a_contradiction():
    looks = betting_sequence([0.0] * 500 + [1.0] * 500, looks=[500, 1000])
    assert not looks[0].contradictory and looks[1].contradictory
    risen = (np.random.default_rng(1).random(1300) < np.repeat([0.002, 0.1], [1000, 300])).astype(float)
    assert [look.contradictory for look in upper_limits(risen, looks=[1000, 1300])] == [False, True]


def test_a_mean_that_does_not_move_is_seldom_called_moved() -> None:
    runs = (np.random.default_rng(9).random((40, 600)) < 0.05).astype(float)
    assert not any(look.contradictory for run in runs for look in upper_limits(run, looks=range(20, 601, 20)))


def test_what_came_last_is_not_drowned_by_what_came_before() -> None:
    """Ten of 1,000 that are not known yet stand at the end: at worst 10 in 1,000, and the limit is above that."""
    (look,) = upper_limits([0.0] * 990 + [1.0] * 10, looks=[1000])
    assert look.estimate == 0.01 < look.high < 0.02


def test_all_of_the_level_above_lies_lower_and_is_exceeded_in_at_most_five_percent_of_years() -> None:
    """A limit lies below .03 at some look once the capital bet on less than .03 has reached 1/.05 by then."""
    runs = (np.random.default_rng(5).random((300, 400)) < 0.03).astype(float)
    rich = log_capitals(runs, 0.03, delta=0.1)[1].max(axis=-1) >= np.log(20)
    assert np.mean(rich) <= 0.05
    for run in (int(np.flatnonzero(rich)[0]), int(np.flatnonzero(~rich)[0])):
        assert any(look.high < 0.03 for look in upper_limits(runs[run], looks=range(1, 401, 3))) == rich[run]
    (one,), (both,) = upper_limits([0.0] * 200, looks=[200]), betting_sequence([0.0] * 200, looks=[200])
    assert one.low == 0.0 and 3 / 200 < one.high < both.high  # the rule of three holds at one look only


# --- guarantees


def guarantee(read: int, missed: int, allowed: int = 0, **more: object) -> Guarantee:
    return Guarantee(read=read, missed=missed, at_most=0.05, confidence=0.95, allowed_misses=allowed, **more)


def test_the_readings_required_are_the_exact_binomials():
    # 0.95^59 = 0.0485 ≤ 0.05 < 0.0510 = 0.95^58; 0.99^299 = 0.0495 ≤ 0.05 < 0.0500001 = 0.99^298
    assert 0.95**59 <= 0.05 < 0.95**58 and 0.99**299 <= 0.05 < 0.99**298
    assert [readings_required(0.05, misses) for misses in (0, 1, 2)] == [59, 93, 124]
    assert readings_required(0.01) == 299
    for misses in range(6):
        needed = readings_required(0.1, misses, 0.9)
        tails = [sum(comb(n, k) * 0.1**k * 0.9 ** (n - k) for k in range(misses + 1)) for n in (needed - 1, needed)]
        assert tails[1] <= 0.1 < tails[0]
    with pytest.raises(ValueError, match="between 0 and 1"):
        readings_required(0.0)


def test_the_guarantee_says_how_far_it_is():
    assert guarantee(41, 0).statement == "cannot be guaranteed yet: 41 of 59"
    assert guarantee(41, 1, allowed=1).statement == "cannot be guaranteed yet: 41 of 93"
    assert guarantee(58, 0).standing is Standing.NOT_YET
    assert guarantee(59, 0).standing is Standing.GUARANTEED
    assert guarantee(59, 0).statement.startswith("at most 5.0% of unsafe texts are called safe, at 95% confidence")
    assert guarantee(200, 1).standing is Standing.FAILED
    assert "a new plan needs new cases" in guarantee(200, 1).statement
    assert guarantee(59, 0, waiting=2).statement == (
        "cannot be guaranteed yet: 59 of 59, 2 reviews of the sample still due"
    )


def test_looking_after_every_reading_keeps_the_level_only_with_the_plan_fixed():
    # The miss rate is exactly the 5 % that the guarantee says it is below.
    misses = (np.random.default_rng(5).random((20_000, 400)) < 0.05).cumsum(axis=1)
    required = [readings_required(0.05, allowed) for allowed in range(12)]
    fixed, moved = np.zeros(20_000, bool), np.zeros(20_000, bool)
    for read in range(1, 401):
        fixed |= (misses[:, read - 1] <= 1) & (read >= required[1])
    for allowed, read in enumerate(required):
        moved |= misses[:, read - 1] <= allowed
    assert fixed.mean() <= 0.055 and moved.mean() > 0.15  # binomial error of 20,000 runs: 0.0015


def test_a_guarantee_is_stale_when_anything_it_is_bound_to_changed():
    bound = Binding(model="m1", prompt_hash="p1", rule="r1", label_definition="l1")
    assert not guarantee(59, 0, binding=bound).stale(bound)
    for changed in ({"model": "m2"}, {"prompt_hash": "p2"}, {"rule": "r2"}, {"label_definition": "l2"}):
        fields = {"model": "m1", "prompt_hash": "p1", "rule": "r1", "label_definition": "l1"} | changed
        assert guarantee(59, 0, binding=bound).stale(Binding(**fields))
    assert guarantee(59, 0).stale(bound)


def test_the_guarantee_counts_only_cases_that_had_an_equal_chance():
    def unsafe(outcome: Outcome, coin: float, probability: float = 0.1, read: bool = True) -> AuditCase:
        rating = Label.UNSAFE if read else None
        return AuditCase(stratum="a", outcome=outcome, probability=probability, coin=coin, blind_first=rating)

    flagged = [unsafe(Outcome.HUMAN_REVIEW, coin) for coin in (0.01, 0.02, 0.5, 0.9)]
    flagged += [unsafe(Outcome.UNSAFE, coin, probability=1.0) for coin in (0.03, 0.7)]
    missed = [unsafe(Outcome.SAFE, 0.04), unsafe(Outcome.SAFE, 0.3)]
    due = [unsafe(Outcome.SAFE, 0.05, read=False), unsafe(Outcome.SAFE, 0.6, read=False)]
    counted = guarantee_of(flagged + missed + due, floor=0.1)
    assert (counted.read, counted.missed, counted.waiting) == (4, 1, 1)  # coins 0.01 0.02 0.03 0.04; 0.05 is due
    assert guarantee_of([], floor=0.1).standing is Standing.NOT_YET


def test_the_planner_gives_the_shortest_plan_with_the_chance():
    plan = plan_readings(0.05, 0.01)
    assert plan is not None and plan.readings == readings_required(0.05, plan.allowed_misses)
    assert plan.chance == pytest.approx(binom.cdf(plan.allowed_misses, plan.readings, 0.01)) and plan.chance >= 0.8
    shorter = plan.allowed_misses - 1
    assert binom.cdf(shorter, readings_required(0.05, shorter), 0.01) < 0.8
    assert plan_readings(0.05, 0.05) is None and plan_readings(0.05, 0.049, most_misses=5) is None


# --- what changes


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
    limit = clopper_pearson(50, 500, 0.05 / 2 / 2).high
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


def audited(outcome: Outcome, label: Label | None, coin: float, probability: float = 0.2) -> AuditCase:
    return AuditCase(stratum="a", outcome=outcome, probability=probability, coin=coin, blind_first=label)


def test_a_lower_rate_takes_no_miss_back() -> None:
    """The defect: one unread text from a batch with a lower rate hid a miss whose coin lay between the two."""
    missed = [audited(Outcome.SAFE, Label.UNSAFE, 0.15)]
    caught = [audited(Outcome.UNSAFE, Label.UNSAFE, 0.01)] * 119
    unread = [audited(Outcome.SAFE, None, 0.9, probability=0.1)]
    for cases in (missed + caught, missed + caught + unread):
        found = guarantee_of(cases, floor=0.2)
        assert found.standing is Standing.FAILED and found.missed == 1
    assert guarantee_of(caught + unread, floor=0.2).read == 119
    low = [audited(Outcome.UNSAFE, Label.UNSAFE, 0.01, probability=0.1)] * 10
    assert guarantee_of(low, floor=0.2).read == 0, "audited below the plan's π: not all of its coins were read"


def halved(rate: float, cases: list[AuditCase]) -> float:
    return rate / 2


def below_the_missed(rate: float, cases: list[AuditCase]) -> float:
    """Chosen to fit: so low that by their coins the missed would not have been read."""
    return min((case.coin for case in cases if case.outcome is Outcome.SAFE and case.read), default=rate)


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [halved, below_the_missed])
def test_false_guarantees_stay_below_five_percent_whatever_rate_is_chosen_after_a_failure(
    chosen: Callable[[float, list[AuditCase]], float],
) -> None:
    """At a true miss rate of 5 %, with another audit rate after every failure, looking after every batch."""
    random, false, runs = np.random.default_rng(7), 0, 250
    for _ in range(runs):
        rate, cases = 0.4, list[AuditCase]()
        for _batch in range(8):
            coins, caught = random.random(400), random.random(400) >= 0.05
            cases += [
                audited(Outcome.UNSAFE if hit else Outcome.SAFE, Label.UNSAFE if coin < rate else None, coin, rate)
                for coin, hit in zip(coins, caught, strict=True)
                if coin < 0.4  # no rate is above it: the others are never read
            ]
            standing = guarantee_of(cases, floor=0.2).standing
            if standing is Standing.GUARANTEED:
                false += 1
                break
            if standing is Standing.FAILED:
                rate = chosen(rate, cases)
    assert false <= 0.05 * runs


@pytest.mark.parametrize(("sensitivity", "false_alarms"), [(0.8, 0.03), (0.6, 0.0), (0.9, 0.1)])
def test_what_double_reviews_measure_is_no_more_than_what_reviewers_recognize(sensitivity, false_alarms):
    """200 double reviews, 30% unsafe: the lower limit lies above the truth in 2.5% at most."""
    rng, above, shares = np.random.default_rng(3), 0, []
    for _ in range(400):
        chances = np.where(rng.random(200) < 0.3, sensitivity, false_alarms)
        one, other = (rng.random(200) < chances for _ in range(2))
        found = recognized_share((one & other)[one | other].tolist())
        above += found.at_least > sensitivity
        shares.append(found.share)
    assert above / 400 <= 0.025 and np.mean(shares) <= sensitivity + 0.01
    assert recognized_share([]).at_least is None
