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

from jobs.agents import Agents
from jobs.intake import configuration
from jobs.port import system_clock
from jobs.shared_limit import SharedLimiter, pace_of, share_places
from screening.pipeline import preset
from screening.samplers.rate import RateGate
from screening.settings import Settings
from screening.text.received import receive
from storage import single_texts
from storage.actors import LOCAL_USER
from storage.batches import NewBatch, cancel, progress
from storage.call_limits import Pace, give_up, hold, take
from storage.configurations import save_configuration
from storage.database import Database
from tests.jobs.files import batch_from, settings, write_posts
from tests.jobs.processes import NotingStub, Workers, wait_for
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
    write_posts(tmp_path / "posts.csv", 400)
    db = postgresql_db
    batch_id = batch_from(db, tmp_path / "posts.csv", settings(postgresql_url, options))
    for _ in range(2):
        workers.start(postgresql_url, options)
    workers.up(0)
    workers.up(1)
    wait_for(lambda: service.counters.requests > 0, 30)
    time.sleep(64)
    requests, busiest = service.counters.requests, service.counters.busiest(60.0)
    cancel(db, LOCAL_USER, batch_id, system_clock())
    assert progress(db, batch_id).pending > 0, "there was too little to do"
    print(f"limit {limit} a minute: {busiest} in the busiest minute, {service.counters.busiest(1.0)} in a second")
    assert busiest <= limit
    assert requests > 0.85 * limit, "the limit should be used, too"
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
    case_id = _live_text(db, chosen)
    wait_for(lambda: single_texts.look(db, LOCAL_USER, case_id).outcome is not None, 60)
    assert progress(db, batch_id).pending > 0, "there was too little to do"
    cancel(db, LOCAL_USER, batch_id, system_clock())
    asked = list(service.asked_at.items())
    ours = sorted(moment for (_, text), moments in asked if text == LIVE for moment in moments)
    others = [moment for (_, text), moments in asked if text != LIVE for moment in moments]
    between = sum(ours[0] <= moment <= ours[-1] for moment in others)
    print(f"{db.kind}: {between} calls of the batch during the {len(ours)} of the live text")
    assert between <= len(ours) / 2, "without priority it would be dozens of waves"


def _live_text(db: Database, chosen: Settings) -> str:
    """Handed in as the Screen page does; the case's id."""
    found = configuration(chosen, Agents(chosen), preset("paper"))
    now = system_clock()
    version = save_configuration(db, found, now)
    new = NewBatch(name="live", configuration_version=version, seed=0, kind="interactive")
    return single_texts.submit(db, LOCAL_USER, receive(LIVE), new, now)


@given(per_minute=st.integers(1, 5000))
def test_no_minute_of_arrivals_can_hold_more_than_the_limit(per_minute: int) -> None:
    pace = pace_of(per_minute)
    just_under = 62 - 1e-6
    assert pace.burst + int(just_under * pace.per_second) <= per_minute


def test_a_worker_cannot_be_limited_to_nothing() -> None:
    with pytest.raises(ValueError, match="at least one"):
        pace_of(0)


def test_leave_comes_at_the_pace(db: Database) -> None:
    pace = Pace(per_second=0.02, burst=3)
    assert take(db, "x", pace, 10).count == 3
    refused = take(db, "x", pace, 10)
    assert refused.count == 0 and 0 < refused.wait_s <= 50
    assert take(db, "other", pace, 2).count == 2, "limits do not touch each other"


@hypothesis_settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 7)), max_size=12), total=st.integers(1, 6))
def test_places_held_never_sum_to_more_than_there_are(db: Database, steps: list[tuple[str, int]], total: int) -> None:
    held: dict[str, int] = {}
    for holder in "abc":
        give_up(db, "places", holder)
    for holder, used in steps:
        held[holder] = hold(db, "places", holder, min(used, held.get(holder, 0)), total, 60.0)
        assert sum(held.values()) <= total


def test_places_are_shared_evenly_and_come_back(db: Database) -> None:
    assert hold(db, "p", "a", 0, 5, 60.0) == 5
    assert hold(db, "p", "b", 0, 5, 60.0) == 0, "a still holds all"
    assert hold(db, "p", "a", 4, 5, 60.0) == 4, "calls under way keep their places"
    assert hold(db, "p", "b", 0, 5, 60.0) == 1
    assert hold(db, "p", "a", 0, 5, 60.0) == 3
    assert hold(db, "p", "b", 1, 5, 60.0) == 2
    give_up(db, "p", "a")
    assert hold(db, "p", "b", 1, 5, 60.0) == 5


def test_the_places_of_a_silent_worker_come_free_when_its_lease_ends(db: Database) -> None:
    assert hold(db, "p", "dead", 0, 4, 0.2) == 4
    assert hold(db, "p", "b", 0, 4, 60.0) == 0
    time.sleep(0.25)
    assert hold(db, "p", "b", 0, 4, 60.0) == 4


async def test_a_worker_that_cannot_reach_the_database_makes_no_further_calls(sqlite_url: str) -> None:
    database = Database(sqlite_url)
    gate = RateGate(concurrency=1, limiter=None, pause_cap_s=1.0)
    task = asyncio.create_task(share_places(database, gate, 6, "w"))
    for _ in range(100):
        await asyncio.sleep(0.02)
        if gate.free == 6:
            break
    assert gate.free == 6
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert gate.free == 0 and hold(database, "calls in flight", "other", 0, 6, 1.0) == 6
    database.close()


async def test_leave_is_taken_in_blocks_and_lapses(db: Database) -> None:
    limiter = SharedLimiter(db=db, pace=Pace(per_second=100.0, burst=10))
    started = time.monotonic()
    for _ in range(30):
        await limiter.acquire()
    assert time.monotonic() - started >= 0.18
