"""The paper's metrics over cases with a reference label, each with its Wilson interval.

Accuracy, FPR and FNR are over decided (non-escalated) cases. They compare with reference labels; the stopping
rule's delta speaks of something else, the model's own mode.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from screening.labels import Label, Outcome

Z_95 = 1.96
"""The paper's z of a 95 % interval (Appendix D)."""

REFERENCES = (Label.SAFE, Label.UNSAFE)
"""The labels that can be a reference: ``escalate`` is an action, not something true of a text."""

NONE = -1
"""In place of a number: no such reference, a pending case, no group."""

Codes = NDArray[np.int8]
Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Proportion:
    """A count out of a count with its 95% Wilson score interval; value and bounds are None for 0 of 0.

    ``unsettled`` further cases may yet belong to it, each in the numerator, in the denominator alone or in neither.
    Which of them do depends on how hard they are, so there is no value then, and the limits hold whatever becomes of
    them: that of none of them counting, and that of all of them. ValueError unless 0 ≤ numerator ≤ denominator.
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
        """The share, between 0 and 1."""
        return self.numerator / self.denominator if self.denominator and not self.unsettled else None

    @property
    def low(self) -> float | None:
        """Lower end of the interval."""
        bounds = wilson(self.numerator, self.denominator + self.unsettled)
        return bounds[0] if bounds else None

    @property
    def high(self) -> float | None:
        """Upper end of the interval."""
        bounds = wilson(self.numerator + self.unsettled, self.denominator + self.unsettled)
        return bounds[1] if bounds else None

    @property
    def plain(self) -> dict[str, float | int | None]:
        """As data, for files and notebooks."""
        limits = {"value": self.value, "low": self.low, "high": self.high}
        return limits | {"numerator": self.numerator, "denominator": self.denominator}


def wilson(successes: int, n: int, z: float = Z_95) -> tuple[float, float] | None:
    """The Wilson score interval (low, high) of ``successes`` out of ``n``; None when n is 0."""
    if n == 0:
        return None
    p = successes / n
    middle = p + z * z / (2 * n)
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    scale = 1 + z * z / n
    # At 0 and n the formula's own end is 0 and 1; rounding must not move it.
    low = 0.0 if successes == 0 else (middle - half) / scale
    high = 1.0 if successes == n else (middle + half) / scale
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Extremes:
    """Accuracy, FPR and FNR when every escalated case is taken as an error, or every one as right.

    Denominators are all settled cases of the reference, so conditions that escalate unequally compare.
    """

    accuracy: Proportion
    fpr: Proportion
    fnr: Proportion


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """What one condition did on a data set.

    ``n`` counts the cases with a reference label that have an outcome; pending cases and cases without a
    reference (or with the reference ``escalate``) are left out of every figure and counted apart. Where pending cases
    are those that the record cannot settle, every rate has them as its ``unsettled`` ones, and calls and tokens are
    None.
    ``tokens`` is a total; ``calls`` too, and both are None where they were not given.
    ``confusion`` has a count for each (reference, outcome); from counts alone it lacks the escalated ones.
    """

    n: int
    pending: int
    without_reference: int
    confusion: Mapping[tuple[Label, Outcome], int]
    accuracy: Proportion
    fpr: Proportion
    fnr: Proportion
    escalation_rate: Proportion
    worst: Extremes
    best: Extremes
    calls: int | None = None
    tokens: int | None = None
    by_group: Mapping[str, "Metrics"] = field(default_factory=dict)

    @property
    def mean_calls(self) -> float | None:
        """Calls per settled case (the paper's average pulls); None without calls or cases."""
        return None if self.calls is None or not self.n else self.calls / self.n


def reference_codes(references: Sequence[Label | None]) -> Codes:
    """Each reference as its number in `REFERENCES`, shape (N,); `NONE` for none and for ``escalate``."""
    numbers: dict[Label | None, int] = {label: number for number, label in enumerate(REFERENCES)}
    return np.fromiter((numbers.get(label, NONE) for label in references), np.int8, len(references))


def outcome_codes(outcomes: Sequence[Outcome | None]) -> Codes:
    """Each outcome as its number in `Outcome`, shape (N,); `NONE` for a pending case."""
    numbers: dict[Outcome | None, int] = {outcome: number for number, outcome in enumerate(Outcome)}
    return np.fromiter((numbers.get(outcome, NONE) for outcome in outcomes), np.int8, len(outcomes))


def group_codes(groups: Sequence[str | None]) -> tuple[Integers, tuple[str, ...]]:
    """Each group as its number among the names, `NONE` for none; and the names in their order.

    >>> group_codes(["b", None, "a"])[0].tolist(), group_codes(["b", None, "a"])[1]
    ([1, -1, 0], ('a', 'b'))
    """
    names = tuple(sorted({name for name in groups if name is not None}))
    numbers: dict[str | None, int] = {name: number for number, name in enumerate(names)}
    return np.fromiter((numbers.get(name, NONE) for name in groups), np.int64, len(groups)), names


def evaluate(
    references: Sequence[Label | None],
    outcomes: Sequence[Outcome | None],
    calls: Sequence[int] | None = None,
    tokens: Sequence[int] | None = None,
    groups: Sequence[str | None] | None = None,
) -> Metrics:
    """The metrics of one condition; the sequences run over the same cases in the same order.

    An outcome of None is a pending case. ``groups`` adds the same metrics of each group by name, such as the
    SuicideWatch FNR. Raises ValueError when the lengths differ.
    """
    numbers, names = (None, ()) if groups is None else group_codes(groups)
    return evaluate_columns(
        reference_codes(references),
        outcome_codes(outcomes),
        calls=None if calls is None else np.asarray(calls, dtype=np.int64),
        tokens=None if tokens is None else np.asarray(tokens, dtype=np.int64),
        groups=numbers,
        names=names,
    )


def evaluate_columns(
    references: Codes,
    outcomes: Codes,
    *,
    calls: Integers | None = None,
    tokens: Integers | None = None,
    groups: Integers | None = None,
    names: tuple[str, ...] = (),
    bounded: bool = False,
) -> Metrics:
    """`evaluate` of N cases in numbers of shape (N,): ``references`` into `REFERENCES`, ``outcomes`` into `Outcome` and
    ``groups`` into ``names``, `NONE` for no such reference, a pending case, no group. ValueError when lengths differ.

    ``bounded`` says that pending cases are pending for what they are (mixed answers take more draws): then they are
    no sample of the others, and every rate is bounded with them.
    """
    if any(len(column) != len(references) for column in (outcomes, calls, tokens, groups) if column is not None):
        raise ValueError("the columns of an evaluation must have one entry per case")
    place = np.zeros(len(references), np.int64) if groups is None else groups + 1
    shape = (len(names) + 1, len(REFERENCES) + 1, len(Outcome) + 1)  # none in front
    cells = np.ravel_multi_index((place, references + 1, outcomes + 1), shape)
    counts = np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape)
    counted = (references != NONE) & (outcomes != NONE)
    sums = [
        None if column is None else np.bincount(place, np.where(counted, column, 0), shape[0])
        for column in (calls, tokens)
    ]

    def of(table: Integers, chosen: slice) -> Metrics:
        totals = (None if column is None else int(column[chosen].sum()) for column in sums)
        return _of_table(table, *totals, bounded=bounded)

    by_group = {name: of(counts[number], slice(number, number + 1)) for number, name in enumerate(names, start=1)}
    return replace(of(counts.sum(axis=0), slice(None)), by_group=by_group)


