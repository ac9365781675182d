"""What label counts say: evidence of one label over another at every look, and limits of one label's probability. And
confidence sequences for a mean in [0, 1] by betting: limits that hold at every look, so one may look daily.

A δ outside 0 < δ < 1 is a ValueError everywhere. Betting: Waudby-Smith and Ramdas 2024, doi:10.1093/jrsssb/qkad009
(hedged capital, section 4). A 95% Wilson interval looked at every day is wrong at some time in a third to half of all
runs; this one in at most 5 %.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, log, sqrt

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from screening.labels import LABELS

PRIOR = 0.25
"""Both parameters of the Beta prior, truncated to θ > ½, that the likelihood ratios are mixed over."""
JEFFREYS = 0.5
"""Both parameters of the Beta prior that the confidence sequence mixes over."""
MOST_STAKE = 0.75
"""Largest share of the capital that one observation may cost."""

Floats = NDArray[np.float64]
Band = tuple[float, float]
"""The lower and the upper limit of a probability, both in [0, 1]."""


@lru_cache(maxsize=1 << 16)
def log_evidence(ahead: int, behind: int) -> float:
    """ln E(x, y) against "label a is not more likely than label b", a seen x times and b seen y times.

    ln B(x+α, y+α) + ln P[Beta(x+α, y+α) > ½] - ln B(α, α) + ln 2 + (x+y)·ln 2 with α = ¼. E is a nonnegative
    supermartingale if a is not more likely, so it ever reaches 1/η with probability at most η (Ville). After
    Jain et al., AISTATS 2022 (PPR-1v1), with the prior truncated to θ > ½. ValueError for negative counts.

    >>> from math import exp
    >>> round(exp(log_evidence(6, 0)), 3)
    40.126
    """
    if ahead < 0 or behind < 0:
        raise ValueError("counts must not be negative")
    a, b = ahead + PRIOR, behind + PRIOR
    constant = log(2) - float(scipy.special.betaln(PRIOR, PRIOR))
    upper_half = float(scipy.special.betainc(b, a, 0.5))
    if upper_half > 1e-280:
        return float(scipy.special.betaln(a, b)) + log(upper_half) + (ahead + behind) * log(2) + constant
    # So far behind the probability underflows. B(a, b)·P = ½ᵃ⁺ᵇ ₂F₁(a+b, 1; b+1; ½) / b does not.
    return log(_behind_series(a, b) / b) - 2 * PRIOR * log(2) + constant


def _behind_series(a: float, b: float) -> float:
    """₂F₁(a+b, 1; b+1; ½) for a much smaller than b, summed: its terms fall at least like a geometric series."""
    total, term, k = 0.0, 1.0, 0
    while term > 1e-17 * total:
        total += term
        term *= (a + b + k) / (b + 1 + k) / 2
        k += 1
    return total


@lru_cache(maxsize=1 << 16)
def least_count(behind: int, level: float) -> int:
    """Fewest draws of a label for E against a rival seen ``behind`` times to reach 1/level.

    E grows with every draw of the label and shrinks with every draw of the rival, so this number is the test.

    >>> least_count(0, 0.025), least_count(0, 0.001)
    (6, 11)
    """
    threshold, high = -log(level), behind + 1  # level with its rival a label has E ≤ 1, below any threshold
    while log_evidence(high, behind) < threshold:
        high += high - behind
    return bisect_left(range(high), threshold, lo=behind, key=lambda ahead: log_evidence(ahead, behind))


@lru_cache(maxsize=1 << 16)
def confidence_sequence(successes: int, draws: int, delta: float) -> Band:
    """Limits of one label's probability that hold at every look together with probability 1-δ.

    All p at which the Beta-binomial mixture martingale B(x+½, n-x+½) / (B(½, ½)·pˣ·(1-p)ⁿ⁻ˣ) is below 1/δ
    (Robbins 1970; Howard, Ramdas et al. 2021, doi:10.1214/20-AOS1991). [0, 1] before the first draw. ValueError unless
    0 ≤ successes ≤ draws. Cached: a live view asks for the same few limits at every tick.

    >>> confidence_sequence(0, 0, 0.05)
    (0.0, 1.0)
    """
    require_probability(delta)
    if not 0 <= successes <= draws:
        raise ValueError("successes must lie between 0 and the number of draws")
    if draws == 0:
        return 0.0, 1.0
    low = 0.0 if successes == 0 else _crossing(successes, draws, delta, 0.0)
    high = 1.0 if successes == draws else _crossing(successes, draws, delta, 1.0)
    return low, high


def _crossing(successes: int, draws: int, delta: float, end: float) -> float:
    """Where, between the estimate and ``end``, the mixture martingale reaches 1/δ."""
    failures = draws - successes
    mixture = scipy.special.betaln(successes + JEFFREYS, failures + JEFFREYS) - scipy.special.betaln(JEFFREYS, JEFFREYS)

    def excess(p: float) -> float:
        return float(mixture - scipy.special.xlogy(successes, p) - scipy.special.xlog1py(failures, -p) + log(delta))

    # Next to 0 or 1 the logarithm is infinite; one step inside it is large, or the limit is the end itself.
    edge = 1e-300 if end == 0.0 else 1 - 1e-16
    return float(scipy.optimize.brentq(excess, edge, successes / draws)) if excess(edge) > 0 else end


def clopper_pearson(successes: float, draws: float, delta: float) -> Band:
    """Exact interval of a probability at one fixed number of draws (Clopper & Pearson 1934,
    doi:10.1093/biomet/26.4.404); [0, 1] without draws.

    >>> [round(limit, 4) for limit in clopper_pearson(0, 3, 0.05)]
    [0.0, 0.7076]
    """
    low = 0.0 if successes == 0 else scipy.special.betaincinv(successes, draws - successes + 1, delta / 2)
    high = 1.0 if successes == draws else scipy.special.betaincinv(successes + 1, draws - successes, 1 - delta / 2)
    return float(low), float(high)


def algorithm_one_radius(pulls: int, delta: float) -> float:
    """Half width w = √(ln(4·K·T²/δ) / (2T)) after T pulls of one arm (paper, Algorithm 1 line 6).

    Valid at every T and for all K arms together: two-sided Hoeffding at δ/(2KT²), and Σ 1/T² < 2.
    Infinite before the first pull.

    >>> round(2 * algorithm_one_radius(25, 0.05), 3)  # the gap that B = 75 can decide
    0.976
    """
    require_probability(delta)
    return sqrt(log(4 * len(LABELS) * pulls**2 / delta) / (2 * pulls)) if pulls else inf


def require_probability(delta: float) -> None:
    """ValueError unless it lies strictly between 0 and 1."""
    if not 0 < delta < 1:
        raise ValueError("delta must lie strictly between 0 and 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """After ``observations`` values the estimate, and limits that hold at all looks together."""

    observations: int
    estimate: float
    low: float
    high: float

    @property
    def contradictory(self) -> bool:
        """The estimate lies outside its own limits: the mean has moved, or the level was missed."""
        return not self.low <= self.estimate <= self.high


def bets(values: ArrayLike, delta: float = 0.05) -> Floats:
    """The stake λ_t for each value along the last axis, from the values before it alone; the shape of ``values``.

    λ_t = √(2 ln(2/δ) / (σ̂²_{t-1} · t · ln(t+1))), with mean and variance started at ½ and ¼.
    """
    data = np.asarray(values, dtype=np.float64)
    t = np.arange(1, data.shape[-1] + 1)
    stakes: Floats = np.sqrt(2 * log(2 / delta) / (_variances_before(data) * t * np.log(t + 1)))
    return stakes


def _variances_before(data: Floats) -> Floats:
    """σ̂²_{t-1}, the variance of the values before each along the last axis."""
    t = np.arange(1, data.shape[-1] + 1)
    means = (0.5 + np.cumsum(data, axis=-1)) / (t + 1)
    variances = (0.25 + np.cumsum((data - means) ** 2, axis=-1)) / (t + 1)
    return np.concatenate([np.full_like(variances[..., :1], 0.25), variances[..., :-1]], axis=-1)


def _log_gains(data: Floats, stakes: Floats, mean: float) -> Floats:
    # A stake of at most c/m keeps the factor at 1 - c or more when the value is 0.
    return np.asarray(np.log1p(np.minimum(stakes, MOST_STAKE / max(mean, 1e-12)) * (data - mean)))


def betting_sequence(values: Sequence[float], *, looks: Sequence[int], delta: float = 0.05) -> tuple[Look, ...]:
    """The confidence sequence at the given looks (rising numbers of values): at each the means that no gambler is rich
    against now. Means excluded at an earlier look may come back, which costs about 5 % of the width and keeps values
    that came last, such as those not known yet, from being drowned by earlier ones.

    Values come in the order in which they arose, all in [0, 1], with one mean whatever came before; with
    misses coded 1 it bounds a miss rate. Raises ValueError for values outside [0, 1] or looks out of range.
    """
    data = np.asarray(values, dtype=np.float64)
    numbers = np.asarray(looks, dtype=np.int64)
    if not ((data >= 0) & (data <= 1)).all():
        raise ValueError("values must lie in [0, 1]")
    if numbers.size and (numbers.min() < 1 or numbers.max() > data.size or (np.diff(numbers) <= 0).any()):
        raise ValueError("looks must be rising numbers of values, from 1 to all of them")
    stakes = bets(data, delta)
    low = [_lower_limit(data[:n], stakes[:n], delta) for n in numbers]
    high = [1 - _lower_limit(1 - data[:n], stakes[:n], delta) for n in numbers]
    means = np.cumsum(data)[numbers - 1] / numbers
    return tuple(
        Look(observations=int(n), estimate=float(mean), low=float(a), high=float(b))
        for n, mean, a, b in zip(numbers, means, low, high, strict=True)
    )


def upper_limits(values: Sequence[float], *, looks: Sequence[int], delta: float = 0.05) -> tuple[Look, ...]:
    """Limits from above alone, valid at all looks together with probability 1-δ. All of δ is staked on "less", so they
    lie below those of `betting_sequence`, which shares it between both sides. ``low`` is 0.

    >>> round(upper_limits([0.0] * 100, looks=[100])[0].high, 3)  # the rule of three at one look: 0.030
    0.039
    """
    return tuple(replace(look, low=0.0) for look in betting_sequence(values, looks=looks, delta=2 * delta))


def mean_limits(values: ArrayLike, delta: float = 0.05) -> tuple[float, float]:
    """Limits of the mean at one look, the number of values fixed beforehand: valid with probability 1-δ for every
    distribution in [0, 1]. The values are independent, in an order that does not depend on them.

    The stakes are those for just so many values, λ_t = √(2 ln(2/δ) / (n · σ̂²_{t-1})), and a mean is excluded once a
    gambler was rich against it, now or before (Ville). ValueError for values outside [0, 1] or none.
    """
    data = np.asarray(values, dtype=np.float64)
    if not data.size or not ((data >= 0) & (data <= 1)).all():
        raise ValueError("values must lie in [0, 1], one at least")
    stakes = np.sqrt(2 * log(2 / delta) / (data.size * _variances_before(data)))
    return _lower_limit(data, stakes, delta, ever=True), 1 - _lower_limit(1 - data, stakes, delta, ever=True)


def _lower_limit(data: Floats, stakes: Floats, delta: float, *, ever: bool = False) -> float:
    """The smallest mean not excluded by the capital of now, or the largest so far: both fall as the mean rises."""
    low, high = 0.0, 1.0
    for _ in range(45):
        middle = (low + high) / 2
        gains = _log_gains(data, stakes, middle)
        excluded = float(gains.cumsum().max() if ever else gains.sum()) >= log(2 / delta)
        low, high = (middle, high) if excluded else (low, middle)
    return low
