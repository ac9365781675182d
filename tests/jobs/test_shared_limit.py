"""One limit for all workers: never more calls in any window, never more in flight, whoever comes and goes."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from jobs.agents import LAPSES_S, UNDER_WAY_S, SharedLimiter, limited_agents, pace_of
from jobs.process import system_clock
from screening.review.policy import LOCAL_USER
from storage.batches.batches import cancel, progress
from storage.batches.pending import Pace, give_up, hold
from storage.database import Database
from tests.jobs.files import batch_from, write_posts
from tests.jobs.processes import NotingStub
from tests.jobs.running import running, settings_of, until
from tests.stub_server import StubPlan


async def test_two_workers_never_exceed_the_limit_of_one_account(
    postgresql_db: Database, stub: Callable[[StubPlan], NotingStub], tmp_path: Path
) -> None:
    db, service = postgresql_db, stub(StubPlan(latency_s=0.02))
    chosen = settings_of(service.url, requests_per_minute=600, concurrency=10)
    write_posts(tmp_path / "posts.csv", 60)
    batch_id = batch_from(db, tmp_path / "posts.csv", chosen)
    async with contextlib.AsyncExitStack() as stack:
        for name in ("w1", "w2"):
            agents = await stack.enter_async_context(limited_agents(chosen, db, name))
            await stack.enter_async_context(running(db, agents, worker=name))
        await until(lambda: service.counters.requests > 70)
        assert progress(db, batch_id).pending > 0, "there was too little to do"
        cancel(db, LOCAL_USER.at(system_clock()), batch_id)
    pace, busiest = pace_of(600), {seconds: service.counters.busiest(seconds) for seconds in (1.0, 3.0, 5.0)}
    for seconds, requests in busiest.items():  # so a minute holds no more than the limit, as `pace_of` reckons
        assert requests <= pace.burst + (seconds + LAPSES_S + UNDER_WAY_S) * pace.per_second + 2
    assert service.counters.max_in_flight <= 10


@given(per_minute=st.integers(1, 5000))
def test_no_minute_of_arrivals_can_hold_more_than_the_limit(per_minute: int) -> None:
    pace = pace_of(per_minute)
    just_under = 62 - 1e-6
    assert pace.burst + int(just_under * pace.per_second) <= per_minute
    with pytest.raises(ValueError, match="at least one"):
        pace_of(1 - per_minute)


class Holder:
    """A worker as the books see it: the size of its gate, its calls under way, and whether it waits for an answer."""

    def __init__(self, name: str) -> None:
        self.name, self.size, self.in_flight = name, 0, 0
        self.answer: int | None = None

    def fill(self) -> None:
        self.in_flight = max(self.in_flight, self.size)

    def end(self) -> None:
        self.in_flight -= self.in_flight > 0

    def renew(self, db: Database, total: int) -> None:
        """Asks or hears the answer: calls begin and end in between."""
        if self.answer is None:
            self.answer = hold(db, "places", self.name, max(self.size, self.in_flight), total, 60.0)
        else:
            self.size, self.answer = self.answer, None


@hypothesis_settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.integers(0, 2), st.sampled_from(("fill", "end", "renew", "renew"))), max_size=60),
    total=st.integers(3, 8),
)
def test_calls_in_flight_never_pass_the_total_and_each_worker_comes_to_its_share(
    db: Database, steps: list[tuple[int, str]], total: int
) -> None:
    workers = [Holder(name) for name in "abc"]
    for worker in workers:
        give_up(db, "places", worker.name)

    def step(worker: Holder, action: str) -> None:
        worker.renew(db, total) if action == "renew" else getattr(worker, action)()
        assert sum(each.in_flight for each in workers) <= total

    for number, action in steps:
        step(workers[number], action)
    for _ in range(10):  # five renewals, asked and answered, of workers that are always busy
        for worker in workers:
            for action in ("end",) * total + ("renew", "fill"):
                step(worker, action)
    sizes = [worker.size for worker in workers]
    assert sum(sizes) == total and max(sizes) - min(sizes) <= 1


async def test_leave_is_taken_in_blocks_and_comes_to_all_though_it_always_lapses(db: Database) -> None:
    pace = Pace(per_second=100.0, burst=10)
    limiter, late = SharedLimiter(db=db, pace=pace), SharedLimiter(db=db, pace=pace, lapses_s=-1.0)
    started = time.monotonic()
    for _ in range(30):
        await limiter.acquire()
    assert time.monotonic() - started >= 0.18
    async with asyncio.timeout(60):
        for _ in range(10):
            await late.acquire()
