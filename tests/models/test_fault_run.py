"""A service that fails in every way it can: what is asked again, billed and told, in every wire format. And the gate:
never more than the limit in any window, a shared and capped pause, the lowest rank first.
"""

import asyncio
import random
import time
from contextlib import suppress

import pytest

from screening.labels import Label, Outcome
from screening.models.http import HttpModel
from screening.models.retries import SILENT_AFTER, PriorityLock, RateGate, at_most
from screening.pipeline.config import chain
from screening.pipeline.draws import Bill, SamplerError, encode_draws
from screening.pipeline.engine import Guard, Reason, screen
from screening.stopping.rules import PairwiseMixture
from tests.fixtures import tables
from tests.models.asking import KINDS, TEXT, asked, draw_batch
from tests.stub_server import Fault, StubPlan

TABLES = tables(__file__)
FAULTS = TABLES["faults"]
SLOW = (Fault.HANG, Fault.DRIP)


async def answer(model: HttpModel, bill: Bill) -> Label | None:
    """The label of one draw, or of the distribution where the protocol tells it."""
    told = model.distribution(draw_batch(1, bill=bill))
    if told is not None:
        return (await told).mode()
    (draw,) = await model.draw(draw_batch(1, bill=bill))
    return draw.label


@pytest.mark.usefixtures("short_pauses")
@pytest.mark.parametrize(
    ("protocol", "fault"),
    [(protocol, fault) for protocol in KINDS for fault in FAULTS if protocol == "messages" or fault not in SLOW],
)
async def test_a_fault_is_retried_and_is_no_draw_and_one_that_stays_is_an_error(protocol, fault):
    (kind, charged), bill, lasting = FAULTS[fault], Bill(), Bill()
    settings = {"protocol": protocol, "call_timeout_s": 0.7 if fault in SLOW else 20.0}
    async with asked(StubPlan(script=(fault,), weights={"unsafe": 1}), **settings) as (stub, sampler):
        assert await answer(sampler, bill) is Label.UNSAFE
        assert (stub.counters.requests, stub.counters.retries, stub.counters.answers) == (2, 1, 1)
        stub.plan = StubPlan(faults={fault: 1.0})
        with pytest.raises(SamplerError) as failure:
            await answer(sampler, lasting)
    assert (bill.requests, lasting.requests) == ((2, 2) if charged else (1, 0))
    assert (failure.value.kind, failure.value.stops_batch) == (kind, False) and TEXT.text not in str(failure.value)


@pytest.mark.parametrize(
    ("fault", "kind", "charged"),
    [(Fault.SERVER_ERROR, "server_error", 2), (Fault.MALFORMED, "malformed", 3), (Fault.HANG, "deadline", 3)],
)
async def test_of_a_failed_draw_batch_what_was_answered_or_may_be_worked_on_is_billed(fault, kind, charged):
    bill, settings = Bill(), {"max_retries": 0, "node_deadline_s": 1.0 if fault is Fault.HANG else 60.0}
    async with asked(StubPlan(script=(None, fault, None)), **settings) as (_, sampler), asyncio.timeout(15):
        with pytest.raises(SamplerError) as error:
            await sampler.draw(draw_batch(3, bill=bill))
    assert (error.value.kind, bill.requests) == (kind, charged)
    assert [draw.usage.output_tokens for draw in bill.answers.values()] == [3, 3]


@pytest.mark.parametrize(("plan", "changes", "kind"), TABLES["incurable"])
async def test_what_no_retry_cures_stops_the_batch_after_one_request(plan, changes, kind):
    async with asked(StubPlan.model_validate(plan), max_retries=5, **changes) as (stub, sampler):
        with pytest.raises(SamplerError) as error:
            await sampler.draw(draw_batch(1))
        assert stub.counters.requests == 1
    assert (error.value.kind, error.value.stops_batch) == (kind, True)
    assert TEXT.text not in str(error.value) and error.value.__cause__ is None


