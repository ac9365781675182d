"""One limit for all workers: never more calls in any window, never more in flight, whoever comes and goes."""

import asyncio
import contextlib
import itertools
import random
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import Connection, select, update

from jobs import agents as shared_limit
from jobs.agents import LAPSES_S, PLACES, RATE, UNDER_WAY_S, Agents, SharedLimiter, pace_of, share_places
from jobs.intake import configuration
from jobs.process import system_clock
from screening.datasets.rows import NewCase
from screening.models.limits import RateGate
from screening.pipeline.config import preset
from screening.review.actors import LOCAL_USER
from screening.text.received import receive
from storage.batches import single_texts
from storage.batches.batches import NewBatch, cancel, progress
from storage.batches.configurations import save_configuration
from storage.batches.pending import Pace, give_up, hold, take
from storage.database import Database
from storage.schema import call_limits
from tests.jobs.files import batch_from, settings, write_posts
from tests.jobs.processes import NotingStub, Workers, wait_for
from tests.jobs.running import until
from tests.stub_server import StubPlan

LIVE = "My neighbour brought us apples and we talked about the garden."


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_two_workers_never_exceed_the_limit_of_one_account(
    postgresql_url: str,
    postgresql_db: Database,
    workers: Workers,
    stub: Callable[[StubPlan], NotingStub],
    tmp_path: Path,
) -> None:
    service, limit = stub(StubPlan(latency_s=0.02)), 600
    options = {
        "ANTHROPIC_BASE_URL": service.url,
        "ANTHROPIC_API_KEY": "k",
        "requests_per_minute": limit,
        "concurrency": 10,
    }
    write_posts(tmp_path / "posts.csv", 250)
    db = postgresql_db
    batch_id = batch_from(db, tmp_path / "posts.csv", settings(postgresql_url, options))
    for _ in range(2):
        workers.start(postgresql_url, options)
    workers.up(0)
    workers.up(1)
    wait_for(lambda: service.counters.requests > 90, 90)
    cancel(db, LOCAL_USER.at(system_clock()), batch_id)
    assert progress(db, batch_id).pending > 0, "there was too little to do"
    pace, busiest = pace_of(limit), {seconds: service.counters.busiest(seconds) for seconds in (1.0, 5.0, 7.0)}
    print(f"limit {limit} a minute: {busiest} in the busiest seconds")
    for seconds, requests in busiest.items():  # so a minute holds no more than the limit, as `pace_of` reckons
        assert requests <= pace.burst + (seconds + LAPSES_S + UNDER_WAY_S) * pace.per_second + 2
    assert busiest[5.0] > 0.6 * 5 * pace.per_second, "the limit should be used, too"  # a busy machine uses less of it
    assert service.counters.max_in_flight <= 10


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_live_text_passes_the_calls_of_a_batch_that_the_limit_holds_back(
    db: Database, database_url: str, workers: Workers, stub: Callable[[StubPlan], NotingStub], tmp_path: Path
) -> None:
    service = stub(StubPlan(latency_s=0.02))
    options = {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "k", "requests_per_minute": 600}
    chosen = settings(database_url, options)
    write_posts(tmp_path / "posts.csv", 400)
    batch_id = batch_from(db, tmp_path / "posts.csv", chosen)
    workers.start(database_url, options)
    workers.up(0)
    wait_for(lambda: service.counters.requests > 30, 60)
    now = system_clock()
    version = save_configuration(db, configuration(chosen, Agents(chosen), preset("paper")), now)
    new = NewBatch(name="live", configuration_version=version, seed=0, kind="interactive")
    live = NewCase(row=1, external_id="text", text=receive(LIVE))
    case_id = single_texts.submit(db, LOCAL_USER.at(now), live, new)  # as the Screen page does
    wait_for(lambda: single_texts.look(db, LOCAL_USER, case_id).outcome is not None, 60)
    assert progress(db, batch_id).pending > 0, "there was too little to do"
    cancel(db, LOCAL_USER.at(system_clock()), batch_id)
    asked = list(service.asked_at.items())
    ours = sorted(moment for (_, text), moments in asked if text == LIVE for moment in moments)
    others = [moment for (_, text), moments in asked if text != LIVE for moment in moments]
    between = sum(ours[0] <= moment <= ours[-1] for moment in others)
    print(f"{db.kind}: {between} calls of the batch during the {len(ours)} of the live text")
    assert between <= len(ours) / 2, "without priority it would be dozens of draw batches"


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


@hypothesis_settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
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


async def test_who_comes_gets_its_share_from_workers_that_are_never_idle(db: Database) -> None:
    total, under_way, most = 10, 0, 0
    rng = random.Random(4)

    async def calls(gate: RateGate) -> None:
        nonlocal under_way, most
        while True:
            async with gate.slot():
                under_way += 1
                most = max(most, under_way)
                try:
                    await asyncio.sleep(rng.uniform(0.02, 0.1))  # several renewals long
                finally:
                    under_way -= 1
            await asyncio.sleep(rng.uniform(0.0, 0.1))

    @contextlib.asynccontextmanager
    async def worker(name: str, share: int, callers: int = 40) -> AsyncIterator[None]:
        gate = RateGate(concurrency=1, limiter=None, pause_cap_s=1.0)
        gate.resize(0)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(calls(gate)) for _ in range(callers)]
            sharing = group.create_task(share_places(db, gate, total, name, every_s=0.01))
            await until(lambda: gate.in_use == share)
            yield
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            sharing.cancel()

    async with worker("a", 10):
        for _ in range(4):
            async with worker("b", 5), worker("c", 3):
                pass
            async with worker("idle", 5, callers=6):
                pass
    assert most == total


