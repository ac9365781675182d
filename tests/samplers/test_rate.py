"""The gate: never more than the limit in any window, a shared and capped pause, a bounded concurrency."""

import asyncio
import time

import pytest

from screening.samplers.rate import RateGate, at_most


def busiest(times: list[float], window_s: float) -> int:
    return max(sum(start <= moment < start + window_s for moment in times) for start in times)


@pytest.mark.parametrize(("limit", "period_s"), [(1, 0.1), (5, 0.2), (50, 0.3), (200, 0.4)])
async def test_no_window_holds_more_than_the_limit(limit, period_s):
    limiter, passed = at_most(limit, period_s), []

    async def one() -> None:
        await limiter.acquire()
        passed.append(time.monotonic())

    await asyncio.gather(*(one() for _ in range(2 * limit + 2)))
    assert len(passed) == 2 * limit + 2
    assert busiest(passed, period_s * 0.98) <= limit


def test_a_limit_of_nothing_is_refused():
    with pytest.raises(ValueError, match="at least one"):
        at_most(0)


async def test_concurrency_is_bounded():
    gate = RateGate(concurrency=3, limiter=None, pause_cap_s=1.0)
    inside, most = 0, 0

    async def one() -> None:
        nonlocal inside, most
        async with gate.slot():
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.005)
            inside -= 1

    await asyncio.gather(*(one() for _ in range(20)))
    assert most == 3


async def test_a_pause_holds_everyone_and_is_capped():
    gate = RateGate(concurrency=10, limiter=None, pause_cap_s=0.15)
    assert gate.pause(3600.0) == 0.15
    begun = time.monotonic()

    async def one() -> float:
        async with gate.slot():
            return time.monotonic() - begun

    waits = await asyncio.gather(*(one() for _ in range(5)))
    assert all(0.14 <= wait < 30.0 for wait in waits)


async def test_a_shorter_pause_does_not_shorten_a_longer_one():
    now = 100.0
    gate = RateGate(concurrency=1, limiter=None, pause_cap_s=60.0, clock=lambda: now)
    gate.pause(30.0)
    gate.pause(-5.0)
    assert gate.paused_for() == 30.0
