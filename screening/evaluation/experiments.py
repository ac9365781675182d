"""The paper's experiment and ours: conditions are pipelines, under the name that the results table gives them, all
replayed on the same draws, so that they are compared in pairs. One may never be able to decide.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from screening.evaluation.metrics import REFERENCES, Codes, Floats, Integers, Metrics, Told, evaluate
from screening.labels import LABELS, Label, Outcome
from screening.pipeline.config import PipelineConfig, chain, pooled_rule
from screening.pipeline.draws import decode_draws
from screening.pipeline.engine import Guard
from screening.stopping.rules import (
    NO_DRAW,
    NONE,
    Draws,
    MajorityVote,
    PairwiseMixture,
    SuccessiveElimination,
    run,
)

VOTES = (1, 3, 5)
BUDGETS = (10, 50, 75, 100, 124, 150)
PAPER_DELTA = 0.05
SUICIDE_WATCH = "self.SuicideWatch"
"""The group of posts of SWMH whose FNR the paper tells."""


def single_agent() -> PipelineConfig:
    """One draw at Worker; an answer of ``escalate`` goes to a human (paper, section 4)."""
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


def budget_conditions(rule: Literal["pairwise", "elimination"]) -> tuple[PipelineConfig, ...]:
    """The sweep of one rule at the paper's δ."""
    if rule == "elimination":
        return tuple(named_condition(f"B={budget}") for budget in (10, 25, 50, 72, 75, 87, 100, 124, 150))
    return tuple(
        chain(f"B={budget}", PairwiseMixture.symmetric(PAPER_DELTA, budget), "next")
        for budget in (6, 10, 15, 25, 50, 75, 100, 124, 150)
    )


def what_if(
    safe_given_unsafe: float, other_errors: float, budget: int, abstentions_go_on: bool, confirm_safe: bool
) -> PipelineConfig:
    errors = (((Label.SAFE, Label.UNSAFE), safe_given_unsafe),)
    rule = PairwiseMixture(budget=budget, default_error=other_errors, errors=errors)
    chained = chain("what-if", rule, "next" if abstentions_go_on else "human_review")
    if not confirm_safe:
        return chained
    first, second, *rest = chained.nodes
    confirmed = first.model_copy(update={"routes": {**first.routes, Label.SAFE: second.name}})
    return PipelineConfig(name="what-if", nodes=(confirmed, second, *rest))


OUTCOMES: tuple[Outcome, ...] = tuple(Outcome)
_SAFE, _UNSAFE, _TO_A_PERSON = map(OUTCOMES.index, (Outcome.SAFE, Outcome.UNSAFE, Outcome.HUMAN_REVIEW))


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class NodeRecord:
    """One node's draws, each sequence once: ``draws`` of shape (sequences, most draws), the shorter ones first; ``of``
    says which sequence each case drew. ``tokens`` and ``costs`` are what one draw of a case took in the mean, NaN where
    it is unknown.
    """

    draws: Draws
    of: Integers
    tokens: Floats
    costs: Floats

    @property
    def lengths(self) -> Integers:
        return np.asarray((self.draws != NO_DRAW).sum(axis=1)[self.of])

    @property
    def counts(self) -> NDArray[np.int32]:
        """How often each case was given each of `LABELS`, shape (N, K)."""
        each = [(self.draws == number).sum(axis=1, dtype=np.int32) for number in range(len(LABELS))]
        return np.stack(each, axis=1)[self.of]


