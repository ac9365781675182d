"""The integer tables against the rules themselves, state by state."""

from itertools import permutations

import numpy as np
import pytest

from screening.labels import LABELS
from screening.statistics.performance import exact_performance
from screening.statistics.rules.evidence import least_count
from screening.statistics.rules.pairwise_mixture import ErrorLevels, PairwiseMixture
from screening.statistics.rules.protocol import Ended
from screening.statistics.rules.successive_elimination import SuccessiveElimination, earliest_drop, least_gap
from screening.statistics.rules.tables import (
    earliest_drop_table,
    elimination_draws_needed,
    least_count_table,
    least_gap_table,
    pairwise_draws_needed,
    rounds_to_drop,
)


@pytest.mark.parametrize("active", [2, 3])
def test_rounds_to_drop_are_those_of_the_state(active: int) -> None:
    rule, random = SuccessiveElimination(delta=0.05, budget=10_000), np.random.default_rng(active)
    drops, tried = earliest_drop_table(rule, 150), 0
    for seed in range(40):
        state, shares = rule.start(), random.dirichlet([4.0, 2.0, 1.0])
        while state.verdict() is None and state.calls < 140:
            if len(state.active) == active:
                successes = np.array([state.successes[arm] for arm in state.active])
                rounds = rounds_to_drop(successes, state.pulled, state.pulls[state.active[-1]], drops)
                assert sorted(rounds.tolist()) == sorted([0, *state._rounds_to_drop_rivals()]), (seed, state)
                assert elimination_draws_needed(rounds, state.pulled) == state.draws_to_identify()
                tried += 1
            state = state.observe(LABELS[int(random.choice(3, p=shares))])
    assert tried > 100


def test_a_budget_that_just_suffices_is_not_given_up_before_it_is_spent() -> None:
    """A unanimous model takes 72 calls: with 72 it is named at the last of them, with 71 nothing can be."""
    sure = (1.0, 0.0, 0.0)
    found = exact_performance(SuccessiveElimination(delta=0.05, budget=72), sure)
    assert (found.right, found.abstained, found.mean_calls) == (1.0, 0.0, 72.0)
    hopeless = exact_performance(SuccessiveElimination(delta=0.05, budget=71), sure)
    assert (hopeless.right, hopeless.abstained, hopeless.mean_calls) == (0.0, 1.0, 0.0)
    state = SuccessiveElimination(delta=0.05, budget=71).start()
    assert (state.verdict() or pytest.fail()).ended is Ended.CURTAILED


def test_gaps_and_drops_are_the_rules_own_and_nothing_is_dropped_before_the_first_pull() -> None:
    rule = SuccessiveElimination(delta=0.1, budget=60)
    gaps, drops = least_gap_table(rule, 60), earliest_drop_table(rule, 60)
    assert gaps[1:].tolist() == [least_gap(pulls, 0.1) for pulls in range(1, len(gaps))] and len(gaps) >= 61
    assert gaps[0] > 60 and least_gap_table(rule, 1)[0] > 1, "no lead is as large"
    assert drops.tolist() == [earliest_drop(losses, 0.1) for losses in range(len(drops))] and len(drops) >= 121


def test_draws_that_beat_each_rival_are_those_of_the_evidence() -> None:
    errors = ErrorLevels(default=0.02, overrides=(((LABELS[0], LABELS[1]), 0.001),))
    rule = PairwiseMixture(budget=40, errors=errors)
    table = least_count_table(rule, 40)
    assert table.shape == (3, 3, 41) and not table[np.arange(3), np.arange(3)].any()
    for (a, said), (b, mode) in permutations(enumerate(LABELS), 2):
        assert table[a, b].tolist() == [least_count(behind, errors.level(said, mode)) for behind in range(41)]
    for counts in ([0, 0, 0], [9, 0, 1], [3, 4, 2], [15, 0, 0]):
        state = rule.start()
        for label, times in zip(LABELS, counts, strict=True):
            for _ in range(times):
                state = state.observe(label) if state.verdict() is None else state
        needed = pairwise_draws_needed(np.array(state.counts), table)
        assert [max(0, int(one)) for one in needed] == [state.draws_to_identify(label) for label in LABELS]
    assert pairwise_draws_needed(np.array([-1, 5, 5]), table)[1] == pairwise_draws_needed(np.array([0, 5, 5]), table)[1]


def test_many_states_at_once_are_each_as_it_is_alone() -> None:
    table = least_count_table(PairwiseMixture(budget=40), 40)
    many = np.array([[9, 3, 20], [0, 4, 1], [1, 2, 0]])
    alone = [pairwise_draws_needed(many[:, column], table).tolist() for column in range(3)]
    assert pairwise_draws_needed(many, table).T.tolist() == alone
