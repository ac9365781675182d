"""What decisions are worth by the labels of reviews, where some texts were reviewed: weighted by how each was chosen.

Texts of one stratum (drawn alike for review) and outcome are a part. How many of a part are unsafe has a limit of its
own, exact for a sample without replacement (hypergeometric, mid-p), and parts are put together by MOVER, the method of
variance estimates recovery (Zou and Donner 2008, doi:10.1002/sim.3095; ratios: Donner and Zou 2012,
doi:10.1177/0962280210384213).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from screening.labels import Label, Outcome
from screening.statistics import special
from screening.statistics.bounds import clopper_pearson
from screening.statistics.metrics import REFERENCES, Codes, Integers

Floats = NDArray[np.float64]
Rate = Literal["accuracy", "fpr", "fnr"]
RATES: tuple[Rate, ...] = ("accuracy", "fpr", "fnr")
UNREVIEWED, INCONCLUSIVE = -2, -1
"""In place of a number into `REFERENCES`: nobody reviewed it, or it holds too little information."""
UNSEEN = 0.05
"""Where strata of which nothing was reviewed hold more than this share of the texts, no estimate is made up."""
_SAFE, _UNSAFE = (tuple(Outcome).index(outcome) for outcome in (Outcome.SAFE, Outcome.UNSAFE))
_LABELED_UNSAFE = REFERENCES.index(Label.UNSAFE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A share of ``of`` texts, ``reviewed`` of them reviewed. No value where too little was reviewed, and no limits
    either where there is no such text.
    """

    value: float | None
    low: float | None
    high: float | None
    reviewed: int
    of: int


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Reviewed:
    """N texts as numbers, each of shape (N,): the original label, the label of its review (or `INCONCLUSIVE`,
    `UNREVIEWED`), and its stratum. Those reviewed of a stratum are a random sample of it. ``sensitivity`` is the share
    of unsafe texts that reviewers recognize.
    """

    references: Codes
    reviews: Codes
    strata: Integers
    sensitivity: float = 1.0

    def wrong_labels(self) -> Estimate:
        """The share of original labels that are not what a review says."""
        everything = np.ones(len(self.references), bool)
        parts = self._parts(self.references.astype(np.int64))
        labeled_unsafe = self.references[parts.first] == _LABELED_UNSAFE
        return self._share(parts, np.where(labeled_unsafe, -1.0, 1.0), parts.size @ labeled_unsafe, everything)

    def rate(self, name: Rate, outcomes: NDArray[np.integer]) -> Estimate:
        """Accuracy, FPR or FNR of these outcomes (numbers into `Outcome`, below 0 for none), over what they decide."""
        decided = (outcomes == _SAFE) | (outcomes == _UNSAFE)
        parts = self._parts(outcomes.astype(np.int64))
        told = outcomes[parts.first]
        if name == "accuracy":
            signs = np.where(told == _UNSAFE, 1.0, np.where(told == _SAFE, -1.0, 0.0))
            return self._share(parts, signs, parts.size @ (told == _SAFE), decided)
        if name == "fnr":
            return self._ratio(parts, told == _SAFE, told == _UNSAFE, decided)
        return self._ratio(parts.of_safe(), told == _UNSAFE, told == _SAFE, decided)

    def _share(self, parts: "_Parts", signs: Floats, constant: float, of: NDArray[np.bool_]) -> Estimate:
        n = int(of.sum())
        if not n:
            return self._estimate(None, None, None, of)
        middle, below, above = parts.sum(signs)
        value, low, high = ((constant + each) / n for each in (middle, middle - below, middle + above))
        return self._estimate(value, max(0.0, low), min(1.0, high), of)

    def _ratio(
        self, parts: "_Parts", wrong: NDArray[np.bool_], right: NDArray[np.bool_], of: NDArray[np.bool_]
    ) -> Estimate:
        """wrong / (wrong + right): the shares s at which 0 lies within the limits of (1 - s)·wrong - s·right."""

        def possible(share: float) -> tuple[bool, bool]:
            middle, below, above = parts.sum((1 - share) * wrong - share * right)
            return middle - below > 0, middle + above < 0  # too small a share, too large a one

        counted = [float(parts.unsafe @ each) for each in (wrong, right)]
        if not sum(counted):
            return self._estimate(None, None, None, of)
        value = counted[0] / sum(counted)
        return self._estimate(value, _edge(possible, 0.0, value), _edge(possible, 1.0, value), of)

    def _estimate(self, value: float | None, low: float | None, high: float | None, of: NDArray[np.bool_]) -> Estimate:
        reviewed = self.reviews != UNREVIEWED
        unseen = ~np.isin(self.strata, self.strata[reviewed]) & of
        if unseen.sum() > UNSEEN * of.sum():
            value = None
        return Estimate(value=value, low=low, high=high, reviewed=int((reviewed & of).sum()), of=int(of.sum()))

    def _parts(self, column: Integers) -> "_Parts":
        _, first, of = np.unique(np.stack([self.strata, column]), axis=1, return_index=True, return_inverse=True)
        of, kinds = of.reshape(-1), (self.reviews != UNREVIEWED, self.reviews >= 0, self.reviews == _LABELED_UNSAFE)
        size, read, told, found = (np.bincount(of, each, len(first)).astype(np.int64) for each in (of >= 0, *kinds))
        limits = np.array([self._limits(*map(int, each)) for each in zip(size, read, told, found, strict=True)])
        whole = [np.bincount(self.strata, each) for each in kinds[1:]]
        # a part of which hardly anything was reviewed leans on its stratum by half a review
        about = ((whole[1] + 0.5) / (whole[0] + 1))[self.strata[first]]
        shares = np.minimum(1.0, np.where(read == size, found, found + about / 2) / self.sensitivity
                            / np.maximum(np.where(read == size, told, told + 0.5), 0.5))  # fmt: skip
        low, high = limits.reshape(-1, 2).T
        unsafe = np.clip(shares * size, low, high).astype(float)
        return _Parts(first=first, size=size.astype(float), unsafe=unsafe, low=low, high=high, unseen=read == 0)

    def _limits(self, size: int, read: int, told: int, found: int) -> tuple[float, float]:
        """Of how many are unsafe: had all inconclusive ones been safe, and had all been unsafe."""
        most = found + read - told
        if self.sensitivity == 1.0:
            return count_limits(size, read, found)[0], count_limits(size, read, most)[1]
        low, high = clopper_pearson(found, read, 0.05).low, clopper_pearson(most, read, 0.05).high
        return size * min(1.0, low / self.sensitivity), size * min(1.0, high / self.sensitivity)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class _Parts:
    """By part: one of its texts, how many it has, how many are taken to be unsafe, and the limits of that; ``unseen``
    where nothing of it was reviewed.
    """

    first: Integers
    size: Floats
    unsafe: Floats
    low: Floats
    high: Floats
    unseen: NDArray[np.bool_]

    def sum(self, weights: Floats) -> tuple[float, float, float]:
        """Σ weight x unsafe, and how far its limits lie below and above. What chance leaves open of several parts adds
        up in squares; what nobody has seen may all be one way.
        """
        down, up = self.unsafe - self.low, self.high - self.unsafe
        below, above = (np.where(weights > 0, *each) * weights for each in ((down, up), (up, down)))
        seen = ~self.unseen
        far = [float(np.sqrt((each**2) @ seen) + np.abs(each) @ self.unseen) for each in (below, above)]
        return float(weights @ self.unsafe), far[0], far[1]

    def of_safe(self) -> "_Parts":
        """The same with safe texts counted."""
        return replace(self, unsafe=self.size - self.unsafe, low=self.size - self.high, high=self.size - self.low)


