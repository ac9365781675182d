"""Wrong commits over many cases, simulated: majority vote against the adaptive rule with each schedule of δ.

A commit is wrong when the label named is not the node's mode; whether the mode is right is another question. The
paper claims logarithmic growth for its rule (regret theorem, appendix C). At a constant δ the bound grows in
proportion to T; it is the schedule δ/t that makes it logarithmic.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import log

import numpy as np
from numpy.typing import NDArray

from screening.labels import LABELS
from screening.statistics.bounds import Schedule, scheduled_delta
from screening.statistics.rules.evidence import log_evidence

_Ints = NDArray[np.int64]
_Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseKind:
    """A kind of case: its share of all cases and the node's label probabilities for it, in the order of `LABELS`.

    ValueError unless these are probabilities that add up to 1 and one is larger than the others.
    """

    share: float
    probabilities: tuple[float, float, float]

    def __post_init__(self) -> None:
        first, second = sorted(self.probabilities, reverse=True)[:2]
        if abs(sum(self.probabilities) - 1) > 1e-9 or min(self.probabilities) < 0 or first == second:
            raise ValueError("label probabilities must add to 1 and have one mode")


MOSTLY_EASY = (
    CaseKind(share=0.7, probabilities=(0.95, 0.03, 0.02)),
    CaseKind(share=0.2, probabilities=(0.1, 0.8, 0.1)),
    CaseKind(share=0.1, probabilities=(0.42, 0.53, 0.05)),
)
"""Seven cases in ten near-unanimous, one in ten hard."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RegretCurve:
    """One rule's wrong commits: ``wrong[t-1]`` is the mean number over runs within the first t cases.

    ``bound`` is Σ δ_t up to each case, None for majority vote, which has none.
    """

    name: str
    wrong: _Floats
    bound: _Floats | None
    mean_calls: float
    abstained: float


@dataclass(frozen=True, slots=True)
class _Stops:
    """For each case the label named (an index, or -1 for an abstention) and the calls it took, shape (cases,)."""

    labels: _Ints
    calls: _Ints


def simulate_regret(
    kinds: Sequence[CaseKind] = MOSTLY_EASY,
    *,
    seed: int,
    cases: int = 1000,
    runs: int = 20,
    delta: float = 0.05,
    budget: int = 100,
    votes: int = 5,
) -> tuple[RegretCurve, ...]:
    """The curves of majority vote and of the recommended rule (symmetric δ) under each schedule, on the same draws.

    One node, ``cases`` cases in random order, ``runs`` repetitions. No curtailment: an abstention costs the whole
    budget. ValueError when the budget is smaller than the votes, or a share or count is not positive.
    """
    if budget < votes or min(cases, runs, votes, *(kind.share for kind in kinds)) <= 0:
        raise ValueError("the budget must cover the votes, and all counts and shares must be above 0")
    deltas = {schedule: _deltas(schedule, delta, cases) for schedule in Schedule}
    evidence = evidence_table(budget)
    rules: dict[str, Callable[[_Ints], _Stops]] = {f"majority vote n={votes}": partial(vote, votes=votes)}
    for schedule, levels in deltas.items():
        rules[f"adaptive, {schedule} δ"] = partial(adapt, deltas=levels, evidence=evidence)
    bounds = [None, *(np.cumsum(levels) for levels in deltas.values())]
    random = np.random.default_rng(seed)
    outcomes: dict[str, list[tuple[_Ints, _Stops]]] = {name: [] for name in rules}
    for _ in range(runs):
        modes, draws = _draws(random, kinds, cases, budget)
        for name, rule in rules.items():
            outcomes[name].append((modes, rule(draws)))
    return tuple(_curve(name, outcomes[name], bound) for name, bound in zip(rules, bounds, strict=True))


def evidence_table(budget: int) -> _Floats:
    """ln E(x, y) for all x and y with x + y ≤ budget; minus infinity beyond and where x is not ahead.

    Shape (budget + 1, budget + 1).
    """
    table = np.full((budget + 1, budget + 1), -np.inf)
    for behind in range(budget + 1):
        for ahead in range(behind + 1, budget + 1 - behind):
            table[ahead, behind] = log_evidence(ahead, behind)
    return table


def adapt(draws: _Ints, deltas: _Floats, evidence: _Floats) -> _Stops:
    """The recommended rule on each row of draws (label indices, cases × budget), at that case's δ.

    E falls with the rival's count, so the strongest rival decides: the test is E(first, second) ≥ (K-1)/δ.
    """
    counts = np.cumsum(draws[:, :, None] == np.arange(len(LABELS)), axis=1)
    ordered = np.sort(counts, axis=2)
    reached = evidence[ordered[:, :, -1], ordered[:, :, -2]] >= np.log((len(LABELS) - 1) / deltas)[:, None]
    decided, first = reached.any(axis=1), reached.argmax(axis=1)
    leaders = counts[np.arange(len(draws)), first].argmax(axis=1)
    return _Stops(np.where(decided, leaders, -1), np.where(decided, first + 1, draws.shape[1]))


def vote(draws: _Ints, votes: int) -> _Stops:
    """The plurality of each row's first ``votes`` draws; a tie is an abstention."""
    counts = (draws[:, :votes, None] == np.arange(len(LABELS))).sum(axis=1)
    tied = (counts == counts.max(axis=1, keepdims=True)).sum(axis=1) > 1
    return _Stops(np.where(tied, -1, counts.argmax(axis=1)), np.full(len(draws), votes))


def _deltas(schedule: Schedule, delta: float, cases: int) -> _Floats:
    return np.array([scheduled_delta(schedule, delta, case) for case in range(1, cases + 1)])


def _draws(random: np.random.Generator, kinds: Sequence[CaseKind], cases: int, budget: int) -> tuple[_Ints, _Ints]:
    """The mode of each case, and its draws as label indices (cases × budget)."""
    shares = np.array([kind.share for kind in kinds])
    probabilities = np.array([kind.probabilities for kind in kinds])
    chosen = random.choice(len(kinds), size=cases, p=shares / shares.sum())
    # The last edge is left out: a sum that rounds below 1 must not make a fourth label.
    edges = np.cumsum(probabilities, axis=1)[chosen, :-1]
    uniform = random.random((cases, budget))
    return probabilities.argmax(axis=1)[chosen], (uniform[:, :, None] >= edges[:, None, :]).sum(axis=2)


def _curve(name: str, outcomes: list[tuple[_Ints, _Stops]], bound: _Floats | None) -> RegretCurve:
    wrong = np.array([(stops.labels >= 0) & (stops.labels != modes) for modes, stops in outcomes])
    return RegretCurve(
        name=name,
        wrong=np.cumsum(wrong.mean(axis=0)),
        bound=bound,
        mean_calls=float(np.mean([stops.calls.mean() for _, stops in outcomes])),
        abstained=float(np.mean([(stops.labels < 0).mean() for _, stops in outcomes])),
    )


def logarithmic_bound(delta: float, cases: int) -> float:
    """δ(1 + ln T), which the schedule δ/t stays below.

    >>> round(logarithmic_bound(0.05, 1000), 3)
    0.395
    """
    return delta * (1 + log(cases))
