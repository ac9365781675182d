"""What a stopping rule does at a given distribution of answers, exactly: dynamic programming, no simulation."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import singledispatch
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from screening.labels import LABELS
from screening.rules.majority_vote import MajorityVote
from screening.rules.pairwise_mixture import PairwiseMixture
from screening.rules.protocol import Ended, RuleState
from screening.rules.successive_elimination import SuccessiveElimination
from screening.rules.tables import (
    Integers,
    earliest_drop_table,
    elimination_draws_needed,
    least_count_table,
    least_gap_table,
    pairwise_draws_needed,
)

Masses = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance:
    """Probabilities of a node's possible ends, and its mean number of calls, at ``probabilities`` of the labels.

    ``identified`` is in the order of `LABELS`; it and ``abstained`` add up to 1.
    """

    probabilities: tuple[float, ...]
    identified: tuple[float, ...]
    abstained: float
    mean_calls: float

    @property
    def right(self) -> float:
        """Probability of naming the mode (any of them, if several labels are equally probable)."""
        return sum(self._named(is_mode=True))

    @property
    def wrong(self) -> float:
        """Probability of naming a label that is not the mode: what ``delta`` bounds."""
        return sum(self._named(is_mode=False))

    def _named(self, *, is_mode: bool) -> list[float]:
        top = max(self.probabilities)
        return [
            named
            for named, probability in zip(self.identified, self.probabilities, strict=True)
            if (probability == top) is is_mode
        ]


@singledispatch
def exact_performance(rule: object, probabilities: Sequence[float]) -> Performance:
    """The rule's exact performance when each draw gives label i with ``probabilities[i]``, in the order of `LABELS`.

    ValueError unless they are K probabilities that add up to 1. Time grows with the budget cubed: a second at
    some hundred calls.

    >>> round(exact_performance(MajorityVote(n=3), (0.8, 0.2, 0.0)).right, 3)  # 0.8³ + 3·0.8²·0.2
    0.896
    """
    raise TypeError(f"no exact performance for {type(rule).__name__}")


@dataclass(slots=True)
class _Ends:
    """Where the probability has gone so far. Collects; the only thing here that changes."""

    probabilities: tuple[float, ...]
    identified: list[float] = field(default_factory=lambda: [0.0] * len(LABELS))
    abstained: float = 0.0
    calls: float = 0.0

    def identify(self, arm: int, mass: float, calls: float) -> None:
        self.identified[arm] += mass
        self.calls += mass * calls

    def abstain(self, mass: float, calls: float) -> None:
        self.abstained += mass
        self.calls += mass * calls

    def performance(self) -> Performance:
        return Performance(
            probabilities=self.probabilities,
            identified=tuple(self.identified),
            abstained=self.abstained,
            mean_calls=self.calls,
        )


def _ends(probabilities: Sequence[float]) -> _Ends:
    if len(probabilities) != len(LABELS) or min(probabilities) < 0 or abs(sum(probabilities) - 1) > 1e-9:
        raise ValueError("one probability per label, adding up to 1")
    return _Ends(probabilities=tuple(map(float, probabilities)))


@exact_performance.register
def _(rule: MajorityVote, probabilities: Sequence[float]) -> Performance:
    ends = _ends(probabilities)
    live: dict[RuleState, float] = {rule.start(): 1.0}
    for _draw in range(rule.n):
        after: dict[RuleState, float] = {}
        for state, mass in live.items():
            for label, probability in zip(LABELS, ends.probabilities, strict=True):
                following = state.observe(label)
                after[following] = after.get(following, 0.0) + mass * probability
        live = after
    for state, mass in live.items():
        verdict = state.verdict()
        if verdict is not None and verdict.label is not None and verdict.ended is Ended.IDENTIFIED:
            ends.identify(LABELS.index(verdict.label), mass, rule.n)
        else:
            ends.abstain(mass, rule.n)
    return ends.performance()


@exact_performance.register
def _(rule: PairwiseMixture, probabilities: Sequence[float]) -> Performance:
    ends, table = _ends(probabilities), least_count_table(rule)
    live = np.ones((1, 1))  # probability of having drawn (safe, unsafe) so often and not having stopped
    for calls in range(rule.budget + 1):
        safe, unsafe = np.indices(live.shape)
        needed = pairwise_draws_needed(np.stack([safe, unsafe, calls - safe - unsafe]), table)
        for arm in range(len(LABELS)):
            ends.identify(arm, float(live[needed[arm] <= 0].sum()), calls)
        earliest, remaining = needed.min(axis=0), rule.budget - calls
        live[earliest <= 0] = 0
        stopped = earliest > remaining if rule.curtail or remaining == 0 else np.zeros(live.shape, dtype=bool)
        ends.abstain(float(live[stopped].sum()), calls)
        live[stopped] = 0
        live = _after_draw(live, ends.probabilities)
    return ends.performance()


def _after_draw(live: Masses, probabilities: Sequence[float]) -> Masses:
    after = np.zeros((len(live) + 1, len(live) + 1))
    after[1:, :-1] += probabilities[0] * live
    after[:-1, 1:] += probabilities[1] * live
    after[:-1, :-1] += probabilities[2] * live
    return after


@exact_performance.register
def _(rule: SuccessiveElimination, probabilities: Sequence[float]) -> Performance:
    return _EliminationProgramme(rule, _ends(probabilities)).run()


class _EliminationProgramme:
    """Algorithm 1 depends on differences of successes only: two while three arms are active, one for two arms."""

    def __init__(self, rule: SuccessiveElimination, ends: _Ends) -> None:
        self.rule, self.ends = rule, ends
        self.rounds = rule.budget // len(LABELS)
        self.drops, self.gaps = earliest_drop_table(rule), least_gap_table(rule)

    def run(self) -> Performance:
        entered = self._three_arms()
        for pair, masses in entered.items():
            self._two_arms(pair, masses)
        return self.ends.performance()

    def _three_arms(self) -> dict[tuple[int, int], Masses]:
        """Follow all runs while no arm is dropped; for each pair of arms, who entered after how many rounds."""
        reach, middle = 2 * self.rounds + 1, self.rounds
        entered = {pair: np.zeros((self.rounds + 1, reach)) for pair in combinations(range(len(LABELS)), 2)}
        second, third = np.indices((reach, reach)) - middle  # successes less those of the first arm
        successes = np.stack([np.zeros_like(second), second, third])
        live = np.zeros((reach, reach))
        live[middle, middle] = 1.0
        for complete in range(self.rounds):
            for pulled, probability in enumerate(self.ends.probabilities):
                calls = len(LABELS) * complete + pulled
                live = self._curtailed(live, successes, pulled, complete, calls)
                live = (1 - probability) * live + probability * _success(live, pulled)
            live = self._three_arms_dropped(live, successes, complete + 1, entered)
        self.ends.abstain(float(live.sum()), len(LABELS) * self.rounds)
        return entered

    def _curtailed(
        self, live: Masses, successes: Integers, pulled: int, complete: int, calls: int | Integers
    ) -> Masses:
        if not self.rule.curtail:
            return live
        # Differences that so few pulls cannot make have no probability; they are clipped into the table.
        bounded = np.clip(successes, -complete - 1, complete + 1)
        needed = elimination_draws_needed(bounded, pulled, complete, self.drops)
        hopeless = needed > self.rule.budget - calls
        stopped = np.where(hopeless, live, 0.0)
        self.ends.abstained += float(stopped.sum())
        self.ends.calls += float((stopped * calls).sum())
        return np.where(hopeless, 0.0, live)

    def _three_arms_dropped(
        self, live: Masses, successes: Integers, rounds: int, entered: dict[tuple[int, int], Masses]
    ) -> Masses:
        stays = successes.max(axis=0) - successes < self.gaps[rounds]
        left = stays.sum(axis=0)
        for arm in range(len(LABELS)):
            self.ends.identify(arm, float(live[stays[arm] & (left == 1)].sum()), len(LABELS) * rounds)
        for (a, b), masses in entered.items():
            chosen = stays[a] & stays[b] & (left == 2)
            difference = (successes[a] - successes[b])[chosen] + self.rounds
            np.add.at(masses[rounds], np.clip(difference, 0, masses.shape[1] - 1), live[chosen])
        return np.where(left == len(LABELS), live, 0.0)

    def _two_arms(self, pair: tuple[int, int], entered: Masses) -> None:
        """Follow the runs with two arms left; rows by the round in which the third arm was dropped."""
        first, second = (self.ends.probabilities[arm] for arm in pair)
        middle = self.rule.budget // 2 + 1
        difference = np.arange(2 * middle + 1) - middle
        successes = np.stack([difference, np.zeros_like(difference)])
        dropped_at = np.arange(self.rounds + 1)[:, None]
        live = np.zeros((self.rounds + 1, len(difference)))
        for complete in range(1, self.rule.budget // 2 + 1):
            if complete <= self.rounds:
                live[complete, middle - self.rounds : middle + self.rounds + 1] = entered[complete]
            calls = 2 * complete + dropped_at
            live = self._two_arms_exhausted(live, calls)
            live = self._curtailed(live, successes, 0, complete, calls)
            live = (1 - first) * live + first * _shifted(live, 1)
            live = self._curtailed(live, successes, 1, complete, calls + 1)
            live = (1 - second) * live + second * _shifted(live, -1)
            live = self._two_arms_identified(live, pair, difference, complete + 1, calls + 2)

    def _two_arms_exhausted(self, live: Masses, calls: Integers) -> Masses:
        over = np.where(calls + 2 > self.rule.budget, live, 0.0)
        self.ends.abstained += float(over.sum())
        self.ends.calls += float((over * calls).sum())
        return live - over

    def _two_arms_identified(
        self, live: Masses, pair: tuple[int, int], difference: Integers, rounds: int, calls: Integers
    ) -> Masses:
        for arm, ahead in zip(pair, (difference, -difference), strict=True):
            named = np.where(ahead >= self.gaps[rounds], live, 0.0)
            self.ends.identified[arm] += float(named.sum())
            self.ends.calls += float((named * calls).sum())
            live = live - named
        return live


def _success(live: Masses, arm: int) -> Masses:
    """All mass moved by one success of this arm, in differences to the first arm; the margin holds none."""
    if arm == 0:
        return _shifted(_shifted(live, -1).T, -1).T
    return _shifted(live.T, 1).T if arm == 1 else _shifted(live, 1)


def _shifted(masses: Masses, by: int) -> Masses:
    """Every row moved along its last axis by 1 or -1; what leaves the array has no probability."""
    moved = np.zeros_like(masses)
    if by == 1:
        moved[..., 1:] = masses[..., :-1]
    else:
        moved[..., :-1] = masses[..., 1:]
    return moved
