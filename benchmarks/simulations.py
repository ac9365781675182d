"""`make simulate`: what the claims promise beside what simulation measures."""

import argparse
import sys
from collections.abc import Callable, Sequence

import numpy as np

from benchmarks.corrected import corrected
from screening.evaluation.agreement import (
    Coefficient,
    Ratings,
    gwet_ac1,
    krippendorff_alpha,
    label_agreement,
    with_interval,
)
from screening.evaluation.audit import AuditCase, Stratum, corrected_bound, recognized_share
from screening.evaluation.corrected import UNREAD, Benchmark, Study
from screening.evaluation.estimates import MissedUnsafe, estimate, upper_bound
from screening.evaluation.guarantee import Standing, guarantee_of
from screening.evaluation.metrics import wilson
from screening.evaluation.monitoring import drift, rises, upper_limits
from screening.evaluation.paired import paired_amounts, paired_rates
from screening.labels import Label, Outcome

Line = tuple[str, str, str, int]
"""What is claimed, its nominal level, what was measured, and the number of runs."""


def _case(outcome: Outcome, coin: float, pi: float, **read: object) -> AuditCase:
    return AuditCase(stratum="all", outcome=outcome, probability=pi, coin=coin, **read)  # type: ignore[arg-type]


def guarantee(seed: int) -> list[Line]:
    """False guarantees at a true miss rate of 5 %, with another audit rate after every failure."""
    random, runs = np.random.default_rng(seed), 1000
    ways: dict[str, NextRate] = {
        "the rate halved after every failure": lambda rate, _: rate / 2,
        "the rate chosen to fit: below the coins of the missed": _lowest_missed_coin,
    }
    return [
        (f"False guarantee, {words}", "≤ 5 %", f"{_false_guarantees(random, runs, chosen) / runs:.1%}", runs)
        for words, chosen in ways.items()
    ]


NextRate = Callable[[float, list[AuditCase]], float]


def _lowest_missed_coin(rate: float, cases: list[AuditCase]) -> float:
    return min((case.coin for case in cases if case.outcome is Outcome.SAFE and case.read), default=rate)


def _false_guarantees(random: np.random.Generator, runs: int, chosen: NextRate) -> int:
    false = 0
    for _ in range(runs):
        rate, cases = 0.4, list[AuditCase]()
        for _batch in range(10):
            coins, caught = random.random(300), random.random(300) >= 0.05
            cases += [
                _case(
                    Outcome.UNSAFE if hit else Outcome.SAFE,
                    coin,
                    rate,
                    blind_first=Label.UNSAFE if coin < rate else None,
                )
                for coin, hit in zip(coins, caught, strict=True)
                if coin < 0.4  # no rate is above it: the others are never read
            ]
            standing = guarantee_of(cases, floor=0.2).standing
            if standing is Standing.GUARANTEED:
                false += 1
                break
            rate = chosen(rate, cases) if standing is Standing.FAILED else rate
    return false


def sequence(seed: int) -> list[Line]:
    """A year of daily looks at the missed: the limit that holds at every look, and the one for a single look."""
    random, runs, rate, looks = np.random.default_rng(seed), 300, 0.02, list(range(5, 1001, 5))
    ever, ever_fixed, price = 0, 0, []
    for _ in range(runs):
        values = (random.random(1000) < rate).astype(float)
        found = upper_limits(values.tolist(), looks=looks)
        fixed = [upper_bound(int(values[:n].sum()), n) for n in looks]
        ever += any(look.high < rate for look in found)
        ever_fixed += any(bound < rate for bound in fixed)
        price.append(found[-1].high / fixed[-1])
    return [
        (
            "Limit of the missed below the truth at some of 200 looks: betting, one-sided",
            "≤ 5 %",
            f"{ever / runs:.1%}",
            runs,
        ),
        ("… the exact bound for one look, looked at as often", "5 % at one look", f"{ever_fixed / runs:.1%}", runs),
        (
            "Price of looking at any time: ratio of the limits after 1,000 readings (median)",
            "–",
            f"{np.median(price):.2f}",
            runs,
        ),
    ]


