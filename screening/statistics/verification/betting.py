"""Confidence sequences for a mean in [0, 1] by betting: limits that hold at every look, so one may look daily.

Waudby-Smith and Ramdas 2024, doi:10.1093/jrsssb/qkad009 (hedged capital, section 4). A 95 % Wilson interval looked at
every day is wrong at some time in a third to half of all runs; this one in at most 5 %.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

_Floats = NDArray[np.float64]

MOST_STAKE = 0.75
"""Largest share of the capital that one observation may cost."""

_HALVINGS = 45


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What may be said after ``observations`` values: the estimate, and limits that hold at all looks together."""

    observations: int
    estimate: float
    low: float
    high: float

    @property
    def contradictory(self) -> bool:
        """The estimate lies outside its own limits: the mean has moved, or the level was missed."""
        return not self.low <= self.estimate <= self.high


def bets(values: ArrayLike, delta: float = 0.05) -> _Floats:
    """The stake λ_t for each value along the last axis, from the values before it alone; the shape of ``values``.

    λ_t = √(2 ln(2/δ) / (σ̂²_{t-1} · t · ln(t+1))), with mean and variance started at ½ and ¼.
    """
    data = np.asarray(values, dtype=np.float64)
    t = np.arange(1, data.shape[-1] + 1)
    means = (0.5 + np.cumsum(data, axis=-1)) / (t + 1)
    variances = (0.25 + np.cumsum((data - means) ** 2, axis=-1)) / (t + 1)
    before = np.concatenate([np.full_like(variances[..., :1], 0.25), variances[..., :-1]], axis=-1)
    stakes: _Floats = np.sqrt(2 * log(2 / delta) / (before * t * np.log(t + 1)))
    return stakes


def log_capitals(values: ArrayLike, mean: float, delta: float = 0.05) -> tuple[_Floats, _Floats]:
    """Log capital after each value of two gamblers, on "more than ``mean``" and on "less", from 1 each.

    If ``mean`` is the mean, either ever reaches 2/δ with probability at most δ/2 (Ville).
    """
    data, stakes = np.asarray(values, dtype=np.float64), bets(values, delta)
    return (
        np.cumsum(_log_gains(data, stakes, mean), axis=-1),
        np.cumsum(_log_gains(1 - data, stakes, 1 - mean), axis=-1),
    )


def _log_gains(data: _Floats, stakes: _Floats, mean: float | _Floats) -> _Floats:
    # A stake of at most c/m keeps the factor at 1 - c or more when the value is 0.
    limited = np.minimum(stakes, MOST_STAKE / np.maximum(mean, 1e-12))
    gains: _Floats = np.log1p(limited * (data - mean))
    return gains


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
    """Limits from above alone, valid at all looks together with probability 1-δ: "at most".

    All of δ is staked on "less", so they lie below those of `betting_sequence`, which shares it between both sides.
    ``low`` is 0.

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
    t = np.arange(1, data.size + 1)
    means = (0.5 + np.cumsum(data)) / (t + 1)
    variances = (0.25 + np.cumsum((data - means) ** 2)) / (t + 1)
    stakes = np.sqrt(2 * log(2 / delta) / (data.size * np.concatenate([[0.25], variances[:-1]])))
    return _lower_limit(data, stakes, delta, ever=True), 1 - _lower_limit(1 - data, stakes, delta, ever=True)


def _lower_limit(data: _Floats, stakes: _Floats, delta: float, *, ever: bool = False) -> float:
    """Smallest mean not excluded by the capital of now, or the largest so far: both fall as the mean rises, so that
    halving works.
    """
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        gains = _log_gains(data, stakes, middle)
        excluded = float(gains.cumsum().max() if ever else gains.sum()) >= log(2 / delta)
        low, high = (middle, high) if excluded else (low, middle)
    return low
