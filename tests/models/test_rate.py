"""The gate: never more than the limit in any window, a shared and capped pause, a bounded concurrency."""

import asyncio
import time

import pytest

from screening.models.limits import RateGate, at_most


def busiest(times: list[float], window_s: float) -> int:
    return max(sum(start <= moment < start + window_s for moment in times) for start in times)


@pytest.mark.parametrize(("limit", "period_s"), [(1, 0.5), (5, 0.5), (50, 0.5), (200, 0.5)])
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
    begun = time.monotonic()
    assert gate.pause(3600.0) == 0.15

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
    """Leave for one call every 0.5 s."""

    async def acquire(self) -> None:
        await asyncio.sleep(0.5)


async def test_what_our_own_limit_holds_back_does_not_run_into_the_deadline():
    gate, passed = RateGate(concurrency=10, limiter=_Slow(), pause_cap_s=1.0), 0

    async def one() -> None:
        nonlocal passed
        async with gate.slot():
            passed += 1

    async with gate.draw_batch(urgent=False, deadline_s=2.0):
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
