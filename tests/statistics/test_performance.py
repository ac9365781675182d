"""The guarantee in two legs (exact error, pinned stopping times) and the exact numbers of the specification."""

import pytest

from screening.labels import LABELS
from screening.statistics.performance import Performance, exact_performance
from screening.statistics.rules.majority_vote import MajorityVote
from screening.statistics.rules.pairwise_mixture import ErrorLevels, PairwiseMixture
from screening.statistics.rules.protocol import RuleState, StoppingRule
from screening.statistics.rules.successive_elimination import SuccessiveElimination

SYMMETRIC = ErrorLevels.symmetric(0.05)
NEAR_TIES = [(0.501, 0.499, 0), (0, 0.499, 0.501), (0.34, 0.33, 0.33), (0.33, 0.34, 0.33), (0.45, 0.1, 0.45)]


def enumerated(rule: StoppingRule, p: tuple[float, ...]) -> Performance:
    """The same by following every state of the rule's own state machine: slow, and nothing to get wrong."""
    live: dict[RuleState, float] = {rule.start(): 1.0}
    named, abstained, calls = [0.0] * len(LABELS), 0.0, 0.0
    while live:
        after: dict[RuleState, float] = {}
        for state, mass in live.items():
            if (verdict := state.verdict()) is None:
                for label, probability in zip(LABELS, p, strict=True):
                    following = state.observe(label)
                    after[following] = after.get(following, 0.0) + mass * probability
                continue
            calls += mass * verdict.calls
            if verdict.ended == "identified":
                named[LABELS.index(verdict.label)] += mass
            else:
                abstained += mass
        live = after
    return Performance(probabilities=p, identified=tuple(named), abstained=abstained, mean_calls=calls)


@pytest.mark.slow
@pytest.mark.parametrize(
    "rule",
    [
        PairwiseMixture(budget=20),
        PairwiseMixture(budget=20, curtail=False),
        PairwiseMixture(budget=17, errors=ErrorLevels.symmetric(0.3)),
        PairwiseMixture(budget=0),
        SuccessiveElimination(delta=0.9, budget=56),
        SuccessiveElimination(delta=0.9, budget=64),
        SuccessiveElimination(delta=0.9, budget=54, curtail=False),
        SuccessiveElimination(delta=0.05, budget=85),
        SuccessiveElimination(delta=0.05, budget=2),
        MajorityVote(n=5),
    ],
)
@pytest.mark.parametrize("p", [(0.9, 0.07, 0.03), (0.1, 0.3, 0.6)])
def test_the_arrays_say_what_the_state_machine_does(rule: StoppingRule, p: tuple[float, ...]) -> None:
    expected, found = enumerated(rule, p), exact_performance(rule, p)
    assert found.identified == pytest.approx(expected.identified, abs=1e-12)
    assert found.abstained == pytest.approx(expected.abstained, abs=1e-12)
    assert found.mean_calls == pytest.approx(expected.mean_calls, abs=1e-9)


@pytest.mark.parametrize(
    ("rule", "p"),
    [
        (PairwiseMixture(budget=12, errors=ErrorLevels.symmetric(0.3)), (0.2, 0.7, 0.1)),
        (PairwiseMixture(budget=12, errors=ErrorLevels.symmetric(0.3), curtail=False), (0.6, 0.1, 0.3)),
        (PairwiseMixture(budget=0), (0.2, 0.7, 0.1)),
        (SuccessiveElimination(delta=0.99, budget=64), (0.07, 0.9, 0.03)),  # a third arm stays for some rounds
        (SuccessiveElimination(delta=0.99, budget=66), (0.03, 0.07, 0.9)),
        (SuccessiveElimination(delta=0.99, budget=62), (0.9, 0.03, 0.07)),
        (SuccessiveElimination(delta=0.05, budget=2), (0.9, 0.07, 0.03)),
        (MajorityVote(n=4), (0.2, 0.5, 0.3)),
    ],
)
def test_small_budgets_end_as_the_state_machine_ends(rule: StoppingRule, p: tuple[float, ...]) -> None:
    expected, found = enumerated(rule, p), exact_performance(rule, p)
    assert found.probabilities == p
    assert found.identified == pytest.approx(expected.identified, rel=1e-9, abs=1e-60)
    assert (found.abstained, found.mean_calls) == pytest.approx((expected.abstained, expected.mean_calls))
    assert found.right == found.identified[p.index(max(p))]
    assert found.right + found.wrong == pytest.approx(1 - expected.abstained)


