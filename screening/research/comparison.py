"""Any two conditions on the same cases: what one decides, misses and spends more than the other."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from screening.evaluation.metrics import Codes
from screening.evaluation.paired import Difference, exact_mcnemar, paired_amounts, paired_rates
from screening.labels import Outcome
from screening.research.experiments import ConditionResult

CALLS = "Calls a text"

UNSETTLED = -1
"""In place of an outcome: the case came to no end."""

Which = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The second condition less the first, on the labelled cases that both settle.

    ``only_first`` and ``only_second`` are the cases that one alone has right (an escalation is not right), ``p_value``
    McNemar's exact test that they are equally many. Cases that one leaves unsettled are harder than the others: whoever
    compares leaves out conditions that have any (`Evaluated.comparable`).
    """

    first: str
    second: str
    only_first: int
    only_second: int
    p_value: float
    differences: tuple[tuple[str, Difference], ...]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Told:
    """What one way of deciding made of each case: ``outcome`` a number into `Outcome` or `UNSETTLED`, and its calls,
    None where they are not known, of which a text takes ``most`` at most. Without that a difference has no interval.
    """

    name: str
    outcome: NDArray[np.integer]
    calls: NDArray[np.number] | None
    most: int | None = None


def outcomes_by_case(result: ConditionResult) -> Told:
    """What a condition made of each case."""
    replayed = result.replay
    outcome = np.where(replayed.settled, replayed.outcome, UNSETTLED).astype(np.int8)
    calls = replayed.total_calls.astype(np.int32)
    most = max(int(calls.max(initial=0)), sum(node.rule.budget for node in replayed.pipeline.nodes))
    return Told(name=result.name, outcome=outcome, calls=calls, most=most)


def compare_codes(labels: Codes, first: Told, second: Told, confidence: float = 0.95) -> Comparison:
    """Paired differences of two ways of deciding the same cases, each rate over those with such a reference; ``labels``
    are numbers into `REFERENCES`.
    """
    shared = (labels >= 0) & (first.outcome != UNSETTLED) & (second.outcome != UNSETTLED)
    said = [{outcome: _outcome_mask(each, outcome) for outcome in Outcome} for each in (first, second)]
    right = [np.where(labels == 1, one[Outcome.UNSAFE], one[Outcome.SAFE]) for one in said]
    figures: list[tuple[str, Sequence[NDArray[Any]], Which]] = [
        ("Decided correctly", right, shared),
        ("False negative (missed)", [one[Outcome.SAFE] for one in said], shared & (labels == 1)),
        ("False positive (false alarm)", [one[Outcome.UNSAFE] for one in said], shared & (labels == 0)),
        ("Escalated", [one[Outcome.HUMAN_REVIEW] for one in said], shared),
    ]
    differences = [
        (name, paired_rates(one[of], other[of], confidence=confidence)) for name, (one, other), of in figures
    ]
    if first.calls is not None and second.calls is not None:
        calls = first.calls[shared], second.calls[shared]
        known = first.most is not None and second.most is not None
        bounds = (-float(first.most or 0), float(second.most or 0)) if known else None
        differences.append((CALLS, paired_amounts(*calls, bounds, confidence)))
    only_first, only_second = int((shared & right[0] & ~right[1]).sum()), int((shared & right[1] & ~right[0]).sum())
    return Comparison(
        first=first.name,
        second=second.name,
        only_first=only_first,
        only_second=only_second,
        p_value=exact_mcnemar(only_first, only_second),
        differences=tuple(differences),
    )


def _outcome_mask(told: Told, outcome: Outcome) -> Which:
    return np.asarray(told.outcome == tuple(Outcome).index(outcome))


def compare_all_codes(labels: Codes, reference: Told, others: Sequence[Told]) -> tuple[Comparison, ...]:
    """Every other way of deciding against one chosen beforehand; all intervals of a figure hold together at 95 %
    (Bonferroni). ``labels`` are numbers into `REFERENCES`.
    """
    confidence = 1 - 0.05 / max(1, len(others))
    return tuple(compare_codes(labels, reference, each, confidence) for each in others)
