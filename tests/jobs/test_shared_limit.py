"""One limit for all workers: never more calls in any window, never more in flight, whoever comes and goes."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import select

from jobs.agents import (
    LAPSES_S,
    UNDER_WAY_S,
    Agents,
    SharedLimiter,
    limited_agents,
    pace_of,
)
from jobs.intake import configuration
from jobs.process import system_clock
from screening.datasets.rows import NewCase
from screening.pipeline.config import preset
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from screening.text.received import receive
from storage.batches import single_texts
from storage.batches.batches import NewBatch, cancel, progress
from storage.batches.configurations import save_configuration
from storage.batches.pending import Pace, give_up, hold
from storage.database import Database
from storage.schema import batches
from tests.jobs.files import batch_from, settings, write_posts
from tests.jobs.processes import NotingStub
from tests.jobs.running import running, until
from tests.stub_server import StubPlan

LIVE = "My neighbour brought us apples and we talked about the garden."


@contextlib.asynccontextmanager
async def at_work(db: Database, chosen: Settings, *names: str) -> AsyncIterator[None]:
    """Workers of these names, in this process, over one batch; it is cancelled before the end."""
    async with contextlib.AsyncExitStack() as stack:
        for name in names:
            agents = await stack.enter_async_context(limited_agents(chosen, db, name))
            await stack.enter_async_context(running(db, agents, worker=name))
        yield
        (batch_id,) = db.values(select(batches.c.id).where(batches.c.kind == "batch"))
        assert progress(db, batch_id).pending > 0, "there was too little to do"
        cancel(db, LOCAL_USER.at(system_clock()), batch_id)


def limited(service: NotingStub, db: Database, folder: Path, rows: int) -> Settings:
    options = {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "k", "requests_per_minute": 600}
    chosen = settings("sqlite://", options | {"concurrency": 10})
    write_posts(folder / "posts.csv", rows)
    batch_from(db, folder / "posts.csv", chosen)
    return chosen


async def test_two_workers_never_exceed_the_limit_of_one_account(
    postgresql_db: Database, stub: Callable[[StubPlan], NotingStub], tmp_path: Path
) -> None:
    service = stub(StubPlan(latency_s=0.02))
    async with at_work(postgresql_db, limited(service, postgresql_db, tmp_path, 60), "w1", "w2"):
        await until(lambda: service.counters.requests > 70)
    pace, busiest = pace_of(600), {seconds: service.counters.busiest(seconds) for seconds in (1.0, 3.0, 5.0)}
    for seconds, requests in busiest.items():  # so a minute holds no more than the limit, as `pace_of` reckons
        assert requests <= pace.burst + (seconds + LAPSES_S + UNDER_WAY_S) * pace.per_second + 2
    assert service.counters.max_in_flight <= 10


async def test_a_live_text_passes_the_calls_of_a_batch_that_the_limit_holds_back(
    db: Database, stub: Callable[[StubPlan], NotingStub], tmp_path: Path
) -> None:
    service = stub(StubPlan(latency_s=0.02))
    chosen = limited(service, db, tmp_path, 100)
    async with at_work(db, chosen, "w"):
        await until(lambda: service.counters.requests > 30)
        now = system_clock()
        version = save_configuration(db, configuration(chosen, Agents(chosen), preset("certified")), now)
        new = NewBatch(name="live", configuration_version=version, seed=0, kind="interactive")
        live = NewCase(row=1, external_id="text", text=receive(LIVE))
        case_id = single_texts.submit(db, LOCAL_USER.at(now), live, new)  # as the Screen page does
        await until(lambda: single_texts.look(db, LOCAL_USER, case_id).outcome is not None)
    asked = list(service.asked_at.items())
    ours = sorted(moment for (_, text), moments in asked if text == LIVE for moment in moments)
    others = [moment for (_, text), moments in asked if text != LIVE for moment in moments]
    between = sum(ours[0] <= moment <= ours[-1] for moment in others)
    assert len(ours) > 10 and between <= 2 * len(ours), "without priority it would be dozens of draw batches"


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
