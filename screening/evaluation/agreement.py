"""How far independent reviewers agree: Krippendorff's α, and beside it Gwet's AC1, Cohen's κ and agreement on a label.

All coefficients take ratings as a table of cases × reviewers. A coefficient that the ratings cannot determine is
None with the reason in words, never 0 and never 1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import scipy
from numpy.typing import NDArray

MISSING = -1
"""Code of a rating that was not given."""


@dataclass(frozen=True, slots=True, eq=False)
class Ratings:
    """The ways in which cases were rated: rows × reviewers, each an index into ``categories`` (in their order) or
    `MISSING`; and for how many cases each row stands.
    """

    codes: NDArray[np.int64]
    categories: tuple[str, ...]
    times: NDArray[np.float64]

    @classmethod
    def of(cls, codes: NDArray[np.int64], categories: Sequence[str]) -> "Ratings":
        """From cases × reviewers: those with the same ratings in one row, those without any left out."""
        ways, times = np.unique(codes[(codes != MISSING).any(axis=1)], axis=0, return_counts=True)
        return cls(ways, tuple(categories), times.astype(np.float64))

    def per_row(self) -> NDArray[np.int64]:
        return np.asarray((self.codes != MISSING).sum(axis=1))

    def counts(self) -> NDArray[np.float64]:
        """Ratings per row and category."""
        hits = self.codes[:, :, None] == np.arange(len(self.categories))
        return np.asarray(hits.sum(axis=1), dtype=np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficient:
    """Value and 95% interval over ``cases`` cases; ``reason`` says why one is None."""

    name: str
    value: float | None
    cases: int
    low: float | None = None
    high: float | None = None
    reason: str | None = None


def ratings_of(table: Sequence[Sequence[str | None]], categories: Sequence[str]) -> Ratings:
    """The table (a row per case, a column per reviewer, None where a reviewer gave no rating) as codes.

    Raises ValueError for rows of unequal length, or a rating that is not one of ``categories``.
    """
    code_of: dict[str | None, int] = {None: MISSING} | {name: code for code, name in enumerate(categories)}
    reviewers = len(table[0]) if table else 1
    if any(len(row) != reviewers for row in table):
        raise ValueError("every case needs one entry per reviewer")
    try:
        codes = [[code_of[rating] for rating in row] for row in table]
    except KeyError:
        raise ValueError("a rating is not one of the categories") from None
    return Ratings.of(np.array(codes, dtype=np.int64).reshape(len(table), reviewers), categories)


class _UndefinedError(Exception):
    """The ratings do not determine the coefficient; the message says why."""


def krippendorff_alpha(ratings: Ratings) -> Coefficient:
    """Krippendorff's α: 1 − observed / expected disagreement, over cases with two or more ratings.

    Undefined when no case has two ratings, or when all ratings are the same label.
    Source: Krippendorff 2011, https://repository.upenn.edu/asc_papers/43.

    >>> table = [["safe", "safe"], ["unsafe", "unsafe"], ["safe", "unsafe"], ["unsafe", "unsafe"]]
    >>> krippendorff_alpha(ratings_of(table, ["safe", "unsafe"])).value  # 1 − 7 · 2 / (2 · 3 · 5)
    0.5333...
    """
    return _coefficient("Krippendorff α", ratings, _alpha)


def gwet_ac1(ratings: Ratings) -> Coefficient:
    """Gwet's AC1: chance agreement that does not explode when one label is rare.

    Undefined with fewer than two categories or when no case has two ratings.
    Source: Gwet 2008, doi:10.1348/000711006X126600.

    >>> table = [["safe", "safe"]] * 8 + [["safe", "unsafe"], ["unsafe", "unsafe"]]
    >>> # observed 0.9; share of safe 17/20, so chance 2 · 0.85 · 0.15 = 0.255; (0.9 − 0.255) / 0.745
    >>> round(gwet_ac1(ratings_of(table, ["safe", "unsafe"])).value, 4)
    0.8658
    """
    return _coefficient("Gwet AC1", ratings, _gwet)


def cohen_kappa(ratings: Ratings) -> Coefficient:
    """Cohen's κ of exactly two reviewers, over the cases both rated.

    Undefined for another number of reviewers, without a case both rated, or when both always gave one same label.
    Source: Cohen 1960, doi:10.1177/001316446002000104.

    >>> table = [["safe", "safe"], ["safe", "unsafe"], ["unsafe", "unsafe"]]
    >>> round(cohen_kappa(ratings_of(table, ["safe", "unsafe"])).value, 3)  # (2/3 − 4/9) / (5/9)
    0.4
    """
    return _coefficient("Cohen κ", ratings, _kappa)


def label_agreement(ratings: Ratings, label: str) -> Coefficient:
    """Agreement on one label: given that one reviewer said it, the chance that another reviewer of the case did.

    With ``unsafe`` as the label this is the positive agreement. Undefined when no case with two ratings has it.
    ValueError for a label that is not one of the categories.
    Source: Cicchetti and Feinstein 1990, doi:10.1016/0895-4356(90)90159-M.

    >>> table = [["unsafe", "unsafe"], ["unsafe", "safe"], ["safe", "safe"]]
    >>> label_agreement(ratings_of(table, ["safe", "unsafe"]), "unsafe").value  # 2 · 1 / (2 · 1 + 1)
    0.6666...
    """
    column = ratings.categories.index(label)
    return _coefficient(f"agreement on {label}", ratings, lambda some: _specific(some, column))


def with_interval(
    coefficient: Callable[[Ratings], Coefficient], ratings: Ratings, label: str | None = None
) -> Coefficient:
    """The coefficient with a 95% interval: Student's t on Fisher's scale, its error from leaving out whole cases.

    artanh(value) ± t₍n-1₎ · s/(1 - value²), s the jackknife's standard error, n the cases with two or more ratings;
    widened to the same with two cases added, as Agresti and Coull add to a share: one in which all say the rarest label
    in use (or ``label``, whose agreement it is) and one that parts between it and the commonest. Where a label is rare
    the cases seen vary too little by themselves. Of the intervals tried it covers at n = 20 (the slow tests);
    percentiles of resamples do not. The interval is None, with the reason, when the value is, when leaving out a case
    leaves it undefined, or at a value of 1 or -1 (a perfect agreement in the few cases there are is no proof of
    perfect agreement). Sources: Miller 1974, doi:10.1093/biomet/61.1.1; Agresti and Coull 1998,
    doi:10.1080/00031305.1998.10480550.
    """
    whole = coefficient(ratings)
    if whole.value is None:
        return whole
    error = _jackknife_error(coefficient, ratings)
    if error is None:
        return replace(whole, reason="too few cases for an interval: without one of them there is no figure")
    if error < 1e-12:  # so it is wherever the value is 1 or -1
        return replace(whole, reason="too little variation for an interval: no case makes a difference")
    limits = [_fisher_limits(whole.value, error, whole.cases)]
    more = _with_two_cases(ratings, None if label is None else ratings.categories.index(label))
    value, error = coefficient(more).value, _jackknife_error(coefficient, more)
    if value is not None and error is not None:
        limits.append(_fisher_limits(value, error, whole.cases))
    return replace(whole, low=min(low for low, _ in limits), high=max(high for _, high in limits))


def _jackknife_error(coefficient: Callable[[Ratings], Coefficient], rated: Ratings) -> float | None:
    """The standard error from leaving out each case; cases with the same ratings are left out once for all."""
    alike = rated.times
    rest = [coefficient(replace(rated, times=alike - one)).value for one in np.eye(len(alike))]
    values = np.array([value for value in rest if value is not None])
    if len(values) < len(rest):
        return None
    n = alike.sum()
    return float(np.sqrt((n - 1) / n * (alike @ (values - values @ alike / n) ** 2)))


def _fisher_limits(value: float, error: float, cases: int) -> tuple[float, float]:
    half = float(scipy.special.stdtrit(max(1, cases - 1), 0.975)) * error / (1 - value**2)
    centre = np.arctanh(value)
    return float(np.tanh(centre - half)), float(np.tanh(centre + half))


def _with_two_cases(rated: Ratings, label: int | None) -> Ratings:
    """The cases and two more, each with the mean number of ratings of those with two or more; two labels are in use."""
    reviewers, times = rated.per_row(), rated.times
    twice = reviewers >= 2
    typical = round(float(reviewers[twice] @ times[twice] / times[twice].sum()))
    said = np.array([times @ (rated.codes == code).sum(axis=1) for code in range(len(rated.categories))])
    codes = np.flatnonzero(said)
    given = said[codes]
    rare = int(codes[given.argmin()]) if label is None else label
    others = codes != rare
    usual = int(codes[others][given[others].argmax()])
    added = np.full((2, rated.codes.shape[1]), MISSING)
    added[:, :typical] = rare
    added[1, 1:typical] = usual
    return Ratings(np.vstack([rated.codes, added]), rated.categories, np.append(times, [1.0, 1.0]))


def agreement_report(ratings: Ratings, labels: Sequence[str]) -> tuple[Coefficient, ...]:
    """α, AC1, κ, then agreement on each of these labels, with intervals."""
    return (
        *(with_interval(each, ratings) for each in (krippendorff_alpha, gwet_ac1, cohen_kappa)),
        *(with_interval(partial(label_agreement, label=name), ratings, name) for name in labels),
    )


def _coefficient(name: str, ratings: Ratings, statistic: Callable[[Ratings], float]) -> Coefficient:
    cases = int(ratings.times[ratings.per_row() >= 2].sum())
    try:
        return Coefficient(name=name, value=statistic(ratings), cases=cases)
    except _UndefinedError as why:
        return Coefficient(name=name, value=None, cases=cases, reason=str(why))


def _paired_counts(ratings: Ratings) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The counts of rows with two or more ratings, and for how many cases each stands."""
    counts, times = ratings.counts(), ratings.times
    twice = (counts.sum(axis=1) >= 2) & (times > 0)
    if not twice.any():
        raise _UndefinedError("no case has two ratings")
    return counts[twice], times[twice]


