"""What changes: the engine's outcomes from one window to another, and whether a share rises from month to month."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import scipy

from screening.evaluation.metrics import Floats, Integers, Proportion
from screening.stopping.evidence import Band, clopper_pearson


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


def _bets(hits: Integers, n: Integers, limits: Band) -> Floats:
    """At each look the mean of the bets that the share is above its upper limit and that it is below its lower one; of
    those that cannot be, as a share below 0, the mean is 1.
    """
    low, high = limits
    rises = [(rise, high) for ratio in RATIOS if (rise := min(0.999, ratio * high)) > high]
    falls = [(fall, low) for ratio in RATIOS if (fall := low / ratio) < low]
    means = []
    for bets in (rises, falls):
        logs = [
            scipy.special.xlogy(hits, to / of) + scipy.special.xlogy(n - hits, (1 - to) / (1 - of)) for to, of in bets
        ]
        means.append(np.exp(np.minimum(700.0, logs)).mean(axis=0) if bets else np.ones(len(n)))
    return np.asarray((means[0] + means[1]) / 2)


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
                p = float(scipy.stats.hypergeom.sf(late - 1, texts, hits, recent))
                parts = Proportion(early, before), Proportion(late, recent)
                at_end.append(Rise(months=window, before=parts[0], recent=parts[1], p=p, level=level))
        if at_end:
            made.append(min(at_end, key=lambda rise: rise.p))
    return tuple(made)