def simulate_drift(seed: int) -> list[Line]:
    """A frozen reference of 500 cases, a year of 20 cases a day, without a change and with a doubled share."""
    random, names, runs = np.random.default_rng(seed), ("safe", "unsafe", "escalate", "exhausted"), 300

    def days(shares: tuple[float, ...], count: int, each: int) -> list[dict[str, int]]:
        rising = random.multinomial(each, shares, size=count).cumsum(axis=0)
        return [dict(zip(names, map(int, day), strict=True)) for day in rising]

    quiet, doubled = (0.7, 0.1, 0.15, 0.05), (0.6, 0.2, 0.15, 0.05)
    alarms = sum(drift(days(quiet, 1, 500)[0], days(quiet, 365, 20)).moved for _ in range(runs))
    delays = []
    for _ in range(40):
        reference, after = days(quiet, 1, 500)[0], days(doubled, 365, 20)
        low, high = 0, 366
        while high - low > 1:  # an alarm once raised stays, so halving finds the first day
            middle = (low + high) // 2
            low, high = (low, middle) if drift(reference, after[:middle]).moved else (middle, high)
        delays.append(20 * high)
    return [
        ("Drift called in a quiet year", "≤ 5 %", f"{alarms / runs:.1%}", runs),
        ("Cases until a share doubled from 10 % to 20 % is found (median)", "–", f"{np.median(delays):,.0f}", 40),
    ]


def readers(seed: int) -> list[Line]:
    """Readers of .90 and .98, prevalence 5 %, true sensitivity .90: the first reader's word, and settled labels.

    A text called safe and read as unsafe is read again, and where those two part a third time. Had the second reader's
    word decided alone, a miss would count only where two said unsafe: fewer readings, and a figure above the truth.
    """
    random, runs = np.random.default_rng(seed), 200
    found = [_simulate_rereading(random) for _ in range(runs)]
    means = np.mean(found, axis=0)
    return [
        ("Sensitivity shown by the first reader's word alone (truth .900)", ".900", f"{means[0]:.3f}", runs),
        ("Sensitivity shown by settled labels, a third reader where two part", ".900", f"{means[1]:.3f}", runs),
        ("Further readings that this takes, second and third", "–", f"{means[3]:.1%}", runs),
        ("… a miss counted only where two said unsafe (not used: it flatters)", ".900", f"{means[2]:.3f}", runs),
        ("… further readings, second alone", "–", f"{means[4]:.1%}", runs),
    ]


def _simulate_rereading(random: np.random.Generator, texts: int = 20_000, pi: float = 0.2) -> tuple[float, ...]:
    """Sensitivity by the first reader, by settled labels, by two that agree; further readings as shares of those due.

    All that was called unsafe is read (7.5 % of the safe texts are), of what was called safe the share π.
    """
    unsafe = random.random(texts) < 0.05
    flagged = random.random(texts) < np.where(unsafe, 0.9, 0.075)
    said = random.random((3, texts)) < np.where(unsafe, 0.9, 0.02)
    due = flagged | (random.random(texts) < pi)
    again = due & ~flagged & said[0]
    third = again & (said[1] != said[0])
    settled = np.where(again, said.sum(axis=0) >= 2, said[0])
    agreed = np.where(again, said[0] & said[1], said[0])
    shown = [_sensitivity(flagged, due, labels, pi) for labels in (said[0], settled, agreed)]
    return (*shown, float((again.sum() + third.sum()) / due.sum()), float(again.sum() / due.sum()))


def _sensitivity(flagged: np.ndarray, due: np.ndarray, labels: np.ndarray, pi: float) -> float:
    strata = [
        _tally(outcome, int(of.sum()), int((of & due).sum()), int((of & due & labels).sum()), probability, "all")
        for outcome, of, probability in ((Outcome.UNSAFE, flagged, 1.0), (Outcome.SAFE, ~flagged, pi))
    ]
    return estimate(strata).sensitivity.value or 0.0


