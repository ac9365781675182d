"""`make simulate`: how often each limit and alarm is wrong in simulated runs, beside what is claimed of it.

Takes some ten minutes: for once a week, and after a change of `screening/evaluation`. Ends with 1 where a claim fails
by more than three standard errors.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from math import sqrt

import numpy as np

from screening.evaluation.agreement import Ratings, gwet_ac1, krippendorff_alpha, label_agreement, with_interval
from screening.evaluation.audit import AuditCase, AuditPlan, Stratum, corrected_bound, guarantee_of, recognized_share
from screening.evaluation.corrected import UNREAD, Reviewers, Study, draw_sample, strata_of
from screening.evaluation.estimates import drift, estimate, rises
from screening.evaluation.metrics import paired_amounts, paired_rates
from screening.labels import Label, Outcome
from screening.stopping.evidence import upper_limits

Random = np.random.Generator
Line = tuple[str, int, int]
"""What is claimed, how often it was wrong, and the number of runs."""
MOST = 0.05
"""What may be wrong at most: of one limit, of both limits together, of an alarm in a year."""


def guarantee(random: Random) -> Iterator[Line]:
    """A plan met although 5% are missed, where the sampling rate is changed after every failure."""
    for words, following in (("halved", _half), ("chosen below the draws of the missed", _below_the_missed)):
        yield f"a plan is met, rate {words} after a failure", sum(_met(random, following) for _ in range(500)), 500


def _half(rate: float, _: list[AuditCase]) -> float:
    return rate / 2


def _below_the_missed(rate: float, cases: list[AuditCase]) -> float:
    return min((case.coin for case in cases if case.outcome is Outcome.SAFE and case.state == "read"), default=rate)


def _met(random: Random, following: Callable[[float, list[AuditCase]], float]) -> bool:
    rate, cases = 0.4, list[AuditCase]()
    for _batch in range(10):
        coins, caught = random.random(300), random.random(300) >= 0.05
        cases += [
            AuditCase(
                stratum="all",
                outcome=Outcome.UNSAFE if hit else Outcome.SAFE,
                coin=coin,
                probability=rate,
                blind_first=Label.UNSAFE if coin < rate else None,
            )
            for coin, hit in zip(coins, caught, strict=True)
            if coin < 0.4  # no rate is above it: the others are never reviewed
        ]
        standing = guarantee_of(cases, AuditPlan(), 0.2).standing
        if standing == "guaranteed":
            return True
        rate = following(rate, cases) if standing == "failed" else rate
    return False


def sequence(random: Random) -> Iterator[Line]:
    """A limit that is looked at after every five of 1,000 reviews, with and without texts that say too little."""
    looks = range(5, 1001, 5)
    wrong = sum(_ever_below(random.random(1000) < 0.02, looks, 0.02) for _ in range(300))
    yield "the limit of the missed at some of 200 looks", wrong, 300
    unclear = 0
    for _ in range(300):
        unsafe = random.random(300) < 0.05
        unclear += _ever_below(unsafe | (random.random(300) < np.where(unsafe, 0.7, 0.4)), range(10, 301, 10), 0.05)
    yield "the same, 40 to 70% inconclusive", unclear, 300


def _ever_below(found: np.ndarray, looks: Sequence[int], truth: float, share: float = 1.0) -> bool:
    limits = upper_limits(found.astype(float).tolist(), looks=looks)
    return any(corrected_bound(look.high, share) < truth for look in limits)


def missed(random: Random) -> Iterator[Line]:
    """The bound of the missed and the interval of the sensitivity, from strata audited at .05, .2 and 1."""
    below = outside = inconclusive = 0
    truths = ((4000, 0.004, 0.05), (800, 0.02, 0.2), (200, 0.1, 1.0))
    truly = sum(size * rate for size, rate, _ in truths)
    for _ in range(2000):
        flagged = int(random.poisson(360))
        strata = [_stratum(Outcome.UNSAFE, flagged, flagged, flagged, 1.0, "flagged")]
        for place, (size, rate, pi) in enumerate(truths):
            unsafe = int(random.poisson(size * rate))
            hits = int(random.binomial(unsafe, pi))
            read = hits + int(random.binomial(size - unsafe, pi))
            strata.append(_stratum(Outcome.SAFE, size, read, hits, pi, str(place)))
        found = estimate(strata)
        outside += not (found.sensitivity.low or 0.0) <= 360 / (360 + truly) <= (found.sensitivity.high or 1.0)
        below += (found.missed.at_most_per_thousand or 0) < 1000 * truly / 5000
        unsafe_ones = random.random(300) < 0.05
        known = random.random(300) >= np.where(unsafe_ones, 0.7, 0.4)
        reviewed = int(known.sum()), int((unsafe_ones & known).sum())
        one = _stratum(Outcome.SAFE, 3000, *reviewed, 0.1, "all", selected=300, inconclusive=int((~known).sum()))
        inconclusive += (estimate([one]).missed.at_most_per_thousand or 0) < 50
    yield "the bound of the missed", below, 2000
    yield "the bound of the missed, 40 to 70% inconclusive", inconclusive, 2000
    yield "the interval of the sensitivity", outside, 2000


def _stratum(outcome: Outcome, cases: int, read: int, unsafe: int, pi: float, name: str, **more: int) -> Stratum:
    counts = {"selected": read, **more}
    return Stratum(name=name, outcome=outcome, probability=pi, cases=cases, read=read, unsafe=unsafe, **counts)


def recognition(random: Random) -> Iterator[Line]:
    """A year of three reviews a day by people who recognize some unsafe texts only: bounds divided by that share."""
    looks = [3 * day for day in range(15, 366, 10)]
    for share in (0.8, 0.6):
        assumed = measured = 0
        for _ in range(300):
            said = (random.random(3 * 365) < 0.03) & (random.random(3 * 365) < share)
            assumed += _ever_below(said, looks, 0.03, share)
            measured += _measured_too_low(random, said, looks, share)
        yield f"the bound over the assumed share, {share:.0%} recognized", assumed, 300
        yield f"the bound over the share in double reviews, {share:.0%} recognized", measured, 300


def _measured_too_low(random: Random, said: np.ndarray, looks: Sequence[int], share: float) -> bool:
    """One in five of other texts, of which 30% are unsafe, is reviewed twice; 3% of the safe are labeled unsafe."""
    chances = np.where(random.random(len(said)) < 0.3, share, 0.03)
    first, second = (random.random(len(said)) < chances for _ in range(2))
    chosen = (random.random(len(said)) < 0.2) & (first | second)
    for look in upper_limits(said.astype(float).tolist(), looks=looks, delta=0.025):
        found = recognized_share((first & second)[np.flatnonzero(chosen[: look.observations])].tolist())
        if found is not None and corrected_bound(look.high, found.low) < 0.03:
            return True
    return False


def alarms(random: Random) -> Iterator[Line]:
    """A year without a change: drift of the outcomes, and rises from month to month."""
    shares = (0.7, 0.1, 0.15, 0.05)
    called = 0
    for _ in range(300):
        reference, *days = (
            dict(zip(("safe", "unsafe", "escalate", "exhausted"), map(int, counts), strict=True))
            for counts in (random.multinomial(500, shares), *random.multinomial(20, shares, size=365).cumsum(axis=0))
        )
        called += drift(reference, days).moved
    yield "drift is called in a quiet year", called, 300
    for a_month, share in ((30, 0.02), (300, 0.02), (600, 0.1)):
        found = (
            rises([(a_month, int(one)) for one in run]) for run in random.binomial(a_month, share, size=(2000, 12))
        )
        wrong = sum(any(rise.found for rise in year) for year in found)
        yield f"a rise is found in a quiet year, {share:.0%} of {a_month} a month", wrong, 2000


def agreement(random: Random) -> Iterator[Line]:
    """Intervals of agreement among two or three reviewers of 20 texts, against their values in 200,000."""
    kinds = {
        "α": krippendorff_alpha,
        "AC1": gwet_ac1,
        "agreement on unsafe": lambda few: label_agreement(few, "unsafe"),
    }
    for unsafe, right, reviewers in ((0.4, 0.85, 2), (0.15, 0.9, 2), (0.1, 0.85, 3)):
        many, *few = (_ratings(random, n, unsafe, right, reviewers) for n in (200_000, *[20] * 400))
        for name, kind in kinds.items():
            truth, label = kind(many).value or 0.0, "unsafe" if "unsafe" in name else None
            found = [one for one in (with_interval(kind, each, label) for each in few) if one.low is not None]
            outside = sum(not (one.low or 0) <= truth <= (one.high or 1) for one in found)
            words = f"the interval of {name}, 20 texts, {unsafe:.0%} unsafe, {reviewers} right in {right:.0%}"
            yield words, outside, len(found)


def _ratings(random: Random, n: int, unsafe: float, right: float, reviewers: int) -> Ratings:
    codes = (random.random((n, reviewers)) < right) == (random.random(n) < unsafe)[:, None]
    return Ratings.of(codes.astype(np.int64), ("safe", "unsafe"))


def paired(random: Random) -> Iterator[Line]:
    """Differences of two conditions on the same texts: of calls, where few texts take most of them, and of rates."""
    for n, dear in ((50, 0.05), (200, 0.02), (500, 0.05)):
        outside, truth = 0, dear * -50 + (1 - dear) * -77.5
        for run in range(500):
            hard = random.random(n) < dear
            first = np.where(hard, random.integers(200, 301, n), random.integers(72, 100, n))
            second = np.where(hard, random.integers(100, 301, n), random.integers(5, 12, n))
            found = paired_amounts(first, second, (-300, 300), seed=run)
            outside += not (found.low or 0) <= truth <= (found.high or 0)
        yield f"the difference of calls, {n} texts, {dear:.0%} dear", outside, 500
    for n, up, down in ((50, 0.1, 0.02), (200, 0.03, 0.0), (200, 0.1, 0.1)):
        outside = 0
        for _ in range(2000):
            parted = random.choice([1, 0, -1], size=n, p=[up, 1 - up - down, down])
            rate = paired_rates(np.maximum(0, -parted), np.maximum(0, parted))
            outside += not (rate.low or 0) <= up - down <= (rate.high or 0)
        yield f"the difference of rates, {n} texts, {up:.0%} and {down:.0%} apart", outside, 2000


def reviewed(random: Random) -> Iterator[Line]:
    """Rates by reviews of 500 texts with a tenth of the labels wrong: 120 reviewed as `draw_sample` chooses them, by
    reviewers who are right and by reviewers of .80 with 80 planted texts; or 25 off a list and some drawn at random.
    """
    ways = {
        "120 reviewed": lambda *given: _drawn(random, *given, sensitivity=1.0),
        "120 by reviewers of .80, 80 planted": lambda *given: _drawn(random, *given, sensitivity=0.8),
        "25 picked and 25 drawn": lambda *given: _picked(random, *given, 25),
        "25 picked and 100 drawn": lambda *given: _picked(random, *given, 100),
    }
    for words, study_of in ways.items():
        outside = dict.fromkeys(("accuracy", "fpr", "fnr", "wrong labels"), 0)
        for run in range(400):
            unsafe = random.random(500) < 0.3
            labels = (unsafe != (random.random(500) < 0.1)).astype(np.int8)
            told = np.where(random.random(500) < 0.1, 2, unsafe != (random.random(500) < 0.1)).astype(np.int8)
            study, decided = study_of(unsafe, labels, told, run), told != 2
            values = {
                "accuracy": (told == unsafe)[decided].mean(),
                "fpr": (told == 1)[decided & ~unsafe].mean(),
                "fnr": (told == 0)[decided & unsafe].mean(),
                "wrong labels": (labels != unsafe).mean(),
            }
            for name, value in values.items():
                one = study.wrong_labels() if name == "wrong labels" else study.rate(name, "it")  # type: ignore[arg-type]
                outside[name] += not (one.low or 0) - 1e-9 <= value <= (one.high or 0) + 1e-9
        for name, wrong in outside.items():
            yield f"{name} of 500 texts, {words}", wrong, 400


def _drawn(
    random: Random, unsafe: np.ndarray, labels: np.ndarray, told: np.ndarray, run: int, sensitivity: float
) -> Study:
    strata = strata_of(np.where(told == 2, 1.0, told != labels))
    chosen, reviewers, said = draw_sample(strata, 120, run), Reviewers(), unsafe
    if sensitivity < 1:
        said = random.random(500) < np.where(unsafe, sensitivity, 0.02)
        recognized, right = int(random.binomial(40, sensitivity)), int(random.binomial(40, 0.98))
        reviewers = Reviewers(sensitivity=(recognized, 40), specificity=(right, 40))
    reviews = np.full(500, UNREAD, np.int8)
    reviews[chosen] = said[chosen]
    return Study(references=labels, outcomes={"it": told}, strata=strata, reviews=reviews, reviewers=reviewers)


def _picked(random: Random, unsafe: np.ndarray, labels: np.ndarray, told: np.ndarray, _run: int, drawn: int) -> Study:
    against = (told != 2) & (told != labels)
    picked = told == 2
    picked[random.permutation(np.flatnonzero(against))[:25]] = True
    chosen = picked.copy()
    chosen[random.permutation(np.flatnonzero(~picked))[:drawn]] = True
    reviews, strata = np.where(chosen, unsafe, UNREAD).astype(np.int8), strata_of(against.astype(float), picked)
    return Study(references=labels, outcomes={"it": told}, strata=strata, reviews=reviews)


PARTS = {
    part.__name__: part for part in (guarantee, sequence, missed, recognition, alarms, agreement, paired, reviewed)
}


def main(arguments: list[str] | None = None) -> int:
    """Print a line for each claim; 1 where one fails by more than three standard errors."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulations", description=main.__doc__)
    parser.add_argument("parts", nargs="*", metavar="part", help=f"of {', '.join(PARTS)}; all where none is named")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    if unknown := set(given.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}")
    failed = 0
    print(f"| wrong in simulated runs, at most {MOST:.0%} | measured | runs |\n|---|---|---|")
    for name in given.parts or PARTS:
        for words, wrong, runs in PARTS[name](np.random.default_rng(given.seed)):
            holds = wrong / runs <= MOST + 3 * sqrt(MOST * (1 - MOST) / runs)
            failed += not holds
            print(f"| {words} | {wrong / runs:.1%}{'' if holds else ' FAILS'} | {runs:,} |", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
