"""What label counts say: evidence of one label over another at every look, and limits of one label's probability.

A δ outside 0 < δ < 1 is a ValueError everywhere.
"""

from functools import lru_cache
from math import inf, log, sqrt

from screening.stopping import special

PRIOR = 0.25
"""Both parameters of the Beta prior, truncated to θ > ½, that the likelihood ratios are mixed over."""
JEFFREYS = 0.5
"""Both parameters of the Beta prior that the confidence sequence mixes over."""


Band = tuple[float, float]
"""The lower and the upper limit of a probability, both in [0, 1]."""


@lru_cache(maxsize=1 << 16)
def log_evidence(ahead: int, behind: int) -> float:
    """ln E(x, y) against "label a is not more likely than label b", a seen x times and b seen y times.

    ln B(x+α, y+α) + ln P[Beta(x+α, y+α) > ½] - ln B(α, α) + ln 2 + (x+y)·ln 2 with α = ¼. E is a nonnegative
    supermartingale if a is not more likely, so it ever reaches 1/η with probability at most η (Ville). After
    Jain et al., AISTATS 2022 (PPR-1v1), with the prior truncated to θ > ½. ValueError for negative counts.

    >>> from math import exp
    >>> round(exp(log_evidence(6, 0)), 3)
    40.126
    """
    if ahead < 0 or behind < 0:
        raise ValueError("counts must not be negative")
    a, b = ahead + PRIOR, behind + PRIOR
    constant = log(2) - float(special.betaln(PRIOR, PRIOR))
    upper_half = float(special.betainc(b, a, 0.5))
    if upper_half > 1e-280:
        return float(special.betaln(a, b)) + log(upper_half) + (ahead + behind) * log(2) + constant
    # So far behind the probability underflows. B(a, b)·P = ½ᵃ⁺ᵇ ₂F₁(a+b, 1; b+1; ½) / b does not.
    return log(_behind_series(a, b) / b) - 2 * PRIOR * log(2) + constant


def _behind_series(a: float, b: float) -> float:
    """₂F₁(a+b, 1; b+1; ½) for a much smaller than b, summed: its terms fall at least like a geometric series."""
    total, term, k = 0.0, 1.0, 0
    while term > 1e-17 * total:
        total += term
        term *= (a + b + k) / (b + 1 + k) / 2
        k += 1
    return total


@lru_cache(maxsize=1 << 16)
def least_count(behind: int, level: float) -> int:
    """Fewest draws of a label for E against a rival seen ``behind`` times to reach 1/level.

    E grows with every draw of the label and shrinks with every draw of the rival, so this number is the test.

    >>> least_count(0, 0.025), least_count(0, 0.001)
    (6, 11)
    """
    threshold = -log(level)
    low, step = behind, 1  # level with its rival a label has E ≤ 1, below any threshold
    while log_evidence(low + step, behind) < threshold:
        low, step = low + step, 2 * step
    high = low + step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if log_evidence(middle, behind) >= threshold else (middle, high)
    return high


@lru_cache(maxsize=1 << 16)
def confidence_sequence(successes: int, draws: int, delta: float) -> Band:
    """Limits of one label's probability that hold at every look together with probability 1-δ.

    All p at which the Beta-binomial mixture martingale B(x+½, n-x+½) / (B(½, ½)·pˣ·(1-p)ⁿ⁻ˣ) is below 1/δ
    (Robbins 1970; Howard, Ramdas et al. 2021, doi:10.1214/20-AOS1991). [0, 1] before the first draw. ValueError unless
    0 ≤ successes ≤ draws. Cached: a live view asks for the same few limits at every tick.

    >>> confidence_sequence(0, 0, 0.05)
    (0.0, 1.0)
    """
    require_probability(delta)
    if not 0 <= successes <= draws:
        raise ValueError("successes must lie between 0 and the number of draws")
    if draws == 0:
        return 0.0, 1.0
    low = 0.0 if successes == 0 else _crossing(successes, draws, delta, 0.0)
    high = 1.0 if successes == draws else _crossing(successes, draws, delta, 1.0)
    return low, high


def _crossing(successes: int, draws: int, delta: float, end: float) -> float:
    """Where, between the estimate and ``end``, the mixture martingale reaches 1/δ."""
    from scipy.optimize import brentq

    failures = draws - successes
    mixture = special.betaln(successes + JEFFREYS, failures + JEFFREYS) - special.betaln(JEFFREYS, JEFFREYS)

    def excess(p: float) -> float:
        return float(mixture - special.xlogy(successes, p) - special.xlog1py(failures, -p) + log(delta))

    # Next to 0 or 1 the logarithm is infinite; one step inside it is large, or the limit is the end itself.
    edge = 1e-300 if end == 0.0 else 1 - 1e-16
    return float(brentq(excess, edge, successes / draws)) if excess(edge) > 0 else end


def clopper_pearson(successes: float, draws: float, delta: float) -> Band:
    """Exact interval of a probability at one fixed number of draws (Clopper & Pearson 1934,
    doi:10.1093/biomet/26.4.404).

    [0, 1] without draws.

    >>> [round(limit, 4) for limit in clopper_pearson(0, 3, 0.05)]
    [0.0, 0.7076]
    """
    low = 0.0 if successes == 0 else special.betaincinv(successes, draws - successes + 1, delta / 2)
    high = 1.0 if successes == draws else special.betaincinv(successes + 1, draws - successes, 1 - delta / 2)
    return float(low), float(high)


def algorithm_one_radius(pulls: int, delta: float, arms: int = 3) -> float:
    """Half width w = √(ln(4·K·T²/δ) / (2T)) after T pulls of one arm (paper, Algorithm 1 line 6).

    Valid at every T and for all K arms together: two-sided Hoeffding at δ/(2KT²), and Σ 1/T² < 2.
    Infinite before the first pull.

    >>> round(2 * algorithm_one_radius(25, 0.05), 3)  # the gap that B = 75 can decide
    0.976
    """
    require_probability(delta)
    return sqrt(log(4 * arms * pulls**2 / delta) / (2 * pulls)) if pulls else inf


def require_probability(delta: float) -> None:
    """ValueError unless it lies strictly between 0 and 1."""
    if not 0 < delta < 1:
        raise ValueError("delta must lie strictly between 0 and 1")
