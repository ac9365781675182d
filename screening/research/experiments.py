"""The paper's experiment: every condition replayed on the same draws, so that conditions are compared in pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from screening.engine.screen import Guard
from screening.labels import Label, Outcome
from screening.research.conditions import Condition
from screening.research.recording import DrawBook, Item
from screening.research.replay import OUTCOMES, Record, Replay, replay
from screening.statistics.metrics import Metrics, evaluate
from screening.statistics.rules.runs import NONE

PerDraw = Mapping[str, Sequence[float | None]]
"""What one draw took, by node and case; None where it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionResult:
    """What one condition did on a data set.

    ``metrics`` are over the cases whose draws sufficed; ``unsettled`` counts the others, which no figure contains:
    with any of them the figures describe the easier cases only. ``cost_usd`` is of all settled cases; None where the
    price of a draw that was used is unknown.
    """

    condition: Condition
    metrics: Metrics
    unsettled: int
    replay: Replay
    cost_usd: float | None = None

    @property
    def name(self) -> str:
        """The condition's name in the table."""
        return self.condition.name

    @property
    def outcomes(self) -> list[Outcome | None]:
        """Each case's outcome; None where it is unsettled."""
        return self.replay.outcomes()


def run_conditions(
    items: Sequence[Item],
    conditions: Sequence[Condition],
    record: Record,
    tokens_per_draw: PerDraw | None = None,
    cost_per_draw: PerDraw | None = None,
    guards: Mapping[int, Guard] | None = None,
) -> tuple[ConditionResult, ...]:
    """Each condition's metrics on the record, whose cases are the items in their order. Nothing is asked.

    What a draw took, by node and case, gives the tokens and the cost; where a draw's is unknown the condition's is too.
    ``guards`` are as in `replay`. Raises ValueError when the record has another number of cases.
    """
    if record.cases != len(items) and record.nodes:
        raise ValueError("the record and the data set have different numbers of cases")
    known = Record(cases=len(items), nodes=record.nodes)
    return tuple(
        _result(items, condition, replay(condition.pipeline, known, guards), tokens_per_draw or {}, cost_per_draw or {})
        for condition in conditions
    )


def as_it_ran(
    items: Sequence[Item],
    condition: Condition,
    outcomes: Sequence[Outcome | None],
    made: Record,
    tokens_per_draw: PerDraw | None = None,
    cost_per_draw: PerDraw | None = None,
) -> ConditionResult:
    """What became of the items when they were screened, in the place of a replay: with all that their texts forbade,
    second looks, and what is still pending (None). ``made`` holds the draws that were made, and no others.
    """
    replayed = replay(condition.pipeline, Record(cases=len(items), nodes=made.nodes))
    codes = [NONE if outcome is None else OUTCOMES.index(outcome) for outcome in outcomes]
    calls = [made.node(node.name).lengths for node in condition.pipeline.nodes]
    calls = [each if len(each) == len(items) else np.zeros(len(items), np.int64) for each in calls]
    ran = replace(replayed, outcome=np.array(codes, dtype=np.int8), calls=np.stack(calls))
    return _result(items, condition, ran, tokens_per_draw or {}, cost_per_draw or {})


def run_book(items: Sequence[Item], conditions: Sequence[Condition], book: DrawBook) -> tuple[ConditionResult, ...]:
    """`run_conditions` on a book of draws, with its tokens and costs."""
    tokens = {node: book.tokens_per_draw(node) for node in book.names}
    costs = {node: book.cost_per_draw(node) for node in book.names}
    return run_conditions(items, conditions, book.record(), tokens, costs)


def _result(
    items: Sequence[Item],
    condition: Condition,
    replayed: Replay,
    tokens_per_draw: PerDraw,
    cost_per_draw: PerDraw,
) -> ConditionResult:
    groups = [item.group for item in items]
    tokens, costs = _sums_per_case(replayed, tokens_per_draw), _sums_per_case(replayed, cost_per_draw)
    metrics = evaluate(
        [item.reference for item in items],
        replayed.outcomes(),
        calls=[int(calls) for calls in replayed.total_calls],
        tokens=None if tokens is None else [round(each) for each in tokens],
        groups=groups if any(groups) else None,
    )
    return ConditionResult(
        condition=condition,
        metrics=metrics,
        unsettled=replayed.unsettled,
        replay=replayed,
        cost_usd=None
        if costs is None
        else sum(cost for cost, ended in zip(costs, replayed.settled, strict=True) if ended),
    )


def _sums_per_case(replayed: Replay, per_draw: PerDraw) -> list[float] | None:
    """What each case took, or None as soon as a draw that was used has none known."""
    totals = np.zeros(replayed.calls.shape[1])
    for node, calls in zip(replayed.pipeline.nodes, replayed.calls, strict=True):
        used = calls > 0
        each = np.array(per_draw.get(node.name, [None] * len(totals)), dtype=np.float64)  # None becomes NaN
        if np.isnan(each[used]).any():
            return None
        totals[used] += each[used] * calls[used]
    spent: list[float] = totals.tolist()
    return spent


def frontier(results: Sequence[ConditionResult]) -> frozenset[str]:
    """The conditions that no other beats: as accurate on what it decides, and on all cases, at as few mean calls.

    On all cases an escalation counts as an error, so that deciding a tenth of the cases well beats nobody who decides
    all of them nearly as well. Undefined ones are never on it.
    """
    points = [
        _Point(
            -each.metrics.mean_calls, each.metrics.accuracy.value, each.metrics.worst.accuracy.value or 0.0, each.name
        )
        for each in results
        if each.metrics.mean_calls is not None and each.metrics.accuracy.value is not None
    ]
    return frozenset(point.name for point in points if not any(_beats(other, point) for other in points))


class _Point(NamedTuple):
    """Larger is better on every axis."""

    fewer_calls: float
    accuracy: float
    worst_case: float
    name: str


def _beats(other: _Point, point: _Point) -> bool:
    pairs = list(zip(other[:3], point[:3], strict=True))
    return all(a >= b for a, b in pairs) and any(a > b for a, b in pairs)


def empirical_gaps(record: Record, node: str) -> list[float]:
    """Each case's p̂₁ − p̂₂ over all its recorded draws at this node; cases without a draw there are left out.

    >>> empirical_gaps(Record.from_codes({"worker": ["SSSU", ""]}), "worker")
    [0.5]
    """
    drawn = record.node(node)
    asked = drawn.lengths > 0
    labels = drawn.draws[asked]
    counts = np.sort(np.stack([(labels == number).sum(axis=1) for number in range(len(Label))], axis=1), axis=1)
    gaps: list[float] = ((counts[:, -1] - counts[:, -2]) / drawn.lengths[asked]).tolist()
    return gaps


def consistently_missed(items: Sequence[Item], results: Sequence[ConditionResult]) -> tuple[int, ...]:
    """The unsafe items that every condition which decided them called safe; at least one must have decided."""
    outcomes = [result.outcomes for result in results]
    decided = (Outcome.SAFE, Outcome.UNSAFE)
    missed = []
    for case, item in enumerate(items):
        said = {each[case] for each in outcomes if each[case] in decided} if item.reference is Label.UNSAFE else set()
        if said == {Outcome.SAFE}:
            missed.append(case)
    return tuple(missed)
