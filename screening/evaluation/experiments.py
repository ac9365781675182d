"""The paper's experiment and ours: conditions are pipelines, under the name that the results table gives them, all
replayed on the same draws, so that they are compared in pairs. One may never be able to decide.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from screening.evaluation.metrics import (
    REFERENCES,
    Codes,
    Integers,
    Metrics,
    evaluate,
    group_codes,
    reference_codes,
)
from screening.evaluation.paired import Told
from screening.evaluation.recording import DrawBook, Item
from screening.evaluation.replay import OUTCOMES, Record, Replay, replay
from screening.labels import Label, Outcome
from screening.pipeline.config import PipelineConfig, chain, pooled_rule
from screening.pipeline.engine import Guard
from screening.stopping.rules import MajorityVote, PairwiseMixture, SuccessiveElimination

VOTES = (1, 3, 5)
BUDGETS = (10, 50, 75, 100, 124, 150)
PAPER_DELTA = 0.05


def single_agent() -> PipelineConfig:
    """One draw at Worker and no routing: an answer of ``escalate`` goes to a human (paper, section 4)."""
    worker = chain("single-agent", MajorityVote(budget=1), "human_review").nodes[0]
    routes = {**worker.routes, Label.ESCALATE: Outcome.HUMAN_REVIEW.value}
    return PipelineConfig(name="single-agent", nodes=(worker.model_copy(update={"routes": routes}),))


def paper_conditions() -> tuple[PipelineConfig, ...]:
    """The paper's ten: single agent, majority vote of 1, 3, 5, Algorithm 1 with six budgets; abstentions go on, and
    each node pays its whole budget before it abstains.

    One difference to the loop as printed: there a round is begun while a budget is left, here only if it can pay for
    all labels that are left, so that B is never exceeded (B=10 makes 9 calls a node, and not 12).

    >>> [condition.name for condition in paper_conditions()][:5]
    ['single-agent', 'MV n=1', 'MV n=3', 'MV n=5', 'B=10']
    """
    others = [f"MV n={n}" for n in VOTES] + [f"B={budget}" for budget in BUDGETS]
    return (single_agent(), *map(named_condition, others))


def named_condition(name: str) -> PipelineConfig:
    """A condition of the paper's kinds with another number: ``B=60``, ``B=60 early``, ``MV n=7``. ValueError otherwise.

    >>> named_condition("B=60 early").nodes[0].on_abstain
    'human_review'
    """
    found = re.fullmatch(r"(B|MV n)=([1-9]\d{0,4})( early)?", name)
    if found is None or (found[1] == "MV n" and found[3]):
        known = ", ".join(each.name for each in (*paper_conditions(), *our_conditions()))
        raise ValueError(f"no condition {name}; there are {known}, and any B=60, 'B=60 early' and MV n=7")
    if found[1] == "MV n":
        return chain(name, MajorityVote(budget=int(found[2])), "next")
    rule = SuccessiveElimination(delta=PAPER_DELTA, budget=int(found[2]), stop_for_futility=False)
    return chain(name, rule, "human_review" if found[3] else "next")


def our_conditions() -> tuple[PipelineConfig, ...]:
    """Pooled draws, at Ville's levels and certified: with symmetric errors at the paper's δ, and with the defaults."""
    return (
        chain(f"pairwise δ={PAPER_DELTA}", PairwiseMixture.symmetric(PAPER_DELTA, 100), "next"),
        chain(f"certified δ={PAPER_DELTA}", pooled_rule(PAPER_DELTA, 100), "next"),
        chain("recommended", PairwiseMixture(budget=100), "human_review"),
        chain("certified", pooled_rule(None, 100), "human_review"),
    )


def budget_conditions(rule: Literal["pairwise", "elimination"]) -> tuple[tuple[int, PipelineConfig], ...]:
    """The sweep of one rule: budgets with the condition that has them, at the paper's δ."""
    if rule == "elimination":
        return tuple((budget, named_condition(f"B={budget}")) for budget in (10, 25, 50, 72, 75, 87, 100, 124, 150))
    return tuple(
        (budget, chain(f"B={budget}", PairwiseMixture.symmetric(PAPER_DELTA, budget), "next"))
        for budget in (6, 10, 15, 25, 50, 75, 100, 124, 150)
    )


