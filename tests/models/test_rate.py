"""The gate: never more than the limit in any window, a shared and capped pause, the lowest rank first."""

import asyncio
import random
import time
from contextlib import suppress

import pytest

from screening.models.limits import PriorityLock, RateGate, at_most


@pytest.mark.parametrize("limit", [1, 5, 200])
async def test_no_window_holds_more_than_the_limit(limit):
    period_s, passed = 0.3, []
    limiter = at_most(limit, period_s)

    async def one() -> None:
        await limiter.acquire()
        passed.append(time.monotonic())

    await asyncio.gather(*(one() for _ in range(2 * limit + 2)))
    assert len(passed) == 2 * limit + 2
    window_s = period_s * 0.98
    assert max(sum(start <= moment < start + window_s for moment in passed) for start in passed) <= limit
    with pytest.raises(ValueError, match="at least one"):
        at_most(0)


async def test_a_pause_holds_everyone_is_capped_and_no_shorter_one_shortens_it():
    gate = RateGate(concurrency=10, limiter=None, pause_cap_s=0.15)
    begun = time.monotonic()
    assert gate.pause(3600.0) == 0.15

    async def one() -> float:
        async with gate.slot():
            return time.monotonic() - begun

    waits = await asyncio.gather(*(one() for _ in range(5)))
    assert all(0.14 <= wait < 30.0 for wait in waits)
    gate = RateGate(concurrency=1, limiter=None, pause_cap_s=60.0, clock=lambda: 100.0)
    for seconds in (30.0, -5.0):
        gate.pause(seconds)
    assert gate.remaining_pause() == 30.0


async def test_urgent_draw_batches_pass_first_and_older_draw_batches_before_younger_ones():
    gate, passed = RateGate(concurrency=1, limiter=None, pause_cap_s=1.0), []

    async def one(name: str) -> None:
        async with gate.slot():
            passed.append(name)
            await asyncio.sleep(0.001)

    async def draw_batch(name: str, *, urgent: bool) -> None:
        async with gate.draw_batch(urgent=urgent, deadline_s=60.0):
            await asyncio.gather(*(one(name) for _ in range(3)))

    draw_batches = [asyncio.create_task(draw_batch(name, urgent=False)) for name in ("first", "second")]
    while not passed:  # noqa: ASYNC110 - until the first call is under way
        await asyncio.sleep(0)
    draw_batches.append(asyncio.create_task(draw_batch("urgent", urgent=True)))
    await asyncio.gather(*draw_batches)
    assert passed[0] == "first" and passed[-3:] == ["second"] * 3
    assert passed.index("urgent") <= 2 and max(i for i, name in enumerate(passed) if name == "urgent") <= 4


class _Slow:
    """Leave for one call every 0.25 s."""

    async def acquire(self) -> None:
        await asyncio.sleep(0.25)


async def test_what_our_own_limit_holds_back_does_not_run_into_the_deadline():
    gate, passed = RateGate(concurrency=10, limiter=_Slow(), pause_cap_s=1.0), 0

    async def one() -> None:
        nonlocal passed
        async with gate.slot():
            passed += 1

    async with gate.draw_batch(urgent=False, deadline_s=1.0):
        await asyncio.gather(*(one() for _ in range(6)))
    assert passed == 6


async def test_the_deadline_runs_from_the_last_first_attempt_and_no_retry_moves_it():
    gate, attempts = RateGate(concurrency=10, limiter=None, pause_cap_s=1.0), 0

    async def again_and_again() -> None:
        nonlocal attempts
        while True:
            async with gate.slot(retry=attempts > 0):
                attempts += 1
                await asyncio.sleep(0.05)

    with pytest.raises(TimeoutError):
        async with gate.draw_batch(urgent=False, deadline_s=1.0):
            await again_and_again()
    assert attempts > 1


# --- the lock by rank


@pytest.mark.parametrize("seed", range(12))
async def test_one_holds_the_lock_at_a_time_and_no_turn_is_lost_to_a_cancellation(seed):
    turns, rng, done, held = PriorityLock(), random.Random(seed), [], 0

    async def one(number: int) -> None:
        nonlocal held
        async with turns.turn((True, rng.randrange(4))):
            held += 1
            assert held == 1
            try:
                await asyncio.sleep(0)
            finally:
                held -= 1
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
