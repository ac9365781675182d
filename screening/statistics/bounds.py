"""Bounds that the rules and the theory page share: radii, confidence sequences, sample sizes, errors over T.

A δ outside 0 < δ < 1 is a ValueError everywhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from math import inf, log, pi, sqrt

from screening.statistics import special

JEFFREYS = 0.5
"""Both parameters of the Beta prior that the confidence sequence mixes over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """Limits of a probability, both in [0, 1]."""

    low: float
    high: float


def algorithm_one_radius(pulls: int, delta: float, arms: int = 3) -> float:
    """Half width w = √(ln(4·K·T²/δ) / (2T)) after T pulls of one arm (paper, Algorithm 1 line 6).

    Valid at every T and for all K arms together: two-sided Hoeffding at δ/(2KT²), and Σ 1/T² < 2.
    Infinite before the first pull.

    >>> round(2 * algorithm_one_radius(25, 0.05), 3)  # the gap that B = 75 can decide
    0.976
    """
    _require_probability(delta)
    return sqrt(log(4 * arms * pulls**2 / delta) / (2 * pulls)) if pulls else inf


def dkw_radius(draws: int, delta: float) -> float:
    """ε_n(δ) = √(ln(2/δ) / (2n)): half width of the band around the empirical *distribution function*.

    The paper's node-level theorem states this ε for each label's probability. Its proof takes a probability as
    a difference of two values of the distribution function, which gives `dkw_label_radius`, twice this one.
    Holds at one n fixed in advance, not at every look. Infinite at n = 0. Source: Massart 1990,
    doi:10.1214/aop/1176990746.

    >>> round(dkw_radius(100, 0.05), 3)  # √(ln 40 / 200)
    0.136
    """
    _require_probability(delta)
    return sqrt(log(2 / delta) / (2 * draws)) if draws else inf


def dkw_label_radius(draws: int, delta: float) -> float:
    """2·ε_n(δ): what the paper's argument (appendix A) proves for every label's probability at once.

    >>> dkw_label_radius(100, 0.05) == 2 * dkw_radius(100, 0.05)
    True
    """
    return 2 * dkw_radius(draws, delta)


def fixed_sample_size(gap: float, delta: float) -> float:
    """The paper's n* = 2·ln(2/δ)/Δ² pulls per arm, for a gap Δ in (0, 1] (paper, appendix A).

    It is the size of a sample fixed in advance, and it takes ε where the proof gives 2ε; the time-uniform
    Algorithm 1 needs more. Infinite at Δ = 0.

    >>> round(fixed_sample_size(0.5, 0.05), 1), round(fixed_sample_size(0.4, 0.05), 1)
    (29.5, 46.1)
    """
    _require_probability(delta)
    return 2 * log(2 / delta) / gap**2 if gap else inf


def information_bound(probabilities: Sequence[float], delta: float) -> float:
    """Fewest mean draws of *any* rule with error at most δ: kl(δ, 1-δ) / min over rivals b of KL to a tie.

    The nearest distribution in which the mode m is not the mode gives m and b both (p_m + p_b)/2
    (Garivier & Kaufmann, COLT 2016, for pooled draws). Infinite where the mode is not unique.

    >>> round(information_bound((0.8, 0.1, 0.1), 0.05), 1)
    8.6
    """
    _require_probability(delta)
    first, *rivals = sorted(probabilities, reverse=True)
    distance = min(_divergence_to_tie(first, rival) for rival in rivals)
    return (1 - 2 * delta) * log((1 - delta) / delta) / distance if distance > 0 else inf


def _divergence_to_tie(first: float, second: float) -> float:
    middle = (first + second) / 2
    return float(special.xlogy(first, first / middle) + special.xlogy(second, second / middle))