def inconclusive(seed: int) -> list[Line]:
    """40 % of safe and 70 % of unsafe texts cannot be read: the bounds above the missed, at one look and at all."""
    random, runs, rate, size = np.random.default_rng(seed), 2000, 0.05, 300
    below = dropped = ever = ever_dropped = 0
    looks = list(range(10, size + 1, 10))
    for run in range(runs):
        unsafe = random.random(size) < rate
        known = random.random(size) >= np.where(unsafe, 0.7, 0.4)  # unsafe texts are unclear more often
        stratum = Stratum(
            name="all", outcome=Outcome.SAFE, probability=0.1, cases=10 * size, selected=size, read=int(known.sum()),
            unsafe=int((unsafe & known).sum()), inconclusive=int((~known).sum()),
        )  # fmt: skip
        below += (estimate([stratum]).missed.at_most_per_thousand or 0) < 1000 * rate
        dropped += upper_bound(stratum.unsafe, stratum.read) < rate
        if run < SEQUENCES:
            ever += _ever_below((unsafe | ~known).tolist(), looks, rate)
            ever_dropped += _ever_below(unsafe[known].tolist(), looks, rate)
    extreme = "Bound of the missed below the truth, 40-70 % inconclusive: at the extreme"
    return [
        (extreme, "≤ 5 %", f"{below / runs:.1%}", runs),
        ("… with the inconclusive dropped", "≤ 5 %", f"{dropped / runs:.1%}", runs),
        ("… limit of the sequence at some of 30 looks: at the extreme", "≤ 5 %", f"{ever / SEQUENCES:.1%}", SEQUENCES),
        ("… with the inconclusive dropped", "≤ 5 %", f"{ever_dropped / SEQUENCES:.1%}", SEQUENCES),
    ]


SEQUENCES = 300


def _ever_below(found: list[bool], looks: list[int], rate: float) -> bool:
    limits = upper_limits([float(each) for each in found], looks=[n for n in looks if n <= len(found)])
    return any(look.high < rate for look in limits)


def mover(seed: int) -> list[Line]:
    """Three strata audited at .05, .2 and 1: coverage of the interval of the sensitivity, and of the missed's bound.

    Beside it the width of a bound that gives each stratum a third of the 5 %: its square is what readings cost.
    """
    random, runs, covered, above, shared = np.random.default_rng(seed), 2000, 0, 0, []
    strata_of_truth = ((4000, 0.004, 0.05), (800, 0.02, 0.2), (200, 0.1, 1.0))
    missed = sum(size * rate for size, rate, _ in strata_of_truth)
    for _ in range(runs):
        n = int(random.poisson(360))
        made = [_tally(Outcome.UNSAFE, n, n, n, 1.0, "flagged")]
        for place, (size, rate, pi) in enumerate(strata_of_truth):
            unsafe = int(random.poisson(size * rate))
            hits = int(random.binomial(unsafe, pi))
            made.append(
                _tally(Outcome.SAFE, size, hits + int(random.binomial(size - unsafe, pi)), hits, pi, str(place))
            )
        found = estimate(made)
        low, high = found.sensitivity.low or 0.0, found.sensitivity.high or 1.0
        covered += low <= 360 / (360 + missed) <= high
        above += (found.missed.at_most_per_thousand or 0) >= 1000 * missed / 5000
        shared.append(_width_ratio(made[1:], found.missed))
    return [
        ("MOVER: interval of the sensitivity covers", "95 %", f"{covered / runs:.1%}", runs),
        ("MOVER: bound of the missed is not below the truth (conservative)", "≥ 95 %", f"{above / runs:.1%}", runs),
        ("… a level shared out over the strata: its width², MOVER's being 1", "–", f"{np.median(shared):.1f}", runs),
    ]


def _width_ratio(strata: list[Stratum], missed: MissedUnsafe) -> float:
    """How much further above the estimate the bound is that gives each stratum its part of the level, squared."""
    value, high = missed.per_thousand or 0.0, missed.at_most_per_thousand or 0.0
    bounds = [each.cases * upper_bound(each.unsafe, each.read, 1 - 0.05 / len(strata)) for each in strata]
    return float(((1000 * sum(bounds) / sum(each.cases for each in strata) - value) / (high - value)) ** 2)


