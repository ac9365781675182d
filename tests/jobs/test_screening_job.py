"""One case's job goes on where an earlier start ended, and a stopped site decides nothing."""

import asyncio
import contextlib
from collections.abc import Sequence

import pytest
from sqlalchemy import select

from jobs.agents import Agents
from jobs.port import system_clock
from jobs.screening_job import MOST_STARTS, ScreeningJob
from screening.datasets.rows import NewCase
from screening.labels import Label
from screening.pipeline.cost import cost_usd
from screening.pipeline.draws import Draw, DrawRequest, DrawSource
from screening.review.actors import LOCAL_USER
from screening.settings import Settings
from screening.text.received import receive
from storage import settings_store
from storage.batches.batches import progress
from storage.batches.configurations import Configuration
from storage.batches.intake import add_rows
from storage.database import Database
from storage.schema import cases, node_runs, screenings
from tests.jobs.running import batch, open_batch_of, until
from tests.storage.batch_of import commit_run, record_start, run


class Noting(Agents):
    """The simulated agents, with a note of every node asked; they fall silent at the nodes in ``silent``."""

    def __init__(self, silent: frozenset[str] = frozenset()) -> None:
        super().__init__(Settings(_env_file=None, sampler="simulated"))
        self.asked: list[str] = []
        self.silent = silent

    def sampler(self, configuration: Configuration, seed: int) -> DrawSource:
        self.inner = super().sampler(configuration, seed)
        return self

    async def draw(self, request: DrawRequest) -> Sequence[Draw]:
        self.asked.append(request.node)
        if request.node in self.silent:
            await asyncio.Event().wait()
        return await self.inner.draw(request)


def _job(db: Database, agents: Agents) -> ScreeningJob:
    return ScreeningJob(db=db, agents=agents, clock=system_clock, worker="w")


def _column(db: Database, column) -> list[str]:  # type: ignore[no-untyped-def]
    return db.values(select(column))


async def test_a_committed_node_is_not_asked_again(db: Database) -> None:
    batch_id, now = open_batch_of(db)
    escalated = receive("My friend says she wants to disappear")  # by its first node
    add_rows(db, batch_id, [NewCase(row=1, external_id="p1", text=escalated)], now)
    (case_id,) = _column(db, cases.c.id)
    first = Noting(silent=frozenset({"risk"}))
    task = asyncio.create_task(_job(db, first).screen_case(case_id))
    await until(lambda: "risk" in first.asked)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert _column(db, node_runs.c.node) == ["worker"] and not _column(db, screenings.c.case_id)
    second = Noting()
    await _job(db, second).screen_case(case_id)
    assert "risk" in second.asked and "worker" not in second.asked
    assert _column(db, screenings.c.case_id) == [case_id]


async def test_a_decided_case_is_not_asked_at_all(db: Database) -> None:
    batch(db, 1)
    (case_id,) = _column(db, cases.c.id)
    await _job(db, Noting()).screen_case(case_id)
    again = Noting()
    await _job(db, again).screen_case(case_id)
    assert again.asked == [] and len(_column(db, screenings.c.case_id)) == 1


async def test_a_stopped_site_gives_every_case_to_a_human_without_a_call(db: Database) -> None:
    batch(db, 1)
    settings_store.stop(db, LOCAL_USER.at(system_clock()))
    (case_id,), agents = _column(db, cases.c.id), Noting()
    await _job(db, agents).screen_case(case_id)
    assert agents.asked == [] and _column(db, screenings.c.reason) == ["stopped"]


@pytest.mark.parametrize(("died_before", "outcome"), [(MOST_STARTS - 1, "screened"), (MOST_STARTS, "to a human")])
async def test_the_last_start_allowed_is_still_made(db: Database, died_before: int, outcome: str) -> None:
    batch(db, 1)
    (case_id,) = _column(db, cases.c.id)
    for _ in range(died_before):
        record_start(db, case_id)
    agents = Noting()
    await _job(db, agents).screen_case(case_id)
    (reason,) = _column(db, screenings.c.reason)
    assert (reason == "repeated_failure", bool(agents.asked)) == (outcome == "to a human", outcome == "screened")


async def test_starts_before_a_committed_node_are_forgiven(db: Database) -> None:
    """Workers died four times beside this case, but it moved on in between: it is not to blame."""
    batch(db, 1)
    (case_id,), made = _column(db, cases.c.id), run("EEEEEE", Label.ESCALATE)
    for _ in range(MOST_STARTS - 1):
        record_start(db, case_id)
    assert commit_run(db, case_id, 0, made)
    for _ in range(MOST_STARTS - 1):
        record_start(db, case_id)
    agents = Noting()
    await _job(db, agents).screen_case(case_id)
    assert agents.asked and _column(db, screenings.c.reason) != ["repeated_failure"]


@pytest.mark.parametrize("reason", ["stopped", "repeated_failure"])
async def test_a_case_given_to_a_human_keeps_the_calls_and_the_cost_of_its_committed_runs(
    db: Database, reason: str
) -> None:
    """Priced as at the service itself; nothing is asked of it."""
    priced = Agents(Settings(_env_file=None, sampler="anthropic", anthropic_api_key="k"))
    batch_id = batch(db, 1, made_of=priced)
    (case_id,), made = _column(db, cases.c.id), run("EEEEEE", Label.ESCALATE, tokens=1_000)
    expected = cost_usd("claude-sonnet-4-6", made.usage)
    assert commit_run(db, case_id, 0, made, float(expected or 0)) and expected
    if reason == "stopped":
        settings_store.stop(db, LOCAL_USER.at(system_clock()))
    for _ in range(MOST_STARTS if reason == "repeated_failure" else 0):
        record_start(db, case_id)
    await _job(db, priced).screen_case(case_id)
    await priced.aclose()
    row = db.row(select(screenings))
    assert (row.outcome, row.reason, row.node, row.calls) == ("human_review", reason, "worker", 6)
    assert row.cost_usd == pytest.approx(float(expected)) and row.cost_usd > 0
    found = progress(db, batch_id)
    assert (found.calls, found.cost_usd) == (6, pytest.approx(float(expected)))
