"""What the theory page shows, computed: radii, sample sizes, decidable gaps, and the paper's claims beside the code."""

from collections.abc import Sequence

from jobs.computing import tell
from pages.research.figures import Series
from screening.stopping import evidence, theory
from screening.stopping.certificates import CertifiedMixture
from screening.stopping.rules import (
    Contract,
    PairwiseMixture,
    SuccessiveElimination,
    minimum_budget,
    smallest_decidable_gap,
)

BUDGETS = (10, 50, 75, 100, 124, 150, 300)
CASES, RUNS = 1000, 10
LOOKS = (5, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)


def radius_series(delta: float) -> list[Series]:
    """Half widths against responses; of all arms, four in five draws being the label's."""
    bands = [evidence.confidence_sequence(round(0.8 * draws), draws, delta / 3) for draws in LOOKS]
    pooled = [(high - low) / 2 for low, high in bands]
    return [
        Series(name="DKW ε as the theorem states it", x=LOOKS, y=[theory.dkw_radius(n, delta) for n in LOOKS]),
        Series(name="2ε as its proof gives it", x=LOOKS, y=[2 * theory.dkw_radius(n, delta) for n in LOOKS]),
        Series(
            name="Algorithm 1, at any time (responses for one label)",
            x=LOOKS,
            y=[evidence.algorithm_one_radius(n, delta) for n in LOOKS],
        ),
        Series(name="Confidence sequence, at any time (all responses)", x=LOOKS, y=pooled),
    ]


def decidable_gaps(delta: float) -> dict[int, dict[str, float | None]]:
    """For each budget the smallest gap that each rule can decide, at symmetric δ; None where it can decide nothing, or
    has no certificate.

    >>> decidable_gaps(0.05)[50]["Pooled, Ville"]
    0.48
    """
    return {
        budget: {
            "Algorithm 1": smallest_decidable_gap(SuccessiveElimination(delta=delta, budget=budget)),
            "Pooled, Ville": smallest_decidable_gap(PairwiseMixture.symmetric(delta, budget)),
            "Pooled, certified": None
            if (one := certified_rule(delta, budget)) is None
            else smallest_decidable_gap(one),
        }
        for budget in BUDGETS
    }


def certified_rule(delta: float, budget: int) -> CertifiedMixture | None:
    """The rule at the calibrated level for this δ and budget; None without a certificate."""
    return CertifiedMixture.for_contract(Contract(any_wrong=delta), budget)


FEWEST, FIXED = "No rule can do with fewer", "n* × 3"


def calls_needed(
    probabilities: Sequence[float], delta: float, budget: int = 150
) -> dict[str, tuple[float | None, float | None]]:
    """Calls for one distribution of answers, at symmetric δ, and how often the mode is named: what any rule needs, what
    each takes, what n* would say. None where there is no certificate, or nothing is named.

    Means are exact (dynamic programming; Algorithm 1 is simulated) within ``budget`` calls; an abstention costs what it
    cost.
    """
    tell("Counting the calls of each rule")
    first, second = sorted(probabilities, reverse=True)[:2]
    found: dict[str, tuple[float | None, float | None]] = {
        FEWEST: (theory.information_bound(probabilities, delta), None)
    }
    for name, rule in {
        "Certified": certified_rule(delta, budget),
        "Ville": PairwiseMixture.symmetric(delta, budget),
        "Algorithm 1": SuccessiveElimination(delta=delta, budget=budget),
    }.items():
        made = None if rule is None else theory.operating_characteristics(rule, probabilities)
        found[f"{name}, mean calls"] = (None, None) if made is None else (made.mean_calls, made.right)
    return found | {FIXED: (3 * theory.fixed_sample_size(first - second, delta), None)}


def simulated_regret(delta: float, budget: int) -> tuple[theory.RegretCurve, ...]:
    """Wrong decisions over `CASES` cases, the mean of `RUNS` runs, at this δ and budget of a node."""
    tell(f"Simulating {CASES:,} cases {RUNS} times")
    return theory.simulate_regret(seed=0, cases=CASES, runs=RUNS, delta=delta, budget=budget)


def claims(delta: float = 0.05) -> tuple[tuple[str, str], ...]:
    """The paper's claims that a reader should not repeat as they stand, each with what follows from the code."""
    n_star = theory.fixed_sample_size(0.5, delta)
    unanimous = minimum_budget(SuccessiveElimination(delta=delta))
    ours = minimum_budget(PairwiseMixture.symmetric(delta))
    proven = certified_rule(delta, 100)
    fewer = "" if proven is None else f", {minimum_budget(proven)} with a certificate for 100 calls"
    constant = theory.expected_wrong_commits(theory.Schedule.CONSTANT, delta, 1000)
    harmonic = theory.expected_wrong_commits(theory.Schedule.HARMONIC, delta, 1000)
    return (
        (
            "Every label's estimate is within ε_n(δ) = √(ln(2/δ)/2n) (appendix A, theorem).",
            "The proof takes a probability as a difference of two values of the distribution function and gives "
            f"2ε: {2 * theory.dkw_radius(100, delta):.3f} instead of {theory.dkw_radius(100, delta):.3f} at n = 100.",
        ),
        (
            "n* = 2 ln(2/δ)/Δ² samples per arm suffice (appendix A, corollary).",
            "That is the size of one sample fixed in advance, and rests on ε. Algorithm 1 tests after every "
            f"round and needs more: at Δ = 0.5 n* is {n_star:.1f} per arm, the radius at that many pulls is "
            f"{evidence.algorithm_one_radius(round(n_star), delta):.2f} and cannot tell a margin below "
            f"{2 * evidence.algorithm_one_radius(round(n_star), delta):.2f} apart.",
        ),
        (
            "Regret grows as O(log T) (appendix C).",
            f"Only with δ falling from case to case. A constant δ bounds the wrong commits of 1,000 cases by "
            f"{constant:.0f}, in proportion to T; δ/t by {harmonic:.2f}. The proof sets δ = 1/T, which Algorithm 1 as "
            "run does not.",
        ),
        (
            "B = 10 and B = 50 escalate every input; B = 75 is the first budget with classifications.",
            f"No answers could have decided: a unanimous model needs {unanimous} calls at δ = {delta:g}. "
            f"Pooling the responses needs {ours} by Ville's bound{fewer}.",
        ),
        (
            "80 to 90 pulls per arm are needed for reliable elimination (section 5.1).",
            f"Unanimous answers end Algorithm 1 after {unanimous // 3} pulls per arm, {unanimous} calls in all; "
            "80 to 90 are the calls per input that the paper's own figure shows.",
        ),
        (
            "The guarantee is 1 − δ.",
            "For naming the model's own most frequent answer, at each agent. Whether it is right is measured against "
            "clinicians, on the Reliability page.",
        ),
    )
