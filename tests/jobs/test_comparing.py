"""A second pipeline on the same cases: everything is found, and nothing that people see or that decides changes."""

import pytest
from sqlalchemy import func, select

from jobs.agents import Agents
from jobs.comparing import Comparing
from jobs.intake import configuration
from jobs.port import system_clock
from screening.engine.pipeline import preset
from screening.review.actors import LOCAL_USER
from screening.review.policy import Forbidden
from screening.settings import Settings
from storage.batches.configurations import save_configuration
from storage.database import Database
from storage.research.comparisons import begin_comparison, end_comparison, list_comparisons, paired_outcomes
from storage.review.second_looks import request_second_looks
from storage.schema import metadata
from storage.site.audit_check import verify
from tests.jobs.running import screened
from tests.storage.inbox_cases import ANN

OURS = {"comparisons", "comparison_outcomes", "configurations", "duties", "audit_events"}


def _everything_else(db: Database) -> dict[str, list]:
    with db.read() as conn:
        names = [table for table in metadata.sorted_tables if table.name not in OURS]
        return {table.name: sorted(map(repr, conn.execute(select(table)))) for table in names}


def _comparing(db: Database, settings: Settings, worker: str = "one") -> Comparing:
    return Comparing(db=db, agents=Agents(settings), clock=system_clock, worker=worker)


def _begin(db: Database, settings: Settings, batch_id: str, most: int = 200) -> str:
    second = configuration(settings, Agents(settings), preset("paper"))
    version = save_configuration(db, second, system_clock())
    return begin_comparison(db, LOCAL_USER, batch_id, version, "paper", most, system_clock())


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
    assert (pairs.withheld, len(pairs.pairs)) == (10, 30)  # those called unsafe wait to be read blind
    # Algorithm 1 needs 72 calls where the answers agree, the pooled rule 6 or 11.
    assert all(pair.second.calls >= 72 > pair.first.calls for pair in pairs.pairs if pair.first.outcome == "safe")
    assert verify(db).ok
    request_second_looks(db, LOCAL_USER, [pairs.pairs[3].case_id], system_clock())
    left = paired_outcomes(db, LOCAL_USER, comparison)  # what may yet be read blind is not shown
    assert (len(left.pairs), left.withheld) == (29, 11) and pairs.pairs[3] not in left.pairs


async def test_at_most_so_many_cases_each_once_by_one_worker_at_a_time(db: Database) -> None:
    settings = Settings(_env_file=None, sampler="simulated")
    batch_id = await screened(db, 12)
    _begin(db, settings, batch_id, most=6)
    first, second = _comparing(db, settings), _comparing(db, settings, "two")
    assert (await first.round(), await second.round()) == (4, 0)
    assert (await first.round(), await first.round()) == (2, 0)
    assert list_comparisons(db, LOCAL_USER)[0].done == 6


async def test_what_was_stopped_goes_no_further(db: Database) -> None:
    settings = Settings(_env_file=None, sampler="simulated")
    batch_id = await screened(db, 12)
    comparison = _begin(db, settings, batch_id)
    assert await _comparing(db, settings).round() == 4
    end_comparison(db, LOCAL_USER, comparison, "stopped", system_clock())
    assert await _comparing(db, settings).round() == 0
    assert not list_comparisons(db, LOCAL_USER)[0].running


async def test_a_model_that_refuses_ends_the_comparison_and_one_that_is_away_does_not(db: Database) -> None:
    simulated = Settings(_env_file=None, sampler="simulated")
    batch_id = await screened(db, 4)
    _begin(db, simulated, batch_id)
    other = Settings(
        _env_file=None, sampler="simulated", seed=7
    )  # agents of another name than the configuration's are never asked
    comparing = Comparing(db=db, agents=_Elsewhere(other), clock=system_clock, worker="one")
    assert await comparing.round() == 0
    assert list_comparisons(db, LOCAL_USER)[0].ended_why == "configuration_changed"


class _Elsewhere(Agents):
    """The agents of a site that was set anew in the meantime: a comparison never mixes two."""

    def sampler(self, configuration, seed):
        return super().sampler(configuration, 7)


def test_readers_cannot_begin_one(db: Database) -> None:
    with pytest.raises(Forbidden):
        begin_comparison(db, ANN, "x", "y", "z", 1, system_clock())
    with db.read() as conn:
        assert conn.execute(select(func.count()).select_from(metadata.tables["comparisons"])).scalar_one() == 0
