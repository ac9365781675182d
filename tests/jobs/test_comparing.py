"""A second pipeline on the same cases: everything is found, and nothing that people see or that decides changes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from pydantic import SecretStr
from sqlalchemy import func, select, type_coerce, update
from sqlalchemy.types import BigInteger

from jobs.agents import Agents
from jobs.comparing import AT_ONCE, ComparisonRunner
from jobs.intake import configuration
from jobs.port import system_clock
from screening.pipeline.config import Preset, preset
from screening.pipeline.draws import DrawRequest, SamplerError
from screening.review.actors import LOCAL_USER
from screening.review.policy import Forbidden
from screening.settings import Settings
from storage.batches.batch_state import Caps
from storage.batches.configurations import save_configuration
from storage.batches.costs import daily_costs
from storage.database import Database
from storage.research.comparisons import (
    begin_comparison,
    end_comparison,
    list_comparisons,
    next_due,
    paired_outcomes,
    resume_comparison,
)
from storage.review.erasure import By, Selection, erase
from storage.review.worklist import request_second_looks
from storage.schema import comparison_outcomes, comparisons, configurations, duties, metadata, node_runs
from storage.site.audit_check import verify
from tests.databases import write
from tests.jobs.processes import NotingStub
from tests.jobs.running import screened, until
from tests.jobs.test_overnight import Stub
from tests.storage.inbox_cases import ANN, SENIOR
from tests.stub_server import Fault, StubPlan

OURS = {"comparisons", "comparison_outcomes", "configurations", "duties", "audit_events"}


def _everything_else(db: Database) -> dict[str, list]:
    names = [table for table in metadata.sorted_tables if table.name not in OURS]
    return {table.name: sorted(map(repr, db.rows(select(table)))) for table in names}


def _comparing(db: Database, settings: Settings, worker: str = "one") -> ComparisonRunner:
    return ComparisonRunner(db=db, agents=Agents(settings), clock=system_clock, worker=worker)


def _begin(
    db: Database, settings: Settings, batch_id: str, most: int = 200, caps: Caps | None = None, rule: Preset = "paper"
) -> str:
    second = configuration(settings, Agents(settings), preset(rule))
    version = save_configuration(db, second, system_clock())
    by, caps = LOCAL_USER.at(system_clock()), caps or Caps()
    return begin_comparison(db, by, batch_id, configuration=version, name="paper", most_cases=most, caps=caps)


async def test_a_shadow_run_changes_nothing_but_its_own_tables(db: Database) -> None:
    settings = Settings(_env_file=None, sampler="simulated")
    batch_id = await screened(db, 40)
    before = _everything_else(db)
    comparison = _begin(db, settings, batch_id)
    assert _begin(db, settings, batch_id) == comparison  # pressed twice
    comparing = _comparing(db, settings)
    while await comparing.round():
        pass
    assert _everything_else(db) == before
    (found,) = list_comparisons(db, LOCAL_USER)
    assert (found.done, found.of, found.running) == (40, 40, False)
    pairs = paired_outcomes(db, LOCAL_USER, comparison)
    assert (sum(pair.hidden for pair in pairs), len(pairs)) == (0, 40)
    # Algorithm 1 needs 72 calls where the answers agree, the pooled rule 6 or 11.
    assert all(pair.second.calls >= 72 > pair.first.calls for pair in pairs if pair.first.outcome == "safe")
    assert verify(db).ok
    shown = {pair.case_id for pair in paired_outcomes(db, SENIOR, comparison) if not pair.hidden}
    assert len(shown) == 30  # those called unsafe are in review
    sent = next(iter(sorted(shown)))
    request_second_looks(db, LOCAL_USER.at(system_clock()), [sent])
    left = paired_outcomes(db, SENIOR, comparison)
    assert {pair.case_id for pair in left if not pair.hidden} == shown - {sent} and len(left) == 40


async def test_at_most_so_many_cases_each_once_by_one_worker_at_a_time(db: Database) -> None:
    settings = Settings(_env_file=None, sampler="simulated")
    batch_id = await screened(db, 12)
    _begin(db, settings, batch_id, most=6)
    first, second = _comparing(db, settings), _comparing(db, settings, "two")
    assert (await first.round(), await second.round()) == (4, 0)
    assert (await first.round(), await first.round()) == (2, 0)
    assert list_comparisons(db, LOCAL_USER)[0].done == 6


async def test_what_was_erased_is_not_asked_of_a_second_pipeline(db: Database) -> None:
    settings = Settings(_env_file=None, sampler="simulated")
    batch_id = await screened(db, 12)
    _begin(db, settings, batch_id)
    comparing = _comparing(db, settings)
    assert await comparing.round() == 4
    (done, *_), left = db.values(select(comparison_outcomes.c.case_id)), next_due(db, LOCAL_USER.at(system_clock()), 1)
    assert left is not None
    for case_id in (done, left[3][0].case_id):
        erase(db, LOCAL_USER.at(system_clock()), Selection(by=By.CASE, value=case_id), "asked for by the author")
    while await comparing.round():
        pass
    (found,) = list_comparisons(db, LOCAL_USER)
    assert (found.done, found.of, found.running) == (11, 11, False)


async def test_what_was_stopped_goes_no_further(db: Database) -> None:
    settings = Settings(_env_file=None, sampler="simulated")
    batch_id = await screened(db, 12)
    comparison = _begin(db, settings, batch_id)
    assert await _comparing(db, settings).round() == 4
    end_comparison(db, LOCAL_USER.at(system_clock()), comparison, "stopped")
    assert await _comparing(db, settings).round() == 0
    assert not list_comparisons(db, LOCAL_USER)[0].running


async def test_one_that_this_version_cannot_read_ends_and_holds_up_no_other(db: Database) -> None:
    settings = Settings(_env_file=None, sampler="simulated")
    batch_id = await screened(db, 4)
    written_by_another = _begin(db, settings, batch_id)
    of_it = configurations.c.version == db.value(select(comparisons.c.configuration))
    write(db, update(configurations).where(of_it).values(body={"pipeline": {"rule": 9}, "sampler": {}, "texts": {}}))
    _begin(db, settings, batch_id, rule="certified")
    while await _comparing(db, settings).round():
        pass
    found = {one.id: (one.ended_why, one.done) for one in list_comparisons(db, LOCAL_USER)}
    assert found.pop(written_by_another) == ("configuration_unreadable", 0) and list(found.values()) == [(None, 4)]


async def test_a_model_that_refuses_ends_the_comparison_and_one_that_is_away_does_not(db: Database) -> None:
    simulated = Settings(_env_file=None, sampler="simulated")
    batch_id = await screened(db, 4)
    _begin(db, simulated, batch_id)
    other = Settings(
        _env_file=None, sampler="simulated", seed=7
    )  # agents of another name than the configuration's are never asked
    comparing = ComparisonRunner(db=db, agents=_Elsewhere(other), clock=system_clock, worker="one")
    assert await comparing.round() == 0
    assert list_comparisons(db, LOCAL_USER)[0].ended_why == "configuration_changed"


async def test_what_a_refused_key_ended_goes_on_with_the_cases_that_are_left(db: Database, stub: Stub) -> None:
    server = stub(StubPlan(weights={"safe": 1.0}, api_key="right"))
    wrong = Settings(_env_file=None, sampler="anthropic", anthropic_base_url=server.url, anthropic_api_key="old")
    comparison, agents = _begin(db, wrong, await screened(db, 3)), Agents(wrong)
    assert await ComparisonRunner(db=db, agents=agents, clock=system_clock, worker="one").round() == 0
    await agents.aclose()
    (ended,) = list_comparisons(db, LOCAL_USER)
    assert (ended.ended_why, ended.may_go_on, ended.running) == ("authentication", True, False)
    assert [resume_comparison(db, LOCAL_USER.at(system_clock()), comparison) for _ in range(2)] == [True, False]
    agents = Agents(wrong.model_copy(update={"anthropic_api_key": SecretStr("right")}))
    assert await ComparisonRunner(db=db, agents=agents, clock=system_clock, worker="one").round() == 3
    await agents.aclose()
    (found,) = list_comparisons(db, LOCAL_USER)
    assert (found.id, found.done, found.ended_why, found.may_go_on) == (comparison, 3, None, False)
    assert verify(db).ok


async def test_what_was_stopped_goes_on_when_it_is_begun_again_and_is_not_paid_twice(db: Database) -> None:
    settings = Settings(_env_file=None, sampler="simulated")
    batch_id = await screened(db, 3)
    first = _begin(db, settings, batch_id)
    end_comparison(db, LOCAL_USER.at(system_clock()), first, "stopped")
    assert _begin(db, settings, batch_id) == first
    assert not resume_comparison(db, LOCAL_USER.at(system_clock()), first), "it goes on already"
    assert [(one.id, one.running) for one in list_comparisons(db, LOCAL_USER)] == [(first, True)]


async def test_what_is_begun_with_more_texts_is_the_same_one_and_pays_for_the_further_ones_alone(db: Database) -> None:
    settings = Settings(_env_file=None, sampler="simulated")
    batch_id = await screened(db, 12)
    first = _begin(db, settings, batch_id, most=3)
    comparing = _comparing(db, settings)
    assert (await comparing.round(), await comparing.round()) == (3, 0)
    end_comparison(db, LOCAL_USER.at(system_clock()), first, "stopped")
    assert _begin(db, settings, batch_id, most=5) == first
    assert (await comparing.round(), await comparing.round()) == (2, 0)
    assert _begin(db, settings, batch_id, most=5) != first, "it has all its cases: this is another one"
    found = {one.id: (one.done, one.of, one.may_go_on) for one in list_comparisons(db, LOCAL_USER)}
    assert found.pop(first) == (5, 5, False) and list(found.values()) == [(0, 5, False)]


async def test_after_a_worker_that_was_killed_another_compares_soon(db: Database) -> None:
    settings, now = Settings(_env_file=None, sampler="simulated"), [system_clock()]
    _begin(db, settings, await screened(db, 12))
    killed, restarted = (
        ComparisonRunner(db=db, agents=Agents(settings), clock=lambda: now[0], worker=name) for name in ("one", "two")
    )
    assert (await killed.round(), await restarted.round()) == (4, 0)
    if db.kind == "postgresql":  # whose own clock it goes by
        with db.write() as conn:
            conn.execute(update(duties).values(until=type_coerce(duties.c.until, BigInteger) - 20_000_000))
    now[0] += timedelta(seconds=20)
    assert await restarted.round() == 4


async def test_what_reached_its_cap_stays_ended_and_readers_resume_nothing(db: Database) -> None:
    settings = Settings(_env_file=None, sampler="simulated")
    comparison = _begin(db, settings, await screened(db, 4), caps=Caps(max_calls=1))
    await _comparing(db, settings).round()
    assert await _comparing(db, settings).round() == 0
    assert not resume_comparison(db, LOCAL_USER.at(system_clock()), comparison)
    assert not list_comparisons(db, LOCAL_USER)[0].may_go_on
    assert _begin(db, settings, list_comparisons(db, LOCAL_USER)[0].batch_id or "", caps=Caps()) != comparison
    with pytest.raises(Forbidden):
        resume_comparison(db, ANN.at(system_clock()), comparison)


class _Elsewhere(Agents):
    """The agents of a site that was set anew in the meantime: a comparison never mixes two."""

    def sampler(self, configuration, seed):
        return super().sampler(configuration, 7)


async def test_a_cap_ends_it_within_a_few_waves_and_what_was_paid_counts(db: Database) -> None:
    settings = Settings(_env_file=None, sampler="simulated")
    batch_id = await screened(db, 20)
    comparison = _begin(db, settings, batch_id, caps=Caps(max_calls=300))
    comparing = _comparing(db, settings)
    for _ in range(20):
        await comparing.round()
    (found,) = list_comparisons(db, LOCAL_USER)
    spent = found.totals.calls + found.totals.lost_calls
    assert found.ended_why == "max_calls" and 300 <= spent <= 300 + AT_ONCE * 72 and found.done < 20
    (today,) = daily_costs(db, LOCAL_USER.at(system_clock()))
    deciding = db.value(select(func.sum(node_runs.c.calls)))
    assert today.calls == deciding + found.totals.calls > deciding and comparison == found.id


class _Away(Agents):
    """A service that breaks down after the first wave of every case."""

    def sampler(self, configuration, seed):
        self.inner = super().sampler(configuration, seed)
        return self

    async def draw(self, request: DrawRequest):
        request.bill.requests += request.count
        if request.first:
            raise SamplerError("overloaded", "The service is overloaded.")
        return await self.inner.draw(request)


async def test_what_failed_is_put_off_and_its_calls_are_counted_as_lost(db: Database) -> None:
    settings = Settings(_env_file=None, sampler="simulated")
    batch_id = await screened(db, 8)
    _begin(db, settings, batch_id)
    comparing = ComparisonRunner(db=db, agents=_Away(settings), clock=system_clock, worker="one")
    kept = [await comparing.round() for _ in range(4)]
    (found,) = list_comparisons(db, LOCAL_USER)
    assert found.done == sum(kept) < 8 and found.ended_why is None
    lost = found.totals.lost_calls
    assert lost > 0
    assert await comparing.round() == 0 and list_comparisons(db, LOCAL_USER)[0].totals.lost_calls == lost


class _Odd(Agents):
    """Agents with a bug that shows once the calls of a wave were made."""

    def sampler(self, configuration, seed):
        self.inner = super().sampler(configuration, seed)
        return self

    async def draw(self, request: DrawRequest):
        await self.inner.draw(request)
        raise ZeroDivisionError


@asynccontextmanager
async def _asking(
    db: Database, stub: NotingStub, cases: int, kind: type[Agents] = Agents
) -> AsyncIterator[ComparisonRunner]:
    """A comparison of so many cases that asks the stub."""
    settings = Settings(_env_file=None, sampler="anthropic", anthropic_base_url=stub.url, anthropic_api_key="k")
    asked = kind(settings)
    _begin(db, settings, await screened(db, cases))
    try:
        yield ComparisonRunner(db=db, agents=asked, clock=system_clock, worker="one")
    finally:
        await asked.aclose()


def _counted(db: Database) -> int:
    (found,) = list_comparisons(db, LOCAL_USER)
    return found.totals.calls + found.totals.lost_calls


async def test_a_bug_puts_its_case_off_and_what_was_paid_is_counted(db: Database, stub: Stub) -> None:
    server = stub(StubPlan(weights={"safe": 0.5, "unsafe": 0.5}))
    async with _asking(db, server, 3, _Odd) as comparing:
        assert (await comparing.round(), await comparing.round()) == (0, 0)
    asked = server.counters.requests  # of a wave that is broken off some calls may never have reached the server
    assert 0 < asked <= _counted(db) <= asked + AT_ONCE * 3
    assert list_comparisons(db, LOCAL_USER)[0].running


async def test_a_shutdown_counts_what_was_asked_for_until_then(db: Database, stub: Stub) -> None:
    server = stub(StubPlan(weights={"safe": 0.5, "unsafe": 0.5}, latency_s=0.05))
    async with _asking(db, server, 3) as comparing:
        working = asyncio.create_task(comparing.run())
        await until(lambda: server.counters.requests > 20)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    assert 20 < server.counters.requests <= _counted(db) <= server.counters.requests + AT_ONCE * 3


async def test_attempts_that_had_to_be_made_again_count_beside_the_calls(db: Database, stub: Stub) -> None:
    server = stub(StubPlan(weights={"safe": 1.0}, script=(Fault.MALFORMED, None, Fault.HTML)))
    async with _asking(db, server, 1) as comparing:
        assert await comparing.round() == 1
    (found,) = list_comparisons(db, LOCAL_USER)
    assert (found.totals.lost_calls, _counted(db)) == (2, server.counters.requests)


def test_readers_cannot_begin_one(db: Database) -> None:
    with pytest.raises(Forbidden):
        begin_comparison(db, ANN.at(system_clock()), "x", configuration="y", name="z", most_cases=1)
    assert db.value(select(func.count()).select_from(metadata.tables["comparisons"])) == 0
