"""Sensitivity, specificity and missed cases from an audit, weighted by how much of each stratum was read.

Begg and Greenes 1983, doi:10.2307/2530820: what was read in a stratum stands for the whole stratum. The naive
figure, which counts only what was read, is shown beside it: it flatters the engine, because nearly everything
flagged is read and hardly anything labeled safe. And what changes: the engine's outcomes from one window to another,
and whether a share rises from month to month.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import hypot

import numpy as np
import scipy

from screening.evaluation.audit import Stratum
from screening.evaluation.metrics import Floats, Integers, Proportion
from screening.labels import Label, Outcome
from screening.stopping.evidence import Band, clopper_pearson

UNSEEN_SHARE = 0.01
"""Strata of which nothing is read yet do not keep the others from being estimated while they hold no more cases."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedRate:
    """A None comes with the reason. ``naive`` is the same share among what was read."""

    naive: Proportion
    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedUnsafe:
    """Unsafe texts among those labeled safe, per 1,000, None while nothing is read. The estimate leaves out reviews
    that were inconclusive, texts that wait for a further one and those that can no longer be reviewed blinded
    (``lost``); the bound counts each of them as missed. It is ``exact`` where the texts are one random sample.
    """

    cases: int
    read: int
    missed: int
    per_thousand: float | None
    at_most_per_thousand: float | None
    inconclusive: int = 0
    read_again: int = 0
    lost: int = 0
    exact: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEstimates:
    """What the audit says. Escalation counts as caught: sensitivity is the share of unsafe texts not labeled safe."""

    missed: MissedUnsafe
    sensitivity: WeightedRate
    specificity: WeightedRate


def estimate(strata: Sequence[Stratum], confidence: float = 0.95) -> AuditEstimates:
    """The bound of ``missed`` holds for one look at a time fixed in advance.

    First reviews still due are taken to be missing at random within their stratum. Inconclusive ones, texts that wait
    for a further review, and lost ones are missing too, but not at random (who saw an outcome before the review may
    have chosen it): every bound holds at both extremes, had they all been safe, and had they all been unsafe.
    """
    safe = [stratum for stratum in strata if stratum.outcome is Outcome.SAFE]
    flagged = [stratum for stratum in strata if stratum.outcome is not Outcome.SAFE]
    pools, at_worst = _pools(safe, Label.UNSAFE), _at_worst(strata)
    cases, bound = sum(pool.cases for pool in pools), bound_after(strata, 0, confidence)
    estimated = cases > 0 and not any(pool.unread for pool in pools)
    missed = MissedUnsafe(
        cases=cases,
        read=sum(pool.read for pool in pools),
        missed=sum(pool.hits for pool in pools),
        per_thousand=1000 * sum(pool.total for pool in pools) / cases if estimated else None,
        at_most_per_thousand=bound,
        inconclusive=sum(stratum.inconclusive for stratum in safe),
        read_again=sum(stratum.read_again for stratum in safe),
        lost=sum(stratum.lost for stratum in safe),
        exact=bound is not None and len(at_worst) == 1 and not at_worst[0].unseen,
    )
    return AuditEstimates(
        missed=missed,
        sensitivity=_at_extremes(flagged, safe, Label.UNSAFE, confidence),
        specificity=_at_extremes(safe, flagged, Label.SAFE, confidence),
    )


def _at_extremes(kept: Sequence[Stratum], lost: Sequence[Stratum], kind: Label, confidence: float) -> WeightedRate:
    """The share of texts of this kind that lie in ``kept``: estimated without the unsettled, bounded with them."""
    found = _rate(_pools(kept, kind), _pools(lost, kind), confidence)
    if found.value is None or not any(stratum.unsettled for stratum in (*kept, *lost)):
        return found
    other = Label.SAFE if kind is Label.UNSAFE else Label.UNSAFE
    worst, best = (
        _rate(_pools(kept, kind, in_kept), _pools(lost, kind, in_lost), confidence)
        for in_kept, in_lost in ((other, kind), (kind, other))
    )
    return replace(found, low=worst.low, high=best.high)