@pytest.mark.parametrize(
    ("plan", "changes", "kind", "words"),
    [
        (StubPlan(), {"model": "claude-sonnet-5"}, "bad_request", "leave the temperature setting empty"),
        (StubPlan(api_key="another"), {}, "authentication", ""),
        (StubPlan(script=(Fault.THINKING,)), {}, None, ""),
    ],
)
async def test_preflight_is_not_ok_without_a_label_and_names_a_temperature_that_is_refused(plan, changes, kind, words):
    async with asked(plan, **changes) as (_, sampler):
        result = await sampler.preflight()
    assert (result.ok, result.kind) == (False, kind) and words in result.message


async def test_a_429_pauses_every_call_and_a_long_retry_after_is_capped():
    plan = StubPlan(script=(Fault.RATE_LIMITED,), retry_after="900")
    async with asked(plan, pause_cap_s=0.3) as (stub, sampler):
        begun = time.monotonic()
        assert [draw.label for draw in await sampler.draw(draw_batch(1))] == [Label.SAFE]
        assert time.monotonic() - begun < 60.0
        assert stub.counters.arrivals[1] - stub.counters.arrivals[0] >= 0.29


async def test_a_service_that_refuses_everything_is_soon_asked_one_thing_at_a_time():
    draw_batches, count = 30, 10
    async with asked(StubPlan(faults={Fault.OVERLOADED: 1.0}), concurrency=16) as (stub, sampler):

        async def ask() -> None:
            with pytest.raises(SamplerError):
                await sampler.draw(draw_batch(count))

        await asyncio.gather(*(ask() for _ in range(4)))
        before = stub.counters.requests
        for _ in range(draw_batches):
            await ask()
        assert before <= 4 * count + SILENT_AFTER
        assert stub.counters.requests - before <= 2 * draw_batches, "of ten calls of a draw batch, sent again and again"
        stub.plan = StubPlan()
        assert len(await sampler.draw(draw_batch(count))) == count


# --- a draw batch to a server that bills nothing ends once its first answers leave nothing to be identified

SIX = chain("six", PairwiseMixture.symmetric(0.05, 6), "human_review")
"""A label takes six draws of six, so two different answers settle that nothing can be said."""


async def test_calls_under_way_are_broken_off_and_those_behind_them_are_not_made() -> None:
    """One call at a time; safe and unsafe come before the calls that would hang for a minute."""
    plan = StubPlan(weights={"safe": 1.0, "unsafe": 1.0}, seed=4, script=(None, None, None, *[Fault.HANG] * 9))
    async with asked(plan, protocol="chat", model="m", concurrency=1, breaks_off=True) as (stub, sampler):
        begun = time.monotonic()
        result = await asyncio.wait_for(screen(TEXT, Guard(), SIX, sampler), timeout=20)
        requests = stub.counters.requests
    assert (result.outcome, result.reason) == (Outcome.HUMAN_REVIEW, Reason.FUTILITY)
    assert 2 <= result.calls <= 3 and requests <= 4 and time.monotonic() - begun < 20
    assert {"S", "U"} <= set(encode_draws(result.runs[0].draws))


# --- the gate


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


async def test_an_attempt_that_is_given_up_while_it_is_held_back_leaves_its_place_to_others():
    gate, passed = RateGate(concurrency=1, limiter=None, pause_cap_s=60.0), []

    async def one() -> None:
        async with gate.slot():
            passed.append(gate.in_use)

    gate.pause(0.1)
    first, second = (asyncio.create_task(one()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.wait([first, second])
    assert (first.cancelled(), passed, gate.in_use, gate.free) == (True, [1], 0, 1)


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


async def test_the_deadline_runs_from_the_last_first_attempt_and_neither_our_own_limit_nor_a_retry_moves_it():
    gate, passed, attempts = RateGate(concurrency=10, limiter=_Slow(), pause_cap_s=1.0), [], 0

    async def one() -> None:
        async with gate.slot():
            passed.append(1)

    async with gate.draw_batch(urgent=False, deadline_s=1.0):
        await asyncio.gather(*(one() for _ in range(6)))
    assert len(passed) == 6
    gate = RateGate(concurrency=10, limiter=None, pause_cap_s=1.0)

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
