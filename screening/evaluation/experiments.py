"""The paper's experiment: every condition replayed on the same draws, so that conditions are compared in pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from screening.evaluation.conditions import Condition
from screening.evaluation.metrics import (
    REFERENCES,
    Codes,
    Integers,
    Metrics,
    evaluate_columns,
    group_codes,
    reference_codes,
)
from screening.evaluation.paired import UNSETTLED, Told
from screening.evaluation.recording import DrawBook, Item
from screening.evaluation.replay import OUTCOMES, Record, Replay, replay
from screening.labels import Label, Outcome
from screening.pipeline.engine import Guard

PerDraw = Mapping[str, Sequence[float | None]]
"""What one draw took, by node and case; None where it is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one condition did on a data set, without its cases.

    ``unsettled`` counts the cases whose draws did not suffice. They are the harder ones, so that no rate is given
    without them: with any of them ``metrics`` are bounds, and ``cost_usd`` is None, as it is where the price of a draw
    that was used is unknown. Of what a batch did, ``unsettled`` are the pending ones, and the rates those of the rest.
    """

    condition: Condition
    metrics: Metrics
    unsettled: int
    cost_usd: float | None = None

    @property
    def name(self) -> str:
        """The condition's name in the table."""
        return self.condition.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionResult(Measured):
    """The same with what became of each case."""

    replay: Replay

    @property
    def outcomes(self) -> list[Outcome | None]:
        """Each case's outcome; None where it is unsettled."""
        return self.replay.outcomes()

    @property
    def summary(self) -> Measured:
        """The figures alone."""
        return Measured(
            condition=self.condition, metrics=self.metrics, unsettled=self.unsettled, cost_usd=self.cost_usd
        )


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Drawn:
    """What conditions are measured on, by the place of a case: references and groups as in `evaluate_columns`, the
    draws, and what one of them took, NaN where it is unknown.
    """

    references: Codes
    record: Record
    groups: Integers | None = None
    names: tuple[str, ...] = ()
    tokens: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    costs: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def measure(self, condition: Condition, guards: Mapping[int, Guard] | None = None) -> ConditionResult:
        """The condition replayed on the draws; ``guards`` are as in `replay`."""
        return self._result(condition, replay(condition.pipeline, self.record, guards), bounded=True)

    def as_it_ran(self, condition: Condition, outcomes: Codes, made: Record) -> ConditionResult:
        """What became of the cases when they were screened, in the place of a replay: with all that their texts forbade
        and second looks. ``made`` holds the draws that were made, and no others; ``outcomes`` are numbers into
        `OUTCOMES`, `NONE` for what is pending.
        """
        cases = self.record.cases
        replayed = replay(condition.pipeline, Record(cases=cases, nodes=made.nodes))
        calls = [made.node(node.name).lengths for node in condition.pipeline.nodes]
        calls = [each if len(each) == cases else np.zeros(cases, np.int64) for each in calls]
        return self._result(condition, replace(replayed, outcome=outcomes, calls=np.stack(calls)), bounded=False)

    def _result(self, condition: Condition, replayed: Replay, *, bounded: bool) -> ConditionResult:
        tokens, costs = _sums_per_case(replayed, self.tokens), _sums_per_case(replayed, self.costs)
        metrics = evaluate_columns(
            self.references,
            replayed.outcome,
            calls=replayed.total_calls,
            tokens=None if tokens is None else np.rint(tokens).astype(np.int64),
            groups=self.groups,
            names=self.names,
            bounded=bounded,
        )
        unknown = costs is None or (bounded and replayed.unsettled > 0)
        spent = None if costs is None or unknown else _sum_in_order(costs[replayed.settled])
        return ConditionResult(
            condition=condition, metrics=metrics, unsettled=replayed.unsettled, replay=replayed, cost_usd=spent
        )


def encode_items(
    items: Sequence[Item], record: Record, tokens_per_draw: PerDraw | None = None, cost_per_draw: PerDraw | None = None
) -> Drawn:
    """The items as numbers. Raises ValueError when the record has another number of cases."""
    if record.cases != len(items) and record.nodes:
        raise ValueError("the record and the data set have different numbers of cases")
    groups, names = group_codes([item.group for item in items])
    return Drawn(
        references=reference_codes([item.reference for item in items]),
        record=Record(cases=len(items), nodes=record.nodes),
        groups=groups if any(names) else None,
        names=names if any(names) else (),
        tokens=_per_draw_arrays(tokens_per_draw),
        costs=_per_draw_arrays(cost_per_draw),
    )


