"""What is paid for counts, also where its draws are lost; a cap holds to about a draw batch, a cancellation at once."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import select

from jobs.agents import Agents
from jobs.process import system_clock
from jobs.spend_guard import FRESH_S
from screening.pipeline.draws import Draw, DrawRequest, DrawSource, SamplerError, Usage
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from storage.batches import batches, counts
from storage.batches.batch_state import BatchState, Caps
from storage.batches.batches import change_caps, progress, retry_failed
from storage.batches.configurations import Configuration
from storage.database import Database
from storage.schema import case_errors, cases, node_runs
from tests.jobs.files import batch_from, settings, write_posts
from tests.jobs.processes import NotingStub
from tests.jobs.running import batch, job_of, running, unended, until
from tests.storage.recount import recount
from tests.stub_server import Fault, StubPlan

AMBIGUOUS = "My friend says she wants to disappear"
"""Its first node takes several draw batches and sends it on to the next."""


class Metered(Agents):
    """The simulated agents at ``price`` a draw; from draw batch number ``held_from`` on, draw batches end when `go` is
    set."""

    def __init__(self, held_from: int | None = None, price: float | None = 0.0) -> None:
        super().__init__(Settings(_env_file=None, sampler="simulated"))
        self._price = price
        self.asked: list[DrawRequest] = []
        self.broken_off = 0
        self.fails = False
        self.go = asyncio.Event()
        self._held_from = held_from

    def sampler(self, configuration: Configuration, seed: int) -> DrawSource:
        self.inner = super().sampler(configuration, seed)
        return self

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        self.asked.append(request)
        request.bill.requests += request.count
        try:
            if self._held_from is not None and len(self.asked) > self._held_from:
                await self.go.wait()
            else:
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.broken_off += 1
            raise
        if self.fails:
            raise SamplerError("overloaded", "The service is overloaded.")
        return [replace(draw, usage=Usage(input_tokens=1)) for draw in await self.inner.draw(request)]

    def cost_usd(self, configuration: Configuration, usage: Usage, node: str | None = None) -> float | None:
        return None if self._price is None else self._price * usage.input_tokens

    @property
    def calls(self) -> int:
        return sum(request.count for request in self.asked)


def _ambiguous(db: Database, rows: int = 1) -> tuple[str, list[str]]:
    return batch(db, [AMBIGUOUS] * rows), _column(db, cases.c.id)


def _column(db: Database, column) -> list[str]:  # type: ignore[no-untyped-def]
    return db.values(select(column))


def _totals(db: Database, batch_id: str) -> counts.Totals:
    with db.read() as conn:
        return counts.totals(conn, [batch_id])[batch_id]


def _require_accounted(db: Database, batch_id: str, calls: int) -> None:
    """Every call is in the sums, and the sums are those of the facts."""
    assert progress(db, batch_id).calls == calls
    with db.read() as conn:
        assert recount(conn, batch_id) == _totals(db, batch_id)


async def test_calls_of_failed_draw_batches_count_and_so_a_cap_ends_every_retry(
    db: Database, database_url: str, stub: Callable[[StubPlan], NotingStub], tmp_path: Path
) -> None:
    service = stub(StubPlan(faults={Fault.MALFORMED: 1.0}))
    options = {"ANTHROPIC_BASE_URL": service.url, "ANTHROPIC_API_KEY": "k", "requests_per_minute": 100_000}
    chosen = settings(database_url, options)
    write_posts(tmp_path / "posts.csv", 30)
    batch_id = batch_from(db, tmp_path / "posts.csv", chosen)
    change_caps(db, LOCAL_USER.at(system_clock()), batch_id, Caps(max_calls=40))
    async with contextlib.aclosing(Agents(chosen)) as made, running(db, made):
        await until(lambda: progress(db, batch_id).state is BatchState.CAPPED and unended(db) == 0)
    found = progress(db, batch_id)
    assert (found.why, found.lost_calls) == ("max_calls", found.calls)
    _require_accounted(db, batch_id, service.counters.requests)
    retry_failed(db, LOCAL_USER.at(system_clock()), batch_id)
    assert progress(db, batch_id).state is BatchState.CAPPED


async def test_attempts_that_brought_nothing_count_also_where_their_draw_batch_ends_well(
    db: Database, stub: Callable[[StubPlan], NotingStub]
) -> None:
    """The service worked on them, and charges: half of its first answers can't be read."""
    service = stub(StubPlan(weights={"safe": 1.0}, faults={Fault.MALFORMED: 0.5}, seed=3))
    chosen = Settings(_env_file=None, sampler="chat", anthropic_base_url=service.url)
    async with contextlib.aclosing(Agents(chosen)) as made:
        batch_id = batch(db, 2, made_of=made)
        for case_id in _column(db, cases.c.id):
            await job_of(db, made).screen_case(case_id)
    found = progress(db, batch_id)
    assert found.pending == 0 and found.lost_calls > 0 and _column(db, case_errors.c.calls) == []
    _require_accounted(db, batch_id, service.counters.requests)