@dataclass(frozen=True, slots=True)
class _Pool:
    """Strata that were sampled alike, as one random sample: ``hits`` of those read are of the kind that is counted.

    ``unseen`` of its cases are of strata too small to have been read: the estimate takes them to be like the others,
    bounds take all of them to be hits.
    """

    names: frozenset[str]
    cases: int
    read: int
    hits: int
    unseen: int = 0

    @property
    def fraction(self) -> float:
        return self.read / self.cases if self.cases else 1.0

    @property
    def unread(self) -> bool:
        return self.cases > 0 and self.read == 0

    @property
    def total(self) -> float:
        """The hits, were every case read."""
        return self.hits / self.fraction


def _pools(strata: Sequence[Stratum], kind: Label, unsettled: Label | None = None) -> list[_Pool]:
    """Texts of this kind, had every text whose reviews gave no label been ``unsettled``, where that is given.

    Strata with one π of which all that was due gave a label are together one random sample; any other stands alone,
    so that what one of them lacks is not made up from another. Pools of which nothing is read, where all of them hold
    at most `UNSEEN_SHARE`, go to the largest that is read.
    """
    members: dict[object, list[Stratum]] = {}
    for stratum in strata if unsettled is None else (each.if_unsettled_were(unsettled) for each in strata):
        alone = (stratum.name, stratum.outcome, stratum.probability)
        members.setdefault(alone if stratum.read < stratum.selected else stratum.probability, []).append(stratum)
    pools = [
        _Pool(
            names=frozenset(stratum.name for stratum in alike),
            cases=sum(stratum.cases for stratum in alike),
            read=sum(stratum.read for stratum in alike),
            hits=sum(each.unsafe if kind is Label.UNSAFE else each.read - each.unsafe for each in alike),
        )
        for alike in members.values()
    ]
    known = [pool for pool in pools if not pool.unread]
    unseen, cases = sum(pool.cases for pool in pools if pool.unread), sum(pool.cases for pool in pools)
    if not unseen or not known or unseen > UNSEEN_SHARE * cases:
        return pools
    largest = max(known, key=lambda pool: pool.cases)
    return [replace(pool, cases=pool.cases + unseen, unseen=unseen) if pool is largest else pool for pool in known]


def _at_worst(strata: Sequence[Stratum]) -> list[_Pool]:
    """The unsafe among what was labeled safe, had every text whose reviews gave no label been unsafe."""
    return _pools([each for each in strata if each.outcome is Outcome.SAFE], Label.UNSAFE, Label.UNSAFE)


def bound_after(strata: Sequence[Stratum], reviews: int, confidence: float = 0.95) -> float | None:
    """The upper bound of the missed, per 1,000, None while nothing is read; about what it would be after so many more
    reviews, spread over the strata as the cases are, that find unsafe texts as often as those before them.

    Exact (Clopper-Pearson) in one pool; of several by MOVER, the method of variance estimates recovery (Zou and Donner
    2008, doi:10.1002/sim.3095): the exact bounds' distances from the shares add up like independent errors.
    """
    pools = _at_worst(strata)
    cases, parts = sum(pool.cases for pool in pools), []
    if not cases or any(pool.unread for pool in pools):
        return None
    for pool in pools:
        read = min(pool.cases, pool.read + reviews * pool.cases / cases)
        high = upper_bound(pool.hits * read / pool.read, read, confidence)
        parts.append(((pool.cases - pool.unseen) / cases, pool.hits / pool.read, high))
    above = hypot(*(weight * (high - share) for weight, share, high in parts))
    unseen = sum(pool.unseen for pool in pools) / cases
    return 1000 * min(1.0, sum(weight * share for weight, share, _ in parts) + above + unseen)


def upper_bound(hits: float, n: float, confidence: float = 0.95) -> float:
    """Exact one-sided upper bound of a probability (Clopper-Pearson) after ``hits`` in n; 1 when n is 0.

    With no hit it is close to the rule of three, 3/n (Hanley and Lippman-Hand 1983,
    doi:10.1001/jama.1983.03330370053031).

    >>> round(upper_bound(0, 300), 5)  # 1 - 0.05 ** (1 / 300)
    0.00994
    """
    return clopper_pearson(hits, n, 2 * (1 - confidence))[1]


