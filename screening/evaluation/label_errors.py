"""Which reference labels to review again: those that the draws, or confident learning, contradict most.

The result is a review order, not a verdict: a model that is wrong the same way every time contradicts good labels
as strongly as bad ones. Only a clinician's blind review corrects a label.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from screening.evaluation.metrics import REFERENCES, Codes, Floats, Integers
from screening.labels import LABELS, Label
from screening.stopping.evidence import log_evidence

SMOOTHING = 0.5
"""Added to each count before shares are taken (Jeffreys), so that no label has probability 0."""

Counts = NDArray[np.integer]


class Ranking(StrEnum):
    EVIDENCE = "evidence"
    CONFIDENT_LEARNING = "confident learning"


@dataclass(frozen=True, slots=True, kw_only=True)
class PossibleError:
    """One place in the review order: a case by its index, how strongly its reference is contradicted, and why.

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


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ReviewOrder:
    """The most contradicted first, a row a case: its ``case``, the number of its ``reference``, its ``evidence``,
    ``quality`` and ``issue``. ``draws`` are as they were given; ``left_out`` counts cases without a safe or unsafe
    reference, or draw of either.
    """

    rows: pd.DataFrame
    draws: Mapping[str, Counts]
    left_out: int

    @property
    def cases(self) -> Integers:
        return self.rows["case"].to_numpy()

    def at(self, place: int) -> PossibleError:
        row = self.rows.iloc[place]
        case, suggested = int(row["case"]), REFERENCES[1 - row["reference"]]
        column = LABELS.index(suggested)
        drawn = {node: counts[case] for node, counts in self.draws.items() if counts[case, column]}
        parts = [f"{node.title()}: {counts[column]} of {counts.sum()} {suggested}" for node, counts in drawn.items()]
        return PossibleError(
            case=case,
            reference=REFERENCES[row["reference"]],
            suggested=suggested,
            evidence=float(row["evidence"]),
            quality=None if row["quality"] is None else float(row["quality"]),
            issue=None if row["issue"] is None else bool(row["issue"]),
            reason="; ".join(parts) or f"no response says {suggested}",
        )


def review_order(references: Codes, draws: Mapping[str, Counts], ranking: Ranking = Ranking.EVIDENCE) -> ReviewOrder:
    """The cases in the order in which their reference labels are best reviewed again; ties keep the given order.

    ``references`` (N,) are numbers into safe and unsafe, below 0 where there is none; ``draws`` say for each node how
    often each case was given each of `LABELS`, shape (N, 3), nothing but zeros where it was not asked. Draws of
    ``escalate`` take neither side. Raises ValueError when the lengths differ.
    """
    if any(len(counts) != len(references) for counts in draws.values()):
        raise ValueError("every case needs its draws, if only none")
    columns = [LABELS.index(side) for side in REFERENCES]
    totals = np.zeros((len(references), 2), np.int64)
    for counts in draws.values():
        totals += counts[:, columns]
    cases = np.flatnonzero((references >= 0) & totals.any(axis=1))
    given = references[cases].astype(np.int64)
    qualities, issues = _confident_learning(given, totals[cases])
    evidence = sum((_evidence(given, counts[cases]) for counts in draws.values()), np.zeros(len(cases)))
    rows = pd.DataFrame(
        {"case": cases, "reference": given, "evidence": evidence, "quality": qualities, "issue": issues}
    )
    if ranking is Ranking.EVIDENCE:
        rows = rows.sort_values("evidence", ascending=False, kind="stable")
    elif qualities is not None:
        rows = rows.sort_values(["issue", "quality"], ascending=[False, True], kind="stable")
    return ReviewOrder(rows=rows, draws=draws, left_out=len(references) - len(cases))


def _evidence(given: Integers, counts: Counts) -> Floats:
    """ln E of one node (the stopping rule's own) that the opposite label is given more often than the reference, each
    pair of counts looked up once; 0.0 where it was not asked, as ln E(0, 0) is. Nodes draw independently: it adds.
    """
    columns = np.array([LABELS.index(side) for side in REFERENCES])
    cases = np.arange(len(given))
    pairs = np.stack([counts[cases, columns[1 - given]], counts[cases, columns[given]]], axis=1).astype(np.int64)
    wide = int(pairs.max(initial=0)) + 1
    found, which = np.unique(pairs @ np.array([wide, 1]), return_inverse=True)
    values = np.array([log_evidence(int(pair) // wide, int(pair) % wide) for pair in found], dtype=np.float64)
    return np.asarray(values[which])


def _confident_learning(given: Integers, totals: Integers) -> tuple[Floats | None, NDArray[np.bool_] | None]:
    """Quality, and whether it is an issue (doi:10.1613/jair.1.12125); None where only one label occurs."""
    if len(np.unique(given)) < 2:
        return None, None
    # Imported here: it brings scikit-learn, which nobody who does not rank labels should wait for.
    from cleanlab.filter import find_label_issues
    from cleanlab.rank import get_label_quality_scores

    shares = (totals + SMOOTHING) / (totals + SMOOTHING).sum(axis=1, keepdims=True)
    # No class is spared: its labels are reviewed again, not deleted.
    issues = find_label_issues(given, shares, n_jobs=1, min_examples_per_class=0)
    qualities = get_label_quality_scores(given, shares, method="self_confidence")
    return np.asarray(qualities, dtype=np.float64), np.asarray(issues, dtype=bool)
