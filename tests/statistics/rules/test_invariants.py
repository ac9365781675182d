"""What holds of every rule, whatever the answers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from screening.labels import LABELS, Label
from screening.statistics.rules.majority_vote import MajorityVote
from screening.statistics.rules.pairwise_mixture import ErrorLevels, PairwiseMixture
from screening.statistics.rules.protocol import Ended, RuleState, StoppingRule
from screening.statistics.rules.successive_elimination import SuccessiveElimination

deltas = st.sampled_from([0.001, 0.05, 0.3, 0.9])
budgets = st.integers(0, 120)
rules = st.one_of(
    st.builds(SuccessiveElimination, delta=deltas, budget=budgets, curtail=st.booleans()),
    st.builds(
        PairwiseMixture,
        budget=budgets,
        errors=st.one_of(st.just(ErrorLevels()), st.builds(ErrorLevels.symmetric, deltas)),
        curtail=st.booleans(),
    ),
    st.builds(MajorityVote, n=st.integers(1, 9)),
)
# Answers that mostly agree, so that rules get somewhere, and now and then do not.
answers = st.tuples(st.randoms(use_true_random=False), st.sampled_from([(9, 1, 0), (1, 6, 1), (1, 1, 1), (0, 0, 1)]))


def run(rule: StoppingRule, drawn: list[Label]) -> tuple[RuleState, list[RuleState]]:
    state, passed = rule.start(), []
    while state.verdict() is None:
        passed.append(state)
        state = state.observe(drawn[state.calls])
    return state, passed


@given(rule=rules, answers=answers)
@settings(max_examples=80, deadline=None)
def test_calls_stay_within_the_budget_and_no_verdict_comes_before_the_earliest_decision(rule, answers) -> None:
    random, weights = answers
    drawn = random.choices(LABELS, weights, k=rule.budget)
    end, passed = run(rule, drawn)
    verdict = end.verdict()
    assert verdict.calls == end.calls == len(passed) <= rule.budget
    assert end.draws_to_earliest_decision() == end.next_wave() == 0
    for state in passed:
        assert state.next_wave() >= 1
        assert state.calls + state.next_wave() <= rule.budget
        if verdict.ended is not Ended.CURTAILED:
            assert state.calls + state.next_wave() <= verdict.calls
        if verdict.ended is Ended.IDENTIFIED:
            assert state.calls + state.draws_to_earliest_decision() <= verdict.calls


@given(rule=rules, answers=answers)
@settings(max_examples=30, deadline=None)
def test_a_verdict_stands_whatever_comes_after(rule, answers) -> None:
    random, weights = answers
    drawn = random.choices(LABELS, weights, k=rule.budget)
    end, _passed = run(rule, drawn)
    while (verdict := end.verdict()).ended is Ended.CURTAILED:  # may be fed on, to the end of its wave
        assert verdict.label is None
        if end.calls == rule.budget:
            break
        end = end.observe(drawn[end.calls])
    else:
        assert (verdict.label is None) <= (verdict.ended is Ended.EXHAUSTED)
        with pytest.raises(ValueError, match="stopped"):
            end.observe(Label.SAFE)


@given(rule=rules, answers=answers)
@settings(max_examples=40, deadline=None)
def test_waves_fed_to_their_end_name_the_same_label(rule, answers) -> None:
    random, weights = answers
    drawn = random.choices(LABELS, weights, k=rule.budget)
    state = rule.start()
    while state.verdict() is None:
        for label in drawn[state.calls : state.calls + state.next_wave()]:
            state = state.observe(label)
    plain = run(rule, drawn)[0].verdict()
    assert state.verdict().label == plain.label
    assert plain.calls <= state.calls <= rule.budget
    assert plain.ended is Ended.CURTAILED or state.verdict() == plain


@given(answers=answers, delta=deltas, order=st.permutations(LABELS))
@settings(max_examples=40, deadline=None)
def test_with_symmetric_errors_the_names_of_the_labels_do_not_matter(answers, delta, order) -> None:
    random, weights = answers
    renamed = dict(zip(LABELS, order, strict=True))
    rule = PairwiseMixture(budget=80, errors=ErrorLevels.symmetric(delta))
    drawn = random.choices(LABELS, weights, k=80)
    plain = run(rule, drawn)[0].verdict()
    other = run(rule, [renamed[label] for label in drawn])[0].verdict()
    assert (other.ended, other.calls) == (plain.ended, plain.calls)
    assert other.label == (None if plain.label is None else renamed[plain.label])


@given(rule=rules, answers=answers)
@settings(max_examples=40, deadline=None)
def test_curtailment_changes_the_calls_of_abstentions_only(rule, answers) -> None:
    if isinstance(rule, MajorityVote):
        return
    random, weights = answers
    drawn = random.choices(LABELS, weights, k=rule.budget)
    settings_but_curtail = {name: getattr(rule, name) for name in type(rule).__slots__ if name != "curtail"}
    hasty = run(type(rule)(**settings_but_curtail, curtail=True), drawn)[0].verdict()
    patient = run(type(rule)(**settings_but_curtail, curtail=False), drawn)[0].verdict()
    assert hasty.label == patient.label
    assert hasty.calls <= patient.calls
    if patient.ended is Ended.IDENTIFIED:
        assert hasty == patient


@given(rule=rules, answers=answers)
@settings(max_examples=40, deadline=None)
def test_bands_contain_the_estimate(rule, answers) -> None:
    random, weights = answers
    end, _passed = run(rule, random.choices(LABELS, weights, k=rule.budget))
    assert [arm.label for arm in end.arms()] == list(LABELS)
    for arm in end.arms():
        assert 0 <= arm.low <= (arm.low if arm.estimate is None else arm.estimate) <= arm.high <= 1
