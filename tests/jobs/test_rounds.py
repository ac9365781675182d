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


def test_times_that_are_past_tell_nothing_of_what_is_left() -> None:
    assert next_batch_size([5] * 1000 + [12] * FEWEST_TIMES, 5, 1, 100) == 7


@pytest.mark.parametrize(
    ("drawn", "least", "draw_batch"),
    [(0, 5, 5), (FEWEST_DRAWN - 1, 1, 1), (FEWEST_DRAWN, 1, 5), (FEWEST_DRAWN, 6, 6), (17, 1, 8)],
)
def test_with_too_few_times_half_as_many_again_are_asked_for(drawn: int, least: int, draw_batch: int) -> None:
    assert next_batch_size([40] * (FEWEST_TIMES - 1), drawn, least, 100) == draw_batch


def test_a_draw_batch_stays_within_the_budget_but_is_never_less_than_the_least() -> None:
    times = [30] * FEWEST_TIMES
    assert next_batch_size(times, 0, 5, 100) == 30 and next_batch_size(times, 0, 5, 20) == 20
    assert next_batch_size(times, 18, 3, 20) == 3
    assert next_batch_size(times, 0, 40, 100) == 40, "nothing is decided before"