@lru_cache(maxsize=1 << 16)
def confidence_sequence(successes: int, draws: int, delta: float) -> Band:
    """Limits of one label's probability that hold at every look together with probability 1-δ.

    All p at which the Beta-binomial mixture martingale B(x+½, n-x+½) / (B(½, ½)·pˣ·(1-p)ⁿ⁻ˣ) is below 1/δ
    (Robbins 1970; Howard, Ramdas et al. 2021, doi:10.1214/20-AOS1991). [0, 1] before the first draw. ValueError unless
    0 ≤ successes ≤ draws. Cached: a live view asks for the same few limits at every tick.

    >>> confidence_sequence(0, 0, 0.05)
    Band(low=0.0, high=1.0)
    """
    _require_probability(delta)
    if not 0 <= successes <= draws:
        raise ValueError("successes must lie between 0 and the number of draws")
    if draws == 0:
        return Band(low=0.0, high=1.0)
    low = 0.0 if successes == 0 else _crossing(successes, draws, delta, 0.0)
    high = 1.0 if successes == draws else _crossing(successes, draws, delta, 1.0)
    return Band(low=low, high=high)


def _crossing(successes: int, draws: int, delta: float, end: float) -> float:
    """Where, between the estimate and ``end``, the mixture martingale reaches 1/δ."""
    failures = draws - successes
    mixture = special.betaln(successes + JEFFREYS, failures + JEFFREYS) - special.betaln(JEFFREYS, JEFFREYS)

    def excess(p: float) -> float:
        return float(mixture - special.xlogy(successes, p) - special.xlog1py(failures, -p) + log(delta))

    # Next to 0 or 1 the logarithm is infinite; one step inside it is large, or the limit is the end itself.
    edge = 1e-300 if end == 0.0 else 1 - 1e-16
    from scipy.optimize import brentq  # takes longer to import than most calls here to answer

    return float(brentq(excess, edge, successes / draws)) if excess(edge) > 0 else end


def clopper_pearson(successes: int, draws: int, delta: float) -> Band:
    """Exact interval of a probability at one fixed number of draws (Clopper & Pearson 1934,
    doi:10.1093/biomet/26.4.404).

    [0, 1] without draws.

    >>> clopper_pearson(0, 3, 0.05).low, round(clopper_pearson(0, 3, 0.05).high, 4)
    (0.0, 0.7076)
    """
    low = 0.0 if successes == 0 else special.betaincinv(successes, draws - successes + 1, delta / 2)
    high = 1.0 if successes == draws else special.betaincinv(successes + 1, draws - successes, 1 - delta / 2)
    return Band(low=float(low), high=float(high))


class Schedule(StrEnum):
    """How δ is set for case number t = 1, 2, … of a deployment."""

    CONSTANT = "constant"
    HARMONIC = "harmonic"
    SUMMABLE = "summable"


def scheduled_delta(schedule: Schedule, delta: float, case: int) -> float:
    """δ_t of case t: δ, or δ/t, or 6δ/(π²t²). ValueError for a case below 1.

    >>> round(scheduled_delta(Schedule.HARMONIC, 0.05, 10), 6)
    0.005
    """
    _require_probability(delta)
    if case < 1:
        raise ValueError("cases are counted from 1")
    share = {Schedule.CONSTANT: 1.0, Schedule.HARMONIC: 1 / case, Schedule.SUMMABLE: 6 / (pi * case) ** 2}
    return delta * share[schedule]


def expected_wrong_commits(schedule: Schedule, delta: float, cases: int) -> float:
    """Σ δ_t over T cases (one node each): bounds the expected number of named labels that are not the mode.

    It is δT, at most δ(1 + ln T), or at most δ for ever. The paper claims logarithmic growth; only a schedule
    like δ/t gives it, a constant δ does not.

    >>> round(expected_wrong_commits(Schedule.CONSTANT, 0.05, 1000), 6)
    50.0
    """
    return sum(scheduled_delta(schedule, delta, case) for case in range(1, cases + 1))


def _require_probability(delta: float) -> None:
    if not 0 < delta < 1:
        raise ValueError("delta must lie strictly between 0 and 1")
