"""The breaker: it leaves a silent service alone, tries it with one case at a time, and blames a case only alone."""

import asyncio

import pytest

from jobs.model_health import (
    FIRST_PAUSE_S,
    LASTS_S,
    LONGEST_PAUSE_S,
    MOST_FAILURES,
    OPENS_AFTER,
    WATCHED_FAILURES,
    Breaker,
)
from storage.batches.pending import LONGEST_PUT_OFF


class Clock:
    """A time that the test turns."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _opened(breaker: Breaker) -> None:
    for number in range(OPENS_AFTER):
        breaker.record_failure(f"case {number}")


async def test_it_opens_after_failures_in_a_row_and_an_answer_closes_it() -> None:
    breaker = Breaker()
    for _ in range(5):
        breaker.record_failure("a")
        breaker.record_failure("b")
        breaker.record_answer("c")
        assert not breaker.open
    _opened(breaker)
    assert breaker.open
    breaker.record_answer("c")
    assert not breaker.open


async def test_one_case_tries_and_the_others_wait_for_its_answer() -> None:
    clock = Clock()
    breaker, begun, answer = Breaker(clock), list[int](), asyncio.Event()

    async def case(number: int) -> None:
        async with breaker.turn():
            begun.append(number)
            await answer.wait()
            breaker.record_answer(str(number))

    _opened(breaker)
    clock.now += FIRST_PAUSE_S
    cases = [asyncio.create_task(case(number)) for number in range(5)]
    await asyncio.sleep(0.05)
    assert begun == [0]
    answer.set()
    await asyncio.wait_for(asyncio.gather(*cases), 5)
    assert sorted(begun) == [0, 1, 2, 3, 4]


async def test_a_try_that_fails_doubles_the_pause_up_to_its_longest() -> None:
    clock = Clock()
    breaker = Breaker(clock)
    _opened(breaker)
    pauses = []
    for _ in range(9):
        began = clock.now
        while not await _let_in(breaker):
            clock.now += 0.5
        pauses.append(clock.now - began)
    assert pauses == [1, 2, 4, 8, 16, *[LONGEST_PAUSE_S] * 4]
    assert LONGEST_PUT_OFF.total_seconds() >= LONGEST_PAUSE_S, "a case that was put off so long would be due at once"


async def _let_in(breaker: Breaker) -> bool:
    try:
        async with asyncio.timeout(0.002), breaker.turn():
            breaker.record_failure("tries")
    except TimeoutError:
        return False
    return True


async def test_a_try_that_was_broken_off_leaves_the_turn_to_the_next() -> None:
    clock = Clock()
    breaker = Breaker(clock)
    _opened(breaker)
    clock.now += FIRST_PAUSE_S
    with pytest.raises(RuntimeError):
        async with breaker.turn():
            raise RuntimeError
    async with asyncio.timeout(5), breaker.turn():
        pass


async def test_a_case_is_to_blame_only_when_others_are_answered_and_it_lasts() -> None:
    clock = Clock()
    down, alone = Breaker(clock), Breaker(clock)
    for _ in range(10 * MOST_FAILURES):
        clock.now += LASTS_S
        assert down.record_failure("a") is not None, "everybody waits"
    waits = []
    for _ in range(MOST_FAILURES - 1):
        clock.now += LASTS_S
        waits.append(alone.record_failure("a"))
        alone.record_answer("b")
    assert waits == [1, 2, 4, 8, 16, LONGEST_PAUSE_S, LONGEST_PAUSE_S]
    assert alone.record_failure("a") is None


async def test_who_watches_is_told_soon_and_who_sits_at_the_terminal_in_the_end() -> None:
    clock = Clock()
    watched, terminal = Breaker(clock), Breaker(clock, patience_s=120)
    told = [watched.record_failure("a", watched=True) is None for _ in range(WATCHED_FAILURES)]
    assert told == [*[False] * (WATCHED_FAILURES - 1), True]
    assert terminal.record_failure("a") is not None
    clock.now += 121
    assert terminal.record_failure("b") is None
