"""A polynomial on a triangle keeps its values however the triangle is turned or cut, and its largest one is found."""

import numpy as np
import pytest

from screening.statistics.certification.bernstein import Patch

# Of degree 2, [i, j]: corners 0, 1 and 2 have the values 6, 3 and 1; 5, 4 and 2 lie between them.
WHOLE = Patch(coefficients=np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 0.0], [6.0, 0.0, 0.0]]), corners=np.eye(3))


def test_the_largest_value_at_a_corner_is_that_of_any_corner() -> None:
    patches = [WHOLE, WHOLE.rotate(), WHOLE.rotate().rotate()]
    assert [patch.largest_corner for patch in patches] == [6.0] * 3


def test_a_turn_takes_each_coefficient_to_the_next_corner() -> None:
    turned = WHOLE.rotate()
    assert turned.coefficients.tolist() == [[6.0, 4.0, 1.0], [5.0, 2.0, 0.0], [3.0, 0.0, 0.0]]
    assert turned.corners.tolist() == [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    assert turned.rotate().rotate().coefficients.tolist() == WHOLE.coefficients.tolist()


def test_a_cut_averages_along_the_side_that_is_cut() -> None:
    first, second = WHOLE.cut()
    assert first.coefficients.tolist() == [[1.0, 3.0, 4.75], [4.0, 5.5, 0.0], [6.0, 0.0, 0.0]]
    assert second.coefficients.tolist() == [[1.0, 2.0, 3.0], [3.0, 4.0, 0.0], [4.75, 0.0, 0.0]]
    assert first.corners.tolist() == [[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    assert second.corners.tolist() == [[0.5, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    near_first, _ = WHOLE.cut(0.75)
    assert near_first.corners[1].tolist() == [0.75, 0.25, 0.0]
    assert near_first.coefficients[0, 2] == pytest.approx(0.75**2 * 6 + 2 * 0.75 * 0.25 * 5 + 0.25**2 * 3)


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_the_longest_side_is_halved(turns: int) -> None:
    near, one, other = (0.4, 0.4, 0.2), (1.0, 0.0, 0.0), (0.0, 1.0, 0.0)
    corners = np.roll(np.array([near, one, other]), turns, axis=0)
    halves = Patch(coefficients=WHOLE.coefficients, corners=corners).halve()
    found = {frozenset(tuple(corner) for corner in half.corners.tolist()) for half in halves}
    assert found == {frozenset({near, (0.5, 0.5, 0.0), end}) for end in (one, other)}
