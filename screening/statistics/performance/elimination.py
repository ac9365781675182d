"""Algorithm 1 exactly: the distribution of all its runs, round by round."""

from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from screening.labels import LABELS
from screening.statistics.performance.ends import Ends
from screening.statistics.rules.successive_elimination import SuccessiveElimination
from screening.statistics.rules.tables import (
    Integers,
    earliest_drop_table,
    elimination_draws_needed,
    least_gap_table,
    rounds_to_drop,
)

Masses = NDArray[np.float64]


class EliminationProgramme:
    """Algorithm 1 depends on differences of successes only: two while three arms are active, one for two arms."""

    def __init__(self, rule: SuccessiveElimination, ends: Ends) -> None:
        self.rule, self.ends = rule, ends
        self.rounds = rule.budget // len(LABELS)
        self.drops, self.gaps = earliest_drop_table(rule, rule.budget), least_gap_table(rule, rule.budget)

    def run(self) -> None:
        """Follow all probability to its end."""
        entered = self._three_arms()
        for pair, masses in entered.items():
            self._two_arms(pair, masses)

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
                live = self._curtail(live, successes, pulled, complete, calls)
                live = (1 - probability) * live + probability * _success(live, pulled)
            live = self._drop_from_three(live, successes, complete + 1, entered)
        self.ends.abstain(float(live.sum()), len(LABELS) * self.rounds)
        return entered

    def _curtail(self, live: Masses, successes: Integers, pulled: int, complete: int, calls: int | Integers) -> Masses:
        if not self.rule.curtail:
            return live
        # Differences that so few pulls cannot make have no probability; they are clipped into the table.
        bounded = np.clip(successes, -complete - 1, complete + 1)
        needed = elimination_draws_needed(rounds_to_drop(bounded, pulled, complete, self.drops), pulled)
        hopeless = needed > self.rule.budget - calls
        stopped = np.where(hopeless, live, 0.0)
        self.ends.abstained += float(stopped.sum())
        self.ends.calls += float((stopped * calls).sum())
        return np.where(hopeless, 0.0, live)

    def _drop_from_three(
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
            live = self._exhaust_two(live, calls)
            live = self._curtail(live, successes, 0, complete, calls)
            live = (1 - first) * live + first * _shift(live, 1)
            live = self._curtail(live, successes, 1, complete, calls + 1)
            live = (1 - second) * live + second * _shift(live, -1)
            live = self._identify_from_two(live, pair, difference, complete + 1, calls + 2)

    def _exhaust_two(self, live: Masses, calls: Integers) -> Masses:
        over = np.where(calls + 2 > self.rule.budget, live, 0.0)
        self.ends.abstained += float(over.sum())
        self.ends.calls += float((over * calls).sum())
        return live - over

    def _identify_from_two(
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
        return _shift(_shift(live, -1).T, -1).T
    return _shift(live.T, 1).T if arm == 1 else _shift(live, 1)


def _shift(masses: Masses, by: int) -> Masses:
    """Every row moved along its last axis by 1 or -1; what leaves the array has no probability."""
    moved = np.zeros_like(masses)
    if by == 1:
        moved[..., 1:] = masses[..., :-1]
    else:
        moved[..., :-1] = masses[..., 1:]
    return moved