@pytest.mark.parametrize(
    ("caps", "why"), [(Caps(max_calls=50), "max_calls"), (Caps(max_cost_usd=50 * 2**-10), "max_cost")]
)
async def test_a_cap_is_passed_by_less_than_a_draw_batch_for_all_cases_in_flight(
    db: Database, caps: Caps, why: str
) -> None:
    batch_id, agents = batch(db, 40), Metered(price=2**-10)
    change_caps(db, LOCAL_USER.at(system_clock()), batch_id, caps)
    async with running(db, agents):
        await until(lambda: progress(db, batch_id).state is BatchState.CAPPED and unended(db) == 0)
    assert agents.calls < 50 + max(request.count for request in agents.asked) and progress(db, batch_id).why == why
    assert _totals(db, batch_id).ended >= 3, "it pays for cases that end, not for the beginnings of sixteen"
    _require_accounted(db, batch_id, agents.calls)


@pytest.mark.parametrize(("price", "why"), [(0.02, "max_cost"), (None, "cost_unknown")])
async def test_a_cap_on_cost_below_the_first_price_stops_at_the_first_draw_batch(
    db: Database, price: float | None, why: str
) -> None:
    """What was lost has no price in the tables: such batches had gone on until a thousand calls were lost."""
    (batch_id, _), agents = _ambiguous(db, 20), Metered(price=price)
    change_caps(db, LOCAL_USER.at(system_clock()), batch_id, Caps(max_cost_usd=0.05))
    async with running(db, agents):
        await until(lambda: progress(db, batch_id).state is BatchState.PAUSED and unended(db) == 0)
        found = progress(db, batch_id)
        assert len(agents.asked) == 1 and (found.why, found.failed, found.at_cap) == (why, 0, True)
        assert found.cost_usd is None, "what was lost is paid for, and unknown is not free"
        _require_accounted(db, batch_id, agents.calls)
        change_caps(db, LOCAL_USER.at(system_clock()), batch_id, Caps(max_calls=30))
        await until(lambda: progress(db, batch_id).state is BatchState.CAPPED)


async def test_a_case_waits_for_what_becomes_of_calls_under_way_that_make_up_the_cap(db: Database) -> None:
    """It does not end and begin again all the while; and once they are known to use up the cap, it ends."""
    (batch_id, (first, second)), agents = _ambiguous(db, 2), Metered(held_from=0)
    change_caps(db, LOCAL_USER.at(system_clock()), batch_id, Caps(max_calls=1))
    job = job_of(db, agents)
    tasks = [asyncio.ensure_future(job.screen_case(first))]
    await until(lambda: len(agents.asked) == 1)
    tasks.append(asyncio.ensure_future(job.screen_case(second)))
    await until(lambda: unended(db) == 2)
    await asyncio.sleep(2 * FRESH_S)
    assert unended(db) == 2 and not tasks[1].done() and len(agents.asked) == 1
    agents.go.set()
    await asyncio.wait_for(asyncio.gather(*tasks), 60)
    assert len(agents.asked) == 1 and unended(db) == 0
    assert progress(db, batch_id).state is BatchState.CAPPED
    _require_accounted(db, batch_id, agents.calls)


@pytest.mark.parametrize("how", ["fails", "cancelled", "told to end"])
async def test_what_a_case_had_asked_for_is_counted_however_it_is_broken_off(db: Database, how: str) -> None:
    """In the middle of its second draw batch, however long that would take."""
    (batch_id, (case_id,)), agents = _ambiguous(db), Metered(held_from=1)
    task = asyncio.ensure_future(job_of(db, agents).screen_case(case_id))
    await until(lambda: len(agents.asked) == 2)
    if how == "fails":
        agents.fails = True
        agents.go.set()
    elif how == "cancelled":
        batches.cancel(db, LOCAL_USER.at(system_clock()), batch_id)
    else:
        task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.wait_for(task, 60)
    assert agents.broken_off == (how != "fails") and unended(db) == 0
    kind = "overloaded" if how == "fails" else "withdrawn"
    assert (_column(db, case_errors.c.kind), _column(db, case_errors.c.calls)) == ([kind], [agents.calls])
    assert progress(db, batch_id).failed == 0
    _require_accounted(db, batch_id, agents.calls)


async def test_a_paused_batch_ends_the_nodes_that_have_begun_and_begins_none(db: Database) -> None:
    (batch_id, (case_id,)), agents = _ambiguous(db), Metered(held_from=0)
    task = asyncio.ensure_future(job_of(db, agents).screen_case(case_id))
    await until(lambda: len(agents.asked) == 1)
    batches.pause(db, LOCAL_USER.at(system_clock()), batch_id)
    await asyncio.sleep(2 * FRESH_S)
    agents.go.set()
    await asyncio.wait_for(task, 60)
    assert len(agents.asked) > 1, "a node of one draw batch tests nothing"
    assert {request.node for request in agents.asked} == {"worker"}
    assert _column(db, node_runs.c.node) == ["worker"] and unended(db) == 0
    assert progress(db, batch_id).lost_calls == 0
    _require_accounted(db, batch_id, agents.calls)
