"""A second pipeline on the same cases: everything is found, and nothing that people see or that decides changes."""

import asyncio
from contextlib import aclosing

import pytest
from sqlalchemy import func, select

from jobs.agents import Agents
from jobs.intake import configuration
from jobs.process import LASTS, system_clock
from jobs.screening_job import AT_ONCE, DUTY, ComparisonRunner, ScreeningJob
from screening.pipeline.config import Preset, preset
from screening.pipeline.draws import SamplerError
from screening.review.policy import LOCAL_USER, Forbidden
from screening.settings import Settings
from storage.audit_log import verify
from storage.batches.batch_state import Caps
from storage.batches.configurations import save_configuration
from storage.batches.results import daily_costs
from storage.database import Database
from storage.research.comparisons import (
    Comparison,
    begin_comparison,
    end_comparison,
    list_comparisons,
    next_due,
    paired_outcomes,
    resume_comparison,
)
from storage.review.erasure import By, Selection, erase
from storage.review.follow_ups import request_second_looks
from storage.schema import comparison_outcomes, metadata, node_runs
from storage.site.health import take
from tests.jobs.running import Watched, me, screened, settings_of, until
from tests.jobs.test_overnight import Stub
from tests.storage.people import ANN, SENIOR
from tests.stub_server import Fault, StubPlan

OURS = {"comparisons", "comparison_outcomes", "configurations", "duties", "audit_events"}
SIMULATED = Settings(_env_file=None, sampler="simulated")


def _everything_else(db: Database) -> dict[str, list]:
    names = [table for table in metadata.sorted_tables if table.name not in OURS]
    return {table.name: sorted(map(repr, db.rows(select(table)))) for table in names}


def _comparing(db: Database, agents: Agents | None = None, worker: str = "one") -> ComparisonRunner:
    agents = agents or Agents(SIMULATED)
    return ComparisonRunner(ScreeningJob(db=db, agents=agents, clock=system_clock, worker=worker))


def _begin(
    db: Database,
    batch_id: str,
    settings: Settings = SIMULATED,
    *,
    most: int = 200,
    caps: Caps | None = None,
    rule: Preset = "paper",
) -> str:
    version = save_configuration(db, configuration(settings, preset(rule)), system_clock())
    return begin_comparison(
        db, me(), batch_id, configuration=version, name="paper", most_cases=most, caps=caps or Caps()
    )


async def _rounds(comparing: ComparisonRunner) -> int:
    ended = 0
    while done := await comparing.round():
        ended += done
    return ended


def _only(db: Database) -> Comparison:
    (found,) = list_comparisons(db, LOCAL_USER)
    return found


async def test_a_shadow_run_changes_nothing_but_its_own_tables(db: Database) -> None:
    batch_id = await screened(db, 20)
    before = _everything_else(db)
    comparison = _begin(db, batch_id)
    assert _begin(db, batch_id) == comparison  # pressed twice
    await _rounds(_comparing(db))
    assert _everything_else(db) == before
    found = _only(db)
    assert (found.done, found.of, found.running) == (20, 20, False)
    pairs = paired_outcomes(db, LOCAL_USER, comparison)
    assert (sum(pair.hidden for pair in pairs), len(pairs)) == (0, 20)
    # Algorithm 1 needs 72 calls where the answers agree, the pooled rule 6 or 11.
    assert all(pair.second.calls >= 72 > pair.first.calls for pair in pairs if pair.first.outcome == "safe")
    assert verify(db).ok
    shown = {pair.case_id for pair in paired_outcomes(db, SENIOR, comparison) if not pair.hidden}
    assert len(shown) == 15  # those labeled unsafe are in review
    sent = min(shown)
    request_second_looks(db, me(), [sent])
    left = paired_outcomes(db, SENIOR, comparison)
    assert {pair.case_id for pair in left if not pair.hidden} == shown - {sent} and len(left) == 20


async def test_each_case_once_by_one_worker_at_a_time_and_by_another_soon_after_it_was_killed(db: Database) -> None:
    now = [system_clock()]
    batch_id = await screened(db, 12)
    with pytest.raises(Forbidden):
        begin_comparison(db, ANN.at(system_clock()), batch_id, configuration="y", name="z", most_cases=1)
    with pytest.raises(Forbidden):
        resume_comparison(db, ANN.at(system_clock()), _begin(db, batch_id, most=9))
    killed, restarted = (_comparing(db, worker=name) for name in ("one", "two"))
    killed.job.clock = restarted.job.clock = lambda: now[0]
    assert await killed.round() == 4
    take(db, DUTY, "one", now[0], LASTS)  # it died in the middle of the next
    assert await restarted.round() == 0
    now[0] += LASTS
    assert await _rounds(restarted) == 5 and _only(db).done == 9