def _rate(kept: Sequence[_Pool], lost: Sequence[_Pool], confidence: float) -> WeightedRate:
    seen = sum(pool.hits for pool in kept)
    naive = Proportion(seen, seen + sum(pool.hits for pool in lost))
    if unread := sorted({name for pool in (*kept, *lost) if pool.unread for name in pool.names}):
        return WeightedRate(naive=naive, reason=f"no review has given safe or unsafe yet of: {', '.join(unread)}")
    if not naive.denominator:
        return WeightedRate(naive=naive, reason="no such text has been reviewed yet")
    value = (caught := sum(pool.total for pool in kept)) / (caught + sum(pool.total for pool in lost))
    low, high = _interval(kept, lost, confidence)
    return WeightedRate(value=value, low=low, high=high, naive=naive)


def _interval(kept: Sequence[_Pool], lost: Sequence[_Pool], confidence: float) -> tuple[float, float]:
    """Interval of K / (K + L), K and L the totals that ``kept`` and ``lost`` are samples of.

    With one pool on each side it is exact: of the texts counted in either, each is in L's sample with chance
    θ = f_L·L / (f_L·L + f_K·K), f the fraction read; a Clopper-Pearson interval of θ turns into one of the rate.
    A normal interval on the weighted figure would miss the truth too often with the handful of misses an audit
    finds. Otherwise MOVER on exact Poisson components (Garwood 1936, doi:10.1093/biomet/28.3-4.437): the share s is in
    the interval while 0 is in that of (1 - s)·K - s·L (Donner and Zou 2012, doi:10.1177/0962280210384213).
    """
    if len(kept) <= 1 and len(lost) <= 1 and not any(pool.unseen for pool in (*kept, *lost)):
        found, missed = (pools[0] if pools else _Pool(frozenset(), 0, 0, 0) for pools in (kept, lost))
        low, high = clopper_pearson(missed.hits, found.hits + missed.hits, 1 - confidence)
        # what there would be of each, were all read
        ends = [((1 - theta) / found.fraction, theta / missed.fraction) for theta in (high, low)]
        return ends[0][0] / sum(ends[0]), ends[1][0] / sum(ends[1])
    (k, k_below, k_above), (lo, lo_below, lo_above) = (_total(pools, 1 - confidence) for pools in (kept, lost))

    def lowest(s: float) -> float:
        return (1 - s) * k - s * lo - hypot((1 - s) * k_below, s * lo_above)

    def highest(s: float) -> float:
        return (1 - s) * k - s * lo + hypot((1 - s) * k_above, s * lo_below)

    return float(scipy.optimize.brentq(lowest, 0.0, 1.0)), float(scipy.optimize.brentq(highest, 0.0, 1.0))


def _total(pools: Sequence[_Pool], level: float) -> tuple[float, float, float]:
    """The sum of the pools' totals, and how far its limits lie below and above: MOVER on exact Poisson intervals."""
    below, above = [], []
    for pool in pools:
        low = float(scipy.special.gammaincinv(pool.hits, level / 2)) if pool.hits else 0.0
        high = float(scipy.special.gammaincinv(pool.hits + 1, 1 - level / 2))
        below.append(pool.total - low / pool.fraction)
        above.append(high / pool.fraction + pool.unseen - pool.total)
    return sum(pool.total for pool in pools), hypot(*below), hypot(*above)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareChange:
    """Evidence (an e-value) that one outcome's share rose or fell."""

    name: str
    reference: Proportion
    since: Proportion
    evidence: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """How far the mix has moved from a frozen reference: the present e-value, and the largest at any look so far, which
    without a change ever reaches `threshold` with probability at most ``alarm_rate``. ``reason`` says why there is none
    yet.
    """

    shares: tuple[ShareChange, ...]
    evidence: float
    most: float
    alarm_rate: float
    reason: str | None = None

    @property
    def threshold(self) -> float:
        """Half of the alarm rate pays for not knowing the reference exactly."""
        return 2 / self.alarm_rate

    @property
    def moved(self) -> bool:
        return self.most >= self.threshold


RATIOS = (1.25, 1.5, 2.0, 3.0, 5.0)
"""The alternatives that are bet on alike: a share so many times its limit in the reference."""


def drift(reference: Mapping[str, int], looks: Sequence[Mapping[str, int]], alarm_rate: float = 0.05) -> Drift:
    """``looks`` are rising counts since the reference, which was frozen beforehand. Each share of the reference has
    exact limits, at half the alarm rate for all of them together. If the later shares lie within, every bet that one
    lies above its upper limit, or below its lower one, is a nonnegative supermartingale, and so is their mean: it ever
    reaches 2/α with probability at most α/2 (Ville). Outcomes that the reference does not know are tested like all
    others.
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