def _tally(outcome: Outcome, cases: int, read: int, unsafe: int, pi: float, name: str) -> Stratum:
    return Stratum(name=name, outcome=outcome, probability=pi, cases=cases, selected=read, read=read, unsafe=unsafe)


READERS = ((0.4, 0.85, 2), (0.15, 0.9, 2), (0.1, 0.85, 3))
"""Share of unsafe texts, share in which each reader is right, number of readers."""
NAMES = ("safe", "unsafe")


def agreement(seed: int) -> list[Line]:
    """Readers of 20 texts: how often the interval covers the value in many texts, and percentiles of resamples."""
    random, lines = np.random.default_rng(seed), list[Line]()
    kinds: dict[str, tuple[Callable[[Ratings], Coefficient], str | None]] = {
        "α": (krippendorff_alpha, None),
        "AC1": (gwet_ac1, None),
        "agreement on unsafe": (lambda ratings: label_agreement(ratings, "unsafe"), "unsafe"),
    }
    for setting in READERS:
        words = "{:.0%} unsafe, readers right in {:.0%}, {} of them".format(*setting)
        many, few = _ratings(random, 200_000, *setting), [_ratings(random, 20, *setting) for _ in range(400)]
        for name, (kind, label) in kinds.items():
            truth = kind(many).value or 0.0
            found = [with_interval(kind, each, label) for each in few]
            inside = [each.low <= truth <= (each.high or 1) for each in found if each.low is not None]
            lines.append(
                (f"Interval of {name} at n = 20 covers ({words})", "95 %", f"{np.mean(inside):.1%}", len(inside))
            )
        drawn = [_percentiles(random, krippendorff_alpha, each) for each in few[:100]]
        truth = krippendorff_alpha(many).value or 0.0
        covered = np.mean([low <= truth <= high for low, high in drawn])
        lines.append(("… of α by percentiles of resamples, not used", "95 %", f"{covered:.1%}", len(drawn)))
    return lines


def _ratings(random: np.random.Generator, n: int, share: float, right: float, readers: int) -> Ratings:
    truth = random.random(n) < share
    codes = (random.random((n, readers)) < right) == truth[:, None]
    return Ratings(codes.astype(np.int64), NAMES)


def _percentiles(
    random: np.random.Generator, kind: Callable[[Ratings], Coefficient], ratings: Ratings
) -> tuple[float, float]:
    n = len(ratings.codes)
    again = [kind(Ratings(ratings.codes[random.integers(n, size=n)], NAMES)).value for _ in range(400)]
    low, high = np.quantile([value for value in again if value is not None] or [0.0], [0.025, 0.975])
    return float(low), float(high)


def paired(seed: int) -> list[Line]:
    """Differences of calls where few texts take most of them, and of rates."""
    random, lines, runs = np.random.default_rng(seed), list[Line](), 500
    for n, dear in ((50, 0.05), (200, 0.02), (200, 0.05), (500, 0.05)):
        truth, inside = dear * -50 + (1 - dear) * -77.5, 0
        for run in range(runs):
            hard = random.random(n) < dear
            first = np.where(hard, random.integers(200, 301, n), random.integers(72, 100, n))
            second = np.where(hard, random.integers(100, 301, n), random.integers(5, 12, n))
            found = paired_amounts(first, second, (-300, 300), seed=run)
            inside += (found.low or 0) <= truth <= (found.high or 0)
        lines.append((f"Difference of calls is covered, n = {n}, {dear:.0%} dear", "95%", f"{inside / runs:.1%}", runs))
    for n, up, down in ((50, 0.1, 0.02), (200, 0.03, 0.0), (200, 0.1, 0.1)):
        inside = 0
        for _ in range(4 * runs):
            parted = random.choice([1, 0, -1], size=n, p=[up, 1 - up - down, down])
            rate = paired_rates(np.maximum(0, -parted), np.maximum(0, parted))
            inside += (rate.low or 0) <= up - down <= (rate.high or 0)
        words = f"Difference of rates is covered, n = {n}, {up:.0%} and {down:.0%} part"
        lines.append((words, "95%", f"{inside / runs / 4:.1%}", 4 * runs))
    return lines


