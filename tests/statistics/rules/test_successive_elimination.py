"""Algorithm 1 against the paper's numbers, a literal transcription of its pseudocode, and brute force."""

from functools import cache
from math import inf, log, sqrt
from random import Random

import pytest

from screening.labels import LABELS, Label
from screening.statistics.rules.protocol import Ended
from screening.statistics.rules.successive_elimination import EliminationState, SuccessiveElimination, least_gap

SAFE, UNSAFE, ESCALATE = LABELS


def followed(rule: SuccessiveElimination, labels: list[Label]) -> EliminationState:
    state = rule.start()
    for label in labels:
        state = state.observe(label)
    return state


def algorithm_one(p: tuple[float, ...], budget: int, delta: float, random: Random) -> tuple[int | None, list[Label]]:
    """The paper's pseudocode line by line, as an independent oracle; returns its answer and the draws it took."""
    active, pulls, successes, drawn = [0, 1, 2], [0, 0, 0], [0, 0, 0], []
    while len(active) > 1 and sum(pulls) + len(active) <= budget:
        for arm in active:
            answer = random.choices((0, 1, 2), p)[0]
            drawn.append(LABELS[answer])
            successes[arm] += answer == arm
            pulls[arm] += 1
        estimate = {arm: successes[arm] / pulls[arm] for arm in active}
        width = {arm: sqrt(log(4 * 3 * pulls[arm] ** 2 / delta) / (2 * pulls[arm])) for arm in active}
        best = max(active, key=estimate.__getitem__)
        active = [a for a in active if not estimate[best] - width[best] > estimate[a] + width[a]]
    return (active[0] if len(active) == 1 else None), drawn


@pytest.mark.parametrize(
    ("delta", "calls"), [(0.2, 63), (0.1, 66), (0.05, 72), (0.02, 78), (0.01, 84), (0.005, 90), (0.001, 99)]
)
@pytest.mark.parametrize("label", LABELS)
def test_a_unanimous_model_is_identified_in_three_times_the_first_round_with_a_gap_above_two_widths(
    delta: float, calls: int, label: Label
) -> None:
    # After T rounds the gap is 1, so the first T with 2·sqrt(ln(12·T²/δ) / (2T)) < 1; three calls a round.
    rounds = next(t for t in range(1, 100) if 2 * sqrt(log(12 * t * t / delta) / (2 * t)) < 1)
    assert 3 * rounds == calls
    rule = SuccessiveElimination(delta=delta, budget=calls)
    verdict = followed(rule, [label] * calls).verdict()
    assert verdict is not None
    assert (verdict.label, verdict.ended, verdict.calls) == (label, Ended.IDENTIFIED, calls)
    assert followed(rule, [label] * (calls - 1)).verdict() is None
    assert rule.minimum_budget() == calls


@pytest.mark.parametrize(("delta", "budget"), [(0.05, 100), (0.05, 150), (0.05, 400), (0.9, 75), (0.5, 10), (0.1, 2)])
@pytest.mark.parametrize("p", [(0.95, 0.03, 0.02), (0.1, 0.8, 0.1), (0.0, 0.3, 0.7), (0.4, 0.3, 0.3)])
def test_it_is_the_papers_pseudocode(delta: float, budget: int, p: tuple[float, float, float]) -> None:
    random = Random(f"{delta} {budget} {p}")
    for _case in range(25):
        arm, drawn = algorithm_one(p, budget, delta, random)
        verdict = followed(SuccessiveElimination(delta=delta, budget=budget, curtail=False), drawn).verdict()
        assert verdict is not None
        assert verdict.label == (None if arm is None else LABELS[arm])
        assert verdict.ended == (Ended.EXHAUSTED if arm is None else Ended.IDENTIFIED)
        assert verdict.calls == len(drawn) <= budget


def test_a_draw_is_credited_only_to_the_arm_that_was_pulled() -> None:
    state = followed(SuccessiveElimination(delta=0.05, budget=100), [UNSAFE, UNSAFE, UNSAFE, SAFE])
    assert state.pulls == (2, 1, 1)
    assert state.successes == (1, 1, 0)  # the first and third `unsafe` answered the pulls of other arms
    assert (state.active[state.pulled], state.observe(UNSAFE).successes) == (
        1,
        (1, 2, 0),
    )


def test_the_unanimous_wave_is_one_of_72_calls() -> None:
    assert SuccessiveElimination(delta=0.05, budget=100).start().next_wave() == 72


@pytest.mark.parametrize("budget", [10, 50, 71])
def test_a_budget_that_can_never_decide_costs_no_call(budget: int) -> None:
    verdict = SuccessiveElimination(delta=0.05, budget=budget).start().verdict()
    assert verdict is not None
    assert (verdict.label, verdict.ended, verdict.calls) == (None, Ended.CURTAILED, 0)


