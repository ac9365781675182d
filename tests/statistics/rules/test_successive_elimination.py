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
    assert (state.active[state.pulled], state.observe(UNSAFE).successes) == (1, (1, 2, 0))


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


@pytest.mark.parametrize(("budget", "wave"), [(104, 69), (105, 73)])
def test_a_wave_goes_to_the_earliest_decision_once_the_budget_pays_all_arms_until_then(budget: int, wave: int) -> None:
    # As above, 73 draws decide at the earliest. With 74 left a round of three could end with two calls left, which
    # do not pay another; with 75 left every round that ends before the 73rd draw is followed by another.
    rule = SuccessiveElimination(delta=0.001, budget=budget, curtail=False)
    assert followed(rule, [SAFE, SAFE, ESCALATE, *[SAFE] * 27]).next_wave() == wave


@pytest.mark.parametrize("calls", range(48))
def test_a_wave_from_within_a_round_ends_with_the_last_round_that_is_paid(calls: int) -> None:
    # B = 50 pays 16 rounds of three, too few to drop anything.
    rule = SuccessiveElimination(delta=0.05, budget=50, curtail=False)
    assert followed(rule, [SAFE] * calls).next_wave() == 48 - calls


def test_two_arms_are_told_apart_by_the_draws_of_two() -> None:
    # `escalate` is dropped after 24 rounds with the other two level: from there the leader wins every round and its
    # rival none, until the lead exceeds 2·T·w.
    state = followed(SuccessiveElimination(delta=0.05, budget=400), [SAFE, UNSAFE, SAFE] * 24)
    assert state.active == (0, 1)
    rounds = next(t for t in range(25, 200) if t - 24 > 2 * t * sqrt(log(12 * t * t / 0.05) / (2 * t)))
    assert state.draws_to_identify() == state.draws_to_earliest_decision() == state.next_wave() == 2 * (rounds - 24)
    end = state
    for _pull in range(2 * (rounds - 24)):
        assert end.verdict() is None
        end = end.observe(SAFE)
    verdict = end.verdict()
    assert verdict is not None and (verdict.label, verdict.ended) == (SAFE, Ended.IDENTIFIED)
    assert end.draws_to_identify() == end.draws_to_earliest_decision() == end.next_wave() == 0


@pytest.mark.parametrize(("budget", "calls"), [(72, 72), (50, 48)], ids=["identified", "exhausted"])
def test_no_answer_is_taken_after_the_end(budget: int, calls: int) -> None:
    rule = SuccessiveElimination(delta=0.05, budget=budget, curtail=False)
    ended = followed(rule, [SAFE] * calls)
    assert ended.verdict() is not None and ended.draws_to_earliest_decision() == 0
    with pytest.raises(ValueError, match="stopped"):
        ended.observe(SAFE)


def test_answers_of_a_wave_that_was_paid_are_taken_after_it_became_hopeless() -> None:
    hopeless = followed(SuccessiveElimination(delta=0.05, budget=75), [ESCALATE, SAFE, SAFE])
    assert hopeless.verdict() is not None and hopeless.draws_to_earliest_decision() == 0
    assert hopeless.observe(SAFE).calls == 4


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
    assert tuple(arm.label for arm in start.arms()) == LABELS
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


def _leads(state: EliminationState) -> list[tuple[object, ...]]:
    assert {each.scale for each in state.comparisons()} == {"pulls"}
    return [(each.rival, each.leader, each.value, each.needed, each.excluded) for each in state.comparisons()]


def test_the_best_arms_lead_is_compared_with_the_one_that_drops_a_rival_at_this_rounds_end() -> None:
    rule = SuccessiveElimination(delta=0.05, budget=300)
    needed = [int(2 * t * sqrt(log(12 * t * t / 0.05) / (2 * t))) + 1 for t in range(1, 30)]  # more than 2·T·w
    assert _leads(rule.start()) == [(UNSAFE, SAFE, 0, needed[0], False), (ESCALATE, SAFE, 0, needed[0], False)]
    second = followed(rule, [UNSAFE, UNSAFE, UNSAFE, SAFE])  # its first pull of the second round: `safe` has 1 as well
    assert _leads(second) == [(UNSAFE, SAFE, 0, needed[1], False), (ESCALATE, SAFE, 1, needed[1], False)]
    ahead = followed(rule, [UNSAFE, UNSAFE, UNSAFE, UNSAFE, UNSAFE])
    assert _leads(ahead) == [(SAFE, UNSAFE, 2, needed[1], False), (ESCALATE, UNSAFE, 2, needed[1], False)]


def test_a_dropped_arm_stays_at_the_lead_that_dropped_it() -> None:
    # `safe` never answers and goes after round 24; then `escalate` wins three rounds more and `unsafe` none.
    state = followed(SuccessiveElimination(delta=0.05, budget=300), [UNSAFE, UNSAFE, ESCALATE] * 24 + [ESCALATE] * 6)
    assert (state.active, state.pulls) == ((1, 2), (24, 27, 27))
    needed = int(2 * 27 * sqrt(log(12 * 27**2 / 0.05) / 54)) + 1
    assert _leads(state) == [(SAFE, None, 24, 24, True), (UNSAFE, ESCALATE, 3, needed, False)]


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, 1.5])
def test_an_impossible_delta_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="delta"):
        SuccessiveElimination(delta=delta, budget=100)


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(ValueError, match="budget"):
        SuccessiveElimination(delta=0.05, budget=-1)
