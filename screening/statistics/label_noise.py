"""Which reference labels to read again: those that the draws, or confident learning, contradict most.

The result is a reading order, not a verdict: a model that is wrong the same way every time contradicts good labels
as strongly as bad ones. Only a clinician's blind reading corrects a label.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from screening.labels import Label
from screening.statistics.rules.evidence import log_evidence

NOTE = "a reading order, not a verdict"
"""What to print above the list."""

SMOOTHING = 0.5
"""Added to each count before shares are taken (Jeffreys), so that no label has probability 0."""

NodeDraws = Mapping[str, Mapping[Label, int]]
"""One case's draws: for each node that ran, how often it gave each label."""

_SIDES = (Label.SAFE, Label.UNSAFE)


class Ranking(StrEnum):
    """What the reading order goes by."""

    EVIDENCE = "evidence"
    CONFIDENT_LEARNING = "confident learning"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondLook:
    """One place in the reading order: a case by its index, how strongly its reference is contradicted, and why.

    ``evidence`` is ln E that the nodes' models give ``suggested`` (the opposite label) more often than the
    reference, summed over nodes: below 0 the draws support the reference; ln 1000 = 6.9 against it is strong.
    ``quality`` is cleanlab's label quality in [0, 1], low for a suspect label, and ``issue`` whether confident
    learning picks the label out; both are None where the references are all the same and it cannot be run.
    """

    case: int
    reference: Label
    suggested: Label
    evidence: float
    quality: float | None
    issue: bool | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingOrder:
    """The most contradicted first; ``left_out`` counts cases without a safe or unsafe reference, or draw of either."""

    looks: tuple[SecondLook, ...]
    left_out: int


def reading_order(
    references: Sequence[Label | None], draws: Sequence[NodeDraws], ranking: Ranking = Ranking.EVIDENCE
) -> ReadingOrder:
    """The cases in the order in which their reference labels are best read again; ties keep the given order.

    Draws of ``escalate`` take neither side. Raises ValueError when the two sequences differ in length.
    """
    if len(references) != len(draws):
        raise ValueError("every case needs its draws, if only none")
    cases = [case for case, label in enumerate(references) if label in _SIDES and _totals(draws[case]).any()]
    given = np.array([_SIDES.index(label) for case in cases if (label := references[case])], dtype=np.int64)
    totals = np.array([_totals(draws[case]) for case in cases]).reshape(len(cases), 2)
    qualities, issues = _confident_learning(given, totals)
    looks = [
        _second_look(case, int(side), draws[case], quality, issue)
        for case, side, quality, issue in zip(cases, given, qualities, issues, strict=True)
    ]
    looks.sort(key=_by_evidence if ranking is Ranking.EVIDENCE else _by_confident_learning)
    return ReadingOrder(looks=tuple(looks), left_out=len(references) - len(cases))


def contradiction(reference: Label, nodes: NodeDraws) -> float:
    """ln E, summed over nodes, that the opposite label is given more often than the reference (safe or unsafe).

    Each node's E is the stopping rule's own evidence; nodes draw independently, so their logarithms add.

    >>> round(contradiction(Label.SAFE, {"worker": {Label.UNSAFE: 6}}), 2)  # ln 40.126
    3.69
    """
    opposite = _opposite(reference)
    return sum(log_evidence(counts.get(opposite, 0), counts.get(reference, 0)) for counts in nodes.values())


def _opposite(reference: Label) -> Label:
    return _SIDES[1 - _SIDES.index(reference)]


def _totals(nodes: NodeDraws) -> NDArray[np.int64]:
    return np.array([sum(counts.get(side, 0) for counts in nodes.values()) for side in _SIDES], dtype=np.int64)


def _second_look(case: int, side: int, nodes: NodeDraws, quality: float | None, issue: bool | None) -> SecondLook:
    reference, suggested = _SIDES[side], _SIDES[1 - side]
    parts = [
        f"{node}: {counts.get(suggested, 0)} of {sum(counts.values())} draws say {suggested}"
        for node, counts in nodes.items()
        if counts.get(suggested, 0)
    ]
    return SecondLook(
        case=case,
        reference=reference,
        suggested=suggested,
        evidence=contradiction(reference, nodes),
        quality=quality,
        issue=issue,
        reason="; ".join(parts) or f"no draw says {suggested}",
    )


def _by_evidence(look: SecondLook) -> float:
    return -look.evidence


def _by_confident_learning(look: SecondLook) -> tuple[bool, float]:
    return not look.issue, 1.0 if look.quality is None else look.quality


def _confident_learning(
    given: NDArray[np.int64], totals: NDArray[np.int64]
) -> tuple[list[float] | list[None], list[bool] | list[None]]:
    """Each label's quality and whether it is an issue; None for all where only one label occurs.

    Northcutt, Jiang and Chuang 2021, doi:10.1613/jair.1.12125.
    """
    if len(np.unique(given)) < 2:
        return [None] * len(given), [None] * len(given)
    # Imported here: it brings scikit-learn, which nobody who does not rank labels should wait for.
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    shares = (totals + SMOOTHING) / (totals + SMOOTHING).sum(axis=1, keepdims=True)
    # No class is spared: its labels are read again, not deleted.
    issues = find_label_issues(given, shares, n_jobs=1, min_examples_per_class=0)
    qualities = get_label_quality_scores(given, shares, method="self_confidence")
    return [float(quality) for quality in qualities], [bool(issue) for issue in issues]