def what_if(
    safe_given_unsafe: float, other_errors: float, budget: int, abstentions_go_on: bool, confirm_safe: bool
) -> PipelineConfig:
    """A setting to try: error levels, budget, where abstentions go, and whether a second agent confirms safe."""
    errors = (((Label.SAFE, Label.UNSAFE), safe_given_unsafe),)
    rule = PairwiseMixture(budget=budget, default_error=other_errors, errors=errors)
    chained = chain("what-if", rule, "next" if abstentions_go_on else "human_review")
    if not confirm_safe:
        return chained
    first, second, *rest = chained.nodes
    confirmed = first.model_copy(update={"routes": {**first.routes, Label.SAFE: second.name}})
    return PipelineConfig(name="what-if", nodes=(confirmed, second, *rest))


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """What one condition, by its name, did on a data set, without its cases.

    ``unsettled`` counts the cases whose draws did not suffice. They are the harder ones, so that no rate is given
    without them: with any of them ``metrics`` are bounds, and ``cost_usd`` is None, as it is where the price of a draw
    that was used is unknown. Of what a batch did, ``unsettled`` are the pending ones, and the rates those of the rest.
    """

    name: str
    metrics: Metrics
    unsettled: int
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Drawn:
    """What conditions are measured on, by the place of a case: references and groups as in `evaluate`, the
    draws, and what one of them took, NaN where it is unknown.
    """

    references: Codes
    record: Record
    groups: Integers | None = None
    names: tuple[str, ...] = ()
    tokens: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    costs: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    def measure(self, condition: PipelineConfig, guards: Mapping[int, Guard] | None = None) -> tuple[Measured, Told]:
        """The condition replayed on the draws, and what it made of each case; ``guards`` are as in `replay`."""
        return self._result(replay(condition, self.record, guards), bounded=True)

    def as_it_ran(self, condition: PipelineConfig, outcomes: Codes, made: Record) -> tuple[Measured, Told]:
        """What became of the cases when they were screened, in the place of a replay: with all that their texts forbade
        and second looks. ``made`` holds the draws that were made, and no others; ``outcomes`` are numbers into
        `OUTCOMES`, `NONE` for what is pending.
        """
        cases = self.record.cases
        replayed = replay(condition, Record(cases=cases, nodes=made.nodes))
        calls = [made.node(node.name).lengths for node in condition.nodes]
        calls = [each if len(each) == cases else np.zeros(cases, np.int64) for each in calls]
        return self._result(replace(replayed, outcome=outcomes, calls=np.stack(calls)), bounded=False)

    def _result(self, replayed: Replay, *, bounded: bool) -> tuple[Measured, Told]:
        tokens, costs = _sums_per_case(replayed, self.tokens), _sums_per_case(replayed, self.costs)
        metrics = evaluate(
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
        calls = replayed.total_calls.astype(np.int32)
        most = max(int(calls.max(initial=0)), sum(node.rule.budget for node in replayed.pipeline.nodes))
        return (
            Measured(name=replayed.pipeline.name, metrics=metrics, unsettled=replayed.unsettled, cost_usd=spent),
            Told(name=replayed.pipeline.name, outcome=replayed.outcome, calls=calls, most=most),
        )


def encode_items(
    items: Sequence[Item],
    record: Record,
    tokens: Mapping[str, NDArray[np.float64]] | None = None,
    costs: Mapping[str, NDArray[np.float64]] | None = None,
) -> Drawn:
    """The items as numbers, with the draws of a record whose cases they are in their order. ``tokens`` and ``costs`` of
    a draw, by node and case, are NaN where they are unknown.
    """
    groups, names = group_codes([item.group for item in items])
    return Drawn(
        references=reference_codes([item.reference for item in items]),
        record=record,
        groups=groups if any(names) else None,
        names=names if any(names) else (),
        tokens=tokens or {},
        costs=costs or {},
    )


def run_book(
    items: Sequence[Item], conditions: Sequence[PipelineConfig], book: DrawBook
) -> tuple[tuple[Measured, ...], tuple[Told, ...]]:
    """Each condition's metrics on a book of draws, with its tokens and costs; where a draw's is unknown the condition's
    is too. And what each made of each case. Nothing is asked.
    """
    drawn = encode_items(items, book.record(), book.per_draw("tokens"), book.per_draw("cost_usd"))
    results = [drawn.measure(condition) for condition in conditions]
    return tuple(measured for measured, _ in results), tuple(told for _, told in results)


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
    drawn = record.node(node)
    counts = np.stack([(drawn.draws == number).sum(axis=1) for number in range(len(Label))], axis=1)
    counts.sort(axis=1)
    gaps = (counts[:, -1] - counts[:, -2]) / np.maximum(drawn.sizes, 1)
    values, cases = np.unique(gaps[drawn.of[drawn.lengths > 0]], return_counts=True)
    return tuple(zip(values.tolist(), cases.tolist(), strict=True))


def consistent_misses(references: Codes, outcomes: Sequence[Codes]) -> Integers:
    """For each unsafe case that every condition which decided it labeled safe, how many conditions decided it; 0 for
    all other cases. ``outcomes`` are each condition's, as numbers into `Outcome`.
    """
    safe, unsafe = (OUTCOMES.index(outcome) for outcome in (Outcome.SAFE, Outcome.UNSAFE))
    said = np.array(outcomes).reshape(len(outcomes), len(references))
    missed = (references == REFERENCES.index(Label.UNSAFE)) & ~(said == unsafe).any(axis=0)
    return np.where(missed, (said == safe).sum(axis=0), 0)


def deciding(outcomes: Sequence[Codes]) -> int:
    decided = [OUTCOMES.index(outcome) for outcome in (Outcome.SAFE, Outcome.UNSAFE)]
    return sum(bool(np.isin(each, decided).any()) for each in outcomes)