def _alpha(ratings: Ratings) -> float:
    counts, times = _paired_counts(ratings)
    pairs_per_rating = times / (counts.sum(axis=1) - 1)
    observed = (counts * pairs_per_rating[:, None]).T @ counts  # a rating beside itself is no disagreement
    totals = times @ counts
    apart = 1.0 - np.eye(len(totals))
    expected = (np.outer(totals, totals) * apart).sum() / (totals.sum() - 1)
    if expected == 0:
        raise _UndefinedError("all ratings are the same label, so no disagreement could be seen")
    return float(1 - (observed * apart).sum() / expected)


def _gwet(ratings: Ratings) -> float:
    size = len(ratings.categories)
    if size < 2:
        raise _UndefinedError("one category leaves nothing to disagree about")
    (paired, times), counts = _paired_counts(ratings), ratings.counts()
    reviewers = paired.sum(axis=1)
    agreeing = times @ ((paired * (paired - 1)).sum(axis=1) / (reviewers * (reviewers - 1))) / times.sum()
    shares = ratings.times @ (counts / counts.sum(axis=1, keepdims=True)) / ratings.times.sum()
    chance = (shares * (1 - shares)).sum() / (size - 1)
    return float((agreeing - chance) / (1 - chance))


def _kappa(ratings: Ratings) -> float:
    if ratings.codes.shape[1] != 2:
        raise _UndefinedError("Cohen κ is for two reviewers")
    chosen = (ratings.per_row() == 2) & (ratings.times > 0)
    both, times = ratings.codes[chosen], ratings.times[chosen]
    if not len(both):
        raise _UndefinedError("no case has two ratings")
    cases, size = times.sum(), len(ratings.categories)
    shares = [np.bincount(both[:, reviewer], weights=times, minlength=size) / cases for reviewer in (0, 1)]
    chance = float(shares[0] @ shares[1])
    if chance == 1:
        raise _UndefinedError("both reviewers always gave the same one label")
    return float((times @ (both[:, 0] == both[:, 1]) / cases - chance) / (1 - chance))


def _specific(ratings: Ratings, column: int) -> float:
    counts, times = _paired_counts(ratings)
    said = counts[:, column]
    possible = float(times @ (said * (counts.sum(axis=1) - 1)))
    if possible == 0:
        raise _UndefinedError("nobody gave this label to a case with two ratings")
    return float(times @ (said * (said - 1))) / possible
