"""The rules' tests as integer tables and arrays, so that many runs can be followed at once."""

import numpy as np
from numpy.typing import NDArray

from screening.labels import LABELS
from screening.statistics.rules.evidence import least_count
from screening.statistics.rules.pairwise_mixture import PairwiseMixture
from screening.statistics.rules.successive_elimination import SuccessiveElimination, earliest_drop, least_gap

Integers = NDArray[np.int64]


def least_count_table(rule: PairwiseMixture, behind: int) -> Integers:
    """Shape (K, K, behind + 1): draws of label a that beat label b seen y times, [a, b, y]; 0 where a is b."""
    table = np.zeros((len(LABELS), len(LABELS), behind + 1), dtype=np.int64)
    for a, said in enumerate(LABELS):
        for b, mode in enumerate(LABELS):
            if a != b:
                level = rule.errors.level(said, mode)
                table[a, b] = [least_count(seen, level) for seen in range(behind + 1)]
    return table


def pairwise_draws_needed(counts: Integers, table: Integers) -> Integers:
    """Further draws to identify each label, all giving it; at most 0 where it is identified.

    ``counts`` has shape (K, …) and so has the result. A negative count is read as 0.
    """
    seen = np.maximum(counts, 0)
    needed = [np.max([table[a, b][seen[b]] for b in range(len(LABELS)) if b != a], axis=0) for a in range(len(LABELS))]
    return np.stack(needed) - counts


def least_gap_table(rule: SuccessiveElimination, calls: int) -> Integers:
    """`least_gap` after T = 0, 1, … pulls each, as far as so many calls reach; beyond reach at T = 0."""
    return np.array([calls + 2] + [least_gap(pulls, rule.delta) for pulls in range(1, calls + 2)])


def earliest_drop_table(rule: SuccessiveElimination, calls: int) -> Integers:
    """`earliest_drop` for 0, 1, … losses, as many as so many calls can make."""
    return np.array([earliest_drop(losses, rule.delta) for losses in range(2 * calls + 3)])


def rounds_to_drop(successes: Integers, pulled: Integers | int, complete: Integers | int, drops: Integers) -> Integers:
    """Rounds, the current one included, after which each rival of the best-placed arm could go; 0 for that arm.

    The same as `EliminationState` works out, for many states with the same number of active arms.
    ``successes`` has shape (active arms, …) in the order of pulling, ``pulled`` of them have had their turn in
    this round, ``complete`` rounds lie behind; ``drops`` is `earliest_drop_table`. Returns the shape of
    ``successes``.
    """
    position = np.arange(len(successes)).reshape(-1, *[1] * (successes.ndim - 1))
    reach = successes + (position >= pulled)
    best = np.argmax(reach, axis=0)[None]  # of equals the first, as in `EliminationState`
    lead = np.take_along_axis(reach, best, axis=0) - successes
    rounds = np.asarray(drops[complete + 1 - lead] - complete)
    np.put_along_axis(rounds, best, 0, axis=0)
    return rounds


def elimination_draws_needed(rounds: Integers, pulled: Integers | int) -> Integers:
    """Fewest further draws to a single arm, given `rounds_to_drop` and the pulls made in this round."""
    return np.asarray(rounds.sum(axis=0) + rounds.max(axis=0) - pulled)
