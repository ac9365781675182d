"""The worst error of the pairwise rule over every label mix, for one budget: exact counting, then a proven maximum.

Let a draw give label i with probability p_i. The probability that the rule has named label a within B draws is a
polynomial of degree B in p, and its Bernstein coefficient at counts m (which add up to B) is the probability of having
named a *given* that the B draws have these counts: all their orders are then equally likely, whatever p is.
"""

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from screening.labels import LABELS
from screening.statistics.certification.bernstein import Coefficients, Largest, Patch, largest
from screening.statistics.rules.contract import Contract, Pair
from screening.statistics.rules.pairwise_mixture import ErrorLevels, PairwiseMixture
from screening.statistics.rules.tables import Integers, least_count_table, pairwise_draws_needed

TOLERANCE = 1e-6
"""How far a proven worst error may lie above one that some label mix reaches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstErrors:
    """The largest probability, over every label mix, of naming any label but the mode, and of each single mix-up."""

    any_wrong: Largest
    pairs: tuple[tuple[Pair, Largest], ...]

    def keep(self, contract: Contract) -> bool:
        """Whether every bound is proven. Pairs that the contract does not name are held by the bound for any."""
        pairs = dict(self.pairs)
        return self.any_wrong.bound <= contract.any_wrong and all(
            pairs[pair].bound <= bound for pair, bound in contract.pairs
        )


def worst_errors(levels: ErrorLevels, budget: int, tolerance: float = TOLERANCE) -> WorstErrors:
    """The worst errors with these evidence levels and at most ``budget`` draws.

    Fewer draws never make them larger: whatever is named within a smaller budget is named within this one too.
    Curtailment only abstains, so they hold with it as well.
    """
    named = naming_coefficients(levels, budget)
    arms = {label: number for number, label in enumerate(LABELS)}
    wrong = [
        patch
        for mode in LABELS
        for patch in _where_mode(sum(named[arms[said]] for said in LABELS if said is not mode), arms[mode])
    ]
    return WorstErrors(
        any_wrong=largest(wrong, tolerance),
        pairs=tuple(
            ((said, mode), largest(_where_mode(named[arms[said]], arms[mode]), tolerance))
            for said, mode in permutations(LABELS, 2)
        ),
    )


def naming_coefficients(levels: ErrorLevels, budget: int) -> Coefficients:
    """Shape (K, B + 1, B + 1): P(label a is named | the B draws hold i of the first label and j of the second)."""
    rule = PairwiseMixture(budget=budget, errors=levels, curtail=False)
    table = least_count_table(rule, budget)
    first, second = np.indices((budget + 1, budget + 1))
    named, drawing = np.zeros((len(LABELS), *first.shape)), np.zeros(first.shape)
    drawing[0, 0] = 1.0
    for draws in range(1, budget + 1):
        third = draws - first - second
        drawing = _one_draw_earlier(drawing, first, second, third)
        named = _one_draw_earlier(named, first, second, third)
        needed = pairwise_draws_needed(np.stack([first, second, third]), table)
        for arm in range(len(LABELS)):
            ends = (needed[arm] <= 0) & (third >= 0)
            named[arm] += np.where(ends, drawing, 0.0)
            drawing = np.where(ends, 0.0, drawing)
    return named


def _one_draw_earlier(values: Coefficients, first: Integers, second: Integers, third: Integers) -> Coefficients:
    """Mean over the last draw, which was label i in a share m_i/n of the orders; 0 outside the triangle."""
    draws = first[0, 0] + second[0, 0] + third[0, 0]
    mean: Coefficients = values * np.maximum(third, 0)
    mean[..., 1:, :] += values[..., :-1, :] * first[1:, :]
    mean[..., :, 1:] += values[..., :, :-1] * second[:, 1:]
    mean[..., third < 0] = 0.0
    mean /= draws
    return mean


def _where_mode(coefficients: Coefficients, mode: int) -> list[Patch]:
    """The polynomial on the two triangles in which ``mode`` is the most probable label, one for each runner-up."""
    corners = np.eye(len(LABELS))
    upright = Patch(coefficients=coefficients, corners=corners)
    mirrored = Patch(coefficients=coefficients.T.copy(), corners=corners[[1, 0, 2]])
    return [_first_then_second(patch, mode) for patch in (upright, mirrored)]


def _first_then_second(patch: Patch, mode: int) -> Patch:
    """The part between the corner of ``mode``, the middle of the side to the next corner, and the centre."""
    while patch.corners[0, mode] != 1.0:
        patch = patch.rotate()
    towards_third = patch.cut()[0].rotate()  # middle, third corner, mode
    return towards_third.cut(2 / 3)[0]  # the centre is ⅔ middle + ⅓ third corner