def node_record(cases: Sequence[str], tokens: Floats | None = None, costs: Floats | None = None) -> NodeRecord:
    """From each case's draw codes and what they took in all, NaN where unknown; ValueError for anything else."""
    numbers: dict[str, int] = {}
    of = np.fromiter((numbers.setdefault(each, len(numbers)) for each in cases), np.int64, len(cases))
    sequences = sorted(numbers, key=len)
    place = np.empty(len(sequences), dtype=np.int64)
    place[[numbers[each] for each in sequences]] = np.arange(len(sequences))
    sizes = np.fromiter(map(len, sequences), np.int64, len(sequences))
    written = "".join(sequences)
    try:
        labels = {ord(code): chr(LABELS.index(decode_draws(code)[0].label)) for code in set(written)}
    except ValueError:
        raise ValueError("not a draw code") from None  # it may be a text
    draws = np.full((len(sizes), int(sizes.max(initial=0))), NO_DRAW, dtype=np.uint8)
    draws[np.arange(draws.shape[1]) < sizes[:, None]] = np.frombuffer(written.translate(labels).encode(), np.uint8)
    of = place[of]
    made = np.where(sizes > 0, sizes, np.nan)[of]
    spent = [made * np.nan if each is None else each / made for each in (tokens, costs)]
    return NodeRecord(draws=draws, of=of, tokens=spent[0], costs=spent[1])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Record:
    """The draws of N cases by node, their references, and which of them are of `SUICIDE_WATCH`."""

    references: Codes
    nodes: Mapping[str, NodeRecord]
    subset: NDArray[np.bool_]

    @classmethod
    def from_codes(cls, codes: Mapping[str, Sequence[str]]) -> "Record":
        """From each node's strings of draw codes, one a case, without references; ValueError for anything else.

        >>> Record.from_codes({"worker": ["SSU", "", "E?"]}).nodes["worker"].lengths.tolist()
        [3, 0, 2]
        """
        sizes = {len(cases) for cases in codes.values()} or {0}
        if len(sizes) > 1:
            raise ValueError("every node needs one string for each case")
        nodes, n = {node: node_record(cases) for node, cases in codes.items()}, sizes.pop()
        return cls(references=np.full(n, NONE, np.int8), nodes=nodes, subset=np.zeros(n, bool))

    def node(self, name: str) -> NodeRecord:
        """None at all where the record does not know the node."""
        if name in self.nodes:
            return self.nodes[name]
        nothing = np.full(len(self.references), np.nan)
        return replace(node_record([""]), of=np.zeros(len(nothing), np.int64), tokens=nothing, costs=nothing)

    def measure(self, condition: PipelineConfig, guards: Mapping[int, Guard] | None = None) -> tuple[Metrics, Told]:
        """The condition replayed on the draws, and what it made of each case; ``guards`` are as in `replay`.

        Cases whose draws did not suffice are the harder ones: with any of them rates are bounds, and there is no cost.
        """
        found = replay(condition, self, guards)
        return self.measured(condition, found.outcome, found.calls, bounded=True)

    def measured(
        self, condition: PipelineConfig, outcome: Codes, calls: Integers, *, bounded: bool
    ) -> tuple[Metrics, Told]:
        """The same of outcomes (N,) and calls by node and case that are known; ``bounded`` as in `evaluate`."""
        tokens, costs = (self._sums_per_case(condition, calls, what) for what in ("tokens", "costs"))
        total, settled, spent = calls.sum(axis=0), outcome != NONE, None
        if costs is not None and (settled.all() or not bounded):
            # One after the other: what was summed case by case before stays the same to the last digit.
            spent = float(np.cumsum(np.append(0.0, costs[settled]))[-1])
        metrics = evaluate(
            self.references,
            outcome,
            calls=total,
            tokens=None if tokens is None else np.rint(tokens).astype(np.int64),
            bounded=bounded,
        )
        if self.subset.any():
            of_subset = evaluate(self.references[self.subset], outcome[self.subset], bounded=bounded)
            metrics = replace(metrics, subset_fnr=of_subset.fnr)
        most = max(int(total.max(initial=0)), sum(node.rule.budget for node in condition.nodes))
        told = Told(name=condition.name, outcome=outcome, calls=total.astype(np.int32), most=most)
        return replace(metrics, name=condition.name, cost_usd=spent), told

    def _sums_per_case(self, condition: PipelineConfig, calls: Integers, what: str) -> Floats | None:
        """None as soon as a draw that was used has none known."""
        totals = np.zeros(calls.shape[1])
        for node, made in zip(condition.nodes, calls, strict=True):
            totals += np.where(made > 0, getattr(self.node(node.name), what) * made, 0.0)
        return None if np.isnan(totals).any() else totals


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Replay:
    """How each of N cases ended: ``outcome`` (N,), a number into `OUTCOMES`, or `NONE` where more draws are needed than
    were recorded (it is unsettled); ``node`` (N,), the place of the last node visited; ``calls`` by node and case.
    """

    outcome: Codes
    node: Codes
    calls: Integers

    @property
    def total_calls(self) -> Integers:
        return np.asarray(self.calls.sum(axis=0))

    def outcomes(self) -> list[Outcome | None]:
        return [None if code == NONE else OUTCOMES[code] for code in self.outcome]


