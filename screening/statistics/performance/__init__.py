"""What a stopping rule does at a given distribution of answers, exactly: dynamic programming, no simulation."""

from collections.abc import Sequence
from functools import singledispatch

import numpy as np

from screening.labels import LABELS
from screening.statistics.performance.elimination import EliminationProgramme, Masses
from screening.statistics.performance.ends import Performance, no_ends_yet
from screening.statistics.rules.majority_vote import MajorityVote
from screening.statistics.rules.pairwise_mixture import PairwiseMixture
from screening.statistics.rules.protocol import Ended, RuleState
from screening.statistics.rules.successive_elimination import SuccessiveElimination
from screening.statistics.rules.tables import least_count_table, pairwise_draws_needed

__all__ = ["Performance", "exact_performance"]


@singledispatch
def exact_performance(rule: object, probabilities: Sequence[float]) -> Performance:
    """The rule's exact performance when each draw gives label i with ``probabilities[i]``, in the order of `LABELS`.

    ValueError unless they are K probabilities that add up to 1, TypeError for another kind of rule. Time
    grows with the budget cubed: a second at some hundred calls.

    >>> round(exact_performance(MajorityVote(n=3), (0.8, 0.2, 0.0)).right, 3)  # 0.8³ + 3·0.8²·0.2
    0.896
    """
    raise TypeError(f"no exact performance for {type(rule).__name__}")


@exact_performance.register
def _(rule: MajorityVote, probabilities: Sequence[float]) -> Performance:
    ends = no_ends_yet(probabilities)
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
    ends, table = no_ends_yet(probabilities), least_count_table(rule, rule.budget)
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
    ends = no_ends_yet(probabilities)
    EliminationProgramme(rule, ends).run()
    return ends.performance()
