"""Corrected evaluation: what is read of everything is exact, and limits hold what nobody read as often as they say."""

from itertools import product

import numpy as np
import pytest

from benchmarks.corrected import REVIEWS, TEXTS, make_benchmark, read_texts, truth_of
from screening.research.corrected import (
    INCONCLUSIVE,
    RATES,
    UNREAD,
    Benchmark,
    Readers,
    Study,
    draw_sample,
)


@pytest.fixture(scope="module")
def world() -> tuple[np.ndarray, Benchmark]:
    return make_benchmark(np.random.default_rng(5))


def test_a_benchmark_of_which_all_is_read_is_counted(world: tuple[np.ndarray, Benchmark]) -> None:
    unsafe, benchmark = world
    study = Study(benchmark=benchmark, readings=read_texts(np.arange(TEXTS), unsafe))
    for rate, (name, told) in product(RATES, benchmark.outcomes.items()):
        found, truth = study.rate(rate, name), truth_of(rate, unsafe, told)
        assert (found.value, found.low, found.high) == pytest.approx((truth, truth, truth))
        difference = study.differences(rate, "MV n=1").get(name)
        if difference is not None:
            counted = truth - truth_of(rate, unsafe, benchmark.outcomes["MV n=1"])
            assert (difference.low, difference.high) == pytest.approx((counted, counted))
    assert study.wrong_labels().value == pytest.approx(((benchmark.references == 1) != unsafe).mean())


def test_a_sample_is_random_in_every_stratum_and_keeps_to_its_budget(world: tuple[np.ndarray, Benchmark]) -> None:
    _, benchmark = world
    order = draw_sample(benchmark, REVIEWS, 3)
    assert len(order) == len(set(order.tolist())) == REVIEWS
    assert (order == draw_sample(benchmark, REVIEWS, 3)).all() and (order != draw_sample(benchmark, REVIEWS, 4)).any()
    sizes = np.bincount(benchmark.strata)
    whole, half = (np.bincount(benchmark.strata[order[:many]], minlength=2) for many in (REVIEWS, REVIEWS // 2))
    assert half == pytest.approx(whole / 2, abs=1.5)  # whoever stops early has read its share of both
    assert whole[1] / sizes[1] > 2 * whole[0] / sizes[0]  # where the draws contradict the label there is more to learn
    assert len(draw_sample(benchmark, 10_000, 3)) == TEXTS
    drawn = np.mean([np.isin(np.arange(TEXTS), draw_sample(benchmark, REVIEWS, seed)) for seed in range(100)], axis=0)
    for stratum in (0, 1):
        shares = drawn[benchmark.strata == stratum]
        assert shares.mean() == pytest.approx(whole[stratum] / sizes[stratum])
        assert shares.std() < 1.3 * np.sqrt(shares.mean() * (1 - shares.mean()) / 100)


def test_no_mistake_in_a_few_readings_is_not_taken_for_none() -> None:
    told = np.zeros(400, np.int8)
    benchmark = Benchmark.of(np.zeros(400, np.int8), {"all safe": told})
    found = Study(benchmark=benchmark, readings=read(400, 40)).rate("accuracy", "all safe")
    assert found.value == 1.0 and found.high == 1.0
    # 0 of 40: Jeffreys' 97.5% quantile of Beta(0.5, 40.5) is .060, of 360 unread; the exact limit is .088.
    assert found.low is not None and 1 - 0.088 < found.low < 1 - 0.04
    nobody = Study(benchmark=benchmark, readings=read(400, 40)).rate("fnr", "all safe")
    assert nobody.value is None  # no text is known to be unsafe


def read(texts: int, many: int) -> np.ndarray:
    readings = np.full(texts, UNREAD, np.int8)
    readings[:many] = 0
    return readings


def test_unsure_readings_are_taken_both_ways(world: tuple[np.ndarray, Benchmark]) -> None:
    unsafe, benchmark = world
    order = draw_sample(benchmark, REVIEWS, 1)
    readings = read_texts(order, unsafe)
    sure = Study(benchmark=benchmark, readings=readings)
    unsure = readings.copy()
    unsure[order[::4]] = INCONCLUSIVE
    for rate in RATES:
        one, other = sure.rate(rate, "MV n=3"), Study(benchmark=benchmark, readings=unsure).rate(rate, "MV n=3")
        assert other.low is not None and one.low is not None and other.low < one.low
        assert other.high is not None and one.high is not None and other.high > one.high


def test_readers_that_overlook_are_told_and_corrected() -> None:
    random, held, naive = np.random.default_rng(2), [], []
    for run in range(25):
        unsafe, benchmark = make_benchmark(random)
        word = np.where(unsafe, random.random(TEXTS) < 0.8, False)
        study = Study(benchmark=benchmark, readings=read_texts(draw_sample(benchmark, REVIEWS, run), word))
        readers = Readers(sensitivity=(int(random.binomial(40, 0.8)), 40))
        wrong = ((benchmark.references == 1) != unsafe).mean()
        for each, seen in (
            (study, naive),
            (Study(benchmark=benchmark, readings=study.readings, readers=readers), held),
        ):
            found = each.wrong_labels()
            assert found.low is not None and found.high is not None
            seen.append(found.low <= wrong <= found.high)
    assert np.mean(naive) < 0.8 < 0.9 <= np.mean(held)
    # What readers and model overlook together moves the miss rate, and the dial says by how much.
    dialed = [study.at(each).rate("fnr", "MV n=3").high for each in (1.0, 0.8, 0.6)]
    assert dialed == sorted(dialed) and dialed[0] < dialed[2]


@pytest.mark.slow
@pytest.mark.parametrize("together", [0.1, 0.5])
def test_limits_hold_as_often_as_they_say(together: float) -> None:
    random, runs, held = np.random.default_rng(11), 60, dict.fromkeys((*RATES, "wrong", "differences"), 0)
    for run in range(runs):
        unsafe, benchmark = make_benchmark(random, together)
        study = Study(benchmark=benchmark, readings=read_texts(draw_sample(benchmark, REVIEWS, run), unsafe))
        pairs = [
            (rate, study.rate(rate, "MV n=3"), truth_of(rate, unsafe, benchmark.outcomes["MV n=3"])) for rate in RATES
        ]
        pairs.append(("wrong", study.wrong_labels(), float(((benchmark.references == 1) != unsafe).mean())))
        difference = study.differences("fnr", "MV n=1")["MV n=3"]
        truths = [truth_of("fnr", unsafe, benchmark.outcomes[name]) for name in ("MV n=3", "MV n=1")]
        pairs.append(("differences", difference, truths[0] - truths[1]))
        for name, found, truth in pairs:
            assert found.low is not None and found.high is not None
            held[name] += found.low - 1e-9 <= truth <= found.high + 1e-9
    assert min(held.values()) >= 0.88 * runs  # 2.5 standard errors below 95%
