"""What the theory page shows, computed: radii, sample sizes, decidable gaps, and the paper's claims beside the code."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, isfinite

from jobs.computing import tell
from pages.research.figures import Series
from screening.stopping.certificates import CertifiedMixture
from screening.stopping.evidence import algorithm_one_radius, confidence_sequence
from screening.stopping.operating_characteristics import operating_characteristics
from screening.stopping.rules import (
    Contract,
    PairwiseMixture,
    SuccessiveElimination,
    minimum_budget,
    smallest_decidable_gap,
)
from screening.stopping.theory import (
    RegretCurve,
    Schedule,
    dkw_label_radius,
    dkw_radius,
    expected_wrong_commits,
    fixed_sample_size,
    information_bound,
    logarithmic_bound,
    simulate_regret,
)

BUDGETS = (10, 50, 75, 100, 124, 150, 300)
"""The paper's budgets, and one beyond them."""

CASES, RUNS = 1000, 10
"""Simulated cases, and how often they are simulated."""

LOOKS = (5, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Numbers of draws at which radii are shown."""


def radius_series(delta: float) -> tuple[Series, ...]:
    """Half widths against draws: at one n (ε, 2ε), and at every look (Algorithm 1 per arm, ours for all arms, four in
    five draws being the label's).
    """
    pooled = [_half_width(round(0.8 * draws), draws, delta) for draws in LOOKS]
    return (
        Series(name="DKW ε as the theorem states it", x=LOOKS, y=[dkw_radius(n, delta) for n in LOOKS]),
        Series(name="2ε as its proof gives it", x=LOOKS, y=[dkw_label_radius(n, delta) for n in LOOKS]),
        Series(
            name="Algorithm 1, every look (pulls of one arm)",
            x=LOOKS,
            y=[algorithm_one_radius(n, delta) for n in LOOKS],
        ),
        Series(name="Confidence sequence, every look (all draws)", x=LOOKS, y=pooled),
    )


def _half_width(successes: int, draws: int, delta: float) -> float:
    band = confidence_sequence(successes, draws, delta / 3)
    return (band.high - band.low) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class DecidableGap:
    """The smallest gap each rule can decide with a budget; None where it can decide nothing or has no certificate."""

    budget: int
    algorithm_one: float | None
    pairwise: float | None
    certified: float | None


def decidable_gaps(delta: float, budgets: Sequence[int] = BUDGETS) -> tuple[DecidableGap, ...]:
    """The table for these budgets, at symmetric δ.

    >>> [(each.budget, each.pairwise) for each in decidable_gaps(0.05, (50,))]
    [(50, 0.48)]
    """
    return tuple(_gap(budget, delta) for budget in budgets)


def _gap(budget: int, delta: float) -> DecidableGap:
    proven = certified_rule(delta, budget)
    return DecidableGap(
        budget=budget,
        algorithm_one=smallest_decidable_gap(SuccessiveElimination(delta=delta, budget=budget)),
        pairwise=smallest_decidable_gap(PairwiseMixture.symmetric(delta, budget)),
        certified=None if proven is None else smallest_decidable_gap(proven),
    )


def certified_rule(delta: float, budget: int) -> CertifiedMixture | None:
    """The rule at the calibrated level for this δ and budget; None without a certificate."""
    return CertifiedMixture.for_contract(Contract(any_wrong=delta), budget)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsNeeded:
    """Calls for one distribution of answers: what any rule needs, what each takes, what n* would say (per arm).

    Means are exact (dynamic programming; Algorithm 1 is simulated) within ``budget`` calls; an abstention costs what it
    cost.
    """

    gap: float
    information: float
    pairwise_calls: float
    pairwise_right: float
    certified_calls: float | None
    certified_right: float | None
    algorithm_one_calls: float
    algorithm_one_right: float
    n_star: float
    budget: int


def calls_needed(probabilities: Sequence[float], delta: float, budget: int = 150) -> CallsNeeded:
    """The comparison at these label probabilities, at symmetric δ."""
    tell("Counting the calls of each rule")
    first, second = sorted(probabilities, reverse=True)[:2]
    ours = operating_characteristics(PairwiseMixture.symmetric(delta, budget), probabilities)
    proven = certified_rule(delta, budget)
    certified = None if proven is None else operating_characteristics(proven, probabilities)
    paper = operating_characteristics(SuccessiveElimination(delta=delta, budget=budget), probabilities)
    return CallsNeeded(
        gap=first - second,
        information=information_bound(probabilities, delta),
        pairwise_calls=ours.mean_calls,
        pairwise_right=ours.right,
        certified_calls=None if certified is None else certified.mean_calls,
        certified_right=None if certified is None else certified.right,
        algorithm_one_calls=paper.mean_calls,
        algorithm_one_right=paper.right,
        n_star=fixed_sample_size(first - second, delta),
        budget=budget,
    )


def number_words(value: float | None, digits: int = 1) -> str:
    """The number, "none" for None, "no number suffices" for infinity."""
    if value is None:
        return "none"
    return f"{value:,.{digits}f}" if isfinite(value) and value < inf else "no number suffices"


def simulated_regret(delta: float, budget: int) -> tuple[RegretCurve, ...]:
    """Wrong decisions over `CASES` cases, the mean of `RUNS` runs, at this δ and budget of a node."""
    tell(f"Simulating {CASES:,} cases {RUNS} times")
    return simulate_regret(seed=0, cases=CASES, runs=RUNS, delta=delta, budget=budget)


def regret_series(curves: Sequence[RegretCurve]) -> tuple[Series, ...]:
    """Mean wrong decisions against cases."""
    return tuple(
        Series(name=curve.name, x=list(range(1, len(curve.wrong) + 1)), y=[float(value) for value in curve.wrong])
        for curve in curves
    )


def bound_series(delta: float, cases: int) -> tuple[Series, ...]:
    """Σ δ_t under each schedule, and the logarithm that δ/t stays below."""
    grid = sorted({round(cases ** (step / 40)) for step in range(41)})
    lines = [
        Series(
            name=f"Σ δ_t, {schedule} δ",
            x=grid,
            y=[expected_wrong_commits(schedule, delta, t) for t in grid],
        )
        for schedule in Schedule
    ]
    return (*lines, Series(name="δ(1 + ln T)", x=grid, y=[logarithmic_bound(delta, t) for t in grid]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim of the paper beside what follows from the code, with the number that shows it."""

    paper: str
    shown: str


def claims(delta: float = 0.05) -> tuple[Claim, ...]:
    """The paper's claims that a reader should not repeat as they stand, each with its arithmetic."""
    n_star = fixed_sample_size(0.5, delta)
    unanimous = minimum_budget(SuccessiveElimination(delta=delta))
    ours = minimum_budget(PairwiseMixture.symmetric(delta))
    proven = certified_rule(delta, 100)
    fewer = "" if proven is None else f", {minimum_budget(proven)} with a certificate for 100 calls"
    constant = expected_wrong_commits(Schedule.CONSTANT, delta, 1000)
    harmonic = expected_wrong_commits(Schedule.HARMONIC, delta, 1000)
    return (
        Claim(
            paper="Every label's estimate is within ε_n(δ) = √(ln(2/δ)/2n) (appendix A, theorem).",
            shown="The proof takes a probability as a difference of two values of the distribution function and gives "
            f"2ε: {dkw_label_radius(100, delta):.3f} instead of {dkw_radius(100, delta):.3f} at n = 100.",
        ),
        Claim(
            paper="n* = 2 ln(2/δ)/Δ² samples per arm suffice (appendix A, corollary).",
            shown="That is the size of one sample fixed in advance, and rests on ε. Algorithm 1 looks after every "
            f"round and needs more: at Δ = 0.5 n* is {n_star:.1f} per arm, the radius at that many pulls is "
            f"{algorithm_one_radius(round(n_star), delta):.2f} and cannot tell a gap below "
            f"{2 * algorithm_one_radius(round(n_star), delta):.2f} apart.",
        ),
        Claim(
            paper="Regret grows as O(log T) (appendix C).",
            shown=f"Only with δ falling from case to case. A constant δ bounds the wrong commits of 1,000 cases by "
            f"{constant:.0f}, in proportion to T; δ/t by {harmonic:.2f}. The proof sets δ = 1/T, which Algorithm 1 as "
            "run does not.",
        ),
        Claim(
            paper="B = 10 and B = 50 escalate every input; B = 75 is the first budget with classifications.",
            shown=f"No answers could have decided: a unanimous model needs {unanimous} calls at δ = {delta:g}. "
            f"Pooling the draws needs {ours} by Ville's bound{fewer}.",
        ),
        Claim(
            paper="80 to 90 pulls per arm are needed for reliable elimination (section 5.1).",
            shown=f"Unanimous answers end Algorithm 1 after {unanimous // 3} pulls per arm, {unanimous} calls in all; "
            "80 to 90 are the calls per input that the paper's own figure shows.",
        ),
        Claim(
            paper="The guarantee is 1 − δ.",
            shown="For naming the model's own mode, at each node. Whether the mode is right is measured against "
            "clinicians, on the Reliability page.",
        ),
    )