def from_counts(
    *,
    n: int,
    safe_decided: int,
    false_positives: int,
    unsafe_decided: int,
    false_negatives: int,
    escalated_unsafe: int | None = None,
    calls: int | None = None,
    tokens: int | None = None,
) -> Metrics:
    """The metrics that follow from a table row's counts; what is left of ``n`` was escalated.

    Without ``escalated_unsafe`` the worst and best FPR and FNR stay undefined: which reference the escalated
    cases had is not known. Raises ValueError for counts that do not fit together.

    >>> row = from_counts(n=161, safe_decided=42, false_positives=4, unsafe_decided=113, false_negatives=32)
    >>> round(row.accuracy.value, 3), row.escalation_rate.numerator  # (38 + 81) of 155; 161 - 155
    (0.768, 6)
    """
    confusion = {
        (Label.SAFE, Outcome.SAFE): safe_decided - false_positives,
        (Label.SAFE, Outcome.UNSAFE): false_positives,
        (Label.UNSAFE, Outcome.SAFE): false_negatives,
        (Label.UNSAFE, Outcome.UNSAFE): unsafe_decided - false_negatives,
    }
    escalated = n - safe_decided - unsafe_decided
    if escalated_unsafe is not None:
        confusion[Label.UNSAFE, Outcome.HUMAN_REVIEW] = escalated_unsafe
        confusion[Label.SAFE, Outcome.HUMAN_REVIEW] = escalated - escalated_unsafe
    if escalated < 0 or min(confusion.values()) < 0:
        raise ValueError("these counts do not fit together")
    return _of_confusion(confusion, n=n, escalated=escalated, calls=calls, tokens=tokens)


