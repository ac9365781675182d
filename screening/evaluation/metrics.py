"""The paper's metrics over cases with a reference label, each with its Wilson interval; and two ways of deciding the
same cases, compared case by case: exact test and interval of the difference.

Accuracy, FPR and FNR are over decided (non-escalated) cases. They compare with reference labels; the stopping
rule's delta speaks of something else, the model's own mode.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import sqrt
from statistics import NormalDist

import numpy as np
import scipy
from numpy.typing import NDArray

from screening.labels import Label, Outcome
from screening.stopping.evidence import mean_limits

Z_95 = 1.96
"""The paper's z of a 95% interval (Appendix D)."""

REFERENCES = (Label.SAFE, Label.UNSAFE)
"""The labels that can be a reference: ``escalate`` is an action, not something true of a text."""
DECIDED = (Outcome.SAFE, Outcome.UNSAFE)

NONE = -1
"""In place of a number: no such reference, a pending case."""

Codes = NDArray[np.int8]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Proportion:
    """A count out of a count with its 95% Wilson score interval; value and bounds are None for 0 of 0.

    ``unsettled`` further cases may yet belong to it, each in the numerator, in the denominator alone or in neither:
    there is no value then, and the limits hold whatever becomes of them. ValueError unless 0 ≤ numerator ≤ denominator.
    Source: paper, Appendix D; Wilson 1927, doi:10.1080/01621459.1927.10502953.

    >>> false_positives = Proportion(4, 42)
    >>> [round(x, 3) for x in (false_positives.value, false_positives.low, false_positives.high)]
    [0.095, 0.038, 0.221]
    >>> Proportion(0, 0).value is None
    True
    >>> open_ones = Proportion(21, 21, unsettled=173)  # between 21 and 194 of 194
    >>> open_ones.value is None, round(open_ones.low, 3), open_ones.high
    (True, 0.072, 1.0)
    """

    numerator: int
    denominator: int
    unsettled: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.numerator <= self.denominator:
            raise ValueError(f"not a proportion: {self.numerator} of {self.denominator}")

    @property
    def value(self) -> float | None:
        return self.numerator / self.denominator if self.denominator and not self.unsettled else None

    @property
    def low(self) -> float | None:
        of = self.denominator + self.unsettled
        return wilson(self.numerator, of)[0] if of else None

    @property
    def high(self) -> float | None:
        of = self.denominator + self.unsettled
        return wilson(self.numerator + self.unsettled, of)[1] if of else None

    @property
    def plain(self) -> dict[str, float | int | None]:
        limits = {"value": self.value, "low": self.low, "high": self.high}
        return limits | {"numerator": self.numerator, "denominator": self.denominator}