async def test_what_was_erased_is_not_asked_of_a_second_pipeline(db: Database) -> None:
    _begin(db, batch_id := await screened(db, 12))
    comparing = _comparing(db)
    assert await comparing.round() == 4
    (done, *_), left = db.values(select(comparison_outcomes.c.case_id)), next_due(db, me(), 1)
    assert left is not None
    for case_id in (done, left[3][0].case_id):
        erase(db, me(), Selection(by=By.CASE, value=case_id), "asked for by the author")
    await _rounds(comparing)
    assert (_only(db).done, _only(db).of, _only(db).running) == (11, 11, False)
    _begin(db, batch_id, rule="certified")
    assert [one.of for one in list_comparisons(db, LOCAL_USER)] == [10, 11]


async def test_what_was_stopped_goes_on_when_it_is_begun_again_and_pays_for_further_texts_alone(db: Database) -> None:
    batch_id = await screened(db, 12)
    first, comparing = _begin(db, batch_id, most=6), _comparing(db)
    assert await comparing.round() == 4
    end_comparison(db, me(), first, "stopped")
    assert await comparing.round() == 0 and not _only(db).running
    assert _begin(db, batch_id, most=6) == first and _only(db).running
    assert not resume_comparison(db, me(), first), "it goes on already"
    assert await _rounds(comparing) == 2
    assert _begin(db, batch_id, most=8) == first and await _rounds(comparing) == 2
    assert _begin(db, batch_id, most=8) != first, "it has all its cases: this is another one"
    found = {one.id: (one.done, one.of, one.may_go_on) for one in list_comparisons(db, LOCAL_USER)}
    assert found.pop(first) == (8, 8, False) and list(found.values()) == [(0, 8, False)]


async def test_a_cap_ends_it_within_a_few_draw_batches_and_what_was_paid_counts(db: Database) -> None:
    batch_id = await screened(db, 20)
    comparison, comparing = _begin(db, batch_id, caps=Caps(max_calls=300)), _comparing(db)
    for _ in range(20):
        await comparing.round()
    found = _only(db)
    assert found.ended_why == "max_calls" and found.done < 20 and not found.may_go_on
    assert 300 <= _counted(db) <= 300 + AT_ONCE * 72
    (today,) = daily_costs(db, me()).values()
    deciding = db.value(select(func.sum(node_runs.c.calls)))
    assert today.calls == deciding + found.totals.calls > deciding and comparison == found.id
    assert not resume_comparison(db, me(), comparison)
    assert _begin(db, batch_id) != comparison


def _away(fault: Exception) -> Watched:
    """A service that breaks down or refuses the key, or an agent with a bug, after each case's first draw batch."""
    return Watched(fails=lambda request: fault if request.first else None)


async def test_what_a_refused_key_ended_goes_on_with_the_cases_that_are_left(db: Database) -> None:
    comparison, refused = _begin(db, await screened(db, 3)), SamplerError("authentication", "", stops_batch=True)
    assert await _comparing(db, _away(refused)).round() == 0
    ended = _only(db)
    assert (ended.ended_why, ended.may_go_on, ended.running) == ("authentication", True, False)
    assert [resume_comparison(db, me(), comparison) for _ in range(2)] == [True, False]
    assert await _comparing(db).round() == 3
    found = _only(db)
    assert (found.id, found.done, found.ended_why, found.may_go_on) == (comparison, 3, None, False)


@pytest.mark.parametrize("fault", [SamplerError("overloaded", "Overloaded."), ZeroDivisionError()], ids=repr)
async def test_what_failed_is_put_off_and_its_calls_are_counted_as_lost(db: Database, fault: Exception) -> None:
    _begin(db, await screened(db, 8))
    comparing = _comparing(db, _away(fault))
    kept = [await comparing.round() for _ in range(4)]
    found = _only(db)
    assert found.done == sum(kept) < 8 and found.ended_why is None
    lost = found.totals.lost_calls
    assert lost > 0
    assert await comparing.round() == 0 and _only(db).totals.lost_calls == lost


def _counted(db: Database) -> int:
    return _only(db).totals.calls + _only(db).totals.lost_calls


async def test_a_shutdown_counts_what_was_asked_for_until_then(db: Database, stub: Stub) -> None:
    server = stub(StubPlan(weights={"safe": 0.5, "unsafe": 0.5}, latency_s=0.05, script=(Fault.MALFORMED, Fault.HTML)))
    settings = settings_of(server.url)
    _begin(db, await screened(db, 3), settings)
    async with aclosing(Agents(settings)) as agents:
        working = asyncio.create_task(_comparing(db, agents).run())
        await until(lambda: server.counters.requests > 20)
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
    assert 20 < server.counters.requests <= _counted(db) <= server.counters.requests + AT_ONCE * 3
