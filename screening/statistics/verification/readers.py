"""How many unsafe texts reviewers recognize, and what that makes of a share that they found.

A bound on what reviewers call unsafe is no bound on what is unsafe: with reviewers who recognize 80% it lies below the
truth in more than its 5%. Where they recognize a share s, and call few safe texts unsafe, the truth is at most the
bound divided by s.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from screening.statistics.verification.betting import betting_sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognized:
    """The share of unsafe texts that a reviewer recognizes, from ``pairs`` blinded double reviews in which at least one
    said unsafe; ``both`` in which both did. None without such a pair.
    """

    pairs: int
    both: int
    share: float | None
    at_least: float | None


def recognized_share(both: Sequence[bool], delta: float = 0.025) -> Recognized:
    """From double reviews of texts chosen at random, in their order: of each in which one or both said unsafe, whether
    both did. The lower limit holds at every look with probability 1-δ.

    Two reviewers who recognize the share s of unsafe texts, each for himself, and call no safe text unsafe, agree on
    s/(2-s) of the texts that either calls unsafe: s = 2a/(1+a), the positive agreement (Chapman 1951; Cicchetti and
    Feinstein 1990). A safe text called unsafe makes it smaller, so that a bound divided by it stays one. What all
    reviewers overlook alike makes it larger: that no double review shows.

    >>> recognized_share([True] * 8 + [False] * 4).share  # 2 · (2/3) / (5/3)
    0.8
    """
    if not both:
        return Recognized(pairs=0, both=0, share=None, at_least=None)
    agreed = sum(both) / len(both)
    (look,) = betting_sequence([float(each) for each in both], looks=[len(both)], delta=2 * delta)
    return Recognized(
        pairs=len(both), both=sum(both), share=2 * agreed / (1 + agreed), at_least=2 * look.low / (1 + look.low)
    )


def corrected_bound(bound: float, recognized: float) -> float:
    """The bound of a share of unsafe texts of which reviewers recognize this share: 1 at most.

    >>> round(corrected_bound(0.04, 0.8), 3), corrected_bound(0.9, 0.5)
    (0.05, 1.0)
    """
    return 1.0 if recognized <= bound else bound / recognized
