"""How many answers to buy at once where each further round costs hours: the cheapest plan for known stopping times."""

from collections.abc import Sequence
from functools import lru_cache
from operator import itemgetter

ROUND_PRICE = 2.0
"""What one further round of a case is worth, in calls."""
FEWEST_TIMES = 20
"""Stopping times below which nothing is guessed from them."""
FEWEST_DRAWN = 10
"""Answers up to which a node that nothing is known of asks for no more than the earliest decision takes."""


def next_wave(times: Sequence[int], drawn: int, least: int, budget: int, round_price: float = ROUND_PRICE) -> int:
    """How many answers to ask for now, after ``drawn``: at least ``least``, at most what the budget leaves.

    The plan c₁ < c₂ < … of totals that minimises E[calls bought + round_price · rounds], where the number of calls
    that a node needs is one of ``times`` above ``drawn``, all alike probable. Where these are too few: half as many
    again as there are, so that rounds stay few whatever a text needs.

    >>> next_wave([], 0, 5, 100), next_wave([], 16, 1, 100)
    (5, 8)
    >>> next_wave([5] * 10 + [11] * 90, 0, 5, 100), next_wave([5] * 90 + [40] * 10, 0, 5, 100)
    (11, 5)
    """
    needed = tuple(sorted(time for time in times if time > drawn))
    if len(needed) < FEWEST_TIMES:
        wave = max(least, drawn // 2 if drawn >= FEWEST_DRAWN else 0)
    else:
        wave = max(_plan(needed, drawn, least, round_price)[0] - drawn, least)
    return min(wave, max(budget - drawn, least))


def rounds_left(times: Sequence[int], drawn: int, least: int, round_price: float = ROUND_PRICE) -> int | None:
    """Rounds until even the longest of these times is reached; None where they are too few to tell.

    >>> rounds_left([5] * 90 + [40] * 10, 0, 5)
    2
    """
    needed = tuple(sorted(time for time in times if time > drawn))
    if len(needed) < FEWEST_TIMES:
        return None
    rounds = 0
    while needed:
        drawn, least, rounds = _plan(needed, drawn, least, round_price)[0], 1, rounds + 1
        needed = tuple(time for time in needed if time > drawn)
    return rounds


@lru_cache(maxsize=4096)
def _plan(needed: tuple[int, ...], drawn: int, least: int, round_price: float) -> tuple[int, float]:
    """The total to buy up to next, of equally cheap ones the smallest, and the expected price from here on."""
    prices = {}
    for total in sorted({max(drawn + least, time) for time in needed}):
        later = tuple(time for time in needed if time > total)
        rest = len(later) / len(needed) * _plan(later, total, 1, round_price)[1] if later else 0.0
        prices[total] = round(total - drawn + round_price + rest, 9)
    return min(prices.items(), key=itemgetter(1))
