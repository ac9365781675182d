"""Two ways of deciding the same cases, compared case by case: exact test and interval of the difference."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from screening.evaluation.metrics import NONE, Codes, wilson
from screening.evaluation.monitoring import mean_limits
from screening.labels import Outcome

Figures = Sequence[float] | NDArray[np.number] | NDArray[np.bool_]
"""One figure of each case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Second minus first, over ``n`` pairs, with its interval at ``confidence``; None where there is no pair, and the
    limits of amounts of which no bound is known.
    """

    n: int
    first: float | None
    second: float | None
    value: float | None
    low: float | None
    high: float | None
    confidence: float


def exact_mcnemar(only_first: int, only_second: int) -> float:
    """Two-sided p-value that both ways err equally often, from the pairs in which they part (McNemar 1947,
    doi:10.1007/BF02295996, exact).

    Under the hypothesis each such pair falls either way with probability ½, so the number is binomial. 1.0 without any.

    >>> exact_mcnemar(0, 0), round(exact_mcnemar(1, 9), 4)  # 2·(1 + 10)/1024
    (1.0, 0.0215)
    """
    from scipy import stats

    parted = only_first + only_second
    return 1.0 if parted == 0 else float(stats.binomtest(only_first, parted).pvalue)


def paired_rates(first: Figures, second: Figures, confidence: float = 0.95) -> Difference:
    """Difference of two shares of the same cases (figures 0 and 1), with Bonett and Price's adjusted Wald interval
    (2012, doi:10.3102/1076998611411915), widened where that is too narrow. ValueError for sequences of different
    lengths.

    >>> found = paired_rates([1, 1, 0, 0], [1, 1, 1, 1])
    >>> found.value, found.n
    (0.5, 4)
    """
    one, other = _columns(first, second)
    return _difference(one, other, _rate_limits(one, other, confidence) if one.size else (None, None), confidence)


def paired_amounts(
    first: Figures, second: Figures, bounds: tuple[float, float] | None, confidence: float = 0.95, seed: int = 0
) -> Difference:
    """Difference of the means of two amounts of the same cases, such as calls.

    ``bounds`` are what second less first of one case can be at least and at most. Where a few texts take most calls,
    neither resamples nor Student's t know how far the amounts reach (covering in .71 to .85); the bounds do, and
    betting on the mean within them holds for every distribution (`mean_limits`), at the cost of width. The cases are
    bet on in a random order, so that a sorted file does no harm. Without bounds there is no interval. ValueError for
    sequences of different lengths and for a difference out of bounds.
    """
    one, other = _columns(first, second)
    if bounds is None or not one.size:
        return _difference(one, other, (None, None), confidence)
    least, most = bounds
    if not ((least <= other - one) & (other - one <= most)).all():
        raise ValueError("a difference is out of its bounds")
    if least == most:
        return _difference(one, other, (least, most), confidence)
    shuffled = np.random.default_rng(seed).permutation(other - one)
    low, high = mean_limits((shuffled - least) / (most - least), 1 - confidence)
    return _difference(one, other, (least + low * (most - least), least + high * (most - least)), confidence)


def _columns(first: Figures, second: Figures) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    one, other = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if one.shape != other.shape:
        raise ValueError("both need one figure for each case")
    return one, other


def _difference(
    one: NDArray[np.float64],
    other: NDArray[np.float64],
    limits: tuple[float | None, float | None],
    confidence: float,
) -> Difference:
    if not one.size:
        return Difference(n=0, first=None, second=None, value=None, low=None, high=None, confidence=confidence)
    return Difference(
        n=int(one.size),
        first=float(one.mean()),
        second=float(other.mean()),
        value=float((other - one).mean()),
        low=limits[0],
        high=limits[1],
        confidence=confidence,
    )


def _rate_limits(one: NDArray[np.float64], other: NDArray[np.float64], confidence: float) -> tuple[float, float]:
    """The wider of Bonett and Price's limits, with (x₁₂ + 1)/(n + 2) and (x₂₁ + 1)/(n + 2) in place of the shares of
    pairs that part either way, and of MOVER on the two shares' Wilson limits. Where pairs part one way alone the former
    cover in .93 by themselves.
    """
    n, more, less = one.size, int(np.sum(other > one)), int(np.sum(other < one))
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    up, down = (more + 1) / (n + 2), (less + 1) / (n + 2)
    spread = z * np.sqrt((up + down - (up - down) ** 2) / (n + 2))
    (least_up, most_up), (least_down, most_down) = (wilson(hits, n, z) or (0.0, 1.0) for hits in (more, less))
    middle = (more - less) / n
    below = np.hypot(more / n - least_up, most_down - less / n)
    above = np.hypot(most_up - more / n, less / n - least_down)
    low, high = min(up - down - spread, middle - below), max(up - down + spread, middle + above)
    return max(-1.0, float(low)), min(1.0, float(high))


CALLS = "Calls a text"

Which = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The second condition less the first, on the labelled cases that both settle.

    ``only_first`` and ``only_second`` are the cases that one alone has right (an escalation is not right), ``p_value``
    McNemar's exact test that they are equally many. Cases that one leaves unsettled are harder than the others: whoever
    compares leaves out conditions that have any (`Evaluated.comparable`).
    """

    first: str
    second: str
    only_first: int
    only_second: int
    p_value: float
    differences: tuple[tuple[str, Difference], ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Told:
    """What one way of deciding made of each case: ``outcome`` a number into `Outcome` or `NONE`, and its calls,
    None where they are not known, of which a text takes ``most`` at most. Without that a difference has no interval.
    """

    name: str
    outcome: Codes
    calls: NDArray[np.number] | None
    most: int | None = None


def compare_codes(labels: Codes, first: Told, second: Told, confidence: float = 0.95) -> Comparison:
    """Paired differences of two ways of deciding the same cases, each rate over those with such a reference; ``labels``
    are numbers into `REFERENCES`.
    """
    shared = (labels >= 0) & (first.outcome != NONE) & (second.outcome != NONE)
    said = [{name: each.outcome == at for at, name in enumerate(Outcome)} for each in (first, second)]
    right = [np.where(labels == 1, one[Outcome.UNSAFE], one[Outcome.SAFE]) for one in said]
    figures: list[tuple[str, Sequence[NDArray[Any]], Which]] = [
        ("Decided correctly", right, shared),
        ("False negative (missed)", [one[Outcome.SAFE] for one in said], shared & (labels == 1)),
        ("False positive (false alarm)", [one[Outcome.UNSAFE] for one in said], shared & (labels == 0)),
        ("Escalated", [one[Outcome.HUMAN_REVIEW] for one in said], shared),
    ]
    differences = [
        (name, paired_rates(one[of], other[of], confidence=confidence)) for name, (one, other), of in figures
    ]
    if first.calls is not None and second.calls is not None:
        calls = first.calls[shared], second.calls[shared]
        known = first.most is not None and second.most is not None
        bounds = (-float(first.most or 0), float(second.most or 0)) if known else None
        differences.append((CALLS, paired_amounts(*calls, bounds, confidence)))
    only_first, only_second = int((shared & right[0] & ~right[1]).sum()), int((shared & right[1] & ~right[0]).sum())
    return Comparison(
        first=first.name,
        second=second.name,
        only_first=only_first,
        only_second=only_second,
        p_value=exact_mcnemar(only_first, only_second),
        differences=tuple(differences),
    )


def compare_all_codes(labels: Codes, reference: Told, others: Sequence[Told]) -> tuple[Comparison, ...]:
    """Every other way of deciding against one chosen beforehand; all intervals of a figure hold together at 95 %
    (Bonferroni). ``labels`` are numbers into `REFERENCES`.
    """
    confidence = 1 - 0.05 / max(1, len(others))
    return tuple(compare_codes(labels, reference, each, confidence) for each in others)