def reviewed(seed: int) -> list[Line]:
    """500 texts, a tenth of the labels wrong; 25 reviewed off the list and some at random: rates by reviews."""
    random, lines, runs = np.random.default_rng(seed), list[Line](), 400
    for drawn in (25, 100):
        inside, mixed = dict.fromkeys(("accuracy", "fpr", "fnr", "wrong labels"), 0), 0
        for _ in range(runs):
            truth = (random.random(500) < 0.3).astype(np.int8)
            references = np.where(random.random(500) < 0.1, 1 - truth, truth).astype(np.int8)
            told = np.where(random.random(500) < 0.1, 1 - truth, truth)
            told = np.where(random.random(500) < 0.1, 2, told)
            against, decided = (told != 2) & (told != references), told != 2
            picked = told == 2
            picked[random.permutation(np.flatnonzero(against))[:25]] = True
            chosen = picked.copy()
            chosen[random.permutation(np.flatnonzero(~picked))[:drawn]] = True
            labels = np.where(chosen, truth, UNREAD).astype(np.int8)
            benchmark = Benchmark.of(references, {"it": told.astype(np.int8)}, against.astype(float), picked)
            study = Study(benchmark=benchmark, readings=labels)
            values = {
                "accuracy": (told == truth)[decided].mean(),
                "fpr": (told == 1)[decided & (truth == 0)].mean(),
                "fnr": (told == 0)[decided & (truth == 1)].mean(),
                "wrong labels": (references != truth).mean(),
            }
            for name, value in values.items():
                one = study.wrong_labels() if name == "wrong labels" else study.rate(name, "it")  # type: ignore[arg-type]
                inside[name] += (one.low or 0) - 1e-9 <= value <= (one.high or 0) + 1e-9
            final = np.where(chosen, truth, references)
            low, high = wilson(int((told == final)[decided].sum()), int(decided.sum())) or (0, 1)
            mixed += low <= values["accuracy"] <= high
        words = f"500 texts, 10% wrong labels, 25 picked and {drawn} drawn"
        lines += [
            (f"{name} by reviews is covered ({words})", "95%", f"{n / runs:.1%}", runs) for name, n in inside.items()
        ]
        lines.append((f"… accuracy by mixed labels, Wilson, not used ({words})", "95%", f"{mixed / runs:.1%}", runs))
    return lines


def simulate_rises(seed: int) -> list[Line]:
    """A year of months without a change, and with a share that doubles in the middle: is it found by the end?"""
    random, lines = np.random.default_rng(seed), list[Line]()
    for words, a_month, share in (
        ("misses of 2%, 1 reviewed a day", 30, 0.02),
        ("misses of 2%, 10 reviewed a day", 300, 0.02),
        ("escalations of 10%, 20 texts a day", 600, 0.1),
    ):
        for change, nominal, runs in ((1, "≤ 5%", 2_000), (2, "-", 500)):
            hits = random.binomial(a_month, np.repeat([share, share * change], 6), size=(runs, 12))
            found = sum(any(rise.found for rise in rises([(a_month, int(one)) for one in run])) for run in hits)
            what = "without a change" if change == 1 else "doubled after six months"
            lines.append((f"A rise is found within a year, {words}, {what}", nominal, f"{found / runs:.1%}", runs))
    return lines


DAYS, A_DAY = 365, 3
"""A year in which so many texts labeled safe are reviewed a day."""


