"""Sensitivity, specificity and missed cases from an audit, weighted by how much of each stratum was read.

Begg and Greenes 1983, doi:10.2307/2530820: what was read in a stratum stands for the whole stratum. The naive
figure, which counts only what was read, is shown beside it: it flatters the engine, because nearly everything
flagged is read and hardly anything called safe.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scipy.stats import chi2

from screening.labels import Outcome
from screening.statistics.metrics import Proportion
from screening.statistics.rules.majority_vote import clopper_pearson
from screening.statistics.verification.audit import Stratum


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightedRate:
    """An estimate with its interval; a None comes with the reason. ``naive`` is the same share among what was read."""

    value: float | None
    low: float | None
    high: float | None
    naive: Proportion
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissedUnsafe:
    """Unsafe texts among those called safe, per 1,000: the estimate and an upper bound, None while nothing is read."""

    name: str
    cases: int
    read: int
    missed: int
    per_thousand: float | None
    at_most_per_thousand: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEstimates:
    """What the audit says. Escalation counts as caught: sensitivity is the share of unsafe texts not called safe."""

    missed: MissedUnsafe
    missed_by_stratum: tuple[MissedUnsafe, ...]
    sensitivity: WeightedRate
    specificity: WeightedRate
    waiting: int
    inconclusive: int


def estimate(strata: Sequence[Stratum], confidence: float = 0.95) -> AuditEstimates:
    """The audit's estimates. Lead with ``missed``; its bound holds for one look at a time fixed in advance.

    Readings still due, and inconclusive ones, are taken to be missing at random within their stratum; both are
    counted.
    """
    safe = [stratum for stratum in strata if stratum.outcome is Outcome.SAFE]
    flagged = [stratum for stratum in strata if stratum.outcome is not Outcome.SAFE]
    return AuditEstimates(
        missed=_missed("all", safe, confidence),
        missed_by_stratum=tuple(_missed(each.name, [each], confidence) for each in safe),
        sensitivity=_rate(_pools(flagged, unsafe=True), _pools(safe, unsafe=True), confidence),
        specificity=_rate(_pools(safe, unsafe=False), _pools(flagged, unsafe=False), confidence),
        waiting=sum(stratum.waiting for stratum in strata),
        inconclusive=sum(stratum.inconclusive for stratum in strata),
    )


@dataclass(frozen=True, slots=True)
class _Pool:
    """Strata that were sampled alike, as one random sample of their texts of the kind counted."""

    strata: tuple[Stratum, ...]
    unsafe: bool

    @property
    def cases(self) -> int:
        return sum(stratum.cases for stratum in self.strata)

    @property
    def read(self) -> int:
        return sum(stratum.read for stratum in self.strata)

    @property
    def hits(self) -> int:
        unsafe = sum(stratum.unsafe for stratum in self.strata)
        return unsafe if self.unsafe else self.read - unsafe

    @property
    def fraction(self) -> float:
        return self.read / self.cases if self.cases else 1.0

    @property
    def unread(self) -> bool:
        return self.cases > 0 and self.read == 0

    @property
    def total(self) -> float:
        """The hits there would be if every case were read."""
        return self.hits / self.fraction


def _pools(strata: Sequence[Stratum], *, unsafe: bool) -> list[_Pool]:
    """Strata with one π and nothing waiting are together one random sample; any other stands alone."""
    members: dict[object, list[Stratum]] = {}
    for stratum in strata:
        alone = (stratum.name, stratum.outcome, stratum.probability)
        members.setdefault(alone if stratum.waiting else stratum.probability, []).append(stratum)
    return [_Pool(tuple(alike), unsafe) for alike in members.values()]


def _missed(name: str, safe: Sequence[Stratum], confidence: float) -> MissedUnsafe:
    pools = _pools(safe, unsafe=True)
    cases = sum(pool.cases for pool in pools)
    defined = cases > 0 and not any(pool.unread for pool in pools)
    return MissedUnsafe(
        name=name,
        cases=cases,
        read=sum(pool.read for pool in pools),
        missed=sum(pool.hits for pool in pools),
        per_thousand=1000 * sum(pool.total for pool in pools) / cases if defined else None,
        at_most_per_thousand=1000 * _upper_share(pools, confidence) if defined else None,
    )


def _upper_share(pools: list[_Pool], confidence: float) -> float:
    """Upper bound of the hits' share: exact (Clopper-Pearson) in one pool, their weighted sum at shared level."""
    cases, level = sum(pool.cases for pool in pools), (1 - confidence) / len(pools)
    return sum(pool.cases / cases * upper_bound(pool.hits, pool.read, 1 - level) for pool in pools)


