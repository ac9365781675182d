"""Evidence levels calibrated for a budget, with a proof that the worst error over all label mixes keeps a contract.

Let a draw give label i with probability p_i. The probability that the rule has named label a within B draws is a
polynomial of degree B in p, and its Bernstein coefficient at counts m (which add up to B) is the probability of having
named a *given* that the B draws have these counts: all their orders are then equally likely, whatever p is.

A polynomial of degree n on a triangle is Σ c[i, j] · n!/(i! j! k!) · uⁱ vʲ wᵏ with k = n - i - j and (u, v, w) the
barycentric coordinates. The weights are positive and add up to 1, so no value exceeds the largest coefficient; the
coefficients at the three corners are values. Cutting a triangle (de Casteljau) only takes averages of coefficients, so
it is as exact as the coefficients are, and the two bounds close in with the square of the side. Source: Farin 1986,
doi:10.1016/0167-8396(86)90016-6.
"""

import csv
import heapq
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from math import floor, log10
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from screening.labels import LABELS, Label
from screening.stopping.rules import (
    DEFAULT_CONTRACT,
    Contract,
    Integers,
    Pair,
    PairLevels,
    Pairwise,
    PairwiseMixture,
    Probability,
)

LARGEST_PROOF = 300
"""Most calls of a certificate that does not come with the program: it is proven when it is read, in seconds."""
TOLERANCE = 1e-6
"""How far a proven worst error may lie above one that some label mix reaches."""
DIGITS = 3
"""Significant digits of a level."""
Coefficients = NDArray[np.float64]
"""Shape (n + 1, n + 1), [i, j]; 0 where i + j > n."""

