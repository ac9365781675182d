"""The guarantee in two legs (exact error, pinned stopping times) and the exact numbers of the specification."""

from itertools import product

import numpy as np
import pytest

from screening.labels import LABELS
from screening.stopping.operating_characteristics import SIMULATED, OperatingCharacteristics, operating_characteristics
from screening.stopping.rules import MajorityVote, PairwiseMixture, StoppingRule, SuccessiveElimination, run

SYMMETRIC = PairwiseMixture.symmetric(0.05)
NEAR_TIES = [(0.501, 0.499, 0), (0, 0.499, 0.501), (0.34, 0.33, 0.33), (0.33, 0.34, 0.33), (0.45, 0.1, 0.45)]


def enumerated(rule: StoppingRule, p: tuple[float, ...]) -> OperatingCharacteristics:
    """The same over all sequences of answers, each with its probability."""
    sequences = np.array(list(product(range(3), repeat=rule.budget)), dtype=np.uint8)
    chances = np.prod(np.array(p)[sequences], axis=1)
    label, ended, calls = run(rule, sequences)
    named = ended == 0
    return OperatingCharacteristics(
        probabilities=p,
        identified=tuple(float(chances[named & (label == arm)].sum()) for arm in range(3)),
        abstained=float(chances[~named].sum()),
        mean_calls=float((chances * calls).sum()),
    )


@pytest.mark.parametrize(
    ("rule", "p"),
    [
        (PairwiseMixture.symmetric(0.3, 10), (0.2, 0.7, 0.1)),
        (PairwiseMixture.symmetric(0.3, 10, stop_for_futility=False), (0.6, 0.1, 0.3)),
        (PairwiseMixture(budget=9), (0.9, 0.07, 0.03)),
        (PairwiseMixture(budget=3), (0.2, 0.7, 0.1)),
        (MajorityVote(n=4), (0.2, 0.5, 0.3)),
        (MajorityVote(n=5), (0.1, 0.3, 0.6)),
    ],
)
def test_the_programme_over_counts_says_what_all_sequences_say(rule: StoppingRule, p: tuple[float, ...]) -> None:
    expected, found = enumerated(rule, p), operating_characteristics(rule, p)
    assert found.probabilities == p and found.simulated is None
    assert found.identified == pytest.approx(expected.identified, rel=1e-9, abs=1e-60)
    assert (found.abstained, found.mean_calls) == pytest.approx((expected.abstained, expected.mean_calls))
    assert found.right == found.identified[p.index(max(p))]
    assert found.right + found.wrong == pytest.approx(1 - expected.abstained)


@pytest.mark.parametrize("rule", [PairwiseMixture(), SYMMETRIC, PairwiseMixture(default_error=0.3)])
@pytest.mark.parametrize("p", [*NEAR_TIES, (0.499, 0.501, 0), (0.3, 0.4, 0.3)])
def test_each_pairs_own_error_level_holds(rule: PairwiseMixture, p: tuple[float, ...]) -> None:
    found = operating_characteristics(rule.model_copy(update={"budget": 150}), p)
    mode = max(range(3), key=p.__getitem__)
    for said in {0, 1, 2} - {mode}:
        assert found.identified[said] <= rule.level(LABELS[said], LABELS[mode])
    assert found.wrong > 0 and sum(found.identified) + found.abstained == pytest.approx(1)


@pytest.mark.slow
@pytest.mark.parametrize("p", NEAR_TIES[1:3])
def test_algorithm_one_drops_the_mode_with_probability_at_most_delta(p: tuple[float, ...]) -> None:
    found = operating_characteristics(SuccessiveElimination(delta=0.9, budget=150), p)
    assert found.wrong <= 0.9
    assert operating_characteristics(SuccessiveElimination(delta=0.05, budget=150), p).wrong <= 0.05


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
    """The specification's calls are those without a futility stop, which changes nothing else."""
    rule = PairwiseMixture.symmetric(0.05, stop_for_futility=False)
    found = operating_characteristics(rule, p)
    assert found.right == pytest.approx(right, abs=5e-5)
    assert found.wrong == pytest.approx(wrong, abs=5e-5)
    assert found.abstained == pytest.approx(abstains, abs=5e-4)
    assert found.mean_calls == pytest.approx(calls, abs=5e-3)
    stopped = operating_characteristics(SYMMETRIC, p)
    assert stopped.identified == pytest.approx(found.identified, abs=1e-12)
    assert stopped.mean_calls <= found.mean_calls + 1e-9


@pytest.mark.parametrize(("p", "budget", "exact"), [((0.95, 0.03, 0.02), 200, 87.921), ((0.8, 0.1, 0.1), 450, 169.858)])
def test_algorithm_one_is_simulated_with_the_mean_calls_of_exact_calculation(
    p: tuple[float, ...], budget: int, exact: float
) -> None:
    rule = SuccessiveElimination(budget=budget, stop_for_futility=False)
    found = operating_characteristics(rule, p)
    assert found.simulated == SIMULATED and found == operating_characteristics(rule, p)
    assert found.mean_calls == pytest.approx(exact, rel=0.02) and found.right > 0.999


def test_probabilities_must_be_a_distribution_over_the_labels() -> None:
    for p in [(0.5, 0.5), (0.5, 0.6, 0.0), (1.2, -0.2, 0.0)]:
        with pytest.raises(ValueError, match="adding up to 1"):
            operating_characteristics(MajorityVote(n=1), p)
