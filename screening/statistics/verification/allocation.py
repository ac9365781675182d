"""Where an audit's readings tell most: a probability for each stratum of evidence, fixed before the cases arrive.

Neyman (1934, doi:10.2307/2342192): the variance of a total over strata is smallest, for the same mean number of
readings, when a stratum is read in proportion to the standard deviation of what is counted in it. For misses at rate p
that is √(p(1-p)). The rates are those of earlier readings, drawn towards their common rate, so that a handful of misses
moves little; no stratum is read with less than the plan's π.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, sqrt

PRIOR_MISSES = 3.0
"""How many expected misses of a stratum weigh as much as all that is known of the others."""

_HALVINGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What earlier audits found in one stratum of texts called safe: of ``cases``, ``read``, of them ``unsafe``; of
    ``due`` the reading, the first or a further one, is still to come.

    ValueError unless unsafe ≤ read ≤ cases.
    """

    name: str
    cases: int
    read: int
    unsafe: int
    due: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.unsafe <= self.read <= self.cases:
            raise ValueError("a stratum needs unsafe ≤ read ≤ cases")


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The audit probability of each stratum of evidence, by name; its version is fixed before a case arrives.

    A stratum that it does not name, and one named with less than the plan's π, is read with that π.
    """

    probabilities: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not all(0 < probability <= 1 for probability in self.probabilities.values()):
            raise ValueError("an audit probability must be above 0 and at most 1")

    def probability(self, stratum: str | None, floor: float) -> float:
        """What the coin of a case in this stratum is compared with; a case without an audit (0) stays without one.

        >>> Allocation(probabilities={"close": 0.4}).probability("close", 0.05), Allocation().probability("close", 0.05)
        (0.4, 0.05)
        """
        if floor == 0 or stratum is None:
            return floor
        return max(floor, self.probabilities.get(stratum, floor))


def neyman(strata: Sequence[Seen], floor: float, mean: float) -> Allocation:
    """The allocation that reads a share ``mean`` of the texts, as these strata hold them, and none below ``floor``.

    With nothing read, or equal rates, every stratum has ``mean``. Rounded up to whole thousandths. ValueError unless
    0 < floor ≤ mean ≤ 1.

    >>> seen = [Seen(name="clear", cases=900, read=90, unsafe=0), Seen(name="close", cases=100, read=50, unsafe=10)]
    >>> neyman(seen, 0.05, 0.1).probabilities
    {'clear': 0.089, 'close': 0.207}
    """
    if not 0 < floor <= mean <= 1:
        raise ValueError("the mean share read lies between the plan's probability and 1")
    cases = sum(stratum.cases for stratum in strata)
    if not cases:
        return Allocation()
    spread = _spreads(strata)

    def shares(scale: float) -> list[float]:
        return [min(1.0, max(floor, scale * each)) for each in spread]

    low, high = 0.0, 1 / min(spread)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        read = sum(share * stratum.cases for share, stratum in zip(shares(middle), strata, strict=True))
        low, high = (middle, high) if read < mean * cases else (low, middle)
    rounded = [min(1.0, ceil(1000 * share - 1e-6) / 1000) for share in shares(high)]
    return Allocation(probabilities={each.name: share for each, share in zip(strata, rounded, strict=True)})


def _spreads(strata: Sequence[Seen]) -> list[float]:
    """√(p(1-p)) of each stratum, p drawn towards the common rate: (misses + a)/(expected + a) times that rate."""
    read, unsafe = sum(each.read for each in strata), sum(each.unsafe for each in strata)
    common = (unsafe + 0.5) / (read + 1)
    rates = [common * (each.unsafe + PRIOR_MISSES) / (each.read * common + PRIOR_MISSES) for each in strata]
    return [sqrt(min(rate, 0.5) * (1 - min(rate, 0.5))) for rate in rates]