def upper_bound(hits: int, n: int, confidence: float = 0.95) -> float:
    """Exact one-sided upper bound of a probability (Clopper-Pearson) after ``hits`` in n; 1 when n is 0.

    With no hit it is close to the rule of three, 3/n (Hanley and Lippman-Hand 1983,
    doi:10.1001/jama.1983.03330370053031).

    >>> round(upper_bound(0, 300), 5), rule_of_three(300)  # 1 - 0.05 ** (1 / 300)
    (0.00994, 0.01)
    """
    return clopper_pearson(hits, n, 2 * (1 - confidence)).high


def rule_of_three(n: int) -> float | None:
    """3/n, the 95 % upper bound of a rate after no hit in n; None when n is 0."""
    return min(1.0, 3 / n) if n else None


def _rate(kept: Sequence[_Pool], lost: Sequence[_Pool], confidence: float) -> WeightedRate:
    seen = sum(pool.hits for pool in kept)
    naive = Proportion(seen, seen + sum(pool.hits for pool in lost))
    undefined = WeightedRate(value=None, low=None, high=None, naive=naive)
    unread = {stratum.name for pool in (*kept, *lost) if pool.unread for stratum in pool.strata}
    if unread:
        return replace(undefined, reason=f"nothing is read yet of: {', '.join(sorted(unread))}")
    if not naive.denominator:
        return replace(undefined, reason="no such text has been read yet")
    value = _share(sum(pool.total for pool in kept), sum(pool.total for pool in lost))
    low, high = _interval(kept, lost, confidence)
    return WeightedRate(value=value, low=low, high=high, naive=naive)


def _interval(kept: Sequence[_Pool], lost: Sequence[_Pool], confidence: float) -> tuple[float, float]:
    """Interval of K / (K + L), K and L the totals that ``kept`` and ``lost`` are samples of.

    With one pool on each side it is exact: of the texts counted in either, each is in L's sample with chance
    θ = f_L·L / (f_L·L + f_K·K), f the fraction read; a Clopper-Pearson interval of θ turns into one of the rate.
    A normal interval on the weighted figure would miss the truth too often with the handful of misses an audit
    finds. Otherwise each total gets an exact Poisson interval (Garwood 1936, doi:10.1093/biomet/28.3-4.437) at a
    shared level, which is wider than need be but never too narrow.
    """
    if len(kept) <= 1 and len(lost) <= 1:
        nothing = _Pool((), unsafe=False)
        return _conditional(kept[0] if kept else nothing, lost[0] if lost else nothing, confidence)
    level = (1 - confidence) / (len(kept) + len(lost))
    (kept_low, kept_high), (lost_low, lost_high) = _totals(kept, level), _totals(lost, level)
    return _share(kept_low, lost_high), _share(kept_high, lost_low)


def _conditional(kept: _Pool, lost: _Pool, confidence: float) -> tuple[float, float]:
    theta = clopper_pearson(lost.hits, kept.hits + lost.hits, 1 - confidence)
    low = _share((1 - theta.high) / kept.fraction, theta.high / lost.fraction)
    high = _share((1 - theta.low) / kept.fraction, theta.low / lost.fraction)
    return low, high


def _totals(pools: Sequence[_Pool], level: float) -> tuple[float, float]:
    lows = [chi2.ppf(level / 2, 2 * each.hits) / 2 / each.fraction if each.hits else 0.0 for each in pools]
    highs = [chi2.ppf(1 - level / 2, 2 * each.hits + 2) / 2 / each.fraction for each in pools]
    return float(sum(lows)), float(sum(highs))


def _share(kept: float, lost: float) -> float:
    return kept / (kept + lost)