def _edge(possible: Callable[[float], tuple[bool, bool]], end: float, inside: float) -> float:
    """Between a possible share and this end: the last that is possible, by halving."""
    if not any(possible(end)):
        return end
    outside = end
    for _ in range(40):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if any(possible(middle)) else (middle, outside)
    return outside


@lru_cache(maxsize=1 << 16)
def count_limits(size: int, read: int, found: int, tail: float = 0.025) -> tuple[int, int]:
    """Limits of how many of ``size`` are unsafe, where ``found`` of ``read`` drawn at random are (mid-p).

    All are read: exactly what was found. None is read: anything.

    >>> count_limits(400, 40, 0), count_limits(3, 3, 3), count_limits(7, 0, 0)
    ((0, 27), (3, 3), (0, 7))
    """
    if read in (0, size):
        return (found, found) if read else (0, size)
    return size - _most(size, read, read - found, tail), _most(size, read, found, tail)


def _most(size: int, read: int, found: int, tail: float) -> int:
    """The most that may be unsafe: halved, as fewer found is less likely the more there are."""
    seen = np.arange(found + 1)
    low, high = found, size - (read - found)
    while low < high:
        unsafe = (low + high + 1) // 2
        chances = np.exp(
            _log_choose(unsafe, seen) + _log_choose(size - unsafe, read - seen) - _log_choose(size, np.array(read))
        )
        low, high = (unsafe, high) if chances.sum() - chances[-1] / 2 > tail else (low, unsafe - 1)
    return low


def _log_choose(n: int, k: NDArray[np.int64]) -> Floats:
    possible = (k >= 0) & (k <= n)
    kept = np.where(possible, k, 0)
    value = special.gammaln(n + 1) - special.gammaln(kept + 1) - special.gammaln(n - kept + 1)
    return np.where(possible, value, -np.inf)