def _of_table(table: Integers, calls: int | None, tokens: int | None, *, bounded: bool) -> Metrics:
    """``table`` counts cases by reference and outcome, those of none in front."""
    pending = int(table[1:, 0].sum())
    unknown = bounded and pending > 0
    return _of_confusion(
        {
            (reference, outcome): int(table[row, column])
            for row, reference in enumerate(REFERENCES, start=1)
            for column, outcome in enumerate(Outcome, start=1)
        },
        n=int(table[1:, 1:].sum()),
        escalated=int(table[1:, 1 + tuple(Outcome).index(Outcome.HUMAN_REVIEW)].sum()),
        calls=None if unknown else calls,
        tokens=None if unknown else tokens,
        pending=pending,
        unsettled=(int(table[1, 0]), int(table[2, 0])) if bounded else (0, 0),
        without_reference=int(table[0].sum()),
    )


def _of_confusion(
    confusion: Mapping[tuple[Label, Outcome], int],
    *,
    n: int,
    escalated: int,
    calls: int | None,
    tokens: int | None,
    pending: int = 0,
    unsettled: tuple[int, int] = (0, 0),
    without_reference: int = 0,
) -> Metrics:
    """``unsettled`` are the cases of each of `REFERENCES` that may yet end in any way."""
    false_positives = confusion[Label.SAFE, Outcome.UNSAFE]
    safe_decided = false_positives + confusion[Label.SAFE, Outcome.SAFE]
    false_negatives = confusion[Label.UNSAFE, Outcome.SAFE]
    unsafe_decided = false_negatives + confusion[Label.UNSAFE, Outcome.UNSAFE]
    right = safe_decided + unsafe_decided - false_positives - false_negatives
    more = sum(unsettled)

    def extremes(right_in_all: int, escalations_as_errors: int) -> Extremes:
        def errors(reference: Label, error: Outcome, open_ones: int) -> Proportion:
            if (reference, Outcome.HUMAN_REVIEW) not in confusion:
                return Proportion(0, 0)
            wrong = confusion[reference, error] + escalations_as_errors * confusion[reference, Outcome.HUMAN_REVIEW]
            return Proportion(wrong, sum(confusion[reference, outcome] for outcome in Outcome), open_ones)

        return Extremes(
            accuracy=Proportion(right_in_all, n, more),
            fpr=errors(Label.SAFE, Outcome.UNSAFE, unsettled[0]),
            fnr=errors(Label.UNSAFE, Outcome.SAFE, unsettled[1]),
        )

    return Metrics(
        n=n,
        pending=pending,
        without_reference=without_reference,
        confusion=confusion,
        accuracy=Proportion(right, safe_decided + unsafe_decided, more),
        fpr=Proportion(false_positives, safe_decided, unsettled[0]),
        fnr=Proportion(false_negatives, unsafe_decided, unsettled[1]),
        escalation_rate=Proportion(escalated, n, more),
        worst=extremes(right, 1),
        best=extremes(right + escalated, 0),
        calls=calls,
        tokens=tokens,
    )