ROUNDING = 1e-9
"""Relative margin for rounding: each of a few hundred averages of positive numbers is exact to 1e-15."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patch:
    """A polynomial on the triangle with these corners, a row each."""

    coefficients: Coefficients
    corners: NDArray[np.float64]

    @property
    def largest_corner(self) -> float:
        c = self.coefficients
        return max(float(c[-1, 0]), float(c[0, -1]), float(c[0, 0]))

    @property
    def bound(self) -> float:
        """No value on the triangle is larger."""
        return float(self.coefficients.max())

    def rotate(self) -> "Patch":
        """The same with the corners in the order 1, 2, 0."""
        n = len(self.coefficients) - 1
        i, j = np.indices((n + 1, n + 1))
        turned = np.empty_like(self.coefficients)
        turned[j, n - i - j] = self.coefficients  # the zeros where i + j > n only change places: there k is negative
        return Patch(coefficients=turned, corners=np.roll(self.corners, -1, axis=0))

    def cut(self, share: float = 0.5) -> tuple["Patch", "Patch"]:
        """The two parts when the side from corner 0 to corner 1 is cut at share · corner 0 + (1 - share) · corner 1."""
        n = len(self.coefficients) - 1
        first, second = np.zeros_like(self.coefficients), np.zeros_like(self.coefficients)
        left = self.coefficients
        for step in range(n + 1):
            first[: n + 1 - step, step] = left[:, 0]
            second[step, : n + 1 - step] = left[0]
            left = share * left[1:, :-1] + (1 - share) * left[:-1, 1:]
        point = share * self.corners[0] + (1 - share) * self.corners[1]
        return (
            Patch(coefficients=first, corners=np.stack([self.corners[0], point, self.corners[2]])),
            Patch(coefficients=second, corners=np.stack([point, self.corners[1], self.corners[2]])),
        )

    def halve(self) -> tuple["Patch", "Patch"]:
        """Cut through the middle of the longest side."""
        sides = np.abs(self.corners - np.roll(self.corners, -1, axis=0)).sum(axis=1)
        patch = self
        for _ in range(int(sides.argmax())):
            patch = patch.rotate()
        return patch.cut()


@dataclass(frozen=True, slots=True, kw_only=True)
class Largest:
    """The largest value lies between ``reached``, taken at a point, and ``bound``, after looking at so many patches."""

    reached: float
    bound: float
    patches: int


def largest(patches: list[Patch], tolerance: float, most: int = 20_000) -> Largest:
    """Cut the patch with the largest bound until it is within ``tolerance`` of a value taken, or ``most`` are cut.

    The bound holds however it ends; it includes the margin for rounding. ValueError without a patch.
    """
    reached = max(patch.largest_corner for patch in patches)
    queue = [(-patch.bound, number, patch) for number, patch in enumerate(patches)]
    heapq.heapify(queue)
    seen = len(queue)
    while -queue[0][0] > reached + tolerance and seen < most:
        for part in heapq.heappop(queue)[2].halve():
            reached = max(reached, part.largest_corner)
            heapq.heappush(queue, (-part.bound, seen, part))
            seen += 1
    return Largest(reached=reached, bound=-queue[0][0] * (1 + ROUNDING), patches=seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class WorstErrors:
    """The largest probability, over every label mix, of naming any label but the mode, and of each single mix-up."""

    any_wrong: Largest
    pairs: Mapping[Pair, Largest]

    @property
    def safe(self) -> float:
        """The largest of saying safe where it is not the mode."""
        return max(largest.bound for (said, _), largest in self.pairs.items() if said is Label.SAFE)

    def keep(self, contract: Contract) -> bool:
        """Whether every bound is proven. Pairs that the contract does not name are held by the bound for any."""
        return self.any_wrong.bound <= contract.any_wrong and all(
            self.pairs[pair].bound <= bound for pair, bound in contract.pairs
        )


def worst_errors(rule: Pairwise, budget: int) -> WorstErrors:
    """With at most ``budget`` draws. Fewer never make them larger: whatever is named within a smaller budget is named
    within this one too. A futility stop only abstains, so they hold with it as well.
    """
    named = naming_coefficients(rule, budget)
    arms = {label: number for number, label in enumerate(LABELS)}
    wrong = [
        patch
        for mode in LABELS
        for patch in _where_mode(sum(named[arms[said]] for said in LABELS if said is not mode), arms[mode])
    ]
    return WorstErrors(
        any_wrong=largest(wrong, TOLERANCE),
        pairs={
            (said, mode): largest(_where_mode(named[arms[said]], arms[mode]), TOLERANCE)
            for said, mode in permutations(LABELS, 2)
        },
    )


def naming_coefficients(rule: Pairwise, budget: int) -> Coefficients:
    """Shape (K, B + 1, B + 1): P(label a is named | the B draws hold i of the first label and j of the second)."""
    first, second = np.indices((budget + 1, budget + 1))
    named, drawing = np.zeros((len(LABELS), *first.shape)), np.zeros(first.shape)
    drawing[0, 0] = 1.0
    for draws in range(1, budget + 1):
        third = draws - first - second
        drawing = _one_draw_earlier(drawing, first, second, third)
        named = _one_draw_earlier(named, first, second, third)
        label = rule.named(np.stack([first, second, np.maximum(third, 0)]))
        for arm in range(len(LABELS)):
            ends = (label == arm) & (third >= 0)
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


class Certificate(Contract):
    """With these evidence levels the contract holds for every budget up to ``budget``, and for none above it. ``worst``
    is the proven worst probability of any wrong label, ``worst_safe`` of saying safe where it is not the mode.
    """

    budget: Annotated[int, Field(ge=1)]
    level: Probability
    levels: PairLevels = ()
    worst: Annotated[float, Field(ge=0, lt=1)]
    worst_safe: Annotated[float, Field(ge=0, lt=1)]

    @property
    def contract(self) -> Contract:
        return Contract(any_wrong=self.any_wrong, pairs=self.pairs)

    def recompute(self) -> "WorstErrors":
        """Counted and bounded from the levels alone."""
        return worst_errors(pooled(self.level, self.levels), self.budget)


class CertifiedMixture(Pairwise):
    """Pooled draws: a label once its evidence reaches the certificate's level, which is no bound of an error; the
    certificate's contract is. The budget is one it covers, and a certificate that does not hold is refused: those of
    the program are known, any other is proven anew.
    """

    title = "certified"

    kind: Literal["certified-mixture"] = "certified-mixture"
    certificate: Certificate

    @classmethod
    def for_contract(cls, contract: Contract, budget: int) -> Self | None:
        """With the program's certificate for this contract; None where it has none for so large a budget."""
        certificate = find(contract, budget)
        return None if certificate is None else cls(budget=budget, certificate=certificate)

    @model_validator(mode="before")
    @classmethod
    def _default_certificate(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("certificate", "default") == "default":
            try:
                certificate = find(DEFAULT_CONTRACT, int(given.get("budget", 100)))
            except (TypeError, ValueError, OverflowError):
                return given  # the field's own check refuses what is no number of calls
            if certificate is None:
                raise ValueError("no certificate of the default contract covers so large a budget")
            return {**given, "certificate": certificate}
        return given

    @field_validator("certificate")
    @classmethod
    def _require_proof(cls, certificate: Certificate) -> Certificate:
        if certificate in CERTIFICATES:
            return certificate
        if certificate.budget > LARGEST_PROOF:
            raise ValueError(f"a certificate for more than {LARGEST_PROOF} calls must come with the program")
        if not _holds(certificate):
            raise ValueError("the certificate does not hold: its levels do not keep its contract up to its budget")
        return certificate

    @model_validator(mode="after")
    def _require_coverage(self) -> Self:
        if self.budget > self.certificate.budget:
            raise ValueError(f"the certificate covers budgets up to {self.certificate.budget} calls, not {self.budget}")
        return self

    def level(self, said: Label, mode: Label) -> float:
        return dict(self.certificate.levels).get((said, mode), self.certificate.level)

    @property
    def contract(self) -> Contract:
        return self.certificate.contract


def find(contract: Contract, budget: int) -> Certificate | None:
    """The certificate of this contract with the smallest budget that covers ``budget``; None where there is none."""
    fitting = [each for each in CERTIFICATES if each.contract == contract and each.budget >= budget]
    return min(fitting, key=lambda each: each.budget, default=None)


def pooled(level: float, levels: PairLevels) -> PairwiseMixture:
    return PairwiseMixture(default_error=level, errors=levels, stop_for_futility=False)


def safe_levels(contract: Contract, safe_level: float) -> PairLevels:
    """Levels of their own for saying safe where the contract holds that to less."""
    return tuple((pair, safe_level) for pair, _ in contract.pairs if pair[0] is Label.SAFE)


@lru_cache(maxsize=64)
def _holds(certificate: Certificate) -> bool:
    errors = certificate.recompute()
    said_truly = certificate.worst >= errors.any_wrong.reached and certificate.worst_safe >= errors.safe * (1 - 1e-6)
    return said_truly and errors.keep(certificate.contract)


def calibrate(contract: Contract, budget: int) -> Certificate:
    """The certificate for this contract and budget: first the level for saying safe, where the contract holds that to
    less, then that of all other pairs. Some thirty proofs: seconds at 100 calls, minutes at 300. ValueError where none
    is found.
    """

    def errors_at(level: float, levels: PairLevels) -> WorstErrors:
        return worst_errors(pooled(level, levels), budget)

    levels: PairLevels = ()
    if safe_bounds := [bound for (said, _), bound in contract.pairs if said is Label.SAFE]:
        bound = min(safe_bounds)
        for_safe = _largest(
            lambda safe: errors_at(contract.any_wrong, safe_levels(contract, safe)).safe <= bound, bound
        )
        levels = safe_levels(contract, for_safe)
    level = _largest(lambda other: errors_at(other, levels).keep(contract), contract.any_wrong / 2)
    errors = errors_at(level, levels)
    if not errors.keep(contract):
        raise ValueError("no level found that keeps the contract")
    return Certificate(
        any_wrong=contract.any_wrong,
        pairs=contract.pairs,
        budget=budget,
        level=level,
        levels=levels,
        worst=errors.any_wrong.bound,
        worst_safe=errors.safe,
    )


def _largest(kept: Callable[[float], bool], start: float) -> float:
    """The largest level, rounded down, between ``start`` and six times it (below ½) that a halving search finds."""
    low, high = start / 2, min(0.49, 6 * start)
    while high / low > 1 + 10**-DIGITS:
        middle = (low + high) / 2
        low, high = (middle, high) if kept(middle) else (low, middle)
    unit: float = 10.0 ** (floor(log10(low)) - DIGITS + 1)
    return round(floor(low / unit) * unit, 10)


def _shipped() -> Iterator[Certificate]:
    """One a row of the file. Rows are added, never changed: configurations name them by all their numbers."""
    with Path(__file__).with_suffix(".csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            contract = {"default": DEFAULT_CONTRACT.pairs, "any": ()}[row.pop("contract")]
            levels = tuple((pair, row["safe_level"]) for pair, _ in contract)
            del row["safe_level"]
            yield Certificate.model_validate({**row, "pairs": contract, "levels": levels})


CERTIFICATES: tuple[Certificate, ...] = tuple(_shipped())
"""Those that come with the program, as `calibrate` found them; `make certify` proves every one anew."""