def test_without_curtailment_the_budget_ends_runs_of_three_and_of_two_arms() -> None:
    rule, p = SuccessiveElimination(delta=0.999999, budget=53, curtail=False), (0.97, 0.03, 0.0)
    expected, found = enumerated(rule, p), exact_performance(rule, p)
    assert found.identified == pytest.approx(expected.identified, abs=1e-12) and found.identified[0] > 0.2
    assert (found.abstained, found.mean_calls) == pytest.approx((expected.abstained, expected.mean_calls))


@pytest.mark.parametrize("p", NEAR_TIES)
@pytest.mark.parametrize("delta", [0.05, 0.2])
def test_pairwise_names_a_label_that_is_not_the_mode_with_probability_at_most_delta(
    p: tuple[float, ...], delta: float
) -> None:
    found = exact_performance(PairwiseMixture(budget=200, errors=ErrorLevels.symmetric(delta)), p)
    assert 0 < found.wrong <= delta
    assert sum(found.identified) + found.abstained == pytest.approx(1)


@pytest.mark.parametrize("errors", [ErrorLevels(), SYMMETRIC, ErrorLevels(default=0.3)])
@pytest.mark.parametrize("p", [*NEAR_TIES, (0.499, 0.501, 0), (0.3, 0.4, 0.3)])
def test_each_pairs_own_error_level_holds(errors: ErrorLevels, p: tuple[float, ...]) -> None:
    found = exact_performance(PairwiseMixture(budget=150, errors=errors), p)
    mode = max(range(3), key=p.__getitem__)
    for said in {0, 1, 2} - {mode}:
        assert found.identified[said] <= errors.level(LABELS[said], LABELS[mode])


@pytest.mark.slow
@pytest.mark.parametrize("p", NEAR_TIES)
def test_algorithm_one_drops_the_mode_with_probability_at_most_delta(p: tuple[float, ...]) -> None:
    found = exact_performance(SuccessiveElimination(delta=0.9, budget=150), p)
    assert 0 < found.wrong <= 0.9
    assert exact_performance(SuccessiveElimination(delta=0.05, budget=150), p).wrong <= 0.05


@pytest.mark.parametrize(
    ("p", "right", "wrong", "abstains", "calls"),
    [
        ((0.9, 0.05, 0.05), 1.0, 0.0, 0.0, 10.28),
        ((0.8, 0.1, 0.1), 1.0, 0.0, 0.0, 17.15),
        ((0.6, 0.2, 0.2), 0.8775, 1.2e-4, 0.1224, 57.82),
        ((0.501, 0.499, 0), 0.0215, 0.0207, 0.958, 96.30),
    ],
)
def test_pairwise_with_a_budget_of_100(
    p: tuple[float, ...], right: float, wrong: float, abstains: float, calls: float
) -> None:
    """The specification's calls are those without curtailment, which changes nothing else."""
    rule = PairwiseMixture(budget=100, errors=SYMMETRIC, curtail=False)
    found = exact_performance(rule, p)
    assert found.right == pytest.approx(right, abs=5e-5)
    assert found.wrong == pytest.approx(wrong, abs=5e-5)
    assert found.abstained == pytest.approx(abstains, abs=5e-4)
    assert found.mean_calls == pytest.approx(calls, abs=5e-3)
    curtailed = exact_performance(PairwiseMixture(budget=100, errors=SYMMETRIC), p)
    assert curtailed.identified == pytest.approx(found.identified, abs=1e-12)
    assert curtailed.mean_calls <= found.mean_calls + 1e-9


