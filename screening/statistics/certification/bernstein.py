"""The largest value of a polynomial on a triangle, proven: Bernstein coefficients, cut where they are loose.

A polynomial of degree n on a triangle is Σ c[i, j] · n!/(i! j! k!) · uⁱ vʲ wᵏ with k = n - i - j and (u, v, w) the
barycentric coordinates. The weights are positive and add up to 1, so no value exceeds the largest coefficient; the
coefficients at the three corners are values. Cutting a triangle (de Casteljau) only takes averages of coefficients, so
it is as exact as the coefficients are, and the two bounds close in with the square of the side. Source: Farin 1986,
doi:10.1016/0167-8396(86)90016-6.
"""

import heapq
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

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
        """The largest value at a corner."""
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