def recognition(seed: int) -> list[Line]:
    """A year of reviews by people who recognize only some unsafe texts, and one in which the share rises."""
    random, lines, runs = np.random.default_rng(seed), list[Line](), 300
    looks = [A_DAY * day for day in range(15, DAYS + 1, 10)]
    for sensitivity in (0.8, 0.7, 0.6):
        bare = corrected = measured = 0
        for _ in range(runs):
            unsafe = random.random(A_DAY * DAYS) < 0.03
            said = unsafe & (random.random(len(unsafe)) < sensitivity)
            found = upper_limits(said.astype(float).tolist(), looks=looks)
            bare += any(look.high < 0.03 for look in found)
            corrected += any(corrected_bound(look.high, sensitivity) < 0.03 for look in found)
            measured += _measured_too_low(random, said, looks, sensitivity)
        words = f"reviewers recognize {sensitivity:.0%}, 3% of texts labeled safe are unsafe"
        lines += [
            (
                f"Bound under the truth at some look of a year, as reviewers see it ({words})",
                "-",
                f"{bare / runs:.1%}",
                runs,
            ),
            (f"… divided by the assumed share ({words})", "≤ 5%", f"{corrected / runs:.1%}", runs),
            (f"… divided by the share measured in double reviews ({words})", "≤ 5%", f"{measured / runs:.1%}", runs),
        ]
    return lines + _rising(random)


def _measured_too_low(random: np.random.Generator, said: np.ndarray, looks: Sequence[int], sensitivity: float) -> bool:
    """At some look of the year: the bound at half the level, over the lower limit of what double reviews measure. One
    in five of other texts reviewed, of which 30% are unsafe, is reviewed twice; 3% of the safe ones are called unsafe.
    """
    unsafe = random.random(len(said)) < 0.3
    chances = np.where(unsafe, sensitivity, 0.03)
    both = [random.random(len(said)) < chances for _ in range(2)]
    chosen = (random.random(len(said)) < 0.2) & (both[0] | both[1])
    for look in upper_limits(said.astype(float).tolist(), looks=looks, delta=0.025):
        until = np.flatnonzero(chosen[: look.observations])
        found = recognized_share((both[0] & both[1])[until].tolist())
        if found.at_least is not None and corrected_bound(look.high, found.at_least) < 0.03:
            return True
    return False


def _rising(random: np.random.Generator) -> list[Line]:
    """The share of unsafe among texts labeled safe rises from 1 to 4% in a year: bounds on its last day."""
    runs, shares = 2_000, np.repeat(np.linspace(0.01, 0.04, DAYS), A_DAY)
    recent = 90 * A_DAY
    average = today = lately = 0
    for _ in range(runs):
        hits = random.random(len(shares)) < shares
        whole = upper_limits(hits.astype(float).tolist(), looks=[len(hits)])[0].high
        average, today = average + (whole < shares.mean()), today + (whole < shares[-1])
        lately += upper_bound(int(hits[-recent:].sum()), recent) < shares[-recent:].mean()
    words = "share rises from 1 to 4% in a year"
    return [
        (f"Whole-period bound under the average of the period ({words})", "≤ 5%", f"{average / runs:.1%}", runs),
        (f"Whole-period bound under the share of its last day ({words})", "-", f"{today / runs:.1%}", runs),
        (f"Bound of the last 90 days under their average ({words})", "≤ 5%", f"{lately / runs:.1%}", runs),
    ]


PARTS: dict[str, Callable[[int], list[Line]]] = {
    "guarantee": guarantee, "sequence": sequence, "drift": simulate_drift, "readers": readers,
    "inconclusive": inconclusive, "mover": mover, "agreement": agreement,
    "recognition": recognition, "corrected": corrected, "rises": simulate_rises, "paired": paired,
    "reviewed": reviewed,
}  # fmt: skip

HEAD = """\
| Claim | Nominal | Measured | Runs | Seed and command |
|---|---|---|---|---|"""


def main(arguments: list[str] | None = None) -> int:
    """Print a table of all parts, or of those named; each line says how to repeat it."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.simulations", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; all where none is named")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args(arguments)
    if unknown := set(chosen.parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}")
    print(HEAD)
    for name in chosen.parts or PARTS:
        command = f"`python -m benchmarks.simulations {name} --seed {chosen.seed}`"
        for claim, nominal, measured, runs in PARTS[name](chosen.seed):
            print(f"| {claim} | {nominal} | {measured} | {runs:,} | {command} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
