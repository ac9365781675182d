"""Any two conditions on the same cases: what one decides, misses and spends more than the other."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from screening.labels import Label, Outcome
from screening.research.experiments import ConditionResult
from screening.research.recording import Item
from screening.statistics.paired import Difference, exact_mcnemar, paired_difference

SEED = 20
SIDES = (Label.SAFE, Label.UNSAFE)

Which = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The second condition less the first, on the labelled cases that both settle.

    ``only_first`` and ``only_second`` are the cases that one alone has right (an escalation is not right), ``p_value``
    McNemar's exact test that they are equally many.
    """

    first: str
    second: str
    only_first: int
    only_second: int
    p_value: float
    differences: tuple[tuple[str, Difference], ...]


def compare(
    items: Sequence[Item], first: ConditionResult, second: ConditionResult, confidence: float = 0.95
) -> Comparison:
    """Paired differences with intervals at this confidence, each rate over the cases with such a reference."""
    labels = np.array([SIDES.index(item.reference) if item.reference in SIDES else -1 for item in items])
    shared = (labels >= 0) & first.replay.settled & second.replay.settled
    told = [{outcome: _answered(each, outcome) for outcome in Outcome} for each in (first, second)]
    right = [np.where(labels == 1, one[Outcome.UNSAFE], one[Outcome.SAFE]) for one in told]
    figures = (
        ("Decided right", right, shared),
        ("Missed: unsafe called safe", [one[Outcome.SAFE] for one in told], shared & (labels == 1)),
        ("False alarms: safe called unsafe", [one[Outcome.UNSAFE] for one in told], shared & (labels == 0)),
        ("To a clinician", [one[Outcome.HUMAN_REVIEW] for one in told], shared),
        ("Calls a text", [each.replay.total_calls for each in (first, second)], shared),
    )
    only_first, only_second = int((shared & right[0] & ~right[1]).sum()), int((shared & right[1] & ~right[0]).sum())
    return Comparison(
        first=first.name,
        second=second.name,
        only_first=only_first,
        only_second=only_second,
        p_value=exact_mcnemar(only_first, only_second),
        differences=tuple(
            (name, paired_difference(one[of].tolist(), other[of].tolist(), confidence=confidence, seed=SEED))
            for name, (one, other), of in figures
        ),
    )


def _answered(result: ConditionResult, outcome: Outcome) -> Which:
    return np.asarray(result.replay.outcome == tuple(Outcome).index(outcome))


def compare_all(
    items: Sequence[Item], reference: ConditionResult, others: Sequence[ConditionResult]
) -> tuple[Comparison, ...]:
    """Every other condition against one chosen beforehand; all intervals of a figure hold together at 95 %
    (Bonferroni).
    """
    confidence = 1 - 0.05 / max(1, len(others))
    return tuple(compare(items, reference, each, confidence) for each in others)
