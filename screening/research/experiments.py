"""The paper's experiment: every condition replayed on the same draws, so that conditions are compared in pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from screening.labels import Label, Outcome
from screening.research.conditions import Condition
from screening.research.recording import DrawBook, Item
from screening.research.replay import Record, Replay, replay
from screening.statistics.metrics import Metrics, evaluate

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
) -> tuple[ConditionResult, ...]:
    """Each condition's metrics on the record, whose cases are the items in their order. Nothing is asked.

    What a draw took, by node and case, gives the tokens and the cost; where a draw's is unknown the condition's is too.
    Raises ValueError when the record has another number of cases.
    """
    if record.cases != len(items) and record.nodes:
        raise ValueError("the record and the data set have different numbers of cases")
    known = Record(cases=len(items), nodes=record.nodes)
    return tuple(
        _result(items, condition, known, tokens_per_draw or {}, cost_per_draw or {}) for condition in conditions
    )


def run_book(items: Sequence[Item], conditions: Sequence[Condition], book: DrawBook) -> tuple[ConditionResult, ...]:
    """`run_conditions` on a book of draws, with its tokens and costs."""
    tokens = {node: book.tokens_per_draw(node) for node in book.names}
    costs = {node: book.cost_per_draw(node) for node in book.names}
    return run_conditions(items, conditions, book.record(), tokens, costs)


def _result(
    items: Sequence[Item],
    condition: Condition,
    record: Record,
    tokens_per_draw: PerDraw,
    cost_per_draw: PerDraw,
) -> ConditionResult:
    replayed = replay(condition.pipeline, record)
    groups = [item.group for item in items]
    tokens, costs = _spent(replayed, tokens_per_draw), _spent(replayed, cost_per_draw)
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


def _spent(replayed: Replay, per_draw: PerDraw) -> list[float] | None:
    """What each case took, or None as soon as a draw that was used has none known."""
    totals = [0.0] * replayed.calls.shape[1]
    for node, calls in zip(replayed.pipeline.nodes, replayed.calls, strict=True):
        for case in calls.nonzero()[0]:
            each = per_draw[node.name][case] if node.name in per_draw else None
            if each is None:
                return None
            totals[case] += each * int(calls[case])
    return totals


def frontier(results: Sequence[ConditionResult]) -> frozenset[str]:
    """The conditions that no other beats in accuracy at as few mean calls; undefined ones are never on it."""
    points = [
        (each.metrics.mean_calls, each.metrics.accuracy.value, each.name)
        for each in results
        if each.metrics.mean_calls is not None and each.metrics.accuracy.value is not None
    ]
    return frozenset(name for calls, accuracy, name in points if not _beaten(calls, accuracy, points))


def _beaten(calls: float, accuracy: float, points: Sequence[tuple[float, float, str]]) -> bool:
    return any(c <= calls and a >= accuracy and (c < calls or a > accuracy) for c, a, _ in points)


def empirical_gaps(record: Record, node: str) -> list[float]:
    """Each case's p̂₁ − p̂₂ over all its recorded draws at this node; cases without a draw there are left out.

    >>> empirical_gaps(Record.from_codes({"worker": ["SSSU", ""]}), "worker")
    [0.5]
    """
    drawn = record.node(node)
    gaps = []
    for draws, length in zip(drawn.draws, drawn.lengths, strict=True):
        if length:
            shares = sorted((float((draws[:length] == number).mean()) for number in range(len(Label))), reverse=True)
            gaps.append(shares[0] - shares[1])
    return gaps


def consistently_missed(items: Sequence[Item], results: Sequence[ConditionResult]) -> tuple[int, ...]:
    """The unsafe items that every condition called safe, among the conditions that decided anything."""
    deciding = [result.outcomes for result in results if result.metrics.accuracy.denominator]
    return tuple(
        case
        for case, item in enumerate(items)
        if deciding and item.reference is Label.UNSAFE and all(each[case] is Outcome.SAFE for each in deciding)
    )
