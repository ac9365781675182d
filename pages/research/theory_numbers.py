"""What the theory page shows, computed: radii, sample sizes, decidable gaps, and the paper's claims beside the code."""

from collections.abc import Sequence

from jobs.computing import tell
from pages.research.figures import Series
from pages.ui.words import WORDS
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
    """Half widths of what is known of one label's probability, by responses; the confidence sequence, of three labels
    together, depends on the answers too: here four in five are the label's.
    """
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
    n_star, proven = theory.fixed_sample_size(0.5, delta), certified_rule(delta, 100)
    radius = evidence.algorithm_one_radius(round(n_star), delta)
    unanimous = minimum_budget(SuccessiveElimination(delta=delta))
    figures = {
        "delta": delta,
        "epsilon": theory.dkw_radius(100, delta),
        "two_epsilon": 2 * theory.dkw_radius(100, delta),
        "n_star": n_star,
        "radius": radius,
        "margin": 2 * radius,
        "constant": theory.expected_wrong_commits(theory.Schedule.CONSTANT, delta, 1000),
        "harmonic": theory.expected_wrong_commits(theory.Schedule.HARMONIC, delta, 1000),
        "unanimous": unanimous,
        "pulls": unanimous // 3,
        "pooled": minimum_budget(PairwiseMixture.symmetric(delta)),
        "fewer": "" if proven is None else f", {minimum_budget(proven)} with a certificate for 100 calls",
    }
    return tuple((said, WORDS["shown_claim"][name].format(**figures)) for name, said in WORDS["paper_claim"].items())
