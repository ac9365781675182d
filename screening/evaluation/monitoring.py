"""Confidence sequences for a mean in [0, 1] by betting: limits that hold at every look, so one may look daily.

Waudby-Smith and Ramdas 2024, doi:10.1093/jrsssb/qkad009 (hedged capital, section 4). A 95 % Wilson interval looked at
every day is wrong at some time in a third to half of all runs; this one in at most 5 %.

What changes: the engine's outcomes from one window to another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import log

import numpy as np
from numpy.typing import ArrayLike, NDArray

from screening.evaluation.metrics import Proportion
from screening.stopping import special
from screening.stopping.evidence import Band, clopper_pearson

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
    stakes: _Floats = np.sqrt(2 * log(2 / delta) / (_variances_before(data) * t * np.log(t + 1)))
    return stakes


def _variances_before(data: _Floats) -> _Floats:
    """σ̂²_{t-1}, the variance of the values before each along the last axis."""
    t = np.arange(1, data.shape[-1] + 1)
    means = (0.5 + np.cumsum(data, axis=-1)) / (t + 1)
    variances = (0.25 + np.cumsum((data - means) ** 2, axis=-1)) / (t + 1)
    return np.concatenate([np.full_like(variances[..., :1], 0.25), variances[..., :-1]], axis=-1)


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
    stakes = np.sqrt(2 * log(2 / delta) / (data.size * _variances_before(data)))
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


_Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareChange:
    """One outcome's share in the reference and since, and the evidence (an e-value) that it rose or fell."""

    name: str
    reference: Proportion
    since: Proportion
    evidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How far the mix has moved from a frozen reference, at every look together.

    ``evidence`` is the present e-value, ``most`` the largest at any look so far. Without a change ``most`` ever reaches
    `threshold` with probability at most ``alarm_rate``, over any horizon. ``reason`` says why there is none yet.
    """

    shares: tuple[ShareChange, ...]
    evidence: float
    most: float
    alarm_rate: float
    reason: str | None = None

    @property
    def threshold(self) -> float:
        """What the evidence must reach: half of the alarm rate pays for not knowing the reference exactly."""
        return 2 / self.alarm_rate

    @property
    def moved(self) -> bool:
        return self.most >= self.threshold


RATIOS = (1.25, 1.5, 2.0, 3.0, 5.0)
"""The alternatives that are bet on alike: a share so many times its limit in the reference."""


def drift(reference: Mapping[str, int], looks: Sequence[Mapping[str, int]], alarm_rate: float = 0.05) -> Drift:
    """The change from a reference window, frozen beforehand, to what came after it, counted anew at each look.

    ``looks`` are rising counts since the reference. Each share of the reference has exact limits, at half the alarm
    rate for all of them together. If the later shares lie within, every bet that one lies above its upper limit, or
    below its lower one, is a nonnegative supermartingale, and so is their mean: it ever reaches 2/α with probability
    at most α/2 (Ville). Shares of outcomes that the reference does not know are tested like all others.
    """
    last = looks[-1] if looks else {}
    names = sorted(name for name in {*reference, *last} if reference.get(name, 0) + last.get(name, 0))
    total = sum(reference.values())
    if not total or not looks:
        reason = "the reference is not complete yet" if not looks else "the reference is empty"
        return Drift(shares=(), evidence=1.0, most=1.0, alarm_rate=alarm_rate, reason=reason)
    level = alarm_rate / 2 / len(names)
    limits = {name: clopper_pearson(reference.get(name, 0), total, level) for name in names}
    n = np.array([sum(look.values()) for look in looks])
    bets = [_bets(np.array([look.get(name, 0) for look in looks]), n, limits[name]) for name in names]
    means = np.mean(bets, axis=0)
    since = sum(last.values())
    return Drift(
        shares=tuple(
            ShareChange(
                name=name,
                reference=Proportion(reference.get(name, 0), total),
                since=Proportion(last.get(name, 0), since),
                evidence=float(found[-1]),
            )
            for name, found in zip(names, bets, strict=True)
        ),
        evidence=float(means[-1]),
        most=float(means.max()),
        alarm_rate=alarm_rate,
    )


def _bets(hits: _Counts, n: _Counts, limits: Band) -> NDArray[np.float64]:
    """At each look the mean of the bets that the share is above its upper limit and that it is below its lower one."""
    low, high = limits
    rises = [min(0.999, ratio * high) for ratio in RATIOS]
    falls = [low / ratio for ratio in RATIOS]
    above = [_ratios(hits, n, rise, high) for rise in rises if rise > high]
    below = [_ratios(hits, n, fall, low) for fall in falls if fall < low]
    return (_mean(above, len(n)) + _mean(below, len(n))) / 2


def _ratios(hits: _Counts, n: _Counts, to: float, of: float) -> NDArray[np.float64]:
    log_ratio = special.xlogy(hits, to / of) + special.xlogy(n - hits, (1 - to) / (1 - of))
    return np.asarray(np.exp(np.minimum(700.0, log_ratio)), dtype=np.float64)


def _mean(bets: Sequence[NDArray[np.float64]], looks: int) -> NDArray[np.float64]:
    """1 where nothing can be bet on, as for a share that cannot fall below 0."""
    return np.asarray(np.mean(bets, axis=0)) if bets else np.ones(looks)


WINDOWS = (1, 3, 6)
"""Months at the end of which are held against all before them."""
FEWEST_BEFORE = 20
"""Texts that a reference takes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rise:
    """A share in the last ``months`` months against all months before. ``p`` is the exact probability of so many or
    more hits there had nothing changed, ``level`` what it was compared with at the end of its month.
    """

    months: int
    before: Proportion
    recent: Proportion
    p: float
    level: float

    @property
    def found(self) -> bool:
        return self.p <= self.level


def rises(months: Sequence[tuple[int, int]], alarm_rate: float = 0.05) -> tuple[Rise, ...]:
    """Whether a share has risen: at the end of each full month the last 1, 3 and 6 of them against all before, a
    reference that grows. ``months`` are (texts, hits). Given how many hits there are in all, those of the last months
    are hypergeometric had nothing changed (Fisher's exact test), so no earlier share need be known.

    The alarm rate is shared out over windows and the looks of a year (Bonferroni): a site where nothing changes has a
    finding in at most that share of years. Findings stay; the last is the newest month's strongest window.

    >>> [rise.found for rise in rises([(300, 6)] * 6 + [(300, 18)] * 2)][-1]
    True
    """
    from scipy.stats import hypergeom

    level, made = alarm_rate / 12 / len(WINDOWS), list[Rise]()
    totals = np.cumsum([(0, 0), *months], axis=0)
    for end in range(1, len(months) + 1):
        at_end = []
        for window in WINDOWS:
            if end <= window or totals[end - window][0] < FEWEST_BEFORE:
                continue
            (texts, hits), (before, early) = totals[end].tolist(), totals[end - window].tolist()
            recent, late = texts - before, hits - early
            if recent:
                p = float(hypergeom.sf(late - 1, texts, hits, recent))
                parts = Proportion(early, before), Proportion(late, recent)
                at_end.append(Rise(months=window, before=parts[0], recent=parts[1], p=p, level=level))
        if at_end:
            made.append(min(at_end, key=lambda rise: rise.p))
    return tuple(made)