def replay(pipeline: PipelineConfig, record: Record, guards: Mapping[int, Guard] | None = None) -> Replay:
    """Run the pipeline on recorded draws, all cases at once, by the rules and routes of `screening.pipeline.engine`:
    the same outcomes and calls as run live on them, without a call.

    Calls are those up to the first draw that left no hope, where a live run may have paid for the rest of its batch.
    What the text itself forbids is applied to the cases of ``guards`` (by their place) alone. A second look is not
    replayed. Nodes that the record does not know leave their cases unsettled.
    """
    nodes, cases = pipeline.nodes, len(record.references)
    at = np.zeros(cases, dtype=np.int64)  # the node that a case has reached, or len(nodes) + its outcome
    node = np.zeros(cases, dtype=np.int8)
    calls = np.zeros((len(nodes), cases), dtype=np.int64)
    places = [config.name for config in nodes] + [outcome.value for outcome in OUTCOMES]
    for place, config in enumerate(nodes):  # routes lead to later nodes only
        rows = np.flatnonzero(at == place)
        drawn = record.node(config.name)
        label, ended, taken = run(config.rule, drawn.draws)
        # where each label leads, and last where an abstention does, so that label -1 finds it
        leads = np.array([places.index(config.target(each)) for each in (*LABELS, None)])
        targets = np.where(ended == NONE, NONE, leads[label])
        of = drawn.of[rows]
        node[rows], calls[place, rows], at[rows] = place, taken[of], targets[of]
    outcome = np.where(at == NONE, NONE, at - len(nodes)).astype(np.int8)
    for case, guard in (guards or {}).items():
        if guard.refuse_screening is not None:
            outcome[case], calls[:, case] = _TO_A_PERSON, 0
        elif guard.refuse_safe is not None and outcome[case] == _SAFE:
            outcome[case] = _TO_A_PERSON
    return Replay(outcome=outcome, node=node, calls=calls)


def frontier(results: Sequence[Metrics]) -> tuple[Metrics, ...]:
    """The conditions that no other beats, by rising calls: more of all texts decided correctly at as few mean calls.

    Of all texts, so that deciding a tenth of them well beats nobody who decides all nearly as well, and that every
    condition is measured on the same ones. Of several that do the same the first is kept; one without a rate is none.
    """
    points = [(each.mean_calls, each.worst.accuracy.value, each) for each in results]
    known = [(calls, right, each) for calls, right, each in points if calls is not None and right is not None]
    kept, most = list[Metrics](), -1.0
    for _, right, each in sorted(known, key=lambda point: (point[0], -point[1])):
        if right > most:
            kept.append(each)
            most = right
    return tuple(kept)


def gap_counts(record: Record, node: str) -> tuple[tuple[float, int], ...]:
    """The gaps that occur, rising, each with its number of cases.

    >>> gap_counts(Record.from_codes({"worker": ["SSSU", "", "SSSU", "SU"]}), "worker")
    ((0.0, 1), (0.5, 2))
    """
    counts = record.node(node).counts
    counts = np.sort(counts[counts.any(axis=1)], axis=1)
    values, cases = np.unique((counts[:, -1] - counts[:, -2]) / counts.sum(axis=1), return_counts=True)
    return tuple(zip(values.tolist(), cases.tolist(), strict=True))


def consistent_misses(references: Codes, outcomes: Sequence[Codes]) -> tuple[Integers, int]:
    """For each unsafe case that every condition which decided it labeled safe, how many conditions decided it, 0 for
    all others; and how many conditions decided any case. ``outcomes`` are each condition's, numbers into `Outcome`.
    """
    said = np.array(outcomes).reshape(len(outcomes), len(references))
    safe, unsafe = said == _SAFE, said == _UNSAFE
    missed = (references == REFERENCES.index(Label.UNSAFE)) & ~unsafe.any(axis=0)
    return np.where(missed, safe.sum(axis=0), 0), int((safe | unsafe).any(axis=1).sum())
