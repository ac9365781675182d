"""How many answers to buy at once: against every plan there is, and by hand."""

from functools import cache
from random import Random

import pytest

from jobs.overnight import FEWEST_DRAWN, FEWEST_TIMES, next_batch_size


def cheapest(times: list[int], drawn: int, least: int, price: float) -> float:
    """The expected price of the best plan: every total up to the longest time is tried at every round."""
    longest = max(times)

    @cache
    def cost(have: int, least: int) -> float:
        going = [time for time in times if time > have]
        if not going:
            return 0.0
        return min(
            total - have + price + sum(time > total for time in going) / len(going) * cost(total, 1)
            for total in range(have + least, max(longest, have + least) + 1)
        )

    return cost(drawn, least)


def paid(times: list[int], drawn: int, least: int, price: float) -> float:
    """What the draw batches that are asked for cost, over these times."""
    total = 0.0
    for time in times:
        have, need = drawn, least
        while have < time:
            draw_batch = next_batch_size(times, have, need, 10_000, price)
            have, need, total = have + draw_batch, 1, total + draw_batch + price
    return total / len(times)


@pytest.mark.parametrize("price", [0.5, 2.0, 9.0])
@pytest.mark.parametrize("seed", range(4))
def test_no_plan_is_cheaper(seed: int, price: float) -> None:
    random = Random(seed)
    # Many alike, so that more than the fewest are left wherever a plan may stop but at the end.
    times = sorted(random.choice([5, 7, 11, 18]) for _ in range(40)) + [26] * FEWEST_TIMES
    assert paid(times, 0, 5, price) == pytest.approx(cheapest(times, 0, 5, price))


def test_a_round_that_costs_more_is_worth_more_calls_at_once() -> None:
    times = [5] * 50 + [15] * 50
    # at once: 15 + price; in two: 5 + price, and for half of them 10 + price more: equal at price 10
    assert next_batch_size(times, 0, 5, 100, 9.0) == 5 and next_batch_size(times, 0, 5, 100, 11.0) == 15
    assert next_batch_size(times, 0, 5, 100, 10.0) == 5, "of equal plans the one that buys less"


@pytest.mark.parametrize(
    ("times", "drawn", "least", "most", "draw_batch"),
    [
        pytest.param([5] * 1000 + [12] * FEWEST_TIMES, 5, 1, 100, 7, id="times that are past tell nothing"),
        pytest.param([30] * FEWEST_TIMES, 0, 5, 100, 30, id="all at once"),
        pytest.param([30] * FEWEST_TIMES, 0, 5, 20, 20, id="within the budget"),
        pytest.param([30] * FEWEST_TIMES, 18, 3, 20, 3, id="never less than the least"),
        pytest.param([30] * FEWEST_TIMES, 0, 40, 100, 40, id="nothing is decided before"),
        pytest.param([40] * (FEWEST_TIMES - 1), 0, 5, 100, 5, id="too few times"),
        pytest.param([40] * (FEWEST_TIMES - 1), FEWEST_DRAWN - 1, 1, 100, 1, id="too few draws"),
        pytest.param([40] * (FEWEST_TIMES - 1), FEWEST_DRAWN, 1, 100, 5, id="half as many again"),
        pytest.param([40] * (FEWEST_TIMES - 1), FEWEST_DRAWN, 6, 100, 6, id="half as many again or the least"),
        pytest.param([40] * (FEWEST_TIMES - 1), 17, 1, 100, 8, id="half of seventeen"),
    ],
)
def test_how_many_are_bought(times: list[int], drawn: int, least: int, most: int, draw_batch: int) -> None:
    assert next_batch_size(times, drawn, least, most) == draw_batch