@pytest.mark.parametrize(("budget", "calls"), [(0, 0), (2, 0), (10, 9), (50, 48), (51, 51), (71, 69)])
def test_without_curtailment_every_round_the_budget_pays_is_drawn(budget: int, calls: int) -> None:
    rule = SuccessiveElimination(delta=0.05, budget=budget, curtail=False)
    state = followed(rule, [SAFE] * calls)
    assert state.verdict() is not None
    assert state.verdict().ended is Ended.EXHAUSTED  # type: ignore[union-attr]
    assert calls == 0 or followed(rule, [SAFE] * (calls - 1)).verdict() is None
    assert rule.start().next_wave() == calls


def test_a_wave_stops_where_the_budget_may_end_before_the_earliest_decision() -> None:
    # 33 rounds and two rounds of two arms would identify `safe` with the 103rd call. If no arm is dropped in
    # round 33 a 34th of three arms ends with the 102nd, and then one call is left, which pays nothing.
    rule = SuccessiveElimination(delta=0.001, budget=103, curtail=False)
    state = followed(rule, [SAFE, SAFE, ESCALATE, *[SAFE] * 27])
    assert (state.successes, state.draws_to_earliest_decision()) == ((10, 0, 1), 73)
    assert state.next_wave() == 69  # 23 rounds to the earliest drop
    for label in [ESCALATE, *[SAFE] * 71]:
        state = state.observe(label)
    assert state.verdict() is not None
    assert (state.verdict().ended, state.verdict().calls) == (Ended.EXHAUSTED, 102)  # type: ignore[union-attr]


def test_curtailment_ends_a_round_early_when_it_cannot_help() -> None:
    # B = 75 pays 25 rounds, and 25 need a gap of 2·25·w = 24.4, so of 25: all answers must agree.
    rule = SuccessiveElimination(delta=0.05, budget=75)
    assert least_gap(25, 0.05) == 25
    state = followed(rule, [ESCALATE, SAFE])  # neither `safe` nor `unsafe` answered its own pull
    assert state.verdict() is None
    state = state.observe(SAFE)  # nor `escalate`
    assert state.verdict() is not None
    assert (state.verdict().ended, state.verdict().calls) == (Ended.CURTAILED, 3)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("budget", "gap"), [(50, 1.17), (75, 0.976), (100, 0.869), (124, 0.794), (150, 0.730), (300, 0.542)]
)
def test_the_smallest_decidable_gap_is_twice_the_width_after_all_rounds(budget: int, gap: float) -> None:
    rounds = budget // 3
    assert gap == pytest.approx(2 * sqrt(log(12 * rounds**2 / 0.05) / (2 * rounds)), abs=0.005)
    assert SuccessiveElimination(delta=0.05, budget=budget).smallest_decidable_gap() == pytest.approx(gap, abs=0.005)


def test_a_budget_below_one_round_decides_no_gap() -> None:
    assert SuccessiveElimination(delta=0.05, budget=2).smallest_decidable_gap() is None


@pytest.mark.slow
@pytest.mark.parametrize("budget", [51, 53])
def test_the_earliest_decision_is_the_shortest_way_over_all_answers(budget: int) -> None:
    """δ = 0.9 decides after 17 rounds at the earliest, few enough to search every reachable state."""
    rule = SuccessiveElimination(delta=0.9, budget=budget, curtail=False)

    @cache
    def shortest(state: EliminationState) -> float:
        if (verdict := state.verdict()) is not None:
            return 0 if verdict.ended is Ended.IDENTIFIED else inf
        own = LABELS[state.active[state.pulled]]
        other = next(label for label in LABELS if label is not own)
        found = 1 + min(shortest(state.observe(own)), shortest(state.observe(other)))
        needed = state.draws_to_earliest_decision()
        assert found == (needed if needed <= state.remaining else inf)
        return found

    assert shortest(rule.start()) == 51


def test_bands_are_the_estimate_and_its_radius_clipped() -> None:
    start = SuccessiveElimination(delta=0.05, budget=300).start()
    assert [(arm.estimate, arm.low, arm.high) for arm in start.arms()] == [(None, 0.0, 1.0)] * 3
    state = followed(SuccessiveElimination(delta=0.05, budget=300), [SAFE] * 60)
    safe, unsafe, _escalate = state.arms()
    width = sqrt(log(12 * 20**2 / 0.05) / 40)
    assert (safe.draws, safe.estimate, safe.high) == (20, 1.0, 1.0)
    assert safe.low == pytest.approx(1 - width)
    assert (unsafe.estimate, unsafe.low) == (0.0, 0.0)
    assert unsafe.high == pytest.approx(width)


def test_a_dropped_arm_keeps_its_pulls_and_is_marked() -> None:
    p_half = [SAFE, UNSAFE, SAFE] * 24 + [SAFE, UNSAFE]  # `escalate` never answers, the other two always do
    state = followed(SuccessiveElimination(delta=0.05, budget=300), p_half)
    assert [arm.eliminated for arm in state.arms()] == [False, False, True]
    assert [arm.draws for arm in state.arms()] == [25, 25, 24]


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.5])
def test_an_impossible_delta_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        SuccessiveElimination(delta=delta, budget=100)


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(ValueError, match="budget"):
        SuccessiveElimination(delta=0.05, budget=-1)