def test_the_asymmetric_default_pays_for_safe_and_holds_its_level_at_a_tie() -> None:
    clear = exact_performance(PairwiseMixture(budget=200), (0.9, 0.05, 0.05))
    assert clear.mean_calls == pytest.approx(16.76, abs=5e-3)
    tie = exact_performance(PairwiseMixture(budget=100), (0.5, 0.5, 0))
    assert tie.identified[0] == pytest.approx(0.0007, abs=5e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "budget", "about", "exact"),
    [
        ((0.95, 0.03, 0.02), 100, 8.0, 7.942),
        ((0.9, 0.05, 0.05), 150, 10.4, 10.276),
        ((0.8, 0.1, 0.1), 200, 17.1, 17.153),
        ((0.75, 0.25, 0), 400, 36.7, 35.820),
        ((0.6, 0.2, 0.2), 500, 60.3, 60.670),
    ],
)
def test_pairwise_mean_calls_without_a_budget(p: tuple[float, ...], budget: int, about: float, exact: float) -> None:
    """The budget is large enough to be never felt; ``about`` is the specification's simulated value."""
    found = exact_performance(PairwiseMixture(budget=budget, errors=SYMMETRIC, curtail=False), p)
    assert found.abstained < 1e-7
    assert found.mean_calls == pytest.approx(exact, abs=2e-3)
    assert found.mean_calls == pytest.approx(about, rel=0.03)


@pytest.mark.slow
def test_pairwise_mean_calls_at_the_hardest_of_the_specifications_inputs() -> None:
    # A budget of 500 is felt now and then, so the mean is a little below the limit of 163.51.
    found = exact_performance(PairwiseMixture(budget=500, errors=SYMMETRIC, curtail=False), (0.5, 0.25, 0.25))
    assert found.abstained < 2e-3
    assert found.mean_calls == pytest.approx(163.5, abs=0.1)
    assert found.mean_calls == pytest.approx(168, rel=0.03)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "budget", "about", "exact"),
    [
        ((0.95, 0.03, 0.02), 200, 88, 87.921),
        ((0.9, 0.05, 0.05), 300, 108, 107.947),
        ((0.8, 0.1, 0.1), 450, 166, 169.858),
    ],
)
def test_algorithm_ones_mean_calls_without_a_budget(
    p: tuple[float, ...], budget: int, about: float, exact: float
) -> None:
    found = exact_performance(SuccessiveElimination(delta=0.05, budget=budget, curtail=False), p)
    assert found.abstained < 1e-8
    assert found.mean_calls == pytest.approx(exact, abs=2e-3)
    assert found.mean_calls == pytest.approx(about, rel=0.03)


def test_probabilities_must_be_a_distribution_over_the_labels() -> None:
    for p in [(0.5, 0.5), (0.5, 0.6, 0.0), (1.2, -0.2, 0.0)]:
        with pytest.raises(ValueError, match="adding up to 1"):
            exact_performance(MajorityVote(n=1), p)


def test_an_unknown_rule_has_no_exact_performance() -> None:
    with pytest.raises(TypeError, match="int"):
        exact_performance(3, (1, 0, 0))


@pytest.mark.parametrize(("budget", "identified", "calls"), [(71, 0.0, 0), (72, 1.0, 72), (73, 1.0, 72)])
def test_a_budget_that_just_suffices_is_not_given_up(budget: int, identified: float, calls: float) -> None:
    found = exact_performance(SuccessiveElimination(delta=0.05, budget=budget), (1.0, 0.0, 0.0))
    assert (found.identified[0], found.abstained, found.mean_calls) == (identified, 1 - identified, calls)