def wilson(successes: int, n: int, z: float = Z_95) -> tuple[float, float]:
    """The Wilson score interval of ``successes`` out of ``n``; from 0 to 1 when n is 0."""
    if n == 0:
        return 0.0, 1.0
    p = successes / n
    middle = p + z * z / (2 * n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # At 0 and n the formula's own end is 0 and 1; rounding must not move it.
    low = 0.0 if successes == 0 else (middle - half) / scale
    high = 1.0 if successes == n else (middle + half) / scale
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """What one condition, by its ``name``, did on a data set, without its cases: ``confusion`` counts them by
    (reference, outcome), None for a case without a reference of `REFERENCES` and for a pending one.

    Both are left out of every figure. Where rates are ``bounded``, because pending cases are the harder ones (their
    draws did not suffice), every rate has the pending ones as its own, and totals are None. Totals are ``calls``,
    ``tokens`` and ``cost_usd``, None where they were not given, or not of every draw. ``subset_fnr`` is the FNR of the
    cases of special interest, None without any.

    >>> paper = {("safe", "safe"): 38, ("safe", "unsafe"): 4, ("unsafe", "safe"): 32, ("unsafe", "unsafe"): 81}
    >>> paper |= {("safe", "human_review"): 0, ("unsafe", "human_review"): 6}
    >>> row = Metrics(confusion={(Label(said), Outcome(end)): cases for (said, end), cases in paper.items()})
    >>> round(row.accuracy.value, 3), row.escalation_rate.numerator  # (38 + 81) of 155; 161 - 155
    (0.768, 6)
    """

    confusion: Mapping[tuple[Label | None, Outcome | None], int]
    name: str = ""
    bounded: bool = False
    calls: int | None = None
    tokens: int | None = None
    cost_usd: float | None = None
    subset_fnr: Proportion | None = None

    @property
    def n(self) -> int:
        """The cases with a reference label that have an outcome."""
        return self._count(REFERENCES, Outcome)

    @property
    def pending(self) -> int:
        return self._count(REFERENCES, [None])

    @property
    def without_reference(self) -> int:
        return self._count([None], [*Outcome, None])

    @property
    def unsettled(self) -> int:
        """All without an outcome, with a reference or without."""
        return self._count([*REFERENCES, None], [None])

    @property
    def accuracy(self) -> Proportion:
        return self._rate(sum(self._count([label], [Outcome(label)]) for label in REFERENCES), REFERENCES)

    @property
    def fpr(self) -> Proportion:
        """Safe texts labeled unsafe, of the safe ones decided."""
        return self._rate(self._count([Label.SAFE], [Outcome.UNSAFE]), [Label.SAFE])

    @property
    def fnr(self) -> Proportion:
        """Unsafe texts labeled safe, of the unsafe ones decided."""
        return self._rate(self._count([Label.UNSAFE], [Outcome.SAFE]), [Label.UNSAFE])

    @property
    def escalation_rate(self) -> Proportion:
        return self._rate(self._count(REFERENCES, [Outcome.HUMAN_REVIEW]), REFERENCES, Outcome)

    @property
    def worst(self) -> "Metrics":
        """Had every escalated case been an error: so conditions that escalate unequally compare."""
        return self._had_escalated_been({Label.SAFE: Outcome.UNSAFE, Label.UNSAFE: Outcome.SAFE})

    @property
    def best(self) -> "Metrics":
        """Had every escalated case been right."""
        return self._had_escalated_been({Label.SAFE: Outcome.SAFE, Label.UNSAFE: Outcome.UNSAFE})

    @property
    def mean_calls(self) -> float | None:
        """Calls per settled case (the paper's average pulls); None without calls or cases."""
        return None if self.calls is None or not self.n else self.calls / self.n

    def _had_escalated_been(self, outcomes: Mapping[Label, Outcome]) -> "Metrics":
        confusion = dict(self.confusion)
        for reference, outcome in outcomes.items():
            confusion[reference, outcome] += confusion[reference, Outcome.HUMAN_REVIEW]
            confusion[reference, Outcome.HUMAN_REVIEW] = 0
        return replace(self, confusion=confusion, subset_fnr=None)

    def _rate(self, hits: int, references: Sequence[Label], outcomes: Iterable[Outcome] = DECIDED) -> Proportion:
        pending = self._count(references, [None]) if self.bounded else 0
        return Proportion(hits, self._count(references, outcomes), unsettled=pending)

    def _count(self, references: Iterable[Label | None], outcomes: Iterable[Outcome | None]) -> int:
        return sum(self.confusion.get(cell, 0) for cell in product(references, outcomes))


def reference_codes(references: Sequence[Label | None]) -> Codes:
    """Numbers in `REFERENCES`, shape (N,); `NONE` for none and for ``escalate``."""
    return _numbers(references, REFERENCES).astype(np.int8)


def outcome_codes(outcomes: Sequence[Outcome | None]) -> Codes:
    """Numbers in `Outcome`, shape (N,); `NONE` for a pending case."""
    return _numbers(outcomes, Outcome).astype(np.int8)


def _numbers(values: Sequence[str | None], known: Iterable[str]) -> Integers:
    numbers: dict[str | None, int] = {each: number for number, each in enumerate(known)}
    return np.fromiter((numbers.get(each, NONE) for each in values), np.int64, len(values))


def evaluate(
    references: Codes,
    outcomes: Codes,
    *,
    calls: Integers | None = None,
    tokens: Integers | None = None,
    bounded: bool = False,
) -> Metrics:
    """The metrics of N cases, in numbers as `reference_codes` and `outcome_codes` give them. ``bounded`` says that
    pending cases are no sample of the others (mixed answers take more draws). ValueError when lengths differ.
    """
    if any(len(column) != len(references) for column in (outcomes, calls, tokens) if column is not None):
        raise ValueError("the columns of an evaluation must have one entry per case")
    cells = list(product((None, *REFERENCES), (None, *Outcome)))
    counts = np.bincount((references + 1) * (len(Outcome) + 1) + outcomes + 1, minlength=len(cells))
    found = Metrics(confusion=dict(zip(cells, counts.tolist(), strict=True)), bounded=bounded)
    if bounded and found.pending:
        return found
    counted = (references != NONE) & (outcomes != NONE)
    made, used = (None if each is None else int(each[counted].sum()) for each in (calls, tokens))
    return replace(found, calls=made, tokens=used)


Figures = Sequence[float] | NDArray[np.number] | NDArray[np.bool_]
"""One figure of each case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Second minus first, over ``n`` pairs; None without a pair, and the limits of amounts without known bounds."""

    n: int
    first: float | None = None
    second: float | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float


def exact_mcnemar(only_first: int, only_second: int) -> float:
    """Two-sided p-value that both ways err equally often, from the pairs in which they part (McNemar 1947,
    doi:10.1007/BF02295996, exact). 1.0 without any.

    >>> exact_mcnemar(0, 0), round(exact_mcnemar(1, 9), 4)  # 2·(1 + 10)/1024
    (1.0, 0.0215)
    """
    parted = only_first + only_second
    return 1.0 if parted == 0 else float(scipy.stats.binomtest(only_first, parted).pvalue)


def paired_rates(first: Figures, second: Figures, confidence: float = 0.95) -> Difference:
    """Difference of two shares of the same cases (figures 0 and 1). ValueError for other lengths.

    The wider of Bonett and Price's adjusted Wald interval (2012, doi:10.3102/1076998611411915), with (x₁₂ + 1)/(n + 2)
    and (x₂₁ + 1)/(n + 2) in place of the shares of pairs that part either way, and of MOVER on the two shares' Wilson
    limits. Where pairs part one way alone the former cover in .93 by themselves.

    >>> found = paired_rates([1, 1, 0, 0], [1, 1, 1, 1])
    >>> found.value, found.n
    (0.5, 4)
    """
    change, found = _difference(first, second, confidence)
    if not found.n:
        return found
    n, more, less = found.n, int((change > 0).sum()), int((change < 0).sum())
    z = NormalDist().inv_cdf(0.5 + confidence / 2)
    up, down = (more + 1) / (n + 2), (less + 1) / (n + 2)
    spread = z * sqrt((up + down - (up - down) ** 2) / (n + 2))
    (least_up, most_up), (least_down, most_down) = (wilson(hits, n, z) for hits in (more, less))
    middle = (more - less) / n
    below = float(np.hypot(more / n - least_up, most_down - less / n))
    above = float(np.hypot(most_up - more / n, less / n - least_down))
    low, high = min(up - down - spread, middle - below), max(up - down + spread, middle + above)
    return replace(found, low=max(-1.0, low), high=min(1.0, high))


def paired_amounts(
    first: Figures, second: Figures, bounds: tuple[float, float] | None, confidence: float = 0.95, seed: int = 0
) -> Difference:
    """Difference of the means of two amounts of the same cases, such as calls.

    ``bounds`` are what second less first of one case can be at least and at most; without them there is no interval.
    Where a few texts take most calls, neither resamples nor Student's t know how far the amounts reach (covering in .71
    to .85); betting on the mean within bounds holds for every distribution (`mean_limits`), at the cost of width. The
    cases are bet on in a random order, so that a sorted file does no harm. ValueError for other lengths and for a
    difference out of bounds.
    """
    change, found = _difference(first, second, confidence)
    if not found.n or bounds is None:
        return found
    least, most = bounds
    if not ((least <= change) & (change <= most)).all():
        raise ValueError("a difference is out of its bounds")
    if least == most:
        return replace(found, low=least, high=most)
    shuffled = np.random.default_rng(seed).permutation(change)
    low, high = mean_limits((shuffled - least) / (most - least), 1 - confidence)
    return replace(found, low=least + low * (most - least), high=least + high * (most - least))


def _difference(first: Figures, second: Figures, confidence: float) -> tuple[Floats, Difference]:
    one, other = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    if one.shape != other.shape:
        raise ValueError("both need one figure for each case")
    change = other - one
    if not change.size:
        return change, Difference(n=0, confidence=confidence)
    first_mean, second_mean, mean = (float(each.mean()) for each in (one, other, change))
    return change, Difference(n=change.size, first=first_mean, second=second_mean, value=mean, confidence=confidence)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The second condition less the first, on the labeled cases that both settle.

    ``only_first`` and ``only_second`` are the cases that one alone has right (an escalation is not right), ``p_value``
    McNemar's exact test that they are equally many. Cases that one leaves unsettled are harder than the others: whoever
    compares leaves out conditions that have any (`Evaluated.comparable`).
    """

    second: str
    only_first: int
    only_second: int
    p_value: float
    differences: tuple[tuple[str, Difference], ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Told:
    """What one way of deciding made of each case: ``outcome`` a number into `Outcome` or `NONE`, and its calls, None
    where not known, of which a text takes ``most`` at most: without that a difference has no interval.
    """

    name: str
    outcome: Codes
    calls: NDArray[np.number] | None
    most: int | None = None


def compare(labels: Codes, reference: Told, others: Sequence[Told]) -> tuple[Comparison, ...]:
    """Every other way less one chosen beforehand, on the same cases, each rate over those with such a reference; all
    intervals of a figure hold together at 95% (Bonferroni).
    """
    confidence = 1 - 0.05 / max(1, len(others))
    return tuple(_compare(labels, reference, each, confidence) for each in others)


def _compare(labels: Codes, first: Told, second: Told, confidence: float) -> Comparison:
    shared = (labels >= 0) & (first.outcome != NONE) & (second.outcome != NONE)
    safe, unsafe, escalated = ([each.outcome == at for each in (first, second)] for at in range(len(Outcome)))
    right = [np.where(labels == 1, *both) for both in zip(unsafe, safe, strict=True)]
    figures = (
        ("Decided correctly", right, shared),
        ("False negative (missed)", safe, shared & (labels == 1)),
        ("False positive (false alarm)", unsafe, shared & (labels == 0)),
        ("Escalated", escalated, shared),
    )
    differences = [(name, paired_rates(one[of], other[of], confidence)) for name, (one, other), of in figures]
    if first.calls is not None and second.calls is not None:
        bounds = None if first.most is None or second.most is None else (-float(first.most), float(second.most))
        calls = paired_amounts(first.calls[shared], second.calls[shared], bounds, confidence)
        differences.append(("Calls a text", calls))
    only_first, only_second = (int((shared & one & ~other).sum()) for one, other in (right, right[::-1]))
    return Comparison(
        second=second.name,
        only_first=only_first,
        only_second=only_second,
        p_value=exact_mcnemar(only_first, only_second),
        differences=tuple(differences),
    )