def _per_draw_arrays(per_draw: PerDraw | None) -> dict[str, NDArray[np.float64]]:
    return {node: np.asarray(each, dtype=np.float64) for node, each in (per_draw or {}).items()}  # None becomes NaN


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
    drawn = encode_items(items, record, tokens_per_draw, cost_per_draw)
    return tuple(drawn.measure(condition) for condition in conditions)


def run_book(items: Sequence[Item], conditions: Sequence[Condition], book: DrawBook) -> tuple[ConditionResult, ...]:
    """`run_conditions` on a book of draws, with its tokens and costs."""
    tokens = {node: book.tokens_per_draw(node) for node in book.names}
    costs = {node: book.cost_per_draw(node) for node in book.names}
    return run_conditions(items, conditions, book.record(), tokens, costs)


def _sums_per_case(replayed: Replay, per_draw: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64] | None:
    """What each case took, or None as soon as a draw that was used has none known."""
    totals = np.zeros(replayed.calls.shape[1])
    for node, calls in zip(replayed.pipeline.nodes, replayed.calls, strict=True):
        used = calls > 0
        if (each := per_draw.get(node.name)) is None:
            if used.any():
                return None
            continue
        if (np.isnan(each) & used).any():
            return None
        totals += np.where(used, each * calls, 0.0)
    return totals


def _sum_in_order(values: NDArray[np.float64]) -> float:
    """One after the other: what was summed case by case before stays the same to the last digit."""
    return float(np.cumsum(values)[-1]) if len(values) else 0.0


def outcomes_by_case(result: ConditionResult) -> Told:
    """What a condition made of each case."""
    replayed = result.replay
    outcome = np.where(replayed.settled, replayed.outcome, UNSETTLED).astype(np.int8)
    calls = replayed.total_calls.astype(np.int32)
    most = max(int(calls.max(initial=0)), sum(node.rule.budget for node in replayed.pipeline.nodes))
    return Told(name=result.name, outcome=outcome, calls=calls, most=most)


def frontier(results: Sequence[Measured]) -> tuple[Measured, ...]:
    """The conditions that no other beats, by rising calls: more of all texts decided correctly at as few mean calls.

    Of all texts, so that deciding a tenth of them well beats nobody who decides all nearly as well, and that every
    condition is measured on the same ones. Of several that do the same the first is kept; one without a rate is none.
    """
    points = [
        (each.metrics.mean_calls, -each.metrics.worst.accuracy.value, each)
        for each in results
        if each.metrics.mean_calls is not None and each.metrics.worst.accuracy.value is not None
    ]
    kept: list[Measured] = []
    most = -1.0
    for _, lacking, each in sorted(points, key=lambda point: point[:2]):
        if -lacking > most:
            kept.append(each)
            most = -lacking
    return tuple(kept)


def gap_counts(record: Record, node: str) -> tuple[tuple[float, int], ...]:
    """The gaps that occur, rising, each with its number of cases.

    >>> gap_counts(Record.from_codes({"worker": ["SSSU", "", "SSSU", "SU"]}), "worker")
    ((0.0, 1), (0.5, 2))
    """
    values, cases = np.unique(_gaps_of_cases(record, node), return_counts=True)
    return tuple(zip(values.tolist(), cases.tolist(), strict=True))


def _gaps_of_cases(record: Record, node: str) -> NDArray[np.float64]:
    drawn = record.node(node)
    counts = np.stack([(drawn.draws == number).sum(axis=1) for number in range(len(Label))], axis=1)
    counts.sort(axis=1)
    gaps = (counts[:, -1] - counts[:, -2]) / np.maximum(drawn.sizes, 1)
    return np.asarray(gaps[drawn.of[drawn.lengths > 0]])


def consistent_misses(references: Codes, outcomes: Sequence[Codes]) -> Integers:
    """For each unsafe case that every condition which decided it called safe, how many conditions decided it; 0 for
    all other cases. ``outcomes`` are each condition's, as numbers into `Outcome`.
    """
    safe, unsafe = (OUTCOMES.index(outcome) for outcome in (Outcome.SAFE, Outcome.UNSAFE))
    said = np.array(outcomes).reshape(len(outcomes), len(references))
    missed = (references == REFERENCES.index(Label.UNSAFE)) & ~(said == unsafe).any(axis=0)
    return np.where(missed, (said == safe).sum(axis=0), 0)


def deciding(outcomes: Sequence[Codes]) -> int:
    """How many of the conditions decide any case."""
    decided = [OUTCOMES.index(outcome) for outcome in (Outcome.SAFE, Outcome.UNSAFE)]
    return sum(bool(np.isin(each, decided).any()) for each in outcomes)
