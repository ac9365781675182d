"""The lock by rank: the lowest rank next, never two holders, no turn lost to a cancellation."""

import asyncio
import random
from contextlib import suppress

import pytest

from screening.models.limits import PriorityLock, Rank


async def _queue(turns: PriorityLock, ranks: list[Rank]) -> list[Rank]:
    """The order in which waiters of these ranks, arriving one after another, get their turn."""
    order: list[Rank] = []

    async def one(rank: Rank) -> None:
        async with turns.turn(rank):
            order.append(rank)
            await asyncio.sleep(0)

    async with turns.turn((False, 0)):
        waiting = [asyncio.create_task(one(rank)) for rank in ranks]
        await asyncio.sleep(0)
    await asyncio.gather(*waiting)
    return order


async def test_the_urgent_go_first_then_the_older_draw_batch():
    ranks = [(True, 2), (True, 1), (False, 4), (True, 1), (False, 3)]
    assert await _queue(PriorityLock(), ranks) == sorted(ranks)


async def test_a_free_lock_is_taken_at_once_and_held_by_one():
    turns, held = PriorityLock(), 0

    async def one(rank: Rank) -> None:
        nonlocal held
        async with turns.turn(rank):
            held += 1
            assert held == 1
            await asyncio.sleep(0)
            held -= 1

    await asyncio.gather(*(one((True, number % 3)) for number in range(20)))


@pytest.mark.parametrize("seed", range(20))
async def test_no_turn_is_lost_to_a_cancellation(seed):
    turns, rng, done = PriorityLock(), random.Random(seed), []

    async def one(number: int) -> None:
        async with turns.turn((True, rng.randrange(4))):
            await asyncio.sleep(0)
            done.append(number)

    tasks = [asyncio.create_task(one(number)) for number in range(12)]
    for task in rng.sample(tasks, 6):
        for _ in range(rng.randrange(4)):
            await asyncio.sleep(0)
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
    assert sum(task.cancelled() for task in tasks) + len(done) == 12
    async with asyncio.timeout(5), turns.turn((True, 9)):
        pass


async def test_whoever_is_called_and_cancelled_in_the_same_moment_passes_it_on():
    turns = PriorityLock()

    async def hold() -> None:
        async with turns.turn((True, 1)):
            await asyncio.sleep(0)

    async with turns.turn((True, 0)):
        called = asyncio.create_task(hold())
        following = asyncio.create_task(hold())
        await asyncio.sleep(0)
    called.cancel()
    await asyncio.wait_for(following, 5)
    assert called.cancelled()
