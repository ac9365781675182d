"""How strongly two counts speak for one label being more likely than the other, valid at every look."""

from functools import lru_cache
from math import log

from screening.statistics import special

ALPHA = 0.25
"""Both parameters of the Beta prior, truncated to θ > ½, that the likelihood ratios are mixed over."""


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
    a, b = ahead + ALPHA, behind + ALPHA
    constant = log(2) - float(special.betaln(ALPHA, ALPHA))
    upper_half = float(special.betainc(b, a, 0.5))
    if upper_half > 1e-280:
        return float(special.betaln(a, b)) + log(upper_half) + (ahead + behind) * log(2) + constant
    # So far behind the probability underflows. B(a, b)·P = ½ᵃ⁺ᵇ ₂F₁(a+b, 1; b+1; ½) / b does not.
    return log(_behind_series(a, b) / b) - 2 * ALPHA * log(2) + constant


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