class TellingLater(Database):
    """What was committed is told when the test says so: a network that stalls."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._told, self.commits = threading.Semaphore(0), 0

    def tell(self, times: int) -> None:
        self._told.release(times)

    @contextlib.contextmanager
    def write(self) -> Iterator[Connection]:
        with super().write() as connection:
            yield connection
        self.commits += 1
        assert self._told.acquire(timeout=60)


@pytest.fixture
def slow(database_url: str) -> Iterator[TellingLater]:
    """The database of the test behind a network that stalls."""
    database = TellingLater(database_url)
    yield database
    database.close()


async def test_calls_begun_before_a_smaller_share_is_known_keep_their_places(db: Database, slow: TellingLater) -> None:
    gate, ended = RateGate(concurrency=1, limiter=None, pause_cap_s=1.0), asyncio.Event()
    gate.resize(0)

    async def call() -> None:
        async with gate.slot():
            await ended.wait()

    slow.tell(1)
    sharing = asyncio.create_task(share_places(slow, gate, 10, "a", every_s=0.01))
    await until(lambda: gate.free == 10 and slow.commits == 2)
    assert hold(db, PLACES, "b", 0, 10, 60.0) == 0
    slow.tell(1)
    await until(lambda: slow.commits == 3)  # asked while idle, and is to have 5
    calls = [asyncio.create_task(call()) for _ in range(10)]
    await until(lambda: gate.in_use == 10)
    assert hold(db, PLACES, "b", 0, 10, 60.0) == 0
    slow.tell(10_000)
    await until(lambda: slow.commits > 5)
    assert hold(db, PLACES, "b", 0, 10, 60.0) == 0
    ended.set()
    await asyncio.gather(*calls)
    await until(lambda: hold(db, PLACES, "b", 0, 10, 60.0) == 5)
    assert gate.free == 5
    sharing.cancel()
    await asyncio.wait([sharing])


async def test_a_worker_whose_renewal_hangs_begins_no_call(slow: TellingLater, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_limit, "UNRENEWED_S", 0.5)
    gate = RateGate(concurrency=1, limiter=None, pause_cap_s=1.0)
    slow.tell(1)
    sharing = asyncio.create_task(share_places(slow, gate, 6, "w", every_s=0.01))
    await until(lambda: gate.free == 6)
    await until(lambda: gate.free == 0)
    slow.tell(10_000)
    await until(lambda: gate.free == 6)
    sharing.cancel()
    await asyncio.wait([sharing])
    assert gate.free == 0 and hold(slow, PLACES, "other", 0, 6, 1.0) == 6, "told to end, it gives its share back"


async def test_leave_that_always_comes_late_starves_nobody(slow: TellingLater) -> None:
    slow.tell(1_000)
    limiter = SharedLimiter(db=slow, pace=Pace(per_second=100.0, burst=10), lapses_s=-1.0)
    async with asyncio.timeout(60):
        for _ in range(20):
            await limiter.acquire()


async def test_leave_told_late_to_many_workers_at_once_exceeds_no_limit(slow: TellingLater) -> None:
    pace = Pace(per_second=100.0, burst=10)
    made: list[float] = []

    async def calls(limiter: SharedLimiter) -> None:
        for _ in range(15):
            await limiter.acquire()
            made.append(time.monotonic())

    limiters = [SharedLimiter(db=slow, pace=pace, lapses_s=0.05) for _ in range(4)]
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        for number, limiter in enumerate(limiters, start=1):
            group.create_task(calls(limiter))
            await until(lambda number=number: slow.commits == number)  # type: ignore[misc]
            await asyncio.sleep(0.1)  # a block's time: each has a whole one waiting for it
        assert not made
        slow.tell(1_000)
    for first, last in itertools.combinations(range(len(made)), 2):
        allowed = pace.burst + pace.per_second * (made[last] - made[first] + 0.05) + len(limiters)
        assert last - first <= allowed, "too many in a window"


async def test_waiting_for_a_turn_in_the_database_takes_nothing_off_the_life_of_leave(db: Database) -> None:
    limiter = SharedLimiter(db=db, pace=Pace(per_second=100.0, burst=10))
    assert take(db, RATE, limiter.pace, 1)[0] == 1

    def taken() -> float:
        return db.value(select(call_limits.c.next_at).where(call_limits.c.name == RATE))

    with db.write() as connection:  # others before us, for longer than leave lives
        connection.execute(update(call_limits).where(call_limits.c.name == RATE).values(next_at=0.0))
        first = asyncio.create_task(limiter.acquire())
        await asyncio.sleep(LAPSES_S + 0.2)
    await first
    before = taken()
    for _ in range(9):
        await limiter.acquire()
    assert taken() == before, "the block was good for all its ten calls"


async def test_leave_is_taken_in_blocks_and_lapses(db: Database) -> None:
    limiter = SharedLimiter(db=db, pace=Pace(per_second=100.0, burst=10))
    started = time.monotonic()
    for _ in range(30):
        await limiter.acquire()
    assert time.monotonic() - started >= 0.18
